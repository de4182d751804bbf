"""Serves the stand-in site: `penelope demo-site`, the demo, and the tests.

Source: contract, section 2 (shipped families).
"""

import socket

import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from penelope.demo.app import LIST_LATENCY_S, create_site
from penelope.errors import PortTaken

# Cancelling ends the handlers at once, which matters for /hang and /drip: they would never end by themselves.
GRACE_S = 0.0


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
    config = Config()
    config.accesslog = config.errorlog = None
    config.graceful_timeout = GRACE_S
    config.bind = [f"fd://{_bound(host, port).detach()}"]
    async with trio.open_nursery() as nursery:
        (base_url,) = await nursery.start(serve, create_site(list_latency_s), config)
        task_status.started(base_url)


def _bound(host: str, port: int) -> socket.socket:
    """A socket bound here, not by Hypercorn, whose error would come out of its nurseries as a group."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            listening.bind(address)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise PortTaken(f"the demo site cannot listen on {host} port {port}: {error.strerror}") from error
    return listening
