"""For the tests of plugins: a real page, and a run of a plugin that remembers what it told the worker.

Everything here is asyncio-flavoured, as a plugin is. It needs a browser and no worker.

Source: contract, section 2 (authoring).
"""

import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog
from playwright.async_api import Page, async_playwright

from penelope import registry
from penelope.errors import BadPlugin
from penelope.pages.browser.find import find_browser
from penelope.pages.browser.launch import sandbox
from penelope.plugin import Call, MediaLink
from penelope.registry import Plugin


@dataclass(eq=False, slots=True)
class Tried:
    """What a run of a plugin came to.

    Attributes:
        answer: the JSON object that a client would have got.
        progress: each fraction with its note, in order.
        checkpoints: each value, in order; the last is what an interrupted job would keep.
        files: what was handed over by `call.media`, by file name.
    """

    answer: dict[str, Any] = field(default_factory=dict)
    progress: list[tuple[float, str]] = field(default_factory=list)
    checkpoints: list[Any] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)


class _Notes:
    """The worker's side of a call, which only takes notes."""

    def __init__(self, tried: Tried) -> None:
        self._tried = tried

    async def progress(self, fraction: float, note: str) -> None:
        self._tried.progress.append((fraction, note))

    async def checkpoint(self, text: str) -> None:
        self._tried.checkpoints.append(json.loads(text))

    async def media(
        self, source: "bytes | str | os.PathLike[str]", filename: str, content_type: str
    ) -> MediaLink:
        content = source if isinstance(source, bytes) else Path(source).read_bytes()  # noqa: ASYNC240  nobody waits
        self._tried.files[filename] = content
        return MediaLink(
            url=f"/api/v1/media/{len(self._tried.files)}",
            filename=filename,
            content_type=content_type,
            size=len(content),
            expires_at=0.0,
        )


def load_plugin(name: str, folder: Path) -> Plugin:
    """The plugin `family/name` of a folder, loaded as the worker would.

    Raises:
        BadPlugin: it is not there, or a file of the folder does not load.
    """
    found = registry.load([folder]).get(name)
    if found is None:
        raise BadPlugin(f"there is no plugin {name} in {folder}")
    return found


@asynccontextmanager
async def open_page() -> AsyncGenerator[Page]:
    """A page of the browser that the worker would choose, in a profile that is new and soon gone.

    Raises:
        NoBrowser: there is none; the message says how to get one.
    """
    setting = os.environ.get("PENELOPE_BROWSER")
    async with async_playwright() as playwright:
        chosen = find_browser(
            Path(setting) if setting else None, bundled=Path(playwright.chromium.executable_path)
        )
        sandboxed, _ = sandbox()
        async with await playwright.chromium.launch(
            executable_path=chosen, chromium_sandbox=sandboxed
        ) as browser:
            yield await browser.new_page()


async def run_plugin(plugin: Plugin, page: Page, /, *, job_id: str | None = None, **parameters: Any) -> Tried:
    """Run a plugin on a page, its parameters and its result checked as the worker checks them.

    Args:
        parameters: as a JSON body would bring them.

    Raises:
        BadParameter: one is bad, missing or unknown (`400`).
        PluginFailed: the result is not what the annotation says (`500`).
        Exception: what the plugin raised, e.g. `PluginError`.
    """
    tried = Tried()
    arguments = plugin.arguments(parameters)
    call = Call(
        page=page,
        page_id="main",
        job_id=job_id,
        request_id="test",
        family=plugin.family,
        log=structlog.get_logger(f"plugin.{plugin.name}"),
        host=_Notes(tried),
        crossing=_cross,
    )
    tried.answer = json.loads(plugin.answer("main", await plugin.function(call, **arguments)))
    return tried


async def _cross(function: Callable[..., Awaitable[Any]], /, *args: Any) -> Any:
    return await function(*args)
