"""An answer that goes on: events as they come, a heartbeat when none does, and no patience for who does not read.

Everything here runs in the request's own task and its nursery: a viewer that leaves takes all of it along.

Source: contract, section 11 ("Watch").
"""

import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, Protocol

import structlog
import trio
from quart import Response, request
from quart.wrappers.response import ResponseBody

from penelope.http import sse
from penelope.http.connection import SCOPE_KEY, Connection

HEARTBEAT_S: Final = 10.0
RETRY_MS: Final = 2000
BUFFER_BYTES: Final = 64 * 1024
STALL_S: Final = 20.0

log = structlog.get_logger("penelope.http")


class Viewerless(Exception):
    """The viewer was dropped: there is nobody to answer."""


class Source(Protocol):
    """Where the events of one viewer come from."""

    async def next(self) -> Iterator[bytes] | None:
        """The next events, in pieces; None: there are no more. Nothing is lost when it is cancelled."""


class EventStream(ResponseBody):
    """The body of one viewer's answer, sent piece by piece: of what waits for the viewer there is never more than one
    event here, and 64 KiB in the socket.
    """

    def __init__(
        self, source: Source, connection: Connection | None, on_end: Callable[[], None], *, name: str
    ) -> None:
        """
        Args:
            on_end: called when it is over, whichever way.
            name: of its task.
        """
        self._source = source
        self._connection = connection
        self._on_end = on_end
        self._name = name
        self._pieces: Iterator[bytes] = iter((sse.retry(RETRY_MS),))
        self._stall = trio.CancelScope()
        self._around = self._attended()

    @asynccontextmanager
    async def _attended(self) -> AsyncGenerator["EventStream"]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._drop_when_stalled, name=self._name)
            try:
                yield self
            finally:
                self._on_end()
            nursery.cancel_scope.cancel(reason="the stream is over")

    async def __aenter__(self) -> "EventStream":
        return await self._around.__aenter__()

    async def __aexit__(  # type: ignore[override]  # Quart's own says None, and takes what it is given
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._around.__aexit__(kind, error, trace)  # noqa: ASYNC102  # a nursery's, no clean-up

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        self._stall.deadline = math.inf  # the last piece was taken
        piece = next(self._pieces, None)
        if piece is None:
            piece = await self._next_event()
        self._stall.deadline = trio.current_time() + STALL_S
        return piece

    async def _next_event(self) -> bytes:
        """The first piece of it."""
        with trio.move_on_after(HEARTBEAT_S):
            pieces = await self._source.next()
            if pieces is None:
                raise StopAsyncIteration
            self._pieces = pieces
            return next(pieces)
        return sse.HEARTBEAT

    async def _drop_when_stalled(self) -> None:
        """The server's writes cannot be cancelled: only a socket that is shut ends one."""
        with self._stall:
            await trio.sleep_forever()
        reason = f"it took nothing of what waited for it for {STALL_S:.0f} s"
        log.warning("viewer dropped", reason=reason, viewer=self._name)
        if self._connection is not None:
            self._connection.drop()
        raise Viewerless(reason)


def stream(source: Source, on_end: Callable[[], None], *, name: str) -> Response:
    """The events of `source` as the answer of this request; for `HEAD` its head alone."""
    connection: Connection | None = request.scope.get(SCOPE_KEY)  # type: ignore[assignment]
    body: Any = b"" if request.method == "HEAD" else EventStream(source, connection, on_end, name=name)
    response = Response(body, content_type="text/event-stream; charset=utf-8")
    response.timeout = None
    response.headers["X-Accel-Buffering"] = "no"  # nginx would keep events back until it has 4 KiB
    response.headers.pop("Content-Length", None)
    if connection is not None and connection.is_own:
        connection.bound(BUFFER_BYTES, STALL_S + HEARTBEAT_S)
        response.headers["Connection"] = "close"
    return response
