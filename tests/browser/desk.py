"""Plugins on one real page, without a worker: what they answer, and what they tell it."""

import asyncio
import os
import queue
import shlex
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
import structlog
import trio
from playwright.async_api import Browser, Page, async_playwright

from penelope import Call, PluginError
from penelope.demo.site import serve_site
from penelope.pages.browser.find import find_browser
from penelope.pages.browser.launch import DISABLED_FEATURES
from penelope.plugin import MediaLink

Result = TypeVar("Result")


class Recorder:
    """The worker's side of a call: keeps what the plugin says."""

    def __init__(self) -> None:
        self.progress_made: list[tuple[float, str]] = []
        self.checkpoints: list[object] = []
        self.files: list[bytes] = []

    async def progress(self, fraction: float, note: str) -> None:
        self.progress_made.append((fraction, note))

    async def checkpoint(self, value: object) -> None:
        self.checkpoints.append(value)

    async def media(
        self, source: bytes | str | os.PathLike[str], filename: str, content_type: str
    ) -> MediaLink:
        content = source if isinstance(source, bytes) else Path(source).read_bytes()  # noqa: ASYNC240  nobody waits
        self.files.append(content)
        return MediaLink(
            url="/api/v1/media/x",
            filename=filename,
            content_type=content_type,
            size=len(content),
            expires_at=1.5,
        )


async def crossing(function: Callable[..., Awaitable[Result]], /, *args: Any) -> Result:
    return await function(*args)


class Desk:
    """One page, and plugins run on it; `host` recorded the last run."""

    def __init__(self, runner: asyncio.Runner, page: Page, site: str) -> None:
        self._runner = runner
        self.page = page
        self.site = site
        self.host = Recorder()

    def run(self, plugin: Callable[..., Coroutine[Any, Any, Result]], *args: Any, **kwargs: Any) -> Result:
        self.host = Recorder()
        call = Call(
            page=self.page,
            page_id="main",
            job_id=None,
            request_id="test",
            family=plugin.__module__.rpartition(".")[2],
            log=structlog.get_logger(),
            host=self.host,
            crossing=crossing,
        )
        return self._runner.run(plugin(call, *args, **kwargs))

    def refusal(
        self, plugin: Callable[..., Coroutine[Any, Any, object]], *args: Any, **kwargs: Any
    ) -> PluginError:
        with pytest.raises(PluginError) as caught:
            self.run(plugin, *args, **kwargs)
        return caught.value


@contextmanager
def serving() -> Iterator[str]:
    """The site, on Trio in a thread of its own: the tests' own loop is asyncio's."""
    started: queue.Queue[tuple[str, Callable[[], None]]] = queue.Queue()

    async def serve() -> None:
        async with trio.open_nursery() as nursery:
            url = await nursery.start(partial(serve_site, 0, list_latency_s=0.02))
            token = trio.lowlevel.current_trio_token()
            started.put((url, lambda: token.run_sync_soon(nursery.cancel_scope.cancel)))

    thread = threading.Thread(target=trio.run, args=(serve,))
    thread.start()
    url, stop = started.get(timeout=10)
    try:
        yield url
    finally:
        stop()
        thread.join(10)


class Room:
    """A browser without a worker, and the stand-in site; desks are set up in it."""

    def __init__(self, runner: asyncio.Runner, browser: Browser, site: str) -> None:
        self._runner = runner
        self._browser = browser
        self._site = site

    @contextmanager
    def desk(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
        """One with a fresh page, whose instagram is the stand-in site."""
        monkeypatch.setenv("PENELOPE_INSTAGRAM_BASE_URL", self._site)
        page = self._runner.run(self._browser.new_page())
        yield Desk(self._runner, page, self._site)
        self._runner.run(page.close())


def _launcher(folder: Path, browser: Path) -> Path:
    """A script to start instead of it, without the features that a worker's browser is without, too: they cost a
    second of CPU for each page that is opened.
    """
    launcher = folder / "browser"
    launcher.write_text(
        f"""#!/bin/sh
        for word do
            shift
            case $word in --disable-features=*) word="$word,{",".join(DISABLED_FEATURES)}" ;; esac
            set -- "$@" "$word"
        done
        exec {shlex.quote(str(browser))} "$@"
        """
    )
    launcher.chmod(0o700)
    return launcher


@contextmanager
def opened_room() -> Iterator[Room]:
    with serving() as site, asyncio.Runner() as runner, TemporaryDirectory() as folder:
        playwright = runner.run(async_playwright().start())
        bundled = Path(playwright.chromium.executable_path)
        browser = runner.run(
            playwright.chromium.launch(
                executable_path=_launcher(Path(folder), find_browser(None, bundled=bundled)),
                args=["--no-sandbox", "--disable-background-networking"],
            )
        )
        yield Room(runner, browser, site)
        runner.run(browser.close())
        runner.run(playwright.stop())
