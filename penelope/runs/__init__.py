"""Runs: queued calls that find their own page, above the jobs' engine and never below it.

port    what a run's work asks of the engine, and the engine of it

Source: contract, section 10.
"""
