"""Measures everything, one after another, and prints it as Markdown.

python -m bench            three to four minutes
python -m bench --quick    under one: fewer rounds, the same measurements
python -m bench --only calls,polls
"""

import argparse
import datetime as dt
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

from bench import birth, calls, delivery, polls, starts, waker
from bench.numbers import Section
from bench.processes import client, worker
from penelope.pages.browser.find import find_browser

PACKAGES = ("trio", "quart", "quart-trio", "hypercorn", "h11", "httpx", "playwright", "pydantic", "structlog")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument(
        "--only", default="", help="comma-separated: calls, starts, polls, delivery, birth, waker"
    )
    parser.add_argument("--folder", type=Path, help="where the stores are made; default: a temporary folder")
    given = parser.parse_args()
    wanted = [name for name in given.only.split(",") if name]
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="penelope-bench-") as name:
        print(*machine(), sep="\n")
        for section in measured(Path(name), wanted, quick=given.quick):
            show(section)
        print(f"\nLoad at the end: {load()}.")


def measured(folder: Path, wanted: list[str], *, quick: bool) -> Iterator[Section]:
    """The sections; `wanted` empty: all of them."""

    def wants(name: str) -> bool:
        return not wanted or name in wanted

    few: Callable[[int, int], int] = lambda full, fast: fast if quick else full
    if wants("birth"):
        yield birth.starts(folder, rounds=few(5, 2))
        yield birth.rest(folder / "rest")
        yield birth.imports(folder, rounds=few(9, 3))
    if wants("waker"):
        yield waker.wakes(folder / "waker", rounds=few(5, 2))
        yield waker.passes(folder / "gateway", turns=few(200, 40), mib=few(2048, 256))
        yield waker.sleepers(folder / "sleepers")
    if not wanted or set(wanted) - {"birth", "waker"}:
        with ExitStack() as stack:
            one = stack.enter_context(worker(folder))
            load_client = stack.enter_context(client(folder))
            if wants("calls"):
                yield calls.measure(one, load_client, folder, turns=few(150, 30))
            if wants("polls"):
                yield polls.measure(
                    one, load_client, folder, rounds=few(5, 2), seconds=1.5 if not quick else 0.5
                )
            if wants("delivery"):
                yield delivery.measure(one, load_client, folder, jobs=few(200, 40))
            if wants("starts"):
                yield starts.measure(
                    one, load_client, folder, rounds=few(5, 2), seconds=2.0 if not quick else 0.7
                )


def show(section: Section) -> None:
    print(f"\n### {section.title}\n\n| | measured | spread | goal |\n|---|---|---|---|")
    for row in section.rows:
        print(f"| {row.what} | {row.figure} | {row.spread} | {row.goal} |", flush=True)


def machine(module: str = "bench") -> Iterator[str]:
    """What it ran on, in a few lines."""
    browser = find_browser(None, bundled=Path("/nowhere"))
    said = subprocess.run([browser, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    words = " ".join([f"python -m {module}", *sys.argv[1:]])
    yield f"`{words}`, {dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M} UTC."
    yield f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {packages}, {said}."
    yield f"{platform.system()} {platform.release()}, {os.cpu_count()} cores. Load: {load()}."


def load() -> str:
    return ", ".join(f"{value:.1f}" for value in os.getloadavg())


if __name__ == "__main__":
    main()
