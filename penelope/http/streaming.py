"""An answer that goes on: events as they come, a heartbeat when none does, and no patience for who does not read.

Everything here runs in the request's own task and its nursery: a viewer that leaves takes all of it along.

Source: contract, section 11 ("Watch").
"""

import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, NoReturn, Protocol

import structlog
import trio
from quart import Response, request
from quart.wrappers.response import ResponseBody

from penelope.http import sse
from penelope.http.connection import SCOPE_KEY, Connection

HEARTBEAT_S: Final = 10.0
RETRY_MS: Final = 2000
BUFFER_BYTES: Final = 64 * 1024
STALL_S: Final = 15.0
LOOK_AGAIN_S: Final = 0.05

log = structlog.get_logger("penelope.http")


class Viewerless(Exception):
    """The viewer was dropped: there is nobody to answer."""


class Source(Protocol):
    """Where the events of one viewer come from."""

    async def next(self) -> Iterator[bytes] | None:
        """The next events, in pieces; None: there are no more. Nothing is lost when it is cancelled."""


class EventStream(ResponseBody):
    """The body of one viewer's answer, sent piece by piece: of what waits for the viewer there is never more than one
    event here, and one piece in the socket.
    """

    def __init__(
        self, source: Source, connection: Connection, on_end: Callable[[], None], *, name: str
    ) -> None:
        """
        Args:
            on_end: called when it is over, whichever way.
            name: of its task.
        """
        self._source = source
        self._on_end = on_end
        self._name = name
        self._pieces: Iterator[bytes] = iter((sse.retry(RETRY_MS),))
        self._reading = _Reading(connection)
        self._writing = self._dropped = False
        self._stall = trio.CancelScope()
        self._around = self._attended()

    @asynccontextmanager
    async def _attended(self) -> AsyncGenerator["EventStream"]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._drop_when_stuck, name=self._name)
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
        self._writing, self._stall.deadline = False, math.inf  # the last piece is in the socket
        if self._reading.silent_s() >= STALL_S:
            self._drop()
        piece = next(self._pieces, None)
        if piece is None:
            piece = await self._next_event()
        self._reading.sent += len(piece)
        self._writing, self._stall.deadline = True, trio.current_time() + STALL_S
        return piece

    async def _next_event(self) -> bytes:
        """The first piece of it."""
        pieces: Iterator[bytes] | None = None
        with trio.move_on_after(HEARTBEAT_S) as waiting:
            pieces = await self._source.next()
        if waiting.cancelled_caught:
            return sse.HEARTBEAT
        if pieces is None:
            await self._see_it_read()
            raise StopAsyncIteration
        self._pieces = pieces
        return next(pieces)

    async def _see_it_read(self) -> None:
        """Wait until the viewer has the last event, too: what the kernel did with it nobody would hear of."""
        while self._reading.waits:
            if self._reading.silent_s() >= STALL_S:
                self._drop()
            await trio.sleep(LOOK_AGAIN_S)

    async def _drop_when_stuck(self) -> None:
        """A write that waits for the viewer is in the server's hands, and cannot look for itself."""
        while True:
            with self._stall:
                await trio.sleep_forever()
            if self._writing and self._reading.silent_s(if_unknown=STALL_S) >= STALL_S:
                self._drop()
            again = trio.current_time() + STALL_S if self._writing else math.inf
            self._stall = trio.CancelScope(deadline=again)

    def _drop(self) -> NoReturn:
        """
        Raises:
            Viewerless: always. The server's writes cannot be cancelled: the socket is shut first.
        """
        reason = f"it took nothing of what waited for it for {STALL_S:.0f} s"
        if not self._dropped:  # both the watch and the write that it ended come here
            self._dropped = True
            log.warning("viewer dropped", reason=reason, viewer=self._name)
        self._reading.connection.drop()
        raise Viewerless(reason)


class _Reading:
    """Does the viewer read? What is written and not taken by its side waits in the socket.

    Attributes:
        sent: bytes that were written so far.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.sent = 0
        self._taken = 0
        self._at = trio.current_time()

    @property
    def waits(self) -> bool:
        """Something does, as far as can be known."""
        return bool(self.connection.unread())

    def silent_s(self, if_unknown: float = 0.0) -> float:
        """For how long it has taken nothing though something waited for it, seconds."""
        unread = self.connection.unread()
        if unread is None:
            return if_unknown
        # What the server adds around the pieces is not counted: between two looks it only makes less of what was taken.
        taken = self.sent - unread
        if not unread or taken > self._taken:
            self._taken, self._at = taken, trio.current_time()
        return trio.current_time() - self._at


def stream(source: Source, on_end: Callable[[], None], *, name: str) -> Response:
    """The events of `source` as the answer of this request; for `HEAD` its head alone."""
    connection: Connection = request.scope[SCOPE_KEY]  # type: ignore[typeddict-item]
    body: Any = b"" if request.method == "HEAD" else EventStream(source, connection, on_end, name=name)
    response = Response(body, content_type="text/event-stream; charset=utf-8")
    response.timeout = None
    response.headers["X-Accel-Buffering"] = "no"  # nginx would keep events back until it has 4 KiB
    response.headers.pop("Content-Length", None)
    if connection.is_own:
        connection.bound(BUFFER_BYTES)
        response.headers["Connection"] = "close"
    return response
