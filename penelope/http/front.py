"""What Hypercorn hands over before Quart sees it: no WebSocket, no odd target; and the end of an answer is a whole one.

Quart-Trio cancels what is left of a request once its client is told to be gone, and Hypercorn tells so while it still
closes the connection: cancelled there, a connection whose body nobody wants would stay open for ever, and so would one
with requests that wait behind an answer that is not finished.

Source: contract, section 1 ("Every failure …").
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import quart.wrappers.base as quart_base
import trio
from quart.wrappers.base import BaseRequestWebsocket
from quart_trio import QuartTrio
from werkzeug.exceptions import BadHost
from werkzeug.routing import MapAdapter

from penelope.http.connection import SCOPE_KEY, Connection
from penelope.http.streaming import Viewerless
from penelope.http.whole import AtOnce
from penelope.outcome import failure

# The second is raised by Quart 0.23 and later (of Python 3.13 and later).
_LEFT: Final[tuple[type[Exception], ...]] = (
    Viewerless,
    *filter(None, [getattr(quart_base, "ClientDisconnectedError", None)]),
)

DRAIN_S: Final = 1.0  # more than enough for what the server has read already

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

_REFUSAL: Final = failure(400, "this API has no WebSockets")


class Front(QuartTrio):
    """The app as the server calls it.

    Attributes:
        short_way: answers requests before the framework sees them, and says False of those that it left alone.
        at_once: answers requests before the server reads them; see `server.serve`.
    """

    short_way: Callable[[Any, Send], Awaitable[bool]] | None = None
    at_once: AtOnce | None = None

    async def asgi_app(self, scope: Any, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "websocket":
                await _refuse(send)
            case "http":
                if self.short_way is not None and await self.short_way(scope, send):
                    return
                # A target may be anything without a space, e.g. `?` alone; a path begins with a slash.
                path = scope["path"] if scope["path"].startswith("/") else f"/{scope['path']}"
                below = Connection(send, scope["http_version"])
                asked = {**scope, "path": path, SCOPE_KEY: below}
                exchange = _Exchange(scope, receive, send)
                try:
                    await self.answer(asked, exchange.receive, exchange.send)
                except* _LEFT:
                    pass  # there is nobody to answer
                await exchange.drain()
            case _:
                await super().asgi_app(scope, receive, send)

    async def answer(self, scope: Any, receive: Receive, send: Send) -> None:
        """One request, whose `path` begins with a slash."""
        await super().asgi_app(scope, receive, send)

    def create_url_adapter(self, request: BaseRequestWebsocket | None) -> MapAdapter | None:
        try:
            return super().create_url_adapter(request)
        except (
            BadHost
        ):  # nothing answers it here; a request without a route still comes to the check of its Host
            return None


async def _refuse(send: Send) -> None:
    body = _REFUSAL.text.encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    start = {"type": "websocket.http.response.start", "status": _REFUSAL.status, "headers": headers}
    await send(start)
    await send({"type": "websocket.http.response.body", "body": body, "more_body": False})


class _Exchange:
    """One request and its answer, between the server and the app.

    Attributes:
        whole: the answer has begun, and is all there: it goes to its end, whoever reads it.
    """

    def __init__(self, scope: Any, receive: Receive, send: Send) -> None:
        self.whole = False
        self._receive, self._send = receive, send
        self._has_connection = scope["http_version"].startswith(
            "1"
        )  # in HTTP/2 it is not this exchange's to close
        self._received = False

    async def receive(self) -> Message:
        message = await self._next()
        if message["type"] == "http.disconnect" and self.whole:
            await trio.sleep_forever()  # until the answer has ended
        return message

    async def _next(self) -> Message:
        message: Message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._received = True
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            # A file is streamed, and must not count as handed over to a client that has left.
            names = {name.lower() for name, _ in message["headers"]}
            whole = b"content-length" in names and b"content-disposition" not in names
            self.whole = whole and self._has_connection
        is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if is_last and self._has_connection:
            await self._send_last(message)
        else:
            await self._send(message)

    async def _send_last(self, message: Message) -> None:
        """Shielded, as the server's own writes are. What it may want to hand over meanwhile is taken."""
        with trio.CancelScope(shield=True):
            if self._received:  # what may still come is the client's leave, for which the server has room
                await self._send(message)
                return
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._take)
                await self._send(message)
                nursery.cancel_scope.cancel()

    async def _take(self) -> None:
        while True:
            await self._next()

    async def drain(self) -> None:
        """Take what is left of a body that was answered early: the server would wait for ever to hand it over."""
        with trio.move_on_after(DRAIN_S):
            while not self._received:
                await self._next()
