"""Server-sent events as a client reads them, by the HTML standard's own algorithm."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import trio


@dataclass(frozen=True)
class Event:
    """One event; `at` on Trio's clock, `id` as the viewer would send it back."""

    name: str
    data: str
    id: str
    at: float


@dataclass
class Events:
    """What came on one stream.

    Attributes:
        response: its head.
        heard: comments, one for each heartbeat.
        retry: milliseconds; None before the field.
        over: the stream has ended.
    """

    response: httpx.Response
    events: list[Event] = field(default_factory=list)
    heard: list[float] = field(default_factory=list)
    retry: int | None = None
    last_id: str = ""
    over: bool = False

    @property
    def names(self) -> list[str]:
        return [event.name for event in self.events]

    async def read(self, chunks: AsyncIterator[bytes] | None = None) -> None:
        """Until the stream ends."""
        name, data = "", list[str]()
        async for line in _lines(self.response.aiter_bytes() if chunks is None else chunks):
            if not line:
                if data:
                    event = Event(name or "message", "\n".join(data), self.last_id, trio.current_time())
                    self.events.append(event)
                name, data = "", []
                continue
            key, _, value = line.partition(":")
            match key, value.removeprefix(" "):
                case "", _:
                    self.heard.append(trio.current_time())
                case "event", said:
                    name = said
                case "data", said:
                    data.append(said)
                case "id", said:
                    self.last_id = said
                case "retry", said:
                    self.retry = int(said)
                case other:
                    raise AssertionError(other)
        self.over = True


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:  # noqa: ASYNC900  # read to its end
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode()
    assert rest == b"", "an event was cut"


@asynccontextmanager
async def viewing(
    client: httpx.AsyncClient,
    job_id: str,
    last_id: str | None = None,
    path: str | None = None,
    **headers: Any,
) -> AsyncGenerator[Events]:
    """A viewer, who reads as long as the block lasts; of a job, or of what is at `path`."""
    given = headers | ({} if last_id is None else {"Last-Event-ID": last_id})
    async with client.stream("GET", path or f"/api/v1/jobs/{job_id}/events", headers=given) as response:
        events = Events(response)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(events.read)
            yield events
            nursery.cancel_scope.cancel()


async def watched(client: httpx.AsyncClient, job_id: str, last_id: str | None = None) -> Events:
    """All of a stream, which must end."""
    given = {} if last_id is None else {"Last-Event-ID": last_id}
    async with client.stream("GET", f"/api/v1/jobs/{job_id}/events", headers=given) as response:
        events = Events(response)
        await events.read()
    return events
