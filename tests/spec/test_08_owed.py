"""Section 8: a page whose last job's end the store has not taken yet, and a call that the store fails."""

import sqlite3

import pytest
import trio

from penelope.store import database
from tests.spec.world import Life, World, live


def fill_disk(life: Life) -> None:
    """A real `SQLITE_FULL`: the file may not grow."""
    writer = life.database._writer
    (pages,) = writer.execute("PRAGMA page_count").fetchone()
    writer.execute(f"PRAGMA max_page_count = {pages}")


def free_disk(life: Life) -> None:
    life.database._writer.execute(f"PRAGMA max_page_count = {2**30}")


async def test_the_next_start_on_such_a_page(life: Life) -> None:
    """A start answers `507` while the disk is full, since the page is idle; once there is room it starts at once."""
    first = await life.start("late", ttl=600, seconds=5)
    fill_disk(life)
    await trio.sleep(6)
    assert 1 == life.supervisor.ends.owed
    for _ in range(2):
        answer = await life.ask("work")
        assert 507 == answer.status_code
    assert [] == life.page.seen
    free_disk(life)
    second = await life.start("work", ttl=600)
    assert 0 == life.supervisor.ends.owed
    await trio.sleep(2)
    assert ["done", "done"] == [(await life.shown(job))["state"] for job in (first, second)]


async def test_a_call_that_the_store_fails_says_whose_fault_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failures that are not the plugin's own word carry `kind`; one before the call began has none to tell."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)  # real seconds, in SQLite itself
    async with live(world) as life:
        other = sqlite3.connect(world.store / "penelope.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        failed = await life.call("file")
        assert (503, "worker") == (failed.status_code, failed.json()["kind"])
        refused = await life.ask("work")
        assert 503 == refused.status_code
        assert "kind" not in refused.json()
        other.execute("ROLLBACK")
        other.close()
        assert 200 == (await life.call("file")).status_code
