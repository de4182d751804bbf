"""For people at a terminal: commands that talk to a worker over HTTP, like any other client.

client      the worker as a client sees it; what fails becomes one line
values      `key=value` words as a plugin's parameters, by its schema
calling     one call: progress while it works, then its answer
files       media links saved next to the caller
shown       an answer, to be read
drawing     the live tree, to be read
plain       text of strangers made harmless, durations, and where it is printed
"""
