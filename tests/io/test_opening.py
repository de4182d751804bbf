"""Opening the store's file: made, migrated, or refused with what to do, and then every byte as it was (J104)."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penelope.errors import StoreUnusable
from penelope.store import opening
from penelope.store.database import open_database
from penelope.store.persona import PersonaStore

ROWS = 400


async def make(path: Path) -> None:
    """A store with some hundred KiB in it."""
    async with open_database(path) as database:
        await database.write(
            lambda c: c.executemany(
                "INSERT INTO persona VALUES (?, ?, 1)", [(str(n), "v" * 500) for n in range(ROWS)]
            )
        )


def edit(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql)


def bytes_of(folder: Path) -> dict[str, bytes]:
    """What the files hold; the WAL's index is no data, nor is a WAL that is empty."""
    contents = {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}
    return {name: content for name, content in contents.items() if content or not name.endswith("-wal")}


def empty(path: Path) -> None:
    path.write_bytes(b"")


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_in_the_header(path: Path) -> None:
    os.truncate(path, 50)


def random_page(path: Path) -> None:
    """The root page of `persona` is noise."""
    with closing(sqlite3.connect(path)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'persona'").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)


def first_page(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\x00" * 4096)


def no_database(path: Path) -> None:
    path.write_text("A letter, perhaps.\n" * 500)


def foreign(path: Path) -> None:
    path.unlink()
    edit(path, "CREATE TABLE jobs (id INTEGER); INSERT INTO jobs VALUES (1)")


def newer(path: Path) -> None:
    edit(path, f"PRAGMA user_version = {opening.SCHEMA_VERSION + 1}")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (empty, "the file is empty.*restore it from a copy, or move it away"),
        (truncated, "is damaged.*restore it from a copy, or move it away"),
        (cut_in_the_header, "is damaged.*restore it from a copy, or move it away"),
        (random_page, "is damaged.*restore it from a copy, or move it away"),
        (first_page, "is damaged.*restore it from a copy, or move it away"),
        (no_database, "is damaged.*restore it from a copy, or move it away"),
        (foreign, "is a database of another program; set PENELOPE_STORE to another folder"),
        (
            newer,
            f"has schema version {opening.SCHEMA_VERSION + 1}, this Penelope knows {opening.SCHEMA_VERSION}: start",
        ),
    ],
)
async def test_a_file_that_is_not_ours_to_use_is_refused_and_left_as_it_is(
    tmp_path: Path, spoil: Callable[[Path], None], says: str
) -> None:
    path = tmp_path / "penelope.db"
    await make(path)
    spoil(path)
    before = bytes_of(tmp_path)
    with pytest.raises(StoreUnusable, match=rf"^[^\n]*{says}[^\n]*$") as refused:
        async with open_database(path):
            raise AssertionError("it opened")
    assert str(path) in refused.value.message
    assert before == bytes_of(tmp_path)


async def test_a_newer_store_that_was_killed_keeps_its_wal_too(tmp_path: Path) -> None:
    """Untouched also means: what a crash left in the WAL is not put into place by a program that does not know it."""
    path = tmp_path / "penelope.db"
    await make(path)
    killed(path, f"PRAGMA user_version = {opening.SCHEMA_VERSION + 1}")
    assert (tmp_path / "penelope.db-wal").stat().st_size > 0
    before = bytes_of(tmp_path)
    with pytest.raises(StoreUnusable, match=f"has schema version {opening.SCHEMA_VERSION + 1}"):
        async with open_database(path):
            raise AssertionError("it opened")
    assert before == bytes_of(tmp_path)


def killed(path: Path, statement: str) -> None:
    """Run a statement in a process that is killed once it has committed."""
    program = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute(sys.argv[2])
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert -9 == subprocess.run([sys.executable, "-c", program, path, statement], check=False).returncode


@pytest.mark.parametrize("with_index", [True, False])
async def test_what_a_kill_left_in_the_wal_is_there_again(tmp_path: Path, with_index: bool) -> None:
    """Also when the WAL's index, which is no data, went with the crash."""
    path = tmp_path / "penelope.db"
    await make(path)
    killed(path, "INSERT INTO persona VALUES ('last', 'word', 1)")
    if not with_index:
        (tmp_path / "penelope.db-shm").unlink()
    async with open_database(path) as database:
        assert "word" == await PersonaStore(database).load("last")
    with closing(sqlite3.connect(path)) as connection:
        assert ("ok",) == connection.execute("PRAGMA integrity_check").fetchone()


async def test_what_a_crash_left_of_making_the_file_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "penelope.db.new").write_bytes(b"half")
    await make(tmp_path / "penelope.db")
    assert ["penelope.db"] == list(bytes_of(tmp_path))


async def test_others_cannot_read_the_file(tmp_path: Path) -> None:
    await make(tmp_path / "penelope.db")
    assert 0o600 == (tmp_path / "penelope.db").stat().st_mode & 0o777


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Shows a folder with a store, mounted so that even root cannot write it."""
    folder, seen = tmp_path / "folder", tmp_path / "seen"
    folder.mkdir()
    seen.mkdir()

    def mount() -> Path:
        done = subprocess.run(["mount", "--bind", folder, seen], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("needs the right to mount a folder read-only")
        subprocess.run(["mount", "-o", "remount,ro,bind", seen], check=True)
        return seen / "penelope.db"

    yield mount
    subprocess.run(["umount", "-l", seen], capture_output=True, check=False)


async def test_a_read_only_folder_is_named(read_only: Callable[[], Path], tmp_path: Path) -> None:
    await make(tmp_path / "folder" / "penelope.db")
    path = read_only()
    before = bytes_of(path.parent)
    with pytest.raises(StoreUnusable, match=rf"^store {path.parent} is not writable: [^\n]+$"):
        async with open_database(path):
            raise AssertionError("it opened")
    assert before == bytes_of(path.parent)


async def test_a_read_only_folder_without_a_store_is_named(read_only: Callable[[], Path]) -> None:
    path = read_only()
    with pytest.raises(StoreUnusable, match=rf"^store {path.parent} is not writable: [^\n]+$"):
        async with open_database(path):
            raise AssertionError("it opened")
    assert {} == bytes_of(path.parent)


async def test_one_that_is_locked_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """J100, at the start."""
    path = tmp_path / "penelope.db"
    await make(path)
    monkeypatch.setattr("penelope.store.database.BUSY_TIMEOUT_S", 0.2)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnusable, match="is locked by another program"):
            async with open_database(path):
                raise AssertionError("it opened")


SCHEMA_1 = Path(__file__).with_name("schema_1.sql")  # as it was shipped
OLD_JOBS = """
    INSERT INTO jobs (job_id, page_id, plugin, ttl, request_id, state, started_at)
    VALUES ('0000000000000001', 'main', 'web/open', 600, 'a', 'running', 1);
    INSERT INTO jobs
    VALUES ('0000000000000002', 'main', 'web/open', 'http://a/', NULL, 'b', 'done', 1, 2, 612, 1, 2, 'no');
    INSERT INTO results VALUES ('0000000000000002', 200, '{}');
    INSERT INTO checkpoints VALUES ('0000000000000001', '[1]');
"""


def make_schema_1(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            f"BEGIN; {SCHEMA_1.read_text()}\nPRAGMA application_id = {opening.APPLICATION_ID};"
            "PRAGMA user_version = 1; COMMIT;"
        )
        connection.executescript(OLD_JOBS)


def schema_of(path: Path) -> dict[str, str]:
    """What a store's schema says, comments and the quotes of a renamed table aside."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
        return {name: " ".join(re.sub(r"--[^\n]*", "", sql).replace('"', "").split()) for name, sql in rows}


async def test_a_store_of_the_first_schema_becomes_one_of_the_newest_with_all_that_it_held(
    tmp_path: Path,
) -> None:
    make_schema_1(tmp_path / "old.db")
    await make(tmp_path / "new.db")
    async with open_database(tmp_path / "old.db") as database:
        jobs = await database.read(
            lambda c: [
                tuple(row)
                for row in c.execute("SELECT job_id, attempts, error, limit_s FROM jobs ORDER BY 1")
            ]
        )
        kept = await database.read(
            lambda c: [
                c.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("results", "checkpoints")
            ]
        )
        await database.write(lambda c: c.execute("DELETE FROM jobs"))  # foreign keys are on again
        left = await database.read(lambda c: c.execute("SELECT count(*) FROM results").fetchone()[0])
    assert [("0000000000000001", 0, None, None), ("0000000000000002", 1, "no", None)] == jobs
    assert [1, 1] == kept
    assert 0 == left
    assert schema_of(tmp_path / "new.db") == schema_of(tmp_path / "old.db")


async def test_an_older_store_is_brought_up_to_date_step_by_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "penelope.db"
    await make(path)
    now = opening.SCHEMA_VERSION
    monkeypatch.setattr(opening, "SCHEMA_VERSION", now + 2)
    monkeypatch.setattr(
        opening,
        "MIGRATIONS",
        {
            now: "ALTER TABLE persona ADD COLUMN added INTEGER NOT NULL DEFAULT 7;",
            now + 1: "CREATE TABLE more (a INTEGER) STRICT; INSERT INTO more SELECT added FROM persona;",
        },
    )
    async with open_database(path) as database:
        (rows,) = await database.read(lambda c: c.execute("SELECT count(*) FROM more WHERE a = 7").fetchone())
        (version,) = await database.read(lambda c: c.execute("PRAGMA user_version").fetchone())
    assert (ROWS, now + 2) == (rows, version)


async def test_a_step_that_fails_leaves_the_store_at_the_step_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "penelope.db"
    await make(path)
    now = opening.SCHEMA_VERSION
    monkeypatch.setattr(opening, "SCHEMA_VERSION", now + 2)
    monkeypatch.setattr(
        opening,
        "MIGRATIONS",
        {
            now: "CREATE TABLE first (a INTEGER) STRICT;",
            now + 1: "CREATE TABLE second (a INTEGER) STRICT; INSERT INTO missing VALUES (1);",
        },
    )
    with pytest.raises(StoreUnusable, match="no such table: missing"):
        async with open_database(path):
            raise AssertionError("it opened")
    with closing(sqlite3.connect(path)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    assert now + 1 == version
    assert "first" in tables
    assert "second" not in tables


async def test_a_copy_of_the_one_file_is_a_backup(tmp_path: Path) -> None:
    """After a clean stop there is nothing beside it."""
    await make(tmp_path / "penelope.db")
    shutil.copy(tmp_path / "penelope.db", tmp_path / "copy.db")
    async with open_database(tmp_path / "copy.db") as database:
        assert "v" * 500 == await PersonaStore(database).load("0")


async def test_a_crash_before_the_log_was_on_is_taken_back(tmp_path: Path) -> None:
    """A file that is not in WAL mode, e.g. a copy that was put back, and a kill in the middle of its transaction."""
    path = tmp_path / "penelope.db"
    await make(path)
    edit(path, "PRAGMA journal_mode = DELETE")
    crash = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('PRAGMA cache_size = 1'); c.execute('BEGIN'); c.execute('DELETE FROM persona');"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", crash, str(path)], check=False)
    assert path.with_name("penelope.db-journal").stat().st_size > 512

    async with open_database(path) as database:
        (kept,) = await database.read(lambda c: c.execute("SELECT count(*) FROM persona").fetchone())
    assert ROWS == kept


def test_a_store_is_never_without_its_log(tmp_path: Path) -> None:
    """Made in WAL mode: no start has to change it, which a crash could halve; and nothing of the making is left."""
    path = tmp_path / "penelope.db"
    for ending in ("", "-wal", "-journal"):  # of a start that was killed
        path.with_name(f"penelope.db.new{ending}").write_bytes(b"half of something")
    opening._create(path)
    assert ["penelope.db"] == [file.name for file in tmp_path.iterdir()]
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        assert b"\x02\x02" == path.read_bytes()[18:20]  # read and write version: the log
        assert ("ok",) == connection.execute("PRAGMA integrity_check").fetchone()
