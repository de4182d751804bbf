"""The database on a real file, in real threads: durable, shared commits, refusals of the disk and of others."""

import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest
import trio
from structlog.testing import capture_logs

from penelope.errors import StoreBusy, StoreFull, StoreUnusable
from penelope.store import opening
from penelope.store.database import Database, open_database, own_thread, thread_runner
from penelope.store.persona import PersonaStore


def kept(path: Path) -> dict[str, str]:
    """What another program reads: name and value of each row that is committed."""
    connection = sqlite3.connect(path)
    try:
        return dict(connection.execute("SELECT name, value FROM persona"))
    finally:
        connection.close()


async def keep(database: Database, name: str, value: str = "x") -> None:
    await PersonaStore(database).save(name, value, 1.0)


async def hold_up(database: Database, nursery: trio.Nursery) -> None:
    """Let a commit be under way that takes 0.2 s, so that whatever is asked for now waits for the next."""
    begun = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def slow(_: sqlite3.Connection) -> None:
        token.run_sync_soon(begun.set)
        time.sleep(0.2)

    nursery.start_soon(database.write, slow)
    await begun.wait()


async def test_commit_is_seen_by_another_connection_once_write_returns(
    database: Database, tmp_path: Path
) -> None:
    await keep(database, "a", "1")
    assert {"a": "1"} == kept(tmp_path / "penelope.db")


async def test_commits_are_synced_and_in_wal(database: Database, tmp_path: Path) -> None:
    def modes(connection: sqlite3.Connection) -> tuple[str, int]:
        (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
        (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
        return journal, synchronous

    assert ("wal", 2) == await database.write(modes)


async def test_commits_survive_kill_9(tmp_path: Path) -> None:
    """Whatever `write` returned for is there when the process is killed in that moment."""
    program = f"""
import os, pathlib, signal, trio
from penelope.store.database import open_database
from penelope.store.persona import PersonaStore
async def main():
    async with open_database(pathlib.Path({str(tmp_path / "penelope.db")!r})) as database:
        for number in range(50):
            await PersonaStore(database).save(str(number), "x", 1.0)
        os.kill(os.getpid(), signal.SIGKILL)
trio.run(main)
"""
    done = await trio.run_process([sys.executable, "-c", program], check=False, cwd=Path.cwd())
    assert -9 == done.returncode
    assert {str(number) for number in range(50)} == set(kept(tmp_path / "penelope.db"))


async def test_writes_that_wait_together_commit_together(
    database: Database, tmp_path: Path, nursery: trio.Nursery
) -> None:
    await hold_up(database, nursery)
    before = database.commits
    async with trio.open_nursery() as writing:
        for number in range(100):
            writing.start_soon(keep, database, str(number))
    assert 2 == database.commits - before  # the slow one, and one for all
    assert 100 == len(kept(tmp_path / "penelope.db"))


async def test_a_failing_transaction_leaves_its_neighbours_theirs(
    database: Database, tmp_path: Path, nursery: trio.Nursery
) -> None:
    """It has to undo its own part only, what it wrote before it failed included."""

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO persona VALUES ('half', 'x', 1)")
        connection.execute("INSERT INTO persona VALUES ('half', NULL, 1)")

    async def write_badly() -> None:
        with pytest.raises(sqlite3.IntegrityError):
            await database.write(fail)

    await hold_up(database, nursery)
    before = database.commits
    async with trio.open_nursery() as writing:
        writing.start_soon(keep, database, "left")
        writing.start_soon(write_badly)
        writing.start_soon(keep, database, "right")
    assert 2 == database.commits - before
    assert {"left", "right"} == set(kept(tmp_path / "penelope.db"))
    assert database.refusal is None


async def test_a_failing_transaction_alone_writes_nothing(database: Database, tmp_path: Path) -> None:
    class Refused(Exception):
        pass

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO persona VALUES ('half', 'x', 1)")
        raise Refused

    with pytest.raises(Refused):
        await database.write(fail)
    assert {} == kept(tmp_path / "penelope.db")
    await keep(database, "later")
    assert {"later"} == set(kept(tmp_path / "penelope.db"))


async def test_cancelling_a_waiting_writer_never_loses_its_write(
    database: Database, tmp_path: Path, nursery: trio.Nursery
) -> None:
    await hold_up(database, nursery)
    with trio.CancelScope() as scope:
        scope.cancel()
        await keep(database, "asked for")
    assert scope.cancelled_caught
    assert {"asked for"} == set(kept(tmp_path / "penelope.db"))


async def test_leaving_writes_what_still_waits(tmp_path: Path) -> None:
    path = tmp_path / "penelope.db"
    with trio.CancelScope() as scope:
        async with open_database(path) as database, trio.open_nursery() as writing:
            await hold_up(database, writing)
            for number in range(20):
                writing.start_soon(keep, database, str(number))
            await trio.testing.wait_all_tasks_blocked(0.01)
            scope.cancel()
    assert 20 == len(kept(path))


async def test_readers_go_on_while_a_write_takes_its_time(database: Database, nursery: trio.Nursery) -> None:
    await keep(database, "a", "1")
    await hold_up(database, nursery)
    with trio.fail_after(0.15):
        assert "1" == await PersonaStore(database).load("a")


async def test_a_reader_cannot_write(database: Database) -> None:
    with pytest.raises(StoreFull, match="readonly"):
        await database.read(lambda connection: connection.execute("DELETE FROM persona"))


async def test_locked_from_outside_is_busy_in_bounded_time(database: Database, tmp_path: Path) -> None:
    """J100: nothing is written, the loop is free meanwhile, and all is well once the other lets go."""
    await database.write(lambda connection: connection.execute("PRAGMA busy_timeout = 300"))
    other = sqlite3.connect(tmp_path / "penelope.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await trio.sleep(0.01)
            ticks += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        began = trio.current_time()
        with pytest.raises(StoreBusy, match="locked by another program") as refused:
            await keep(database, "a")
        took = trio.current_time() - began
        nursery.cancel_scope.cancel()
    other.close()

    assert 503 == refused.value.status
    assert "Retry-After" in refused.value.headers
    assert 0.25 < took < 2
    assert ticks > 10
    assert "locked" in str(database.refusal)
    await keep(database, "b")
    assert "None" == str(database.refusal)
    assert {"b"} == set(kept(tmp_path / "penelope.db"))


async def test_locked_for_less_than_the_patience_is_only_a_wait(
    database: Database, tmp_path: Path, nursery: trio.Nursery
) -> None:
    """J100, 5 s of patience: a lock of half a second refuses nobody."""
    other = sqlite3.connect(tmp_path / "penelope.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")

    async def let_go() -> None:
        await trio.sleep(0.5)
        other.close()

    nursery.start_soon(let_go)
    await keep(database, "a")
    assert {"a"} == set(kept(tmp_path / "penelope.db"))


async def test_a_machine_without_a_thread_to_give_is_busy_and_is_well_again(tmp_path: Path) -> None:
    """Whoever asks hears of it, and nobody waits for ever, the worker's end least of all."""
    asked = 0

    async def run(function: Callable[[], Any], /) -> Any:
        nonlocal asked
        asked += 1
        if asked in (2, 3):
            await trio.lowlevel.checkpoint()
            raise RuntimeError("can't start new thread")
        return await own_thread(function)

    with trio.fail_after(10):
        async with open_database(tmp_path / "penelope.db", run) as database:
            for _ in range(2):
                with pytest.raises(StoreBusy, match="can't start new thread"):
                    await keep(database, "lost")
            await keep(database, "kept")
    assert ["kept"] == list(kept(tmp_path / "penelope.db"))


async def test_no_transaction_begins_as_a_read(database: Database, tmp_path: Path) -> None:
    """J101: one that reads, then writes, cannot fail because another wrote in between: it has the lock."""

    def read_then_write(connection: sqlite3.Connection) -> str:
        connection.execute("SELECT count(*) FROM persona").fetchone()
        with (
            closing(sqlite3.connect(tmp_path / "penelope.db", isolation_level=None, timeout=0)) as other,
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            other.execute("INSERT INTO persona VALUES ('other', 'x', 1)")
        connection.execute("INSERT INTO persona VALUES ('ours', 'x', 1)")
        return "done"

    assert "done" == await database.write(read_then_write)
    assert {"ours"} == set(kept(tmp_path / "penelope.db"))


async def test_a_full_database_refuses_and_keeps_what_it_has(database: Database, tmp_path: Path) -> None:
    await keep(database, "first")
    await database.write(
        lambda c: c.execute(f"PRAGMA max_page_count = {c.execute('PRAGMA page_count').fetchone()[0] + 1}")
    )
    with pytest.raises(StoreFull, match="could not be written") as refused:
        await keep(database, "large", "x" * 100_000)
    assert 507 == refused.value.status
    await database.write(lambda connection: connection.execute("PRAGMA max_page_count = 1000000"))
    await keep(database, "large", "x" * 100_000)
    assert {"first", "large"} == set(kept(tmp_path / "penelope.db"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("needs the right to mount a small file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(ballast: Path) -> None:
    """Take all space that is left."""
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


def names(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


async def test_a_full_disk_refuses_and_is_well_again_with_space(small_disk: Path) -> None:
    """J17, on a file system that is really full."""
    path = small_disk / "penelope.db"
    async with open_database(path) as database:
        await keep(database, "first")
        ballast = small_disk / "ballast"
        fill(ballast)
        with pytest.raises(StoreFull):
            await keep(database, "large", "x" * 100_000)
        assert "x" == await PersonaStore(database).load("first")
        assert "could not be written" in str(database.refusal)
        ballast.unlink()
        await keep(database, "large", "x" * 100_000)
        assert "None" == str(database.refusal)
    assert {"first", "large"} == set(kept(path))


async def test_a_reader_that_does_not_let_go_is_warned_of_and_writes_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J99: the WAL grows as long as somebody holds a snapshot, and shrinks when nobody does."""
    monkeypatch.setattr("penelope.store.database.WAL_LARGE_BYTES", 8 * 2**20)
    monkeypatch.setattr("penelope.store.database.WAL_LOOK_EVERY_S", 0.0)
    wal = tmp_path / "penelope.db-wal"

    async def load(database: Database, writes: int) -> None:
        for _ in range(writes):
            await database.write(
                lambda c: c.execute(
                    "INSERT OR REPLACE INTO persona VALUES ('load', printf('%1048576d', 1), 0)"
                )
            )

    async with open_database(tmp_path / "penelope.db") as database:
        with capture_logs() as logs, closing(sqlite3.connect(tmp_path / "penelope.db")) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM jobs").fetchone()
            await load(database, 90)
            assert wal.stat().st_size > 80 * 2**20, "else the test tests nothing"
            reader.execute("COMMIT")
        warnings = [line for line in logs if "WAL" in line["event"]]
        assert 1 == len(warnings), "once a minute"
        assert warnings[0]["mb"] >= 8
        await load(database, 12)
        assert wal.stat().st_size <= 64 * 2**20
        assert database.refusal is None


async def test_closing_checkpoints(tmp_path: Path) -> None:
    """All is in the one file afterwards."""
    path = tmp_path / "penelope.db"
    async with open_database(path) as database:
        await keep(database, "a")
        assert path.with_name("penelope.db-wal").stat().st_size > 0
    assert ["penelope.db"] == names(tmp_path)
    assert {"a"} == set(kept(path))


async def test_a_closed_database_takes_no_write(tmp_path: Path) -> None:
    async with open_database(tmp_path / "penelope.db") as database:
        pass
    with pytest.raises(StoreBusy, match="closed"):
        await keep(database, "late")


def handles(path: Path) -> list[str]:
    """The descriptors of this process that name the file."""
    links = [file.readlink() for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
    return [str(link) for link in links if re.match(re.escape(str(path)), str(link))]


async def test_cancelled_at_its_start_it_leaves_nothing_open(tmp_path: Path) -> None:
    """In the middle of its opening: what the thread has opened by then is closed again."""
    path = tmp_path / "penelope.db"
    held: list[object] = []
    threads = thread_runner(3)

    async def run(function):  # type: ignore[no-untyped-def]
        token = trio.lowlevel.current_trio_token()

        def cancel_half_way() -> object:
            result = function()
            token.run_sync_soon(scope.cancel)
            return result

        held.append(
            await threads(cancel_half_way)
        )  # keeps a connection from being closed by the garbage collector
        return held[-1]

    with trio.CancelScope() as scope:
        async with open_database(path, run):
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert held
    assert [] == handles(path)


async def test_one_that_cannot_be_opened_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer is open already when a reader fails."""
    path = tmp_path / "penelope.db"

    def refuse(*_: object) -> NoReturn:
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(opening, "_open_reader", refuse)
    with pytest.raises(StoreUnusable) as refused:
        async with open_database(path):
            raise AssertionError("it opened")
    assert refused.value.__cause__ is not None
    assert [] == handles(path)


async def test_cancelled_at_its_stop_it_still_writes_and_closes(tmp_path: Path) -> None:
    path = tmp_path / "penelope.db"
    with trio.CancelScope() as scope:
        async with open_database(path) as database:
            await keep(database, "a")
            scope.cancel()
    assert {"a"} == set(kept(path))
    assert [] == handles(path)
    assert not path.with_name("penelope.db-wal").exists()


async def test_what_the_disk_refuses_takes_no_neighbour_with_it(
    database: Database, tmp_path: Path, nursery: trio.Nursery
) -> None:
    """A result that is too large for the disk shares its commit with a small record, which is kept."""
    await database.write(
        lambda c: c.execute(f"PRAGMA max_page_count = {c.execute('PRAGMA page_count').fetchone()[0] + 2}")
    )

    async def write_too_much() -> None:
        with pytest.raises(StoreFull):
            await database.write(
                lambda c: c.execute("INSERT INTO persona VALUES ('large', ?, 1)", ("x" * 1_000_000,))
            )

    await hold_up(database, nursery)
    async with trio.open_nursery() as writing:
        writing.start_soon(keep, database, "left")
        writing.start_soon(write_too_much)
        writing.start_soon(keep, database, "right")

    assert {"left", "right"} == set(kept(tmp_path / "penelope.db"))
