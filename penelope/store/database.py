"""The database: one writer whose waiting writes commit together, readers apart, all in threads.

A transaction is one function of the connection: `await database.write(fn)` returns once what `fn` did would survive a
power cut (`synchronous=FULL`), or raises and leaves nothing of it. A write that was asked for is never abandoned when
its asker is cancelled: it is bounded by SQLite's own busy timeout.

Source: contract, section 8; design, section 1.
"""

import math
import sqlite3
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import structlog
import trio

from penelope.errors import PenelopeError, StoreBusy, StoreFull
from penelope.store import opening

BUSY_TIMEOUT_S: Final = 5.0
CLOSE_GRACE_S: Final = 10.0
READERS: Final = 2
WAL_LARGE_BYTES: Final = 256 * 2**20  # four times what is kept of it when nobody holds it open
WAL_LOOK_EVERY_S: Final = 1.0
WAL_WARN_EVERY_S: Final = 60.0

_Result = TypeVar("_Result")
Transaction = Callable[[sqlite3.Connection], _Result]

log = structlog.get_logger("penelope.store")


class Runner(Protocol):
    """Runs a blocking function and waits for it, whoever is cancelled meanwhile.

    A seam: Trio's autojump clock does not see threads, so tests on it run the function in place.
    """

    def __call__(self, function: Callable[[], _Result], /) -> Awaitable[_Result]: ...


def thread_runner(threads: int) -> Runner:
    """Threads of its own: Trio's default limiter is shared, and hanging name look-ups would stop who asks for them."""
    limiter = trio.CapacityLimiter(threads)

    async def run(function: Callable[[], _Result], /) -> _Result:
        return await trio.to_thread.run_sync(function, limiter=limiter, abandon_on_cancel=False)

    return run


async def own_thread(function: Callable[[], _Result], /) -> _Result:
    """Run a function in a thread, with nothing but it: who asks sees to it that they are few. `to_thread.run_sync` has
    a limiter, a copy of the context and two names of the thread for each, twice as dear as a small transaction.
    """
    await trio.lowlevel.checkpoint_if_cancelled()
    token, task = trio.lowlevel.current_trio_token(), trio.lowlevel.current_task()

    def deliver(result: Any) -> None:  # as Trio has it: a value, or an error
        token.run_sync_soon(trio.lowlevel.reschedule, task, result)

    trio.lowlevel.start_thread_soon(function, deliver)
    returned: _Result = await trio.lowlevel.wait_task_rescheduled(_until_it_ends)
    return returned


def _until_it_ends(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED


@dataclass(eq=False, slots=True)
class _Write:
    """A transaction on its way: `value` or `error` is set before `task`, who asks for it, goes on."""

    function: Transaction[Any]
    task: trio.lowlevel.Task
    value: Any = None
    error: BaseException | None = None


class Database:
    """Open it with `open_database`.

    Attributes:
        commits: transactions committed so far, for whoever counts them.
        refusal: why the last commit failed; None when it did not.
    """

    def __init__(
        self,
        writer: sqlite3.Connection,
        readers: list[sqlite3.Connection],
        run: Runner,
        wal: Path | None = None,
    ) -> None:
        """
        Args:
            wal: the file that commits go to first; None: not to be watched.
        """
        self.commits = 0
        self._wal: Path | None = wal
        self._wal_again_at = -math.inf
        self.refusal: str | None = None
        self._writer = writer
        self._readers = readers
        self._reader_free = trio.Semaphore(len(readers))
        self._run = run
        self._waiting: deque[_Write] = deque()
        self._wake = trio.Event()
        self._closing = False

    async def write(self, function: Transaction[_Result]) -> _Result:
        """Run `function` in a transaction and wait until it is durable; it shares its commit with its neighbours.

        Raises:
            StoreBusy: another program holds the database (nothing was written).
            StoreFull: the disk takes no more, or fails (nothing was written).
            Exception: what `function` raised (nothing was written).
        """
        if self._closing:
            raise StoreBusy("the store is closed")
        write = _Write(function, trio.lowlevel.current_task())
        self._waiting.append(write)
        self._wake.set()
        # Whoever is cancelled. Bounded by the busy timeout of the commit under way and of its own.
        await trio.lowlevel.wait_task_rescheduled(_until_it_ends)
        await trio.lowlevel.checkpoint_if_cancelled()
        if write.error is not None:
            raise write.error
        return write.value  # type: ignore[no-any-return]  # what `function` returned

    async def read(self, function: Transaction[_Result]) -> _Result:
        """Run `function` on a connection that only reads; it sees all that was committed.

        Raises:
            StoreBusy, StoreFull: as `write`.
        """
        async with self._reader_free:
            connection = self._readers.pop()
            try:
                return await self._run(lambda: _translated(function, connection))
            finally:
                self._readers.append(connection)

    async def _write_loop(self) -> None:
        """Commit what waits, together, until closed and empty."""
        while not (self._closing and not self._waiting):
            await self._wake.wait()
            self._wake = trio.Event()
            while self._waiting:
                await (
                    trio.lowlevel.checkpoint()
                )  # whoever else has something to write in this turn of the loop
                await self._commit_waiting()

    async def _commit_waiting(self) -> None:
        """Apart, so that nothing of the last batch, which may be large, stays in memory until the next."""
        batch = list(self._waiting)
        self._waiting.clear()
        try:
            await self._run(lambda: self._commit(batch))
        except Exception as exc:  # e.g. the machine has no thread to give; those who ask would wait for ever
            log.exception("the store could not be asked")
            for write in batch:
                write.value, write.error = None, StoreBusy(f"the store could not be asked: {exc}")
        for write in batch:
            trio.lowlevel.reschedule(write.task)
        self._look_at_wal()

    def _look_at_wal(self) -> None:
        """Warn of a WAL that cannot be emptied: somebody reads the store, and does not let go of what it sees."""
        now = trio.current_time()
        if self._wal is None or now < self._wal_again_at:
            return
        self._wal_again_at = now + WAL_LOOK_EVERY_S
        try:
            size = self._wal.stat().st_size
        except OSError:
            return
        if size > WAL_LARGE_BYTES:
            self._wal_again_at = now + WAL_WARN_EVERY_S
            log.warning(
                "another program reads the store and keeps its WAL from being emptied", mb=size // 2**20
            )

    def _close(self) -> None:
        self._closing = True
        self._wake.set()

    def _commit(self, batch: list[_Write]) -> None:
        """In the thread: one transaction for all; each alone keeps or loses its own part."""
        connection = self._writer
        try:
            connection.execute("BEGIN IMMEDIATE")
            for write in batch:
                _in_savepoint(connection, write, alone=len(batch) == 1)
                if not connection.in_transaction:  # SQLite gave the whole transaction up
                    raise write.error or StoreFull("the store gave the transaction up")
            connection.execute("COMMIT")
        except (sqlite3.Error, PenelopeError) as exc:
            error = explained(exc) if isinstance(exc, sqlite3.Error) else exc
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if len(batch) > 1 and isinstance(error, StoreFull):
                self._commit_apart(batch)
                return
            for write in batch:
                write.value, write.error = None, write.error or error
            self.refusal = str(error)
        else:
            self.commits += 1
            refused = [write.error for write in batch if isinstance(write.error, StoreFull)]
            self.refusal = str(refused[0]) if refused else None

    def _commit_apart(self, batch: list[_Write]) -> None:
        """What the disk refused together it may take in part: a large result must not take a small record with it."""
        for write in batch:
            write.value, write.error = None, None
            self._commit([write])


def _in_savepoint(connection: sqlite3.Connection, write: _Write, *, alone: bool) -> None:
    if not alone:
        connection.execute("SAVEPOINT one")
    try:
        write.value = write.function(connection)
    except Exception as exc:  # handed to whoever asked for this write
        write.error = explained(exc) if isinstance(exc, sqlite3.Error) else exc
        if connection.in_transaction:
            connection.execute("ROLLBACK" if alone else "ROLLBACK TO one")
            if alone:
                connection.execute("BEGIN IMMEDIATE")
    if not alone and connection.in_transaction:
        connection.execute("RELEASE one")


def _translated(function: Transaction[_Result], connection: sqlite3.Connection) -> _Result:
    try:
        return function(connection)
    except sqlite3.Error as exc:
        raise explained(exc) from exc


def explained(error: sqlite3.Error) -> Exception:
    """SQLite's refusal as one of Penelope's errors; anything that is a bug of ours stays what it is."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    match code:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_PROTOCOL:
            refusal: PenelopeError = StoreBusy(
                f"the store is locked by another program for more than {BUSY_TIMEOUT_S:.0f} s",
                headers={"Retry-After": "5"},
            )
        case (
            sqlite3.SQLITE_FULL
            | sqlite3.SQLITE_IOERR
            | sqlite3.SQLITE_NOMEM
            | sqlite3.SQLITE_PERM
            | sqlite3.SQLITE_READONLY
            | sqlite3.SQLITE_CANTOPEN
            | sqlite3.SQLITE_CORRUPT
            | sqlite3.SQLITE_NOTADB
        ):
            refusal = StoreFull(f"the store could not be written: {error}")
        case _:
            return error
    refusal.__cause__ = error
    return refusal


@asynccontextmanager
async def open_database(path: Path, run: Runner | None = None) -> AsyncGenerator[Database]:
    """Open or create the database, check it, bring its schema up to date, and close it checkpointed.

    Args:
        path: of the file, e.g. `store/penelope.db`; its folder exists.
        run: how blocking work is run, at most one write and `READERS` reads at once; None: in threads of its own.

    Raises:
        StoreUnusable: it cannot be opened or written, is damaged, foreign, or newer than this program.
    """
    run = run or own_thread
    writer, readers = await run(lambda: opening.open_all(path, BUSY_TIMEOUT_S, READERS))
    database = Database(writer, list(readers), run, path.with_name(f"{path.name}-wal"))
    writing = trio.CancelScope(shield=True)  # a cancelled worker still lands its last writes

    async def write_loop() -> None:
        with writing:
            await database._write_loop()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write_loop, name="database writer")
            try:
                yield database
            finally:
                database._close()
                writing.deadline = trio.current_time() + CLOSE_GRACE_S
    finally:
        with trio.move_on_after(CLOSE_GRACE_S, shield=True):
            await run(lambda: opening.close(writer, readers))
