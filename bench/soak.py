"""Does memory stay where it is? Calls on one page, then pages opened and closed, sampled all the while.

python -m bench.soak                       1,000 calls and 200 pages, about ten minutes
python -m bench.soak --calls 200 --pages 40
python -m bench.soak --plot soak.svg       draws what was sampled, too

It prints a Markdown table. A trend is the slope of a straight line through the second half of a phase, so that what a
worker takes once, for caches and pools, is not held for a leak.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.plot import Line, draw
from bench.processes import Worker, site, worker
from bench.telling import machine

MIB = 2**20
SAMPLES = 50  # a phase
WHAT = {
    "worker": "worker, MiB resident",
    "driver": "Playwright's driver, MiB (PSS)",
    "browser": "browser, MiB (PSS)",
    "processes": "processes of the browser",
    "files": "descriptors of the worker",
    "threads": "threads of the worker",
    "tasks": "tasks of the worker",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """What is taken, after so many rounds (or minutes) of a phase; by the names of `WHAT`."""

    phase: str
    rounds: float
    taken: dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--calls", type=int, default=1000, help="calls on one page")
    parser.add_argument("--pages", type=int, default=200, help="pages to open and close")
    parser.add_argument("--plot", type=Path, help="an SVG file to draw into")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penelope-soak-") as name:
        print(*machine("bench.soak"), sep="\n")
        folder = Path(name)
        with site(folder) as url, worker(folder) as one:
            samples = list(soaked(one, url, calls=given.calls, pages=given.pages))
    print(*table(samples), sep="\n")
    if given.plot:
        given.plot.write_text(draw(lines(samples)), "utf-8")


def soaked(one: Worker, url: str, *, calls: int, pages: int) -> Iterator[Sample]:
    """Both phases; the samples as they are taken."""
    work = (
        lambda: one.post("/main/goto", {"url": f"{url}/alice/"}),
        lambda: one.post("/main/plugin/web/read", {"url": f"{url}/alice/"}),
        lambda: one.post("/main/evaluate", {"expression": "document.links.length"}),
        lambda: one.post("/main/plugin/web/open", {"url": f"{url}/bob/"}),
        lambda: one.post("/main/screenshot", {}),
    )

    def call(n: int) -> None:
        work[n % len(work)]()

    def page(n: int) -> None:
        page_id = f"soak-{n}"
        one.post("/pages", {"page_id": page_id, "url": f"{url}/alice/"})
        one.delete(f"/{page_id}")

    yield from phase("calls", call, calls, one)
    yield from phase("pages", page, pages, one)


def phase(name: str, step: Any, rounds: int, one: Worker) -> Iterator[Sample]:
    every = max(1, rounds // SAMPLES)
    yield Sample(name, 0, taken(one))
    for n in range(1, rounds + 1):
        step(n)
        if n % every == 0:
            yield Sample(name, n, taken(one))


def taken(one: Worker) -> dict[str, float]:
    """What the worker and its browser take now."""
    time.sleep(0.05)  # what the last round closes beside is closed
    process = psutil.Process(one.process.pid)
    driver, browser, processes = 0, 0, 0
    for child in process.children(recursive=True):
        try:
            share = int(child.memory_full_info().pss)
            is_driver = child.ppid() == process.pid
        except psutil.Error:  # it ended meanwhile
            continue
        driver += share if is_driver else 0
        browser += 0 if is_driver else share
        processes += 0 if is_driver else 1
    return {
        "worker": process.memory_info().rss / MIB,
        "driver": driver / MIB,
        "browser": browser / MIB,
        "processes": processes,
        "files": process.num_fds(),
        "threads": process.num_threads(),
        "tasks": sum(map(count, one.get("/tree")["tree"])),
    }


def count(task: dict[str, Any]) -> int:
    """A task of the live tree, and all below it."""
    return 1 + sum(count(child) for nursery in task["nurseries"] for child in nursery["tasks"])


def table(samples: Sequence[Sample]) -> Iterator[str]:
    for name in dict.fromkeys(sample.phase for sample in samples):
        of_phase = [sample for sample in samples if sample.phase == name]
        yield f"\n### {of_phase[-1].rounds:,} {name}\n"
        yield "| | at first | half-way | at the end | trend of the second half, per 100 |"
        yield "|---|---|---|---|---|"
        half = of_phase[len(of_phase) // 2 :]
        for key, what in WHAT.items():
            ends = [sample.taken[key] for sample in (of_phase[0], half[0], of_phase[-1])]
            cells = " | ".join(f"{value:,.0f}" for value in ends)
            yield f"| {what} | {cells} | {trend(half, key):+,.2f} |"


def trend(samples: Sequence[Sample], key: str) -> float:
    """How much more it is after 100 rounds more."""
    if len(samples) < 2:
        return 0.0
    rounds = [float(sample.rounds) for sample in samples]
    return 100 * statistics.linear_regression(rounds, [sample.taken[key] for sample in samples]).slope


def lines(samples: Sequence[Sample]) -> Iterator[Line]:
    """One line a figure, the phases one after the other."""
    for key, what in WHAT.items():
        parts: dict[str, list[tuple[float, float]]] = {}
        for sample in samples:
            parts.setdefault(sample.phase, []).append((sample.rounds, sample.taken[key]))
        yield Line(what, parts)


if __name__ == "__main__":
    main()
