"""The ledger: a row for each POST that was made, kept for 7 days.

It is written in the transaction that records the attempt, so that neither is there without the other.

Source: contract, section 11 ("Ledger").
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from penelope.store.database import Database

KEEP_S: Final = 7 * 24 * 3600.0

# An attempt that is written twice, since nobody knows whether it was, is one row.
_INSERT: Final = """
    INSERT INTO deliveries
        (at, job_id, request_id, attempt, host, port, address, status, error_class, error, verdict, took_s)
    VALUES
        (:at, :job_id, :request_id, :attempt, :host, :port, :address, :status, :error_class, :error, :verdict, :took_s)
    ON CONFLICT (job_id, attempt, at) DO NOTHING
"""
_LIST: Final = """
    SELECT id, at, job_id, request_id, attempt, host, port, address, status, error_class, error, verdict, took_s
    FROM deliveries WHERE {} ORDER BY id DESC LIMIT :limit
"""
_WHERE: Final = {
    "job_id": "job_id = :job_id",
    "host": "host = :host",
    "verdict": "verdict = :verdict",
    "error_class": "error_class = :error_class",
    "since": "at >= :since",
    "before": "id < :before",
}
_PRUNE: Final = "DELETE FROM deliveries WHERE at < :before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row. No body, no result, no path or password of the URL.

    Attributes:
        at: when the POST began, epoch seconds; `took_s` seconds.
        attempt: its number, 1 to 4.
        host: of the URL: a name or an address; `port` is None where the URL could not be read.
        address: that was dialled; None: none was.
        status: that was answered; None: none was.
        error_class: one of `answers.CLASSES`, `error` the same in words; both None: delivered.
        verdict: `schedule.Verdict`'s word.
    """

    at: float
    job_id: str
    request_id: str
    attempt: int
    host: str
    port: int | None
    address: str | None
    status: int | None
    error_class: str | None
    error: str | None
    verdict: str
    took_s: float


def insert(connection: sqlite3.Connection, entries: Iterable[Entry]) -> None:
    """Write rows, as a part of the caller's transaction."""
    connection.executemany(_INSERT, map(asdict, entries))


class Ledger:
    """The table `deliveries`, to read and to prune."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def newest(
        self,
        *,
        job_id: str | None = None,
        host: str | None = None,
        verdict: str | None = None,
        error_class: str | None = None,
        since: float | None = None,
        before: int | None = None,
        limit: int,
    ) -> list[tuple[int, Entry]]:
        """Rows with their ids, newest first. None: of all.

        Args:
            since: epoch seconds.
            before: only rows that were written before the one with this id.
        """
        where = {
            "job_id": job_id,
            "host": host,
            "verdict": verdict,
            "error_class": error_class,
            "since": since,
            "before": before,
            "limit": limit,
        }

        # Only what is asked for stands in the statement: an index is of no use beside `:x IS NULL OR …`.
        conditions = [text for name, text in _WHERE.items() if where[name] is not None]
        statement = _LIST.format(" AND ".join(conditions) or "true")

        def newest(connection: sqlite3.Connection) -> list[tuple[int, Entry]]:
            rows: list[dict[str, Any]] = [dict(row) for row in connection.execute(statement, where)]
            return [(int(row.pop("id")), Entry(**row)) for row in rows]

        return await self._database.read(newest)

    async def prune(self, now: float) -> None:
        """Drop rows older than 7 days."""
        await self._database.write(lambda connection: connection.execute(_PRUNE, {"before": now - KEEP_S}))
