"""A receiver that is of no use, on real sockets, until it is ended.

python -m bench.bad hangs

prints its port. The kinds are those of `KINDS`.
"""

import sys
from functools import partial

import trio

from tests.io import receivers
from tests.io.receivers import Behaviour, Receiver, serve_receiver

# None: accepts, and never reads a byte; it never answers a TLS handshake either.
KINDS: dict[str, Behaviour | None] = {
    "hangs": receivers.hang,
    "resets": receivers.reset,
    "drips its head": receivers.drip_headers,
    "drips its body": receivers.drip_body,
    "floods a 200": receivers.endless(200),
    "floods a 500": receivers.endless(500),
    "answers 500": receivers.status(500),
    "redirects": receivers.status(308, "Location: http://127.0.0.1:1/"),
    "never reads": None,
}


async def serve(kind: str) -> None:
    async with trio.open_nursery() as nursery:
        made: Receiver = await nursery.start(partial(serve_receiver, KINDS[kind]))
        print(made.port, flush=True)
        await forget(made)


async def forget(made: Receiver) -> None:
    """What it keeps for tests is of no use here, and grows."""
    while True:
        await trio.sleep(1)
        made.received.clear()


if __name__ == "__main__":
    trio.run(serve, sys.argv[1])
