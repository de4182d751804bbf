"""Opens real browsers for the tests, and looks at their processes."""

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import trio

from penelope.pages.browser.driver import PlaywrightDriver, open_browser
from penelope.pages.browser.persona import BrowserOptions
from penelope.pages.browser.tab import PlaywrightTab
from penelope.pages.driver import Tab

Body = Callable[[Any, Any], Awaitable[Any]]


@asynccontextmanager
async def opened(
    profile: Path, cookies: str | None = None
) -> AsyncIterator[tuple[PlaywrightDriver, PlaywrightTab]]:
    """A browser with its page `main`."""
    async with open_browser(BrowserOptions(profile=profile), cookies) as driver:
        yield driver, await driver.open_tab("main")


async def goto(tab: Tab, url: str, *, timeout_ms: float = 5000) -> str:
    """Go there and say the title."""

    async def body(page: Any, _: object) -> str:
        await page.goto(url, timeout=timeout_ms)
        return str(await page.title())

    return await tab.run(body, name="test/goto")


async def evaluate(tab: Tab, script: str) -> Any:
    """What the script says."""

    async def body(page: Any, _: object) -> Any:
        return await page.evaluate(script)

    return await tab.run(body, name="test/evaluate")


async def until(condition: Callable[[], object], within_s: float = 5.0) -> None:
    """Wait until it holds; fail when it does not in time."""
    with trio.fail_after(within_s):
        while not condition():  # noqa: ASYNC110 - processes and sites set no event
            await trio.sleep(0.01)


def running(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def mentions(word: str) -> list[int]:
    """The pids of running processes with the word on their command line, this one left out."""
    found = []
    for process in psutil.process_iter():
        try:
            if (
                process.pid != os.getpid()
                and any(word in part for part in process.cmdline())
                and running(process.pid)
            ):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def tree(pids: tuple[int, ...]) -> list[int]:
    """These pids and all below them."""
    found = list(pids)
    for pid in pids:
        found += [child.pid for child in psutil.Process(pid).children(recursive=True)]
    return found


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def renderers(driver: PlaywrightDriver) -> list[int]:
    """The pids of the browser's renderers."""
    found = []
    for process in psutil.Process(driver.health.pids[1]).children(recursive=True):
        try:
            if "--type=renderer" in process.cmdline():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found
