"""Durable starts: jobs of a plugin that does nothing, against bare commits of SQLite on the same disk.

A job is two commits, its start and its end; the client also polls it once or more before it starts the next.
"""

import sqlite3
import time
from pathlib import Path

from bench.numbers import Row, Section, rate, ratio, spread_rate
from bench.processes import MAX_PAGES, Client, Worker

_TABLE = """
    CREATE TABLE jobs (job_id TEXT PRIMARY KEY, page_id TEXT, plugin TEXT, request_id TEXT, state TEXT, at REAL) STRICT
"""
_INSERT = "INSERT INTO jobs VALUES (?, 'main', 'bench/nothing', '0123456789abcdef', 'running', 1.0)"


def measure(worker: Worker, client: Client, folder: Path, *, rounds: int, seconds: float) -> Section:
    """Commits, one page, all pages, in rounds."""
    pages = ["main", *(f"page-{number}" for number in range(1, MAX_PAGES))]
    for page in pages[1:]:
        worker.post("/pages", {"page_id": page})
    commits: list[float] = []
    one: list[float] = []
    many: list[float] = []
    for number in range(rounds + 1):  # the first warms up
        found = (
            bare_commits(folder / f"commits-{number}.db", seconds),
            _starts(worker, client, pages[:1], seconds),
            _starts(worker, client, pages, seconds),
        )
        if number:
            for sample, value in zip((commits, one, many), found, strict=True):
                sample.append(value)
    rows = (
        Row("bare SQLite commits, WAL, `synchronous=FULL`", rate(commits), spread_rate(commits)),
        Row("starts on one page, each after the last has ended", rate(one), spread_rate(one)),
        Row(f"starts on {MAX_PAGES} pages", rate(many), spread_rate(many)),
        Row("starts on one page ÷ bare commits", ratio(one, commits)),
        Row(f"starts on {MAX_PAGES} pages ÷ bare commits", ratio(many, commits)),
    )
    return Section("Durable starts of jobs", rows)


def _starts(worker: Worker, client: Client, pages: list[str], seconds: float) -> float:
    found = client.order(worker.port, worker.key, pages=pages, seconds=seconds)
    return float(found["count"] / found["seconds"])


def bare_commits(path: Path, seconds: float) -> float:
    """Rows a second that this disk takes, each in a durable transaction of its own."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(_TABLE)
    done = 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_INSERT, (f"{done:016x}",))
        connection.execute("COMMIT")
        done += 1
    took = time.perf_counter() - began
    connection.close()
    return done / took
