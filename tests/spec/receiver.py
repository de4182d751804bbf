"""A webhook receiver in place of the network: given to the worker as its transport, on the mock clock."""

import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import trio

from penelope.jobs.dialling import TRAIL

URL = "http://receiver.lan/hooks/42"
ADDRESS = "192.0.2.7"  # which is said to have been dialled

Reply = int | Exception | Callable[[httpx.Request], Awaitable[httpx.Response]]


@dataclass(frozen=True)
class Post:
    """One POST as it arrived; `at` on Trio's clock."""

    at: float
    url: str
    headers: httpx.Headers
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def attempt(self) -> int:
        return int(self.headers["X-Penelope-Attempt"])


class Receiver(httpx.AsyncBaseTransport):
    """Attributes:
    posts: what arrived, in order.
    now: how many POSTs are under way; `most` is the most there ever were.
    """

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.now = 0
        self.most = 0
        self._replies: deque[Reply] = deque()
        self._last: Reply = 200
        self._closed = False

    def answers(self, *replies: Reply) -> None:
        """Answer so, in this order; the last one for ever."""
        self._replies = deque(replies)
        self._last = replies[-1]

    def next_life(self) -> "Receiver":
        """The same receiver for the worker that comes after a kill; it hears no more of the one that died."""
        after = Receiver()
        after.posts, after._replies, after._last = self.posts, self._replies, self._last
        self._closed = True
        return after

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._closed:
            await trio.sleep_forever()
        body = await request.aread()
        if TRAIL in request.extensions:
            request.extensions[TRAIL].address = ADDRESS
        self.posts.append(Post(trio.current_time(), str(request.url), request.headers, body))
        reply = self._replies.popleft() if self._replies else self._last
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await trio.lowlevel.checkpoint()
            if isinstance(reply, Exception):
                raise reply
            if isinstance(reply, int):
                return httpx.Response(reply)
            return await reply(request)
        finally:
            self.now -= 1

    def of(self, job_id: str) -> list[Post]:
        """The POSTs of one job."""
        return [post for post in self.posts if post.headers["X-Penelope-Job"] == job_id]


def slow(seconds: float, status: int = 200) -> Reply:
    """A head that takes so long, byte by byte or at once: to the client it is the same."""

    async def reply(_request: httpx.Request) -> httpx.Response:
        await trio.sleep(seconds)
        return httpx.Response(status)

    return reply


class Drip(httpx.AsyncByteStream):
    """A body that never ends, a piece every so often; `sent` bytes so far."""

    def __init__(self, every_s: float, size: int = 1) -> None:
        self.sent = 0
        self.closed = False
        self._every_s = every_s
        self._size = size

    async def __aiter__(self) -> AsyncIterator[bytes]:  # noqa: ASYNC900  # httpx asks for one
        while True:
            await trio.sleep(self._every_s)
            self.sent += self._size
            yield b"x" * self._size

    async def aclose(self) -> None:
        self.closed = True


def dripping(status: int, drip: Drip) -> Reply:
    """A head at once, then a body that drips."""

    async def reply(_request: httpx.Request) -> httpx.Response:
        await trio.lowlevel.checkpoint()
        return httpx.Response(status, stream=drip)

    return reply
