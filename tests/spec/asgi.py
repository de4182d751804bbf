"""How the tests speak to the app: httpx over ASGI, with the two things that matter here and that neither
`httpx.ASGITransport` nor Quart's test client has together: an answer is streamed, so that a download can break off, and
a client that is cancelled is seen by the app as one that hung up, which Hypercorn tells it in the same words.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import httpx
import trio
from quart_trio import QuartTrio

from penelope.http.whole import Answer, AtOnce, Gone, Peer

PIECE_BYTES: Final = 64_000


class Exchange(httpx.AsyncByteStream):
    """One request and its answer, seen from both ends."""

    def __init__(self, body: bytes, *, is_head: bool) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.begun = trio.Event()
        self._body: bytes | None = body
        self._is_head = is_head
        self._left = trio.Event()
        self._put, self._get = trio.open_memory_channel[bytes](0)

    async def receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await trio.lowlevel.checkpoint()
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message["headers"])
            self.begun.set()
            return
        if message.get("body") and not self._is_head:  # a server suppresses it
            try:
                await self._put.send(bytes(message["body"]))
            except trio.BrokenResourceError:
                return  # nobody reads any more: a server drops it
        if not message.get("more_body"):
            await self._put.aclose()

    def leave(self) -> None:
        self._left.set()
        self._get.close()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._get

    async def aclose(self) -> None:
        self.leave()


class AppTransport(httpx.AsyncBaseTransport):
    """Requests to `app`; each runs in `serving`, the server's nursery, as it would under Hypercorn."""

    def __init__(self, app: QuartTrio, serving: trio.Nursery, at_once: AtOnce | None = None) -> None:
        """`at_once`: what a server asks first, see `penelope.http.server`."""
        self._app: Callable[..., Awaitable[None]] = app
        self._serving = serving
        self._at_once = at_once
        self.answered_at_once = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        if (answer := await self._whole(request)) is not None:
            self.answered_at_once += 1
            return httpx.Response(answer.status, headers=answer.headers, content=answer.body)
        exchange = Exchange(request.content, is_head=request.method == "HEAD")
        self._serving.start_soon(self._app, _scope(request), exchange.receive, exchange.send)
        try:
            await exchange.begun.wait()
        except trio.Cancelled:
            exchange.leave()
            raise
        return httpx.Response(exchange.status, headers=exchange.headers, stream=exchange)

    async def _whole(self, request: httpx.Request) -> Answer | None:
        """In a task of the server's, which a client that leaves ends, unless it hears so itself."""
        peer = _Waits()
        is_piece = len(request.content) < PIECE_BYTES
        answering = self._at_once(_written(request), peer) if self._at_once is not None and is_piece else None
        if answering is None:
            return None
        made: list[Answer | None] = []
        over, scope = trio.Event(), trio.CancelScope()

        async def make() -> None:
            with scope, suppress(Gone):
                made.append(await answering.make())
            over.set()

        self._serving.start_soon(make)
        try:
            await over.wait()
        except trio.Cancelled:
            peer.gone.set()
            if answering.waits:
                scope.cancel()
            raise
        return made[0]


class _Waits(Peer):
    """A client that has sent all, and waits until it leaves."""

    def __init__(self) -> None:
        self.gone = trio.Event()

    async def more(self) -> bytes:
        await self.gone.wait()
        raise Gone

    async def left(self) -> None:
        await self.gone.wait()


def _written(request: httpx.Request) -> bytes:
    target = request.url.raw_path
    lines = [b"%s %s HTTP/1.1" % (request.method.encode(), target)]
    lines += [b"%s: %s" % header for header in request.headers.raw]
    return b"\r\n".join((*lines, b"", b"")) + request.content


def _scope(request: httpx.Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"spec_version": "2.3", "version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.partition(b"?")[0],
        "query_string": request.url.query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("127.0.0.1", 40000),
        "server": ("127.0.0.1", 5000),
        "state": {},
        "extensions": {},
    }
