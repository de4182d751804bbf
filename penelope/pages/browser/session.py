"""One started browser: the node driver, Chromium, and the context of the profile.

Asyncio-flavoured; `alive`, `pids` and `kill` are immediate and may be used from Trio's side too.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import psutil
import structlog
from playwright.async_api import BrowserContext, CDPSession, Error, Page, Playwright, async_playwright

from penelope.errors import StartError
from penelope.pages.browser import persona
from penelope.pages.browser.find import find_browser
from penelope.pages.browser.inner import Listeners, Traffic, count_traffic, quiet_listeners, refuse_gotos
from penelope.pages.browser.launch import (
    launch_arguments,
    sandbox,
    write_launcher,
)
from penelope.pages.browser.loop import BrowserLoop
from penelope.pages.browser.node import environment
from penelope.pages.browser.persona import BrowserOptions
from penelope.pages.browser.processes import Process, end_all, group, inherited, reap, reap_group
from penelope.pages.browser.profile import Place
from penelope.pages.browser.translate import clean

CLOSE_S = 4.0  # the browser writes its profile
STOP_S = 1.0
START_S = 40.0  # over everything; Playwright's own limit for the browser is 30 s
CRASH_HANDLER = "chrome_crashpad"  # it has a session of its own, and is nobody's child in the end
READ_MESSAGES = 2  # of a read of the cookies: it is asked, and answered
COOKIES_FRESH_S = (
    1.0  # after which a page may have changed them by itself, and somebody know of it in another way
)
DEATH_S = 0.5  # from the end of a connection until its process is seen to have ended

_T = TypeVar("_T")

log = structlog.get_logger("penelope.browser")


class Session:
    """A browser that runs, or ran.

    Attributes:
        context: Playwright's, of the profile.
        browser_cdp: the CDP session of the browser itself; None where there is none.
        executable: what was started.
        proxied, gated: whether it goes through a proxy of the persona's, or through the gate.
        ends: what ends a page that floods; of the pages that are watched.
        closing: what still goes on to remove what calls left: their own pages, routes of the context.
        listeners: to the context's events, our own; None until they are all there.
        traffic: with the driver; None: it cannot be counted.
    """

    context: BrowserContext
    browser_cdp: CDPSession | None

    def __init__(self, place: Place) -> None:
        self._place = place
        self._playwright: Playwright | None = None
        self.driver: Process | None = None
        self.browser: Process | None = None
        self.executable: Path | None = None
        self.proxied = self.gated = False
        self.lost = False  # it runs, but does not do what it is asked
        self._closed = False
        self._opening: set[asyncio.Future[Page]] = set()
        self.unowned = 0  # pages that were opened and are on their way to their owner
        self.closing: set[asyncio.Future[None]] = set()
        self.listeners: Listeners | None = None
        self.traffic: Traffic | None = None
        self._last_read: tuple[Sequence[Mapping[str, Any]], str] | None = None  # the cookies, and their text
        self._quiet_at: int | None = None  # messages so far as the last read of the cookies ended
        self._fresh_until = 0.0  # after that read began; monotonic
        self.ends: WeakKeyDictionary[Page, Callable[[], None]] = WeakKeyDictionary()

    @property
    def alive(self) -> bool:
        """Whether driver and browser run and are connected, as far as can be seen without asking them."""
        processes = (self.driver, self.browser)
        return not (self._closed or self.lost) and all(
            process is not None and process.alive for process in processes
        )

    @property
    def pids(self) -> tuple[int, ...]:
        """The roots of what runs: driver, browser."""
        return tuple(process.pid for process in (self.driver, self.browser) if process is not None)

    async def settled_alive(self) -> bool:
        """As `alive`, after a page went away: a browser that is dying gets a moment to be dead."""
        loop = asyncio.get_running_loop()
        until = loop.time() + DEATH_S
        while self.alive and loop.time() < until:
            if self.browser_cdp is not None and await answers(
                self.browser_cdp.send("Browser.getVersion"), DEATH_S
            ):
                return self.alive
            await asyncio.sleep(0.01)
        return self.alive

    async def start(self, options: BrowserOptions) -> None:
        """Start driver and browser.

        Raises:
            StartError: with one clear line.
        """
        loop = cast(BrowserLoop, asyncio.get_running_loop())
        loop.environment = environment(self._place.temp)
        self.proxied = options.proxy is not None
        self.gated = options.gate is not None
        before = len(loop.drivers)
        try:
            async with asyncio.timeout(START_S):
                self._playwright = await async_playwright().start()
                self.driver = Process(loop.drivers[-1])
                quiet_listeners(self._playwright)
                refuse_gotos(self._playwright)
                self.traffic = count_traffic(self._playwright)
                await self._launch(options, self._playwright)
        except TimeoutError:
            raise StartError(f"the browser did not start within {START_S:g} s") from None
        except (Error, OSError) as error:
            raise StartError(f"the browser {self.executable} did not start: {_why(str(error))}") from error
        finally:
            if self.driver is None and len(loop.drivers) > before:
                self.driver = _process(loop.drivers[-1])

    async def _launch(self, options: BrowserOptions, playwright: Playwright) -> None:
        assert self.driver is not None
        bundled = Path(playwright.chromium.executable_path)
        self.executable = await asyncio.to_thread(find_browser, options.executable, bundled=bundled)
        sandboxed, why = await asyncio.to_thread(sandbox)
        self._place.browser_pid_file.unlink(missing_ok=True)
        launcher = write_launcher(
            self._place, self.executable, self.driver.pid, persona.enabled_features(options)
        )
        arguments = launch_arguments(options, self._place, launcher, sandboxed=sandboxed)
        self.context = await playwright.chromium.launch_persistent_context(**arguments)
        self.context.on("close", self._on_close)
        pid = self._place.browser_pid()
        if pid is None:
            raise StartError("the browser did not start: its launcher left no pid")
        self.browser = Process(pid)
        browser = self.context.browser
        self.browser_cdp = None if browser is None else await browser.new_browser_cdp_session()
        log.info(
            "browser started",
            executable=str(self.executable),
            version=None if browser is None else browser.version,
            sandbox=why,
            pid=pid,
            driver_pid=self.driver.pid,
        )

    def _on_close(self, *_: object) -> None:
        self._closed = True

    async def new_page(self) -> Page:
        """A new page; one that comes too late for its caller is closed, never left without an owner."""
        opening = asyncio.ensure_future(self._open())
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_late)
            raise

    async def _open(self) -> Page:
        """In words of ours: a task of Playwright's own would be taken for a handler of a call that is at work, and end
        with it.
        """
        return await self.context.new_page()

    def strays(self, owned: Sequence[Page]) -> list[Page]:
        """The open pages that nobody owns; [] while one is being opened, or on its way to its owner. Immediate."""
        pages = self.context.pages
        if self._opening or self.unowned or len(pages) <= len(owned):
            return []
        return [page for page in pages if page not in owned]

    @property
    def knows_cookies(self) -> bool:
        """Whether the last read of the cookies told all that anybody on this side can know of by now: nothing was sent
        to the browser since it was asked, nothing was heard but its answer, and it was a moment ago. Immediate.
        """
        if self.traffic is None or self.traffic.messages != self._quiet_at:
            return False
        return time.monotonic() < self._fresh_until

    async def cookies(self) -> str:
        """All cookies as a JSON array in a stable order."""
        before, began = 0 if self.traffic is None else self.traffic.messages, time.monotonic()
        cookies = await self.context.cookies()
        self._quiet_at = before + READ_MESSAGES  # with any other message in between there are more already
        self._fresh_until = began + COOKIES_FRESH_S
        if (
            self._last_read is None or self._last_read[0] != cookies
        ):  # some hundred are a millisecond to write, and rarely new
            self._last_read = cookies, _text(cookies)
        return self._last_read[1]

    async def restore(self, cookies: str) -> None:
        """Put cookies back, on top of what the profile has; one that the browser refuses is left out."""
        try:
            wanted: list[Any] = json.loads(cookies)
            await self.context.add_cookies(wanted)
        except (Error, ValueError, TypeError):
            if not self.alive:
                raise
            await self._restore_singly(cookies)

    async def _restore_singly(self, cookies: str) -> None:
        try:
            wanted = json.loads(cookies)
        except ValueError:
            log.warning("the kept cookies are no JSON; not restored")
            return
        refused = 0
        for cookie in wanted if isinstance(wanted, list) else []:
            try:
                await self.context.add_cookies([cookie])
            except (Error, ValueError, TypeError, AttributeError):
                refused += 1
        if refused:
            log.warning("some kept cookies were refused by the browser", count=refused)

    async def close(self) -> None:
        """Close it so that the profile is written; bounded. What is left then is for `kill`."""
        if self.alive:
            await answers(self.context.close(), CLOSE_S)
        self._closed = True
        if self._playwright is not None and self.driver is not None and self.driver.alive:
            await answers(self._playwright.stop(), STOP_S)

    def kill(self) -> None:
        """End every process of it that is left; bounded (about a second). Immediate when none is."""
        self._closed = True
        pid = self._place.browser_pid()
        browser = self.browser or (None if pid is None else _process(pid))
        trees: list[psutil.Process] = []
        if browser is not None:
            trees = browser.tree() + group(
                browser.pid
            )  # the group: children of a browser that has died already
        trees += inherited(CRASH_HANDLER)
        if self.driver is not None:
            trees += [process for process in self.driver.tree() if process not in trees]
        end_all(trees)
        reap(
            process for process in trees if self.driver is None or process.pid != self.driver.pid
        )  # that is asyncio's
        if browser is not None:
            reap_group(browser.pid)
        for process in (self.driver, browser):
            if process is not None:
                process.release()


def _text(cookies: Sequence[Mapping[str, Any]]) -> str:
    ordered = sorted(
        cookies,
        key=lambda c: (
            c.get("domain", ""),
            c.get("path", ""),
            c.get("name", ""),
            str(c.get("partitionKey", "")),
        ),
    )
    return json.dumps(ordered, separators=(",", ":"), sort_keys=True)


def _process(pid: int) -> Process | None:
    try:
        return Process(pid)
    except ProcessLookupError:
        return None


def _close_late(opening: "asyncio.Future[Page]") -> None:
    if opening.cancelled() or opening.exception() is not None:
        return
    task = asyncio.ensure_future(answers(opening.result().close(), CLOSE_S))
    task.set_name("close a page that came too late")


_SAID_BY = re.compile(r"^(- )?\[pid=\d+\]\[(err|out)\] ")


def _why(message: str) -> str:
    """The line of Playwright's report that says why."""
    if "signal=SIGKILL" in message:
        return "it was killed"
    for line in message.splitlines():
        if ("ERROR" in line and "]" in line) or "error while loading" in line or "cannot" in line.lower():
            return _SAID_BY.sub("", line.strip())[:300]
    said = [line.partition("[err] ")[2].strip() for line in message.splitlines() if "[err] " in line]
    return clean(said[-1] if said else message.partition("Browser logs:")[0])[:300]


async def answers(asked: Awaitable[_T], within_s: float) -> bool:
    """Whether something of Playwright's ends well within that time; it is cancelled when not."""
    try:
        async with asyncio.timeout(within_s):
            await asked
    except (TimeoutError, Error):
        return False
    except Exception:
        log.warning("unexpected from the browser", exc_info=True)
        return False
    return True
