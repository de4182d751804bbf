"""Ends what takes too much of the machine under a call: a download of the disk, a renderer of the memory.

Asyncio-flavoured. One task for all pages, idle while no call is at work.

Source: design, section 7 (8): 200 kB of gzip can take a renderer to 5.9 GB while `goto` waits.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import structlog

from penelope.errors import MediaFull, PageLost
from penelope.pages.browser.live import Live

LOOK_EVERY_S = 0.5
RENDERER_MAX = 2 * 2**30  # bytes resident; a page that works takes a tenth of it
CRASH_S = 1.0  # from the end of a renderer until its pages know

log = structlog.get_logger("penelope.browser")


@dataclass(frozen=True, slots=True)
class Limits:
    """Attributes:
    downloads: bytes that the downloads under way may have on the disk, all together; None: as many as come.
    renderer: bytes of memory that one renderer may have.
    """

    downloads: int | None = None
    renderer: int = RENDERER_MAX


async def guard(lives: Callable[[], Iterable[Live]], folder: Path, limits: Limits) -> None:
    """Look at the folder of the downloads, and at the renderers, for ever."""
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        at_work = [live for live in lives() if live.run is not None and live.usable]
        if at_work:
            await _look(at_work, folder, limits)


async def _look(at_work: list[Live], folder: Path, limits: Limits) -> None:
    loading = [live for live in at_work if live.downloads]
    if loading and limits.downloads is not None and await asyncio.to_thread(_size, folder) > limits.downloads:
        log.warning("downloads take too much; ended", pages=[live.page_id for live in loading])
        for live in loading:
            live.fail(
                MediaFull(f"the download passed the {limits.downloads // 2**20} MB of files (MEDIA_MAX_MB)")
            )
    browser = at_work[0].session.browser
    if browser is None:
        return
    for renderer, size in await asyncio.to_thread(_large, browser.pid, limits.renderer):
        log.warning("a renderer takes too much memory; ended", pid=renderer.pid, mb=size // 2**20)
        await _end(renderer, at_work, limits.renderer)


async def _end(renderer: psutil.Process, at_work: list[Live], most: int) -> None:
    """Which page it is of, nobody says before it has ended."""
    suspects = [live for live in at_work if live.suspicion is None and live.usable]
    for live in suspects:
        live.suspicion = PageLost(
            f"page {live.page_id} took more than {most // 2**20} MB of memory and was ended"
        )
    with suppress(psutil.Error):
        renderer.kill()
    await asyncio.sleep(CRASH_S)
    for live in suspects:
        live.suspicion = None


def _size(folder: Path) -> int:
    total = 0
    for file in folder.glob("*"):
        try:
            total += file.stat().st_size
        except OSError:  # it ended meanwhile
            continue
    return total


def _large(pid: int, most: int) -> list[tuple[psutil.Process, int]]:
    """The renderers of the browser that have more than `most`."""
    found = []
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
    for process in children:
        try:
            size = process.memory_info().rss
            if size > most and "--type=renderer" in process.cmdline():
                found.append((process, size))
        except psutil.Error:
            continue
    return found
