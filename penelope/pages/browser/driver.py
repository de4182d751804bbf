"""Keeps one browser with one profile up, and its pages in it.

Trio-flavoured, but for what its docstring says is asyncio-flavoured.

Source: the port, `pages.driver`; contract, section 3 ("a dead browser is started again").
"""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

import structlog
import trio

from penelope.errors import BrowserLost, CallFailed, PenelopeError
from penelope.pages.browser import heartbeat
from penelope.pages.browser.launch import BrowserOptions
from penelope.pages.browser.live import Live, answer_dialogs, open_live
from penelope.pages.browser.profile import Place, hold_profile
from penelope.pages.browser.session import Session
from penelope.pages.browser.tab import PlaywrightTab
from penelope.pages.browser.thread import BrowserThread, open_thread
from penelope.pages.browser.translate import is_playwright, translate
from penelope.pages.browser.watch import BREAK_FOR_S, Watch
from penelope.pages.driver import Health

LOOK_EVERY_S = 0.5
READY_S = 15.0  # how long a call waits for a browser that is being started again
BACK_OFF_S = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
STEADY_S = 60.0  # up for so long, the next restart is at once again
COOKIES_S = 5.0
CLOSE_S = 8.0

_T = TypeVar("_T")

log = structlog.get_logger("penelope.browser")


class PlaywrightDriver:
    """A `Driver` of a real Chromium.

    Attributes:
        thread, watch: of the browser.
        session: the browser that runs now; None while there is none.
        free_s: the most that freeing the thread from a blocking call may take, seconds.
    """

    free_s = BREAK_FOR_S + 1.0

    def __init__(
        self, options: BrowserOptions, place: Place, thread: BrowserThread, cookies: str | None
    ) -> None:
        self.thread = thread
        self.watch = Watch(thread)
        self.session: Session | None = None
        self._options = options
        self._place = place
        self._cookies = cookies
        self._tabs: list[PlaywrightTab] = []
        self._spare: Live | None = None  # the page that the browser opened with
        self._up = trio.Event()
        self._look = trio.Event()
        self._reason = "the browser is being started"
        self._session_ever: Session | None = None

    # The port.

    @property
    def health(self) -> Health:
        up = self._up.is_set() and self.session is not None and self.session.alive
        return Health(
            up=up,
            reason="" if up else self._reason,
            thread_lag_s=self.watch.lag_s,
            stuck=self.watch.stuck.is_set(),
            pids=() if self.session is None else self.session.pids,
        )

    async def open_tab(self, page_id: str, url: str | None = None) -> PlaywrightTab:
        await self.ready()
        tab = PlaywrightTab(self, page_id)
        self._tabs.append(tab)
        try:
            await self._in_browser(page_id, self._open, tab)
            if url is not None:

                async def go(page: object, _: object) -> None:
                    await page.goto(url)  # type: ignore[attr-defined]

                await tab.run(go, name=f"open {page_id}")
        except BaseException:
            with trio.move_on_after(CLOSE_S, shield=True):
                await tab.close()
            raise
        return tab

    async def cookies(self) -> str:
        await self.ready()
        session = self.session
        if session is None:
            raise BrowserLost("the browser is not up")
        try:
            with trio.fail_after(COOKIES_S):
                self._cookies = await self.thread.run(session.cookies, grace=0.0)
        except trio.TooSlowError:
            raise BrowserLost(f"the browser did not say its cookies within {COOKIES_S:g} s") from None
        except Exception as error:
            if not is_playwright(error):
                raise
            raise BrowserLost("the browser ended while it was asked for its cookies") from error
        return self._cookies

    async def wait_stuck(self) -> None:
        await self.watch.stuck.wait()

    # For tabs.

    async def ready(self) -> None:
        """Return once the browser is up.

        Raises:
            BrowserLost: it is not, and does not come up in time; or its thread is blocked for good.
        """
        if self.watch.stuck.is_set():
            raise BrowserLost("the browser's thread is blocked by a call that nothing ends")
        if self._up.is_set() and self.session is not None and self.session.alive:
            return
        self._lost()
        with trio.move_on_after(READY_S):
            await self._up.wait()
            return
        raise BrowserLost(f"the browser is not up: {self._reason}")

    def look(self) -> None:
        """Have the keeper look at the browser now; immediate."""
        self._look.set()

    def close_strays(self, session: Session) -> None:
        """Close the pages that calls opened and left, unless a call is at work that may still use them. Immediate;
        asyncio-flavoured.
        """
        lives = self.lives()
        if any(live.run is not None for live in lives) or not session.alive:
            return
        owned = [live.page for live in lives] + ([] if self._spare is None else [self._spare.page])
        for page in session.strays(owned):
            lives[0].start_soon(page.close(), "close a page that a call left")

    def forget(self, tab: PlaywrightTab) -> None:
        """The tab is closed for good; immediate."""
        if tab in self._tabs:
            self._tabs.remove(tab)

    async def ask(self, asked: Awaitable[_T], *, default: _T) -> _T:
        """The answer of something asyncio-flavoured and bounded; `default` when the thread does not answer."""

        async def wait() -> _T:
            return await asked

        with trio.move_on_after(COOKIES_S):
            return await self.thread.run(wait, grace=0.0)
        return default

    async def _in_browser(self, page_id: str, function: object, *args: object) -> None:
        try:
            await self.thread.run(function, *args, name=f"open {page_id}")  # type: ignore[arg-type]
        except PenelopeError:
            raise
        except Exception as error:
            alive = self.session is not None and self.session.alive
            raise translate(error, page_id=page_id, browser_alive=alive) from error

    async def _open(self, tab: PlaywrightTab) -> None:
        """Asyncio-flavoured."""
        spare, self._spare = self._spare, None
        if spare is not None and spare.usable:
            spare.page_id = tab.page_id
            tab.live = spare
        else:
            await tab.reopen(self.session)

    # Life.

    async def start(self) -> None:
        """Start the browser for the first time.

        Raises:
            StartError: with one clear line.
        """
        await self._start()
        self._up.set()

    async def _start(self) -> None:
        await trio.to_thread.run_sync(self._place.clear)
        session = self._session_ever = Session(self._place)
        await self.thread.run(self._begin, session, name="start the browser")
        self.session = session

    async def _begin(self, session: Session) -> None:
        """Asyncio-flavoured."""
        await session.start(self._options)
        answer_dialogs(session)
        if self._cookies is not None:
            await session.restore(self._cookies)
        pages = session.context.pages
        self._spare = await open_live(session, "spare", pages[0]) if pages else None

    async def keep(self) -> None:
        """Start the browser again whenever it or its driver has died, with back-off, for ever."""
        failures, up_since = 0, trio.current_time()
        while True:
            await self._wait_lost()
            if trio.current_time() - up_since > STEADY_S:
                failures = 0
            await trio.sleep(BACK_OFF_S[min(failures, len(BACK_OFF_S) - 1)])
            failures += 1
            try:
                await self._restart()
            except Exception as error:
                self._reason = str(error)
                log.warning("the browser could not be started again", error=str(error), tries=failures)
                continue
            up_since = trio.current_time()
            self._up.set()

    async def _wait_lost(self) -> None:
        while self.session is not None and self.session.alive and not self.session.lost:
            self._look = trio.Event()
            with trio.move_on_after(LOOK_EVERY_S):
                await self._look.wait()
        self._lost()

    def _lost(self) -> None:
        if self._up.is_set():
            self._up = trio.Event()
            self._reason = "the browser ended and is being started again"
            log.warning("the browser or its driver has ended; starting it again")
        self._look.set()

    async def _restart(self) -> None:
        old, self.session, self._spare = self._session_ever, None, None
        with trio.move_on_after(1.0):
            await self.thread.run(self._fail_calls, grace=0.0)
        if old is not None:
            await self._end(old)
        await self._start()
        await self.thread.run(self._reopen_all, name="open the pages again")

    async def _fail_calls(self) -> None:
        """Not every version of Playwright ends what waits on a driver that died. Asyncio-flavoured."""
        for live in self.lives():
            live.fail(BrowserLost("the browser ended while the call was running"))

    async def _reopen_all(self) -> None:
        """Asyncio-flavoured."""
        for tab in list(self._tabs):
            if self._spare is not None and tab.live is not None:
                tab.place = tab.live.place
            try:
                await tab.reopen(self.session)
            except CallFailed:
                log.warning("page could not be opened again", page_id=tab.page_id)
        spare, self._spare = self._spare, None
        if spare is not None and self._tabs:
            await spare.close()

    async def _end(self, session: Session) -> None:
        with trio.move_on_after(CLOSE_S, shield=True):
            await self.thread.run(session.close, grace=0.0, name="close the browser")
        with trio.CancelScope(shield=True):  # bounded: about a second
            await trio.to_thread.run_sync(session.kill)

    async def end(self) -> None:
        """Close the browser; bounded, and leaves no process."""
        self._up = trio.Event()
        self._reason = "the browser is closed"
        session, self.session = self._session_ever, None
        if session is not None:
            await self._end(session)

    def lives(self) -> list[Live]:
        """The pages of all tabs; immediate, from either side."""
        return [tab.live for tab in self._tabs if tab.live is not None]

    async def beat(self) -> None:
        """Watch the renderers of the pages at work, for ever. Asyncio-flavoured."""
        await heartbeat.beat(self.lives, every_s=heartbeat.BEAT_EVERY_S, silent_max_s=heartbeat.SILENT_MAX_S)


@asynccontextmanager
async def open_browser(options: BrowserOptions, cookies: str | None) -> AsyncIterator[PlaywrightDriver]:
    """A browser, for as long as the block; nothing of it is left afterwards.

    Args:
        options: what it is like.
        cookies: as `Driver.cookies` gave them last; None when there are none yet. They are put on top of the profile's.

    Raises:
        NoBrowser: there is none, or the one that was set cannot be run.
        StoreHeld: the profile is in use.
        StartError: it does not start.
    """
    with hold_profile(options.profile) as place:
        async with open_thread() as thread:
            driver = PlaywrightDriver(options, place, thread, cookies)
            try:
                await driver.start()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(driver.watch.run, name="watch the browser's thread")
                    nursery.start_soon(driver.keep, name="keep the browser up")
                    nursery.start_soon(thread.run, driver.beat, name="heartbeat of the pages")
                    yield driver
                    nursery.cancel_scope.cancel(reason="the browser is closed")
            finally:
                await driver.end()
