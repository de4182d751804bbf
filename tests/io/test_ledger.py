"""The ledger's table, in a real store."""

import secrets
from dataclasses import replace

import pytest
import trio

from penelope.clock import Clock
from penelope.jobs.ends import JobEnds
from penelope.jobs.ledger import KEEP_S, Entry, Ledger
from penelope.jobs.store import JobStore
from penelope.store.database import Database
from tests.io.jobs_made import ended, stored


@pytest.fixture
def ledger(database: Database) -> Ledger:
    return Ledger(database)


def entry(**changed: object) -> Entry:
    fields: dict[str, object] = {
        "at": 1000.0,
        "job_id": secrets.token_hex(8),
        "request_id": "request",
        "attempt": 1,
        "host": "receiver.lan",
        "port": 443,
        "address": "192.0.2.7",
        "status": 503,
        "error_class": "http_5xx",
        "error": "answered 503",
        "verdict": "retry",
        "took_s": 0.1,
    }
    return Entry(**(fields | changed))  # type: ignore[arg-type]


async def test_a_row_comes_back_as_it_was(database: Database, ledger: Ledger) -> None:
    """Also one of which little is known."""
    store = JobStore(database)
    job = await stored(store, ended("http://receiver.lan/"))
    rows = [
        entry(job_id=job.job_id),
        entry(
            job_id=job.job_id,
            attempt=2,
            port=None,
            address=None,
            status=None,
            error_class=None,
            error=None,
            verdict="delivered",
        ),
    ]
    await store.settle(job.job_id, 1001.0, delivered=True, posts=rows)
    assert rows[::-1] == [row for _, row in await ledger.newest(limit=10)]
    assert await store.get(job.job_id) is None


async def test_a_row_that_is_written_twice_is_one(database: Database, ledger: Ledger) -> None:
    """A write that was cut off is made again, since nobody knows whether it was."""
    store = JobStore(database)
    job = await stored(store, ended("http://receiver.lan/"))
    after = replace(job, attempts=1, last_at=job.ended_at, error="answered 503")
    row = entry(job_id=job.job_id)
    ends = JobEnds(store, Clock())
    with trio.CancelScope() as scope:
        scope.cancel()
        await ends.attempted(after, row)  # the store writes it all the same
    assert 1 == ends.owed
    assert [row] == [found for _, found in await ledger.newest(limit=10)]
    await ends.flush()

    assert 0 == ends.owed
    assert [row] == [found for _, found in await ledger.newest(limit=10)]


async def test_nothing_of_a_transaction_that_fails_is_kept(database: Database, ledger: Ledger) -> None:
    """Neither the row without the attempt, nor the attempt without its row."""
    store = JobStore(database)
    job = await stored(store, ended("http://receiver.lan/"))
    after = replace(job, attempts=1, last_at=job.ended_at, error="answered 503")
    with pytest.raises(Exception, match="CHECK constraint failed"):
        await store.save(after, [entry(job_id=job.job_id), entry(job_id=job.job_id, attempt=0)])
    assert [] == await ledger.newest(limit=10)
    found = await store.get(job.job_id)
    assert found is not None
    assert 0 == found.attempts


async def test_what_is_older_than_a_week_goes(database: Database, ledger: Ledger) -> None:
    store = JobStore(database)
    rows = [entry(at=at) for at in (1000.0, 2000.0)]
    await store.settle("0" * 16, 0.0, delivered=True, posts=rows)
    await ledger.prune(1500.0 + KEEP_S)
    assert rows[1:] == [row for _, row in await ledger.newest(limit=10)]
