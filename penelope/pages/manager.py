"""The pages of one worker: which are open, who works them, and what each keeps between calls.

Source: contract, sections 3 (ops) and 4 (leases).
"""

import re
import secrets
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from penelope.clock import Clock
from penelope.errors import BadParameter, Conflict, NotFound, PageMissing
from penelope.pages import lease as leases
from penelope.pages.claim import Holder, Line
from penelope.pages.cookies import CookieKeeper, KeepCookies
from penelope.pages.driver import Driver, Tab
from penelope.pages.lease import Lease

MAIN: Final = "main"
PAGE_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
# Words that are routes beside `/api/v1/{page_id}`, now or by the contract.
RESERVED: Final = frozenset(
    "activity deliveries docs jobs lease media metrics openapi pages personas plugin plugins "
    "requests runs tree".split()
)


@dataclass(eq=False, slots=True)
class Page:
    """An open page. `tab` is None while it is being opened; times are epoch seconds."""

    page_id: str
    line: Line
    created_at: float
    last_used_at: float
    tab: Tab | None = None
    lease: Lease | None = None
    title: str = field(default="")


class PageManager:
    """The worker's pages.

    Attributes:
        on_free: called when nobody holds a page any more.
    """

    def __init__(
        self, driver: Driver, clock: Clock, *, max_pages: int, keep_cookies: KeepCookies, cookies: str | None
    ) -> None:
        self.driver = driver
        self._clock = clock
        self._max_pages = max_pages
        self._cookies = CookieKeeper(driver, keep_cookies, cookies)
        self._pages: dict[str, Page] = {}
        self.on_free: Callable[[], None] = lambda: None

    def __iter__(self) -> Iterator[Page]:
        return iter(list(self._pages.values()))

    def _freed(self) -> None:
        self.on_free()

    @property
    def room(self) -> int:
        """How many pages may still be opened; immediate."""
        return self._max_pages - len(self._pages)

    def find(self, page_id: str) -> Page | None:
        """The page, open or being opened; None: there is none. Immediate."""
        return self._pages.get(page_id)

    def get(self, page_id: str) -> Page:
        """Immediate.

        Raises:
            PageMissing: there is none of that name.
        """
        page = self._pages.get(page_id)
        if page is None or page.tab is None:
            raise PageMissing(f"there is no page {page_id!r}")
        return page

    def check_id(self, page_id: str) -> None:
        """May a new page have this name?

        Raises:
            BadParameter: no.
        """
        if not PAGE_ID.fullmatch(page_id):
            raise BadParameter("page_id must be 1 to 64 letters, digits, underscores or hyphens")
        if page_id in RESERVED:
            raise BadParameter(f"page_id {page_id} is a reserved name")

    async def open(self, page_id: str, url: str | None = None) -> Page:
        """Open a page under a name of its own; counted from the first moment, so two cannot share the last place.

        Raises:
            BadParameter: not a name that a page may have.
            Conflict: it exists, or as many pages are open as may be.
            CallFailed: the browser could not open it; nothing is left of it.
        """
        self.check_id(page_id)
        if page_id in self._pages:
            raise Conflict(f"page {page_id} exists already")
        if len(self._pages) >= self._max_pages:
            raise Conflict(f"{len(self._pages)} pages are open, which is all that MAX_PAGES allows")
        now = self._clock.now()
        page = Page(page_id=page_id, line=Line(page_id, self._freed), created_at=now, last_used_at=now)
        self._pages[page_id] = page
        try:
            page.tab = await self.driver.open_tab(page_id, url)
        except BaseException:
            del self._pages[page_id]
            raise
        if url is not None:  # an empty page has set none
            await self.save_cookies()
        return page

    async def close(self, page_id: str, holder: Holder, token: str | None = None) -> None:
        """Close an idle page.

        Raises:
            PageMissing, LeaseHeld: as for a call.
            Conflict: it is `main`, or at work.
        """
        page = self.get(page_id)
        if page_id == MAIN:
            raise Conflict("page main cannot be closed")
        await page.line.settled()
        leases.check(page.lease, token, trio.current_time())
        with page.line.hold(holder):
            if page.tab is None or self._pages.get(page_id) is not page:
                raise PageMissing(f"there is no page {page_id!r}")
            del self._pages[page_id]  # whoever comes now finds no page; nobody waits, it was idle
            await page.tab.close()

    @asynccontextmanager
    async def claim(
        self, page: Page, holder: Holder, token: str | None, *, at_once: bool
    ) -> AsyncGenerator[Tab]:
        """The exclusive right to work the page, and its tab.

        Args:
            token: of `X-Lease`; None without one.
            at_once: hold it now or be refused (a job), instead of waiting in line (a plain call).

        Raises:
            PageBusy: it is not idle, or did not become so in time.
            LeaseHeld: it is, or was meanwhile, leased to another.
            PageMissing: it was closed while this one waited.
        """
        if at_once:
            await page.line.settled()
            with page.line.hold(holder):
                async with self._leased(page, token) as tab:
                    yield tab
        else:
            async with page.line.wait_to_hold(holder), self._leased(page, token) as tab:
                yield tab

    @asynccontextmanager
    async def _leased(self, page: Page, token: str | None) -> AsyncGenerator[Tab]:
        if self._pages.get(page.page_id) is not page or page.tab is None:
            raise PageMissing(f"there is no page {page.page_id!r}")
        leases.check(page.lease, token, trio.current_time())
        page.lease = begun = leases.begin(page.lease, trio.current_time())
        try:
            yield page.tab
        finally:
            # Its own lease only: one that was taken meanwhile is not this call's to renew, still less to revive.
            if begun is not None and page.lease is begun:
                page.lease = leases.end(begun, trio.current_time())
            page.last_used_at = self._clock.now()

    def at_rest(self, page: Page) -> bool:
        """Whether the page is open, well, worked by nobody and reserved for nobody; immediate."""
        return self.is_free(page) and page.tab is not None and not page.tab.crashed

    def is_free(self, page: Page) -> bool:
        """Whether the page is open, worked by nobody and reserved for nobody; immediate. One that crashed is opened
        afresh by whoever works it next.
        """
        return (
            self._pages.get(page.page_id) is page
            and page.tab is not None
            and page.line.holder is None
            and leases.live(page.lease, trio.current_time()) is None
        )

    def lease_now(self) -> float:
        """The clock that leases are counted on, seconds; it never goes back."""
        return trio.current_time()

    def lease(self, page_id: str, ttl: float) -> Lease:
        """Reserve a page; immediate.

        Raises:
            PageMissing, BadParameter, LeaseHeld: as the names say.
        """
        page = self.get(page_id)
        page.lease = leases.take(page.lease, secrets.token_urlsafe(24), ttl, trio.current_time())
        return page.lease

    def give_back(self, page_id: str, token: str | None) -> None:
        """End a lease; immediate.

        Raises:
            PageMissing, LeaseHeld: as the names say.
            NotFound: the page is not leased and no token was given.
        """
        page = self.get(page_id)
        leases.check(page.lease, token, trio.current_time())
        if leases.live(page.lease, trio.current_time()) is None:
            raise NotFound(f"page {page_id} is not leased")
        page.lease = None

    async def save_cookies(self, *, noted: bool = False) -> None:
        """Keep the browser's cookies if they changed; what cannot be kept now is tried after the next call.

        Args:
            noted: `Tab.cookies_noted`: they need not be asked for.
        """
        await self._cookies.save(noted=noted)

    def shown(self, page: Page) -> dict[str, Any]:
        """A page as clients see it, immediate: `title` is the last one that was read."""
        tab, holder = page.tab, page.line.holder
        lease = leases.live(page.lease, trio.current_time())
        if holder is not None:
            state = "job" if holder.job_id else "busy"
        else:
            state = "crashed" if tab is not None and tab.crashed else "idle"
        return {
            "page_id": page.page_id,
            "url": tab.url if tab is not None else "about:blank",
            "title": page.title,
            "state": state,
            "job_id": holder.job_id if holder is not None else None,
            "lease": None if lease is None else {"expires_in": lease.expires_in(trio.current_time())},
            "created_at": page.created_at,
            "last_used_at": page.last_used_at,
        }

    async def read_title(self, page: Page) -> None:
        """Ask an idle page for its title; a busy one keeps the last, so that nobody waits for its work."""
        if page.tab is not None and page.line.holder is None:
            page.title = await page.tab.title()
