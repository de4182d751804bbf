"""For people at a terminal: commands that talk to a worker over HTTP, like any other client.

client      the worker as a client sees it; what fails becomes one line
values      `key=value` words as a plugin's parameters, by its schema
calling     one call: progress while it works, then its answer
files       media links saved next to the caller
shown       an answer, to be read
drawing     the live tree, to be read
runs        runs of a worker: submitted, listed, read
run_following   one of them, live
run_commands    those commands
waker       a waker as its commands see it
personas    its personas: a table, their orders, their logs, and all of it live
waker_commands  those commands
plain       text of strangers made harmless, durations, and where it is printed
"""
