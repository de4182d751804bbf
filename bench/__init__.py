"""How fast it is, beside others: `nox -s bench`. Ratios measured in one run, on loopback; a script, never a timed test.

__main__     the options, the order; what is measured becomes docs/performance.md
numbers      samples and how they are told, ratios, what was promised and whether it is kept
telling, plot
             a section as it is printed; plots as SVG
record, page what was measured, kept as JSON; the page made of it, around what is written by hand
processes    the worker, the demo site and the other processes of a run
client       the load client, in a process of its own: scripts (what its connections say), dialects (how each server is
             asked for a page), wire (HTTP)
peers/       others that open pages or take jobs, installed into environments of their own
receiver     a webhook receiver that notes when a POST arrived
direct       the script of `web/open`, run on Playwright without a worker
floors       a bare ASGI answer and an empty Quart-Trio route
opens, runs, starts, commits, ends, birth, waker, memory, held, calls, polls, endurance
             what is measured
hostile, media, soak
             scripts of their own: bad receivers, a large file, memory over many calls
plugins/     what the worker is given to do: nothing, a rest, a file
"""
