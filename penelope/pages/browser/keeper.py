"""Keeps one browser up: starts it, sees its death, starts it again with back-off, ends it without a trace.

Trio-flavoured, but for what its docstring says is asyncio-flavoured.

Source: contract, section 3 ("a dead browser is started again").
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
import trio

from penelope.errors import BrowserLost, StartError
from penelope.pages.browser.inner import Listeners
from penelope.pages.browser.live import Live, answer_dialogs, open_live
from penelope.pages.browser.persona import BrowserOptions
from penelope.pages.browser.profile import Place
from penelope.pages.browser.session import Session
from penelope.pages.browser.strangers import watch_strangers
from penelope.pages.browser.thread import BrowserThread
from penelope.pages.browser.watch import Watch

LOOK_EVERY_S = 0.5
READY_S = 15.0  # how long a call waits for a browser that is being started again
# Before a further try, shorter than a call waits: whoever calls meets one, however often it was killed before.
BACK_OFF_S = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
FIRST_WORDS_S = 15.0  # for what a browser that has started is asked first
STEADY_S = 60.0  # up for so long, the next restart is at once again
CLOSE_S = 8.0
TELL_S = 1.0

log = structlog.get_logger("penelope.browser")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """What the keeper asks of whoever has the pages; both asyncio-flavoured.

    Attributes:
        lost: the browser has died: end the calls.
        reopen: another one is up: open the pages in it.
    """

    lost: Callable[[], Awaitable[None]]
    reopen: Callable[[Session], Awaitable[None]]


class Keeper:
    """One browser after another, on one profile.

    Attributes:
        session: the one that runs now; None while there is none.
        spare: the page that it opened with, until somebody takes it.
        reason: why there is none, a sentence.
        cookies: what to restore at a start; None: nothing.
    """

    def __init__(
        self, options: BrowserOptions, place: Place, thread: BrowserThread, watch: Watch, cookies: str | None
    ) -> None:
        self.session: Session | None = None
        self.spare: Live | None = None
        self.reason = "the browser is being started"
        self.cookies = cookies
        self._options, self._place, self._thread, self._watch = options, place, thread, watch
        self._last: Session | None = None  # the one to end, started or not
        self._up = trio.Event()
        self._look = trio.Event()

    @property
    def up(self) -> bool:
        """Whether calls can be made; immediate."""
        return self._up.is_set() and self.session is not None and self.session.alive

    async def ready(self) -> Session:
        """The browser, once it is up.

        Raises:
            BrowserLost: it is not, and does not come up in time; or its thread is blocked for good.
        """
        if self._watch.stuck.is_set():
            raise BrowserLost("the browser's thread is blocked by a call that nothing ends")
        if not self.up:
            self._lost()
            with trio.move_on_after(READY_S):
                await self._up.wait()
        if self.session is None or not self._up.is_set():
            raise BrowserLost(f"the browser is not up: {self.reason}")
        return self.session

    def look(self) -> None:
        """Look at the browser now; immediate."""
        self._look.set()

    async def start(self, launching: Callable[[], None]) -> None:
        """Start the browser for the first time.

        Args:
            launching: called when all that is left is to wait for driver and browser.

        Raises:
            StartError: with one clear line.
        """
        await self._start(launching)
        self._up.set()

    async def _start(self, launching: Callable[[], None] = lambda: None) -> Session:
        await trio.to_thread.run_sync(self._place.clear)
        session = self._last = Session(self._place)
        launching()
        await self._thread.run(self._begin, session, name="start the browser")
        self.session = session
        return session

    async def _begin(self, session: Session) -> None:
        """Asyncio-flavoured."""
        await session.start(self._options)
        try:
            async with asyncio.timeout(FIRST_WORDS_S):
                await self._prepare(session)
        except TimeoutError:
            raise StartError(f"the browser has started, but not answered for {FIRST_WORDS_S:g} s") from None

    async def _prepare(self, session: Session) -> None:
        """Asyncio-flavoured."""
        answer_dialogs(session)
        watch_strangers(session)
        if self.cookies is not None:
            await session.restore(self.cookies)
        pages = session.context.pages
        self.spare = await open_live(session, "spare", pages[0]) if pages else None
        session.listeners = Listeners(session.context)

    async def keep(self, pages: Pages) -> None:
        """Start the browser again whenever it or its driver has died, for ever."""
        failures, up_since = 0, trio.current_time()
        while True:
            await self._wait_lost()
            if trio.current_time() - up_since > STEADY_S:
                failures = 0
            await trio.sleep(BACK_OFF_S[min(failures, len(BACK_OFF_S) - 1)])
            failures += 1
            try:
                await self._restart(pages)
            except Exception as error:
                self.reason = str(error)
                log.warning("the browser could not be started again", error=str(error), tries=failures)
                continue
            up_since = trio.current_time()
            self._up.set()

    async def _wait_lost(self) -> None:
        while self.session is not None and self.session.alive:
            self._look = trio.Event()
            with trio.move_on_after(LOOK_EVERY_S):
                await self._look.wait()
        self._lost()

    def _lost(self) -> None:
        if self._up.is_set():
            self._up = trio.Event()
            self.reason = "the browser ended and is being started again"
            log.warning("the browser or its driver has ended; starting it again")
        self._look.set()

    async def _restart(self, pages: Pages) -> None:
        old, self.session, self.spare = self._last, None, None
        with trio.move_on_after(TELL_S):
            await self._thread.run(pages.lost, grace=0.0)
        if old is not None:
            await self._end(old)
        await self._thread.run(pages.reopen, await self._start(), name="open the pages again")

    async def _end(self, session: Session) -> None:
        if not self._watch.stuck.is_set():
            with trio.move_on_after(CLOSE_S, shield=True):
                await self._thread.run(session.close, grace=0.0, name="close the browser")
        with trio.CancelScope(shield=True):  # bounded: about a second
            await trio.to_thread.run_sync(session.kill)

    async def end(self) -> None:
        """Close the browser; bounded, and leaves no process."""
        self._up = trio.Event()
        self.reason = "the browser is closed"
        self.session = None
        if self._last is not None:
            await self._end(self._last)
