"""Playwright alone: as many pages as callers, no HTTP, one process. The floor under everybody who serves pages.

    python -m bench.peers.script CHROMIUM

says `ready`, then carries out an order a line, as `bench.scripts.asks`.
"""

import asyncio
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Error, Page, async_playwright

from bench.peers import installing
from bench.peers.here import Way, turned
from bench.processes import line_of, process, tell
from bench.scripts import Tally

NAME = "Playwright, no HTTP"


@contextmanager
def serve(folder: Path, titles: Sequence[Mapping[str, str]]) -> Iterator[Way]:
    """The floor, in a process of its own."""
    words = ("-m", "bench.peers.script", str(installing.chromium()))
    with process(*words, cwd=folder, log=folder / "script.log") as running:
        line_of(running)
        turns = itertools.count()

        def play(what: str, count: int, seconds: float) -> dict[str, Any]:
            turn = next(turns)
            order = {
                "what": what,
                "titles": [turned(each, turn) for each in titles[:count]],
                "seconds": seconds,
            }
            found: dict[str, Any] = json.loads(tell(running, json.dumps(order)))
            return found

        yield Way(NAME, play)
        running.communicate("\n")  # it closes its browser


async def _serve(browser: str) -> None:
    with tempfile.TemporaryDirectory() as profile:
        async with async_playwright() as playwright:
            context = await playwright.chromium.launch_persistent_context(profile, executable_path=browser)
            pages = list(context.pages)
            print("ready", flush=True)
            while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
                order = json.loads(line)
                while len(pages) < len(order["titles"]):
                    pages.append(await context.new_page())
                print(json.dumps(await _obey(pages, order)), flush=True)
            await context.close()


async def _obey(pages: Sequence[Page], order: Mapping[str, Any]) -> dict[str, Any]:
    tally, began = Tally(), time.perf_counter()
    until = began + order["seconds"]
    async with asyncio.TaskGroup() as group:
        for number, titles in enumerate(order["titles"]):
            group.create_task(_ask(pages[number], order["what"], list(titles.items()), until, tally))
    return {
        "seconds": time.perf_counter() - began,
        "count": len(tally.ms),
        "asked_ms": tally.ms,
        "errors": tally.errors,
        "mixed": tally.mixed,
        "first_error": tally.first_error,
    }


async def _ask(page: Page, what: str, titles: Sequence[tuple[str, str]], until: float, tally: Tally) -> None:
    number = 0
    while (began := time.perf_counter()) < until:
        url, wanted = titles[number % len(titles)]
        try:
            if what == "open":
                await page.goto(url)
                found = await page.title()
            else:
                wanted = f"c {number + 1}"
                found = await page.evaluate(f'"c " + ({number} + 1)')
        except Error as error:
            tally.errors += 1
            tally.first_error = tally.first_error or str(error)
        else:
            tally.ms.append((time.perf_counter() - began) * 1000)
            if found != wanted:
                tally.mixed += 1
                tally.first_error = tally.first_error or f"{found!r} instead of {wanted!r}"
        number += 1


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
