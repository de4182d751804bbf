"""What the HTTP server alone and the framework alone can do: the floor under every answer of the worker.

    python -m bench.floors asgi|quart|connections

prints its port and serves until it is ended. Each answers 300 bytes of JSON, about as many as a poll: a bare app and a
Quart-Trio route on Hypercorn as it is, and the bare app on the worker's own connections.
"""

import logging
import socket
import sys
from typing import Any

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from quart import Response
from quart_trio import QuartTrio

from penelope.http import server
from penelope.http.serving import server_config

BODY = b'{"success": true, "what": "' + b"x" * 270 + b'"}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())]


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI app that answers everything with the same bytes."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BODY})


def empty() -> QuartTrio:
    """An app with one route that does nothing."""
    app = QuartTrio("empty")

    @app.get("/api/v1/jobs/<job_id>")
    async def nothing(job_id: str) -> Response:  # noqa: ARG001  as a poll has it
        return Response(BODY, content_type="application/json")

    return app


async def main(which: str) -> None:
    if which == "connections":
        await _on_own_connections()
        return
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.accesslog = None
    config.errorlog = logging.getLogger("floor")
    app: Any = bare if which == "asgi" else empty()
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(serve, app, config)
        print(url.rpartition(":")[2], flush=True)


async def _on_own_connections() -> None:
    port = socket.create_server(("127.0.0.1", 0))
    print(port.getsockname()[1], flush=True)
    app: Any = bare
    await server.serve(app, port, server_config(1.0), until=trio.sleep_forever)


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
