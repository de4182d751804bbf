"""The right to work a page: held by one at a time, waited for in order of arrival, with a nursery of its own.

To a page, a holder is an opaque value: it never knows about jobs.

Source: contract, section 2 ("a page that is busy"), section 5 ("One job per page").
"""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final

import trio

from penelope.errors import PageBusy

PATIENCE_S: Final = 30.0
SETTLE_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who works a page, as others are told.

    Attributes:
        what: e.g. `web/open`.
        job_id: None for a plain call.
        since: epoch seconds.
    """

    what: str
    job_id: str | None
    since: float

    def __str__(self) -> str:
        return f"job {self.job_id}" if self.job_id else f"a call of {self.what}"


@dataclass(eq=False, slots=True)
class _Waiter:
    holder: Holder
    turn: trio.Event = field(default_factory=trio.Event)


class Line:
    """One page's holder, and who waits behind it."""

    def __init__(self, page_id: str, on_free: Callable[[], None] = lambda: None) -> None:
        self._page_id = page_id
        self._on_free = on_free
        self._holder: Holder | None = None
        self._waiting: deque[_Waiter] = deque()
        self._settling: trio.Event | None = None
        self._settle_s = SETTLE_S

    @property
    def holder(self) -> Holder | None:
        return self._holder

    @property
    def waiting(self) -> list[Holder]:
        """Who waits, next first."""
        return [waiter.holder for waiter in self._waiting]

    @contextmanager
    def hold(self, holder: Holder) -> Iterator[None]:
        """Hold the page at once, or not at all.

        Raises:
            PageBusy: it is not idle.
        """
        if self._holder is not None:
            raise PageBusy(self._busy())
        self._set(holder)
        try:
            yield
        finally:
            self._release()

    @asynccontextmanager
    async def wait_to_hold(self, holder: Holder, patience_s: float = PATIENCE_S) -> AsyncGenerator[None]:
        """Hold the page when it is this one's turn.

        Raises:
            PageBusy: it was not within `patience_s` seconds.
        """
        if self._holder is None:
            self._set(holder)
        else:
            await self._wait(_Waiter(holder), patience_s)
        try:
            yield
        finally:
            self._release()

    def settling(self, at_most_s: float = SETTLE_S) -> None:
        """The holder's work is over and only its books are open, or it is the worker's own and soon over: a job may
        wait for that, so many seconds at most, instead of being refused.
        """
        if self._settling is None:
            self._settling = trio.Event()
            self._settle_s = at_most_s

    async def settled(self) -> None:
        """Return when the page is free or at work; wait only while its holder settles, as long as it may at most."""
        if self._settling is not None:
            with trio.move_on_after(self._settle_s):
                await self._settling.wait()

    async def _wait(self, waiter: _Waiter, patience_s: float) -> None:
        self._waiting.append(waiter)
        try:
            with trio.move_on_after(patience_s):
                await waiter.turn.wait()
        except BaseException:
            if waiter.turn.is_set():  # its turn came with the cancel: pass it on
                self._release()
            else:
                self._waiting.remove(waiter)
            raise
        if not waiter.turn.is_set():
            self._waiting.remove(waiter)
            raise PageBusy(f"{self._busy()}; waited {patience_s:.0f} s")

    def _release(self) -> None:
        """Hand the page to whoever is next; it is never idle in between, so no later one slips in."""
        if self._settling is not None:
            self._settling.set()
            self._settling = None
        if self._waiting:
            waiter = self._waiting.popleft()
            self._set(waiter.holder)
            waiter.turn.set()
        else:
            self._set(None)

    def _set(self, holder: Holder | None) -> None:
        self._holder = holder
        if holder is None:
            self._on_free()

    def _busy(self) -> str:
        assert self._holder is not None
        if self._holder.job_id is not None:
            return f"Page {self._page_id} already runs job {self._holder.job_id}"
        return f"Page {self._page_id} is not idle: {self._holder} is running on it"
