"""The events of a job or a run, as an iterator that comes back when its connection breaks."""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import httpx

from penelope.client.blocking.wire import Wire
from penelope.client.models import Event
from penelope.client.watching import Watched, Watching


class Events(Iterator[Event]):
    """The events as they come; the last one is the end's. Iterated to it, they hang up by themselves; else
    leave their block, or close them.
    """

    def __init__(self, wire: Wire, watched: Watched) -> None:
        self._wire = wire
        self._watching = Watching(wire.how, watched)
        self._heard: deque[Event] = deque()
        self._connection = ExitStack()
        self._pieces: Iterator[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._pieces = None
        self._connection.close()

    def __next__(self) -> Event:
        while not self._heard:
            if self._watching.over:
                self.close()
                raise StopIteration
            if (wait := self._listen()) is not None:
                self.close()
                time.sleep(wait)
        return self._heard.popleft()

    def _listen(self) -> float | None:
        """Take the next piece of the stream; what to wait before it is opened again, None: it goes on."""
        try:
            if self._pieces is None:
                return self._open()
            if (piece := next(self._pieces, None)) is None:
                return self._watching.broke(None)
            self._heard += self._watching.feed(piece)
        except httpx.TransportError as exc:
            return self._watching.broke(exc)
        return None

    def _open(self) -> float | None:
        response = self._connection.enter_context(self._wire.stream(self._watching.ask()))
        if not self._watching.is_stream(response.status_code, response.headers.get("content-type", "")):
            return self._watching.refused(self._wire.read(response))
        self._pieces = response.iter_bytes()
        return None
