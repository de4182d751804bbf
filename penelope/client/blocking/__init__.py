"""The client for code that blocks: threads, scripts, a notebook.

wire      flows carried out on httpx's client
client    `Client`
job       `JobHandle`
events    a job's events, to be iterated over
fetching  downloads
"""
