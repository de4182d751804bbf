"""What the waker reads of a worker's store, whether that runs or not: read only, and nothing in it is changed.

Blocking functions. With a driver whose stores are elsewhere there is nothing to read here.

Source: contract, section 9 (`GET /personas/{name}/workload`); section 5 ("never zero times for want of a record").
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from penelope.waker.workload import CALLS, JOBS, STARTED, Work

BUSY_TIMEOUT_S: Final = 5.0

_ENDS: Final = """
    SELECT kind, status, at, duration_s FROM requests WHERE phase = 'end' AND at >= :since ORDER BY id
"""
_WEBHOOKS: Final = """
    SELECT EXISTS (SELECT 1 FROM jobs WHERE callback IS NOT NULL AND (forget_at IS NULL OR forget_at > :now))
"""
_RUNS: Final = "SELECT EXISTS (SELECT 1 FROM runs WHERE completed_at IS NULL)"
_HAS_RUNS: Final = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'runs')"  # not in an older store


def works(store: Path, since: float) -> list[Work]:
    """The work that ended since then, epoch seconds; empty where there is no store yet.

    Raises:
        sqlite3.Error: the store cannot be read.
    """
    with _reading(store) as connection:
        rows = [] if connection is None else connection.execute(_ENDS, {"since": since}).fetchall()
    return [
        Work(is_job=kind in JOBS, began=at - duration, ended=at)
        for kind, status, at, duration in rows
        if kind in JOBS or (kind in CALLS and status != STARTED)
    ]


def is_owing(store: Path, now: float) -> bool | None:
    """Are there webhooks to settle, or runs in the queue, which only a running worker can? None: nobody can tell."""
    try:
        with _reading(store) as connection:
            if connection is None:
                return None
            return _is(connection, _WEBHOOKS, now) or (
                _is(connection, _HAS_RUNS, now) and _is(connection, _RUNS, now)
            )
    except sqlite3.Error:
        return None


def _is(connection: sqlite3.Connection, question: str, now: float) -> bool:
    return bool(connection.execute(question, {"now": now}).fetchone()[0])


@contextmanager
def _reading(store: Path) -> Iterator[sqlite3.Connection | None]:
    path = store / "penelope.db"
    if not os.path.exists(path):  # noqa: PTH110  # which says no where a path's own raises: nobody may look there
        yield None
        return
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S)) as connection:
        yield connection
