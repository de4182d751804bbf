"""One browser for many tests: a start and an end of Chromium and its driver are a second of CPU, most tests are less.

A test that is marked so runs on the browser's own Trio, in a thread, and finds the page `main` blank, alone, and
without cookies. After one that failed the browser is thrown away. Tests of a browser's life, or of settings of its own,
have one of their own: `tests.browser.browsers.opened`.
"""

import functools
import inspect
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio

from penelope.pages.browser.driver import PlaywrightDriver
from penelope.pages.browser.tab import PlaywrightTab
from tests.browser.browsers import goto, opened, until

START_S = 60.0
END_S = 30.0


class SharedBrowser:
    """Started with the first test that wants it."""

    def __init__(self) -> None:
        self._living: _Living | None = None

    def run(self, test: Callable[..., Awaitable[None]], wanted: set[str], given: dict[str, Any]) -> None:
        """Run a test.

        Args:
            wanted: `driver`, `tab` or both: what the test takes of the browser's.
            given: what else it takes.
        """
        living = self._living = self._living or _Living()
        try:
            living.run(test, wanted, given)
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Close the browser, if there is one."""
        living, self._living = self._living, None
        if living is not None:
            living.end()


class _Living:
    """A browser on a Trio of its own."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="shared browser", daemon=True)
        self._thread.start()
        assert self._ready.wait(START_S)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            trio.run(self._live)
        except BaseException as error:  # told to whoever waits for it
            self._error = error
        finally:
            self._ready.set()

    async def _live(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with opened(Path(folder) / "profile") as (self._driver, self._tab):
                self._token = trio.lowlevel.current_trio_token()
                self._over = trio.Event()
                self._ready.set()
                await self._over.wait()

    def run(self, test: Callable[..., Awaitable[None]], wanted: set[str], given: dict[str, Any]) -> None:
        async def turn() -> None:
            await _put_in_order(self._driver, self._tab)
            parts = {"driver": self._driver, "tab": self._tab}
            await test(**{name: parts[name] for name in wanted}, **given)

        trio.from_thread.run(turn, trio_token=self._token)

    def end(self) -> None:
        trio.from_thread.run_sync(self._over.set, trio_token=self._token)
        self._thread.join(END_S)
        assert not self._thread.is_alive()


async def _put_in_order(driver: PlaywrightDriver, tab: PlaywrightTab) -> None:
    for left in [other for other in driver._tabs if other is not tab]:
        await left.close()
    await tab.heal()
    await goto(tab, "about:blank")
    context = (await driver.keeper.ready()).context
    await driver.thread.run(context.clear_cookies)
    await until(lambda: len(context.pages) == 1)
    assert [tab.live] == driver.lives()


def on_shared_browser(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test that takes `driver`, `tab` or both, of a browser that it shares."""
    takes = inspect.signature(test).parameters
    wanted = {"driver", "tab"} & set(takes)

    @functools.wraps(test)
    def run(shared_browser: SharedBrowser, **given: Any) -> None:
        shared_browser.run(test, wanted, given)

    first = inspect.Parameter("shared_browser", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    others = [parameter for name, parameter in takes.items() if name not in wanted]
    run.__signature__ = inspect.Signature([first, *others])  # type: ignore[attr-defined]  # what fixtures are read of
    return run
