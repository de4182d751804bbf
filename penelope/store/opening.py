"""Opening the database file: made whole or not at all, checked before use, migrated, never overwritten.

Blocking functions; they run in the database's thread.

Source: contract, section 8 ("The schema carries a version", "A store that is damaged").
"""

import sqlite3
from contextlib import ExitStack, closing
from importlib.resources import files
from pathlib import Path
from typing import Final

from penelope.errors import StartError, StoreUnusable
from penelope.store.folders import sync_folder

APPLICATION_ID: Final = 0x50454E45  # "PENE"
SCHEMA_VERSION: Final = 2
MIN_SQLITE: Final = (3, 37, 0)  # STRICT tables
MIN_FILE_BYTES: Final = 512  # the smallest page


def sql(name: str) -> str:
    """A file of SQL beside this module."""
    return files("penelope.store").joinpath(name).read_text("utf-8")


# The step from version N to N + 1 is MIGRATIONS[N]; a new store starts at the newest schema.
MIGRATIONS: Final[dict[int, str]] = {1: sql("schema_1_to_2.sql")}


def open_all(
    path: Path, busy_timeout_s: float, readers: int
) -> tuple[sqlite3.Connection, list[sqlite3.Connection]]:
    """The one connection that writes, and those that refuse to; all of them or none, so nothing is left half open.

    Raises:
        StoreUnusable: see `open_database`.
    """
    if sqlite3.sqlite_version_info < MIN_SQLITE:
        raise StoreUnusable(f"SQLite is {sqlite3.sqlite_version}: 3.37 or newer is needed")
    with ExitStack() as opened:
        try:
            if not path.exists():
                _create(path)
            _look(path, busy_timeout_s)
            writer = opened.enter_context(closing(_connect(path, busy_timeout_s, mode="rw")))
            _migrate(writer)
            _tune(writer)
            reading = [
                opened.enter_context(closing(_open_reader(path, busy_timeout_s))) for _ in range(readers)
            ]
        except sqlite3.Error as exc:
            raise _unusable(path, exc) from exc
        except OSError as exc:
            raise StoreUnusable(f"store {path.parent} is not writable: {exc.strerror}") from exc
        opened.pop_all()
    return writer, reading


def _open_reader(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    connection = _connect(path, busy_timeout_s, mode="rw")
    connection.execute("PRAGMA query_only = ON")
    return connection


def close(writer: sqlite3.Connection, readers: list[sqlite3.Connection]) -> None:
    """Checkpoint and close; what cannot be checkpointed now stays in the WAL, which is as durable."""
    for reader in readers:
        reader.close()
    try:
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error:  # a full disk, a lock from outside
        pass
    finally:
        writer.close()


def schema() -> str:
    """The newest schema, as SQL."""
    return sql("schema.sql")


def _connect(path: Path, busy_timeout_s: float, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=busy_timeout_s,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _create(path: Path) -> None:
    """Make the file under another name and move it into place: an empty or half-made store is then never ours."""
    fresh = path.with_name(path.name + ".new")
    for ending in ("", "-journal", "-wal", "-shm"):  # of one that a crash left
        fresh.with_name(fresh.name + ending).unlink(missing_ok=True)
    connection = sqlite3.connect(fresh, isolation_level=None)
    try:
        # In WAL mode from the first byte: the change of an existing file would be a transaction that a crash can halve.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(
            f"BEGIN; {schema()}\nPRAGMA application_id = {APPLICATION_ID};"
            f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
        )
    finally:
        connection.close()
    fresh.chmod(0o600)
    fresh.replace(path)
    sync_folder(path.parent)


def _look(path: Path, busy_timeout_s: float) -> None:
    """Check it by a connection that can write nothing: closing one that can would put into place what a crash left in
    the log.
    """
    try:
        with closing(_connect(path, busy_timeout_s, mode="ro")) as looking:
            _check(looking, path)
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
            raise
        # A crash in the middle of a transaction, while the file was not in WAL mode (a copy that was put back is often
        # not). SQLite takes the half of it back as soon as a connection that may write reads.
        with closing(_connect(path, busy_timeout_s, mode="rw")) as recovering:
            recovering.execute("PRAGMA schema_version").fetchone()
        _look(path, busy_timeout_s)


def _check(connection: sqlite3.Connection, path: Path) -> None:
    if (size := path.stat().st_size) < MIN_FILE_BYTES:  # SQLite would take it for a new one
        raise _unusable(path, f"it has only {size} bytes" if size else "the file is empty")
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise StoreUnusable(f"{path} is a database of another program; set PENELOPE_STORE to another folder")
    if version > SCHEMA_VERSION:
        raise StoreUnusable(
            f"{path} has schema version {version}, this Penelope knows {SCHEMA_VERSION}: "
            "start the newer Penelope that wrote it, or set PENELOPE_STORE to another folder"
        )
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise _unusable(path, " ".join(verdict.split()))


def _migrate(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == SCHEMA_VERSION:
        return
    # Off, since a table that is made anew is dropped on the way; inside a transaction the switch would do nothing.
    connection.execute("PRAGMA foreign_keys = OFF")
    for step in range(version, SCHEMA_VERSION):
        connection.executescript(
            f"BEGIN IMMEDIATE; {MIGRATIONS[step]}\nPRAGMA user_version = {step + 1}; COMMIT;"
        )
    connection.execute("PRAGMA foreign_keys = ON")


def _tune(connection: sqlite3.Connection) -> None:
    """WAL and FULL; and write once, so that a folder or disk that takes nothing stops the start, not the first job."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA journal_size_limit = 67108864")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _unusable(path: Path, why: object) -> StartError:
    code = getattr(why, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return StoreUnusable(f"{path} is locked by another program")
    if code is not None and code & 0xFF in {
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_PERM,
    }:
        return StoreUnusable(f"store {path.parent} is not writable: {why}")
    return StoreUnusable(
        f"{path} is damaged ({why}) and was left as it is: restore it from a copy, "
        "or move it away to start with an empty store"
    )
