"""Serves the stand-in site: `penelope demo-site`, the demo, and the tests.

Source: contract, section 2 (shipped families).
"""

import trio
from hypercorn.trio import serve

from penelope.demo import hostile
from penelope.demo.app import LIST_LATENCY_S, create_site
from penelope.demo.hostile_wire import serve_wire
from penelope.demo.serving import listening


async def serve_site(
    port: int,
    host: str = "127.0.0.1",
    *,
    list_latency_s: float = LIST_LATENCY_S,
    task_status: "trio.TaskStatus[str]" = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the site until cancelled; started with its base URL, e.g. `http://127.0.0.1:8200`.

    Args:
        port: 0 takes a free one.
        host: an address or a name of this machine.
        list_latency_s: how long the site takes for one page of a list, seconds.

    Raises:
        PortTaken: the address cannot be bound. The message is the one line to show.
    """
    config = listening(host, port)
    async with trio.open_nursery() as nursery:
        site = create_site(list_latency_s)
        site.register_blueprint(hostile.hostile)
        site.extensions[hostile.WIRE] = await nursery.start(serve_wire, host)
        (base_url,) = await nursery.start(serve, site, config)
        task_status.started(base_url)
