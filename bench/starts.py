"""Durable starts of jobs: sixteen clients on as many pages, against SQLite's own commit on the same disk.

A client starts a job that does nothing, waits for its end, rests, and starts the next. Without a rest the starts are as
slow as sixteen clients that never pause make a server of one core: both are told.
"""

import math
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from bench.numbers import Aim, Row, Section, median, middle_half, percentile
from bench.processes import Client, Worker, worker

CLIENTS = 16
REST_S = 0.25
GOAL_MS = 5.0
_TABLE = """
    CREATE TABLE jobs (job_id TEXT PRIMARY KEY, page_id TEXT, plugin TEXT, request_id TEXT, state TEXT, at REAL) STRICT
"""
_INSERT = "INSERT INTO jobs VALUES (?, 'main', 'bench/nothing', '0123456789abcdef', 'running', 1.0)"


def measure(folder: Path, client: Client, *, rounds: int, seconds: float) -> Section:
    """Commits, starts with a rest, starts without, in rounds."""
    folder.mkdir()
    commits: list[float] = []
    rested: list[float] = []
    pressed: list[float] = []
    pages = ["main", *(f"page-{number}" for number in range(1, CLIENTS))]
    with worker(folder, MAX_PAGES=str(CLIENTS)) as one:
        for page in pages[1:]:
            one.post("/pages", {"page_id": page})
        for number in range(rounds + 1):  # the first warms up
            found = (
                bare_commits(folder / f"commits-{number}.db", seconds / 3),
                _starts(one, client, pages, REST_S, seconds),
                _starts(one, client, pages, 0.0, seconds),
            )
            if number:
                for sample, values in zip((commits, rested, pressed), found, strict=True):
                    sample.extend(values)
    rest = f"{REST_S * 1000:.0f} ms on average"
    resting = f"{CLIENTS} clients on {CLIENTS} pages, each at rest for {rest} after its last job's end"
    rows = (
        Row("a bare SQLite commit, WAL, `synchronous=FULL`", *_told(commits)),
        Row(f"from a start's request to its `202`: {resting}", *_told(rested), _aim(rested)),
        Row("the same, each at once after its last job's end", *_told(pressed), _aim(pressed)),
        Row("rested starts ÷ bare commits, medians", f"{_median(rested) / median(commits):.1f}×"),
    )
    return Section("starts", "Durable starts of jobs", rows)


def _starts(one: Worker, client: Client, pages: Sequence[str], rest: float, seconds: float) -> list[float]:
    order = {"pages": list(pages), "rest": rest}
    found: list[float] = client.order(one.port, one.key, starts=order, seconds=seconds)["asked_ms"]
    return found


def _told(values: Sequence[float]) -> tuple[str, str]:
    if not values:
        return "none in time", ""
    low, high = middle_half(values)
    figure = f"p50 {median(values):.2f} ms, p99 {percentile(values, 99):.2f} ms"
    return figure, f"middle half {low:.2f} to {high:.2f}, n = {len(values):,}"


def _aim(values: Sequence[float]) -> Aim:
    return Aim(_median(values), "<", GOAL_MS, "ms")


def _median(values: Sequence[float]) -> float:
    return median(values) if values else math.nan


def bare_commits(path: Path, seconds: float) -> list[float]:
    """Milliseconds that this disk takes for a row, each in a durable transaction of its own."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(_TABLE)
    taken: list[float] = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_INSERT, (f"{len(taken):016x}",))
        connection.execute("COMMIT")
        taken.append((time.perf_counter() - began) * 1000)
    connection.close()
    return taken
