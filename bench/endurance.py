"""Jobs for an hour, half of them to receivers that are of no use: does anything grow?

python -m bench --only soak --minutes 60

The work goes on at a steady pace. From ten minutes on as many jobs are given up as begin, and nothing should grow any
more: a trend is the slope of a straight line through the second half, so that what a worker takes once is no leak.
"""

import itertools
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError

from bench import hostile, soak
from bench.numbers import Aim, Row, Section
from bench.plot import Line, draw
from bench.processes import Worker, line_of, process, site, worker

PAGES = ("main", "soak-1", "soak-2", "soak-3")
BAD = ("answers 500", hostile.NOBODY, "hangs", "resets", "redirects")
JOBS_PER_S = 2.0
SAMPLES = 120
LEAST_S = 5.0  # between two samples, which are half a second of work themselves
JUDGED_MIN = 30.0  # shorter runs are told and not judged: jobs are still piling up
LAST_POSTS_S = 15.0
ADDED = "; held against what the second half adds"
MIB = soak.MIB
WHAT = {
    **soak.WHAT,
    "wal": "the store's WAL, MiB",
    "held": "jobs held",
}
# What the second half may add, by the names of `WHAT`.
FLAT = {
    "worker": (5.0, "MB"),
    "files": (4.0, ""),
    "threads": (3.0, ""),
    "tasks": (10.0, ""),
    "wal": (4.0, "MiB"),
}


@dataclass(slots=True)
class Played:
    """What came of the jobs: begun, by whether their receiver is good; POSTs that the good one got; refused starts."""

    good: int = 0
    bad: int = 0
    arrived: int = 0
    refused: int = 0


def measure(folder: Path, *, minutes: float) -> Section:
    """The whole run: its table, and its plot."""
    folder.mkdir()
    played, samples = Played(), []
    with ExitStack() as stack:
        good, bad = _receivers(stack, folder, played)
        url = stack.enter_context(site(folder))
        one = stack.enter_context(worker(folder))
        stack.callback(one.process.kill)  # a stop would wait for the POSTs that hang
        for page in PAGES[1:]:
            one.post("/pages", {"page_id": page})
        began = time.monotonic()
        for at in _moments(minutes):
            while (now := time.monotonic()) < began + at:
                _start(one, url, good, bad, played)
                time.sleep(max(0.0, 1 / JOBS_PER_S - (time.monotonic() - now)))
            samples.append(soak.Sample("minutes", at / 60, _taken(one, folder)))
        if not (played.good and played.bad):
            raise SystemExit(
                "no jobs were begun: the machine has no time for them, or the minutes are too few"
            )
        until = time.monotonic() + LAST_POSTS_S
        while played.arrived < played.good and time.monotonic() < until:
            time.sleep(0.1)
    brief = minutes < JUDGED_MIN
    return Section(
        "soak-brief" if brief else "soak",
        f"{minutes:g} minutes of jobs, half of them to bad receivers",
        list(_rows(samples, played, minutes)),
        {"soak-brief.svg" if brief else "soak-of-jobs.svg": draw(_lines(samples))},
    )


def _receivers(stack: ExitStack, folder: Path, played: Played) -> tuple[str, Iterator[str]]:
    """The URL of the good one, and the bad ones' in turns."""
    healthy = stack.enter_context(process("-m", "bench.receiver", cwd=folder, log=folder / "receiver.log"))
    good = f"http://127.0.0.1:{line_of(healthy)}/hook"
    stack.callback(healthy.kill)

    def count() -> None:
        assert healthy.stdout is not None
        for _ in healthy.stdout:
            played.arrived += 1

    threading.Thread(target=count, daemon=True).start()
    bad = [stack.enter_context(hostile.bad(folder, kind)) for kind in BAD]
    return good, itertools.cycle(bad)


def _moments(minutes: float) -> Iterator[float]:
    """When to look, seconds from the beginning."""
    every = max(LEAST_S, minutes * 60 / SAMPLES)
    at = 0.0
    while at <= minutes * 60:
        yield at
        at += every


def _start(one: Worker, url: str, good: str, bad: Iterator[str], played: Played) -> None:
    """One job, to a good receiver and a bad one in turns; it reads a page, or does nothing."""
    number = played.good + played.bad
    to, name = (good, "good") if number % 2 == 0 else (next(bad), "bad")
    work = ("web/read", {"url": f"{url}/alice/"}) if number % 4 < 2 else ("bench/nothing", {})
    page = PAGES[number % len(PAGES)]
    try:
        one.post(f"/{page}/plugin/{work[0]}", work[1], {"X-Callback-Url": to})
    except HTTPError as error:
        if error.code != HTTPStatus.CONFLICT:  # its page is still at work, on a busy machine
            raise
        played.refused += 1
    else:
        setattr(played, name, getattr(played, name) + 1)


def _taken(one: Worker, folder: Path) -> dict[str, float]:
    wal = folder / "store" / "penelope.db-wal"
    return {
        **soak.taken(one),
        "wal": wal.stat().st_size / MIB if wal.exists() else 0.0,
        "held": float(one.get("/activity")["jobs_held"]),
    }


def added(samples: Sequence[soak.Sample], key: str) -> float:
    """What the second half added, by the straight line through it."""
    half = samples[len(samples) // 2 :]
    if len(half) < 2:
        return 0.0
    at = [float(sample.rounds) for sample in half]
    slope = statistics.linear_regression(at, [sample.taken[key] for sample in half]).slope
    return slope * (at[-1] - at[0])


def _rows(samples: Sequence[soak.Sample], played: Played, minutes: float) -> Iterator[Row]:
    for key, what in WHAT.items():
        ends = [sample.taken[key] for sample in (samples[0], samples[len(samples) // 2], samples[-1])]
        told = f"{ends[0]:,.0f} at first, {ends[1]:,.0f} half-way, {ends[2]:,.0f} at the end"
        more = added(samples, key)
        aim = None
        if minutes >= JUDGED_MIN and key in FLAT:
            aim = Aim(more, "<", FLAT[key][0], FLAT[key][1])
        most = max(sample.taken[key] for sample in samples)
        name = f"{what}{ADDED}" if aim else what
        yield Row(name, told, f"the second half added {more:+,.2f}; {most:,.0f} at most", aim)
    lost = played.good - played.arrived
    yield Row(
        "jobs to the good receiver, and POSTs that arrived there",
        f"{played.good:,} and {played.arrived:,}",
        f"{played.bad:,} more jobs to bad ones; {played.refused:,} starts met a busy page",
        Aim(float(lost), "=", 0, "lost", digits=0),
    )


def _lines(samples: Sequence[soak.Sample]) -> Iterator[Line]:
    for key, what in WHAT.items():
        points: Mapping[str, list[tuple[float, float]]] = {
            "minutes": [(sample.rounds, sample.taken[key]) for sample in samples]
        }
        yield Line(what, points)
