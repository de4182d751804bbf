"""Which page a run gets: the one that it asks for, else any that is at rest, else a new one while there is room.

Source: contract, section 10 ("finds its own page").
"""

from typing import Final

import structlog

from penelope.clock import Clock
from penelope.errors import PenelopeError
from penelope.pages.claim import Holder
from penelope.pages.manager import Page, PageManager

IDLE_S: Final = 60.0  # after which a page that was opened for runs is closed

log = structlog.get_logger("penelope.runs")


class Places:
    """Pages given to runs that have not claimed them yet, and pages that were opened for runs."""

    def __init__(self, pages: PageManager, clock: Clock) -> None:
        self._pages = pages
        self._clock = clock
        self._taken: set[str] = set()
        self._opened: set[str] = set()
        self._instead: dict[str, str] = {}  # a page that is opened once another, at rest, is closed
        self._count = 0

    @property
    def left(self) -> bool:
        """May there be a page for a run that asks for the right one? Immediate."""
        return self._room() or any(
            page.page_id not in self._taken and self._pages.is_free(page) for page in self._pages
        )

    def take(self, wanted: str | None) -> str | None:
        """The name of a page for a run that can begin now, kept for it until it is given back; None: there is none.

        Immediate. A page of that name may have to be opened yet.
        """
        if not self._pages.driver.health.up:
            return None
        name = self._named(wanted) if wanted is not None else self._any()
        if name is not None:
            self._taken.add(name)
        return name

    def _named(self, wanted: str) -> str | None:
        page = self._pages.find(wanted)
        if wanted in self._taken:
            return None
        if page is None:
            return wanted if self._room() or self._make_room(wanted) else None
        return wanted if self._pages.is_free(page) else None

    def _make_room(self, wanted: str) -> bool:
        """Have the page make way that was opened for runs and is free longest: whoever it was opened for may take any,
        this one has to have its own.
        """
        found = [self._pages.find(name) for name in self._opened - self._taken]
        free = [page for page in found if page is not None and self._pages.is_free(page)]
        if not free:
            return False
        other = min(free, key=lambda page: page.last_used_at)
        self._instead[wanted] = other.page_id
        self._taken.add(other.page_id)
        return True

    def _any(self) -> str | None:
        free = [page for page in self._pages if page.page_id not in self._taken and self._pages.is_free(page)]
        free.sort(key=lambda page: not self._pages.at_rest(page))  # one that crashed comes last
        if free:
            return free[0].page_id
        if not self._room():
            return None
        while self._pages.find(name := f"run-{self._count + 1}") is not None or name in self._taken:
            self._count += 1
        return name

    def _room(self) -> bool:
        unopened = sum(self._pages.find(name) is None for name in self._taken - self._instead.keys())
        return self._pages.room > unopened

    def give_back(self, name: str) -> None:
        self._taken -= {name, self._instead.pop(name, name)}

    async def open(self, name: str) -> Page:
        """The page of that name, opened if it is not there.

        Raises:
            PenelopeError: it cannot be opened.
        """
        page = self._pages.find(name)
        if page is None:
            if (other := self._instead.get(name)) is not None:
                await self._close(other)
            page = await self._pages.open(name)
            self._opened.add(name)
        return page

    async def close_idle(self, *, needed: bool) -> None:
        """Close the pages that were opened for runs and that nobody has used for a while.

        Args:
            needed: runs wait: none is closed.
        """
        now = self._clock.now()
        for name in list(self._opened):
            page = self._pages.find(name)
            if page is None:
                self._opened.discard(name)
            elif not needed and self._pages.at_rest(page) and now - page.last_used_at >= IDLE_S:
                try:
                    await self._close(name)
                except PenelopeError as error:  # somebody was faster
                    log.debug("page of runs not closed", page_id=name, error=error.message)

    async def _close(self, name: str) -> None:
        await self._pages.close(name, Holder(what="close", job_id=None, since=self._clock.now()))
