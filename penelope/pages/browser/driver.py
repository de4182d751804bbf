"""A `Driver` of a real Chromium: its pages and its cookies.

Trio-flavoured, but for what its docstring says is asyncio-flavoured.

Source: the port, `pages.driver`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import structlog
import trio

from penelope.errors import BrowserLost, PenelopeError
from penelope.pages.browser import guard as guarding
from penelope.pages.browser import heartbeat
from penelope.pages.browser.guard import Limits
from penelope.pages.browser.inner import has_routes
from penelope.pages.browser.keeper import CLOSE_S, Keeper, Pages
from penelope.pages.browser.live import Live
from penelope.pages.browser.node import HeadStart
from penelope.pages.browser.persona import BrowserOptions
from penelope.pages.browser.profile import Place, hold_profile
from penelope.pages.browser.session import Session
from penelope.pages.browser.strangers import close_soon, unroute_soon
from penelope.pages.browser.tab import PlaywrightTab
from penelope.pages.browser.thread import BrowserThread, open_thread
from penelope.pages.browser.translate import is_playwright, translate
from penelope.pages.browser.watch import BLOCKED_S, BREAK_FOR_S, Watch
from penelope.pages.driver import Health

if TYPE_CHECKING:
    from playwright.async_api import Page

NO_LIMITS = Limits()
ANSWER_S = 5.0  # for what the browser answers from memory
READ_S = 2.0  # for a read of the cookies, which the next one waits for
END_S = 15.0

_T = TypeVar("_T")

log = structlog.get_logger("penelope.browser")


class PlaywrightDriver:
    """One browser with one profile, and its tabs.

    Attributes:
        thread, watch, keeper: of the browser.
        gate: that its pages' connections go through; None: there is none.
        free_s: the most that freeing the thread from a blocking call may take, seconds.
    """

    free_s = BREAK_FOR_S + 1.0

    def __init__(
        self, options: BrowserOptions, place: Place, thread: BrowserThread, cookies: str | None
    ) -> None:
        self.thread = thread
        self.watch = Watch(thread)
        self.keeper = Keeper(options, place, thread, self.watch, cookies)
        self.place = place
        self.gate = options.gate
        self._tabs: list[PlaywrightTab] = []
        self._reading: asyncio.Task[str] | None = None  # the last read of the cookies that began
        self.watch.on_blocked = self._release

    def _release(self) -> None:
        """Nobody waits for the books of a call that has its result while another one blocks the thread. Immediate."""
        for tab in self._tabs:
            tab.release()

    @property
    def noted_cookies(self) -> str | None:
        return self.keeper.cookies

    @property
    def health(self) -> Health:
        keeper = self.keeper
        up = keeper.up  # asked once: it looks at two processes
        return Health(
            up=up,
            reason="" if up else keeper.reason,
            thread_lag_s=self.watch.lag_s,
            stuck=self.stuck,
            pids=() if keeper.session is None else keeper.session.pids,
        )

    @property
    def stuck(self) -> bool:
        return self.watch.stuck.is_set()

    async def open_tab(self, page_id: str, url: str | None = None) -> PlaywrightTab:
        await self.keeper.ready()
        tab = PlaywrightTab(self, page_id)
        self._tabs.append(tab)
        try:
            await self._fill(tab)
            if url is not None:
                await _go(tab, url)
        except BaseException:
            with trio.move_on_after(CLOSE_S, shield=True):
                await tab.close()
            raise
        return tab

    async def _fill(self, tab: PlaywrightTab) -> None:
        try:
            await self.thread.run(self._give_page, tab, name=f"open {tab.page_id}")
        except PenelopeError:
            raise
        except Exception as error:
            raise translate(error, page_id=tab.page_id, browser_alive=self.keeper.up) from error

    async def _give_page(self, tab: PlaywrightTab) -> None:
        """Asyncio-flavoured."""
        spare, self.keeper.spare = self.keeper.spare, None
        if spare is not None and spare.usable:
            spare.page_id = tab.page_id
            tab.live = spare
        else:
            await tab.reopen(self.keeper.session)

    async def cookies(self) -> str:
        session = await self.keeper.ready()
        if self.watch.lag_s > BLOCKED_S:
            raise BrowserLost("a call blocks the browser's thread: nobody can be asked for cookies")
        try:
            with trio.fail_after(ANSWER_S):
                return await self.thread.run(self.read_cookies, session, grace=0.0)
        except trio.TooSlowError:
            raise BrowserLost(f"the browser did not say its cookies within {ANSWER_S:g} s") from None
        except Exception as error:
            if not is_playwright(error):
                raise
            raise BrowserLost("the browser ended while it was asked for its cookies") from error

    async def read_cookies(self, session: Session) -> str:
        """Read and note them, one read at a time: who asks while one is under way shares the next, which begins
        afterwards. Asyncio-flavoured.

        A read is a task of its own: who asks may be given up, and is not resumed then, not even to let go of a lock.
        """
        before = self._reading
        if before is not None and not before.done():
            await asyncio.wait([before])
        if self._reading is before:  # else somebody has begun the next one meanwhile
            self._reading = asyncio.ensure_future(self._read(session))
            self._reading.set_name("read the cookies")
            self._reading.add_done_callback(_heard)
        assert self._reading is not None
        return await asyncio.shield(self._reading)

    async def _read(self, session: Session) -> str:
        """Asyncio-flavoured."""
        async with asyncio.timeout(READ_S):
            cookies = await session.cookies()
        self.keeper.cookies = cookies
        return cookies

    async def wait_stuck(self) -> None:
        await self.watch.stuck.wait()

    async def ask(self, function: Callable[[], Awaitable[_T]], *, default: _T) -> _T:
        """What something asyncio-flavoured and bounded says; `default` when the thread does not answer."""
        with trio.move_on_after(ANSWER_S):
            return await self.thread.run(function, grace=0.0)
        return default

    def lives(self) -> list[Live]:
        """The pages of all tabs; immediate, from either side."""
        return [tab.live for tab in self._tabs if tab.live is not None]

    def forget(self, tab: PlaywrightTab) -> None:
        """The tab is closed for good; immediate."""
        if tab in self._tabs:
            self._tabs.remove(tab)

    def close_strays(self, session: Session) -> None:
        """Close the pages that calls opened and left, and take their handlers and routes off the context, unless a call
        is at work that may still use them. Immediate; asyncio-flavoured.
        """
        lives = self.lives()
        if not lives or any(live.run is not None for live in lives) or not session.alive:
            return
        spare = self.keeper.spare
        owned = [live.page for live in lives] + ([] if spare is None else [spare.page])
        for page in session.strays(owned):
            close_soon(session, page)
        if session.listeners is not None:
            session.listeners.remove_later_ones()
        if has_routes(session.context):
            unroute_soon(session)

    async def fail_calls(self) -> None:
        """Not every version of Playwright ends what waits on a driver that died. Asyncio-flavoured."""
        for live in self.lives():
            live.fail(BrowserLost("the browser ended while the call was running"))

    async def reopen_all(self, session: Session) -> None:
        """Put a fresh page under every tab. Asyncio-flavoured."""
        tabs = list(self._tabs)
        ends = await asyncio.gather(*(tab.reopen(session) for tab in tabs), return_exceptions=True)
        for tab, end in zip(tabs, ends, strict=True):
            if isinstance(end, BaseException):
                log.warning("page could not be opened again", page_id=tab.page_id, error=str(end))
        if tabs and self.keeper.spare is not None:
            spare, self.keeper.spare = self.keeper.spare, None
            await spare.close()

    async def guard(self, limits: Limits) -> None:
        """Watch what the pages at work take of disk and memory, for ever. Asyncio-flavoured."""
        await guarding.guard(self.lives, self.place.temp / "downloads", limits)

    async def beat(self) -> None:
        """Watch the renderers of the pages at work, for ever. Asyncio-flavoured."""
        await heartbeat.beat(self.lives, every_s=heartbeat.BEAT_EVERY_S, silent_max_s=heartbeat.SILENT_MAX_S)


def _heard(reading: "asyncio.Task[str]") -> None:
    """Whoever asked for it may have been given up, and asyncio would warn of an error that nobody took."""
    if not reading.cancelled():
        reading.exception()


async def _go(tab: PlaywrightTab, url: str) -> None:
    async def body(page: "Page", _: object) -> None:
        await page.goto(url)

    await tab.run(body, name=f"open {tab.page_id}")


@asynccontextmanager
async def open_browser(
    options: BrowserOptions,
    cookies: str | None,
    limits: Limits = NO_LIMITS,
    ahead: HeadStart | None = None,
    launching: Callable[[], None] = lambda: None,
) -> AsyncIterator[PlaywrightDriver]:
    """A browser, for as long as the block; nothing of it is left afterwards.

    Args:
        options: what it is like.
        limits: what its pages may take of the machine.
        cookies: as `Driver.cookies` gave them last; None when there are none yet. They are put on top of the profile's.
        ahead: Playwright's driver, started already; None: it is started now.
        launching: called when all that is left is to wait for driver and browser, most of the time that it takes.

    Raises:
        NoBrowser: there is none, or the one that was set cannot be run.
        StoreHeld: the profile is in use.
        StartError: it does not start.
    """
    with hold_profile(options.profile) as place:
        async with open_thread(ahead) as thread:
            driver = PlaywrightDriver(options, place, thread, cookies)
            pages = Pages(lost=driver.fail_calls, reopen=driver.reopen_all)
            try:
                await driver.keeper.start(launching)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(driver.watch.run, name="watch the browser's thread")
                    nursery.start_soon(driver.keeper.keep, pages, name="keep the browser up")
                    nursery.start_soon(thread.run, driver.beat, name="heartbeat of the pages")
                    nursery.start_soon(thread.run, driver.guard, limits, name="guard of disk and memory")
                    yield driver
                    nursery.cancel_scope.cancel(reason="the browser is closed")
            finally:
                with trio.move_on_after(END_S, shield=True):  # more than it ever takes
                    await driver.keeper.end()
