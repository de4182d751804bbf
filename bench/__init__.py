"""How fast it is: `python -m bench`. Ratios measured in one run, on loopback; a script, never a timed test.

__main__     the options, the order, the report
numbers      samples and how they are told
processes    the worker, the demo site and the other processes of a run
client       the load client, in a process of its own
receiver     a webhook receiver that notes when a POST arrived
direct       the script of `web/open`, run on Playwright without a worker
floors       a bare ASGI answer and an empty Quart-Trio route
calls, starts, polls, delivery, birth
             what is measured
plugins/     the plugin that does nothing
"""
