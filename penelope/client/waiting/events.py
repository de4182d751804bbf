"""The events of a job or a run, as an iterator that comes back when its connection breaks."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self

import anyio
import httpx

from penelope.client.models import Event
from penelope.client.waiting.wire import Wire, ended
from penelope.client.watching import Watched, Watching

HANG_UP_S: Final = 1.0


class AsyncEvents(AsyncIterator[Event]):
    """The events as they come; the last one is the end's. Iterated to it, they hang up by themselves; else
    leave their block, or close them. No generator: Python could not end one that is left in the middle.
    """

    def __init__(self, wire: Wire, watched: Watched) -> None:
        self._wire = wire
        self._watching = Watching(wire.how, watched)
        self._heard: deque[Event] = deque()
        self._connection = AsyncExitStack()
        self._pieces: AsyncIterator[bytes] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Hang up."""
        self._pieces = None
        with anyio.move_on_after(HANG_UP_S, shield=True):
            await self._connection.aclose()

    async def __anext__(self) -> Event:
        while not self._heard:
            if self._watching.over:
                await self.aclose()
                raise StopAsyncIteration
            try:
                wait = await self._listen()
            except BaseException:
                await self.aclose()
                raise
            if wait is not None:
                await self.aclose()
                await anyio.sleep(wait)
        return self._heard.popleft()

    async def _listen(self) -> float | None:
        """Take the next piece of the stream; what to wait before it is opened again, None: it goes on."""
        try:
            if self._pieces is None:
                return await self._open()
            if (piece := await anext(self._pieces, None)) is None:
                return self._watching.broke(None)
            self._heard += self._watching.feed(piece)
        except httpx.TransportError as exc:
            return self._watching.broke(exc)
        return None

    async def _open(self) -> float | None:
        response = await self._connection.enter_async_context(self._wire.stream(self._watching.ask()))
        if not self._watching.is_stream(response.status_code, response.headers.get("content-type", "")):
            return self._watching.refused(await self._wire.read(response))
        self._pieces = await self._connection.enter_async_context(ended(response.aiter_bytes()))
        return None
