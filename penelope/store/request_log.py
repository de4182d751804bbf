"""The request log: a row when a request begins, one when it ends.

Rows are gathered and written twice a second: the log must not cost a call a sync of the disk. A crash may lose the last
half second of it; it never holds bodies or keys.

Source: contract, section 7.
"""

import sqlite3
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import structlog
import trio

from penelope.errors import StoreBusy, StoreFull
from penelope.store.database import Database

FLUSH_EVERY_S: Final = 0.5
KEEP_S: Final = 7 * 24 * 3600.0
MAX_WAITING: Final = 20_000

# Many rows by one statement: for each that it makes SQLite's thread hands Python's lock over, and waits for it.
AT_ONCE: Final = (64, 8, 1)
_LIST = """
    SELECT at, phase, kind, method, route, page_id, job_id, request_id, status, duration_s FROM requests
    WHERE (:kind IS NULL OR kind = :kind) AND (:page_id IS NULL OR page_id = :page_id) AND at >= :since
    ORDER BY id DESC LIMIT :limit
"""

log = structlog.get_logger("penelope.store")


class Entry(NamedTuple):
    """One row, in the order of its columns; two are made for each request. `at` in epoch seconds; `status` and
    `duration_s` (seconds) of an end only.
    """

    at: float
    phase: str
    kind: str
    method: str
    route: str
    page_id: str | None
    request_id: str
    job_id: str | None = None
    status: int | None = None
    duration_s: float | None = None


_ROW: Final = f"({', '.join('?' * len(Entry._fields))})"
_INSERTS: Final = {
    rows: f"INSERT INTO requests ({', '.join(Entry._fields)}) VALUES {', '.join([_ROW] * rows)}"
    for rows in AT_ONCE
}


def _insert(connection: sqlite3.Connection, entries: Sequence[Entry]) -> None:
    done = 0
    for rows in AT_ONCE:
        while len(entries) - done >= rows:
            values = [value for entry in entries[done : done + rows] for value in entry]
            connection.execute(_INSERTS[rows], values)
            done += rows


class RequestLog:
    """The table `requests`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[Entry] = deque()
        self._lost = 0
        self._flushing = trio.Lock()

    def add(self, entry: Entry) -> None:
        """Note a row; immediate."""
        if len(self._waiting) >= MAX_WAITING:  # the disk takes nothing for a long time
            self._waiting.popleft()
            self._lost += 1
        self._waiting.append(entry)

    async def run(self) -> None:
        """Write what was noted, twice a second, for ever; and what is left when cancelled."""
        try:
            while True:
                await trio.sleep(FLUSH_EVERY_S)
                await self.flush()
        finally:
            with trio.move_on_after(5, shield=True):
                await self.flush()

    async def flush(self) -> None:
        """Write what was noted; rows that the disk refuses wait for the next time."""
        async with self._flushing:  # the loop and a reader at once would write the same rows twice
            if not self._waiting:
                return
            noted, self._waiting = list(self._waiting), deque()
            try:
                await self._database.write(lambda connection: _insert(connection, noted))
            except (StoreBusy, StoreFull):
                self._waiting.extendleft(reversed(noted))
                return
        if self._lost:
            log.warning("request log rows lost: the store took none for too long", rows=self._lost)
            self._lost = 0

    async def newest(
        self, *, kind: str | None, page_id: str | None, since: float, limit: int
    ) -> list[dict[str, Any]]:
        """Rows from `since` (epoch seconds) on, newest first."""
        await self.flush()
        where = {"kind": kind, "page_id": page_id, "since": since, "limit": limit}
        return await self._database.read(
            lambda connection: [dict(row) for row in connection.execute(_LIST, where)]
        )

    async def prune(self, now: float) -> None:
        """Drop rows older than 7 days."""

        def prune(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM requests WHERE at < :before", {"before": now - KEEP_S})

        await self._database.write(prune)
