"""The client for asynchronous code, under asyncio and under Trio: whichever runs is found by anyio, which httpx brings.

wire      flows carried out on httpx's client
client    `AsyncClient`
job       `AsyncJobHandle`
events    a job's events, to be iterated over
fetching  downloads
"""
