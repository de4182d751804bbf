"""The request log on a real store: each row once, whoever reads or leaves meanwhile, kept while the disk refuses."""

import sqlite3
from contextlib import closing
from pathlib import Path

import trio

from penelope.store.database import Database
from penelope.store.request_log import Entry, RequestLog


def entry(number: int) -> Entry:
    return Entry(
        at=float(number),
        phase="begin",
        kind="op",
        method="GET",
        route="/",
        page_id=None,
        request_id=str(number),
    )


async def rows(log: RequestLog) -> list[str]:
    found = await log.newest(kind=None, page_id=None, since=0.0, limit=1000)
    return [row["request_id"] for row in found]


async def test_each_row_is_written_once_though_readers_come_at_once(database: Database) -> None:
    """A reader writes what was noted before it reads, and may meet the loop that does the same."""
    log = RequestLog(database)
    for number in range(20):
        log.add(entry(number))
    async with trio.open_nursery() as reading:
        for _ in range(5):
            reading.start_soon(log.flush)
    log.add(entry(20))
    assert [str(number) for number in range(20, -1, -1)] == await rows(log)


async def test_a_reader_that_leaves_neither_loses_nor_doubles_rows(database: Database) -> None:
    log = RequestLog(database)
    log.add(entry(1))
    async with trio.open_nursery() as reading:
        reading.start_soon(rows, log)
        await trio.testing.wait_all_tasks_blocked()
        reading.cancel_scope.cancel()
    assert ["1"] == await rows(log)


async def test_rows_that_the_store_refuses_wait(database: Database, tmp_path: Path) -> None:
    await database.write(lambda connection: connection.execute("PRAGMA busy_timeout = 50"))
    log = RequestLog(database)
    log.add(entry(1))
    with closing(sqlite3.connect(tmp_path / "penelope.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        await log.flush()
        log.add(entry(2))
    assert ["2", "1"] == await rows(log)


async def test_what_was_noted_last_is_written_at_the_stop(database: Database) -> None:
    log = RequestLog(database)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.run)
        await trio.testing.wait_all_tasks_blocked()
        log.add(entry(1))
        nursery.cancel_scope.cancel()
    assert ["1"] == await rows(log)
