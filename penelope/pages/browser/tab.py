"""The stable handle of a page: whoever holds it need not know when the page under it is another one.

Trio-flavoured, but for what its docstring says is asyncio-flavoured.

Source: the port, `pages.driver`.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar

import structlog
import trio

from penelope.errors import BrowserLost, CallFailed, PenelopeError, PluginFailed
from penelope.pages.browser import heal as healing
from penelope.pages.browser.gated import told
from penelope.pages.browser.live import BLANK, Live, open_live
from penelope.pages.browser.run import GRACE_S, Abandoned, BrokenOff, Run
from penelope.pages.browser.session import Session, answers
from penelope.pages.browser.strangers import removed
from penelope.pages.browser.translate import (
    is_failed_navigation,
    is_gone,
    is_playwright,
    is_slow_navigation,
    is_timeout,
    translate,
)
from penelope.pages.driver import Body, Healing, Vitals

if TYPE_CHECKING:
    from penelope.pages.browser.driver import PlaywrightDriver

TITLE_S = 1.0
COOKIES_S = 1.0
VITALS_S = 0.5
THROW_AWAY_S = 2.0  # to close the page under a call that will not end
CRASH_LOOP_S = 10.0  # a page that crashed this soon after it was opened is opened blank
KILLED_REOPEN_S = 2.0  # the same, of one that did not answer
REOPEN_S = 5.0  # for the load of the last address, when a page is opened afresh
NEW_PAGE_S = 5.0
PROVE_S = 1.5  # after which a page that was killed, and opened at the same address, still has to answer
COLLECT_S = 5.0  # what half a gigabyte of nodes takes
BLANK_S = 2.0

_Result = TypeVar("_Result")

log = structlog.get_logger("penelope.browser")


class PlaywrightTab:
    """A `Tab` of a real browser."""

    def __init__(self, driver: "PlaywrightDriver", page_id: str) -> None:
        self._driver = driver
        self._page_id = page_id
        self.live: Live | None = None
        self.place = BLANK  # where to open it again
        self.closed = False
        self._left: list[Run[Any]] = []  # cancelled calls that wait for the thread
        self._run: Run[Any] | None = None
        self._noted = False
        self._owes_heal = False

    @property
    def page_id(self) -> str:
        return self._page_id

    @property
    def url(self) -> str:
        return self.place if self.live is None else self.live.url

    @property
    def crashed(self) -> bool:
        return self.live is not None and self.live.crashed

    @property
    def cookies_noted(self) -> bool:
        return self._noted

    async def title(self) -> str:
        live = self.live
        if live is None or not live.usable:
            return ""
        with trio.move_on_after(TITLE_S):
            try:
                return await self._driver.thread.run(live.page.title, grace=0.0)
            except Exception as error:
                if not is_playwright(error):
                    raise
        return ""

    async def vitals(self) -> Vitals:
        live = self.live
        if live is None:
            return Vitals(memory=None, silent_s=None)
        if live.usable and self._driver.watch.lag_s == 0.0:
            with trio.move_on_after(VITALS_S):
                await self._driver.thread.run(live.ask_vitals, grace=0.0, name=f"vitals of {self._page_id}")
        silent = None if live.answered_at is None else max(0.0, time.monotonic() - live.answered_at)
        return Vitals(memory=live.memory, silent_s=silent)

    async def run(self, body: Body[_Result], *, name: str) -> _Result:
        await self._driver.keeper.ready()
        box: list[Run[_Result]] = []

        async def work() -> _Result:
            return await self._work(body, box[0])

        self._noted = False
        run: Run[_Result] = Run(self._driver.thread.loop, name, work, ())
        self._run = run
        box.append(run)
        try:
            return await run.wait(self._end)
        except BrokenOff:
            raise CallFailed(f"{name} blocked the browser's thread and was broken off") from None
        except Abandoned as error:
            raise PluginFailed(str(error)) from None
        except PenelopeError:
            raise
        except Exception as error:
            raise await self._translated(error) from error
        finally:
            self._run = None

    def release(self) -> None:
        """Another call blocks the thread: let a call go that has its result. Immediate."""
        run = self._run
        if run is not None and run.release():
            self._left.append(run)

    async def _translated(self, error: Exception) -> Exception:
        live = self.live
        if live is not None and is_failed_navigation(error) and not live.error_page.is_set():
            live.unsettled = True
        gate = self._driver.gate
        if gate is not None and (failure := told(error, gate, None if live is None else live.failed_url)):
            return failure
        alive = True
        if is_gone(error):
            session = None if live is None else live.session
            alive = session is not None and await self._driver.ask(session.settled_alive, default=False)
            self._driver.keeper.look()
        return translate(error, page_id=self._page_id, browser_alive=alive)

    async def _work(self, body: Body[_Result], run: Run[_Result]) -> _Result:
        """Asyncio-flavoured."""
        await self._see_off()
        if self.live is not None:
            await healing.settle(self.live)
        live = await self.usable_live()
        await removed(live.session)
        live.error_page.clear()
        live.begin(run)
        async with AsyncExitStack() as stack:
            stack.callback(self._driver.close_strays, live.session)
            stack.push_async_callback(live.end)
            try:
                result = await run.owning(body(live.page, run.cross))
            except asyncio.CancelledError:
                live.troubled = True
                raise
            except Exception as error:
                live.troubled = is_timeout(error)
                live.held_back = is_slow_navigation(error) and not live.moved
                if live.suspicion is not None and is_playwright(error) and not is_timeout(error):
                    raise live.suspicion from error
                raise
            run.has_result(result)
            await self._note_cookies(live)
            return result

    async def _note_cookies(self, live: Live) -> None:
        """As the last step of a call that succeeded: asked for later, the thread would have to be woken once more. What
        nobody has heard of since the last read, no client can have been told of: then nobody is asked.
        Asyncio-flavoured.
        """
        if live.session.knows_cookies:
            self._noted = True
        elif live.session.alive:
            self._noted = await answers(self._driver.read_cookies(live.session), COOKIES_S)

    async def _end(self, run: Run[Any]) -> None:
        """End a cancelled call: ask, then break it off where it blocks, then take its page and its next step away."""
        run.cancel()
        with trio.move_on_after(GRACE_S, shield=True):
            await run.ended.wait()
        if run.ended.is_set() or self._leave(run):
            return
        with trio.move_on_after(self._driver.free_s, shield=True):
            if not run.cancel_seen or self._driver.watch.lag_s > 0.0:
                await self._driver.watch.free(run)
        if run.ended.is_set() or self._driver.watch.stuck.is_set() or self._leave(run):
            return
        log.warning("a call will not end: its page is thrown away", plugin=run.name, page_id=self._page_id)
        run.abandon()
        with trio.move_on_after(THROW_AWAY_S, shield=True):
            await self._driver.thread.run(self.throw_away, grace=0.0)
            await run.ended.wait()

    def _leave(self, run: Run[Any]) -> bool:
        """Leave a cancelled call to itself when another one holds the thread, for however long that is: it hears of its
        cancel before the next call here begins, which sees it off.
        """
        if not self._driver.watch.held_by_another(run):
            return False
        log.warning("another call blocks the browser's thread", plugin=run.name, page_id=self._page_id)
        self._left.append(run)
        return True

    async def _see_off(self) -> None:
        """Wait for the end of the calls that were left to themselves, and heal what they left. Asyncio-flavoured."""
        left, self._left = self._left, []
        for run in left:
            if not await run.over(GRACE_S):
                run.abandon()
                await self.throw_away()
        if self._owes_heal:
            self._owes_heal = False
            await self._heal()

    async def throw_away(self) -> None:
        """Close the page; the next call gets a fresh one. Asyncio-flavoured."""
        live, self.live = self.live, None
        if live is not None:
            self.place = live.place
            await live.close()

    async def usable_live(self) -> Live:
        """The page, opened afresh when it has to be. Asyncio-flavoured.

        Raises:
            BrowserLost: there is no browser.
        """
        live = self.live
        if live is None or not live.usable:
            live = await self.reopen(self._driver.keeper.session)
        return live

    async def reopen(self, session: Session | None, within_s: float = REOPEN_S) -> Live:
        """Put a fresh page under the handle, at the last address. Asyncio-flavoured.

        Args:
            within_s: for the load of that address.

        Raises:
            BrowserLost: there is no browser, or it does not open pages any more.
        """
        if session is None or not session.alive:
            raise BrowserLost("the browser is not up")
        old, self.live = self.live, None
        if old is not None:
            self.place = old.place
            if (
                old.crashed
                and old.crashed_here == old.place
                and old.crashed_at - old.opened_at < CRASH_LOOP_S
            ):
                log.warning("page crashed soon after it was opened; opened blank", page_id=self._page_id)
                self.place = BLANK
            await old.close()
        made: list[Live] = []

        async def make() -> None:
            made.append(await open_live(session, self._page_id))

        session.unowned += 1  # a call that ends meanwhile must not take it for a page that it left
        try:
            if not await answers(make(), NEW_PAGE_S):
                session.lost = True
                raise BrowserLost("the browser does not open pages any more and is being started again")
            live = self.live = made[0]
        finally:
            session.unowned -= 1
        live.crashed_here = self.place if old is not None and old.crashed else None
        if self.place != BLANK:
            going = live.page.goto(self.place, wait_until="domcontentloaded", timeout=within_s * 1000)
            if not await answers(going, within_s + 0.5):
                live.unsettled = not live.error_page.is_set()
                await healing.soothe(live)
                await healing.finish_fonts(live)
            if not await healing.page_answers(live, healing.AGAIN_S):
                log.warning("page does not answer at its last address; opened blank", page_id=self._page_id)
                await healing.end_renderer(live)
                live.place = BLANK
                return await self.reopen(session)
        log.info("page opened afresh", page_id=self._page_id, url=live.url)
        return live

    async def heal(self) -> Healing:
        await self._driver.keeper.ready()
        if self._driver.watch.lag_s > 0.0:  # a call blocks the thread: the next one here begins with it
            self._owes_heal = True
            return Healing.NONE
        began = time.monotonic()
        healed = await self._driver.thread.run(self._heal, name=f"heal {self._page_id}")
        if healed is not Healing.NONE:
            took = round(time.monotonic() - began, 3)
            log.info("page healed", page_id=self._page_id, by=healed.value, took_s=took)
        return healed

    async def _heal(self) -> Healing:
        """Asyncio-flavoured."""
        live = self.live
        killed = False
        if live is not None and live.usable:
            healed = await healing.heal(live)
            if healed is not None:
                return healed
            killed = await healing.end_renderer(live)
        live = await self.reopen(self._driver.keeper.session, REOPEN_S if live is None else KILLED_REOPEN_S)
        if not killed:
            return Healing.REOPENED
        if live.place != BLANK:
            await self._prove(live)
        return Healing.KILLED

    async def _prove(self, live: Live) -> None:
        """Open the page blank when it soon hangs again where it was left. Asyncio-flavoured."""
        await asyncio.sleep(PROVE_S)
        if not live.usable or await healing.page_answers(live, healing.SOOTHED_S):
            return
        log.warning("page hangs again at its last address; opened blank", page_id=self._page_id)
        await healing.end_renderer(live)
        live.place = BLANK
        await self.reopen(self._driver.keeper.session)

    async def collect_garbage(self) -> None:
        live = self.live
        if live is None or not live.usable or self._driver.watch.lag_s > 0.0:
            return

        async def collect() -> None:
            await answers(live.cdp.send("HeapProfiler.collectGarbage"), COLLECT_S)

        await self._driver.thread.run(collect, name=f"collect garbage of {self._page_id}")

    async def refresh(self) -> None:
        await self._driver.keeper.ready()
        await self._driver.thread.run(self._refresh, name=f"refresh {self._page_id}")
        await self.heal()

    async def _refresh(self) -> None:
        """Asyncio-flavoured."""
        live = self.live
        if live is None or not live.usable:
            return
        place = live.place
        left = live.page.goto(BLANK, timeout=BLANK_S * 1000)
        if not await answers(left, BLANK_S + 0.5):
            live.place = place
            await healing.end_renderer(live)  # the page is opened afresh, at its place
            return
        live.place = place
        await answers(live.cdp.send("HeapProfiler.collectGarbage"), COLLECT_S)
        if place != BLANK:
            going = live.page.goto(place, wait_until="commit", timeout=REOPEN_S * 1000)
            if not await answers(going, REOPEN_S + 0.5):
                live.troubled, live.unsettled = True, not live.error_page.is_set()

    async def close(self) -> None:
        self.closed = True
        self._driver.forget(self)
        with trio.move_on_after(THROW_AWAY_S):
            await self._driver.thread.run(self.throw_away, grace=0.0)
