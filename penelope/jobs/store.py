"""The jobs' rows: every write names the state it expects, and returns what it changed.

No policy here: what a row becomes is decided in `transitions` and `schedule`; here it is written. The media that a job
keeps changes in the same transaction as the job.

Source: contract, sections 5, 6 and 8.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

from penelope.errors import KeyReused, StoreFull, TooManyJobs
from penelope.jobs import ledger
from penelope.jobs.ledger import Entry
from penelope.jobs.listing import Place
from penelope.jobs.model import (
    MAX_JOBS,
    MEDIA_AFTER_DELIVERY_S,
    RUN_PREFIX,
    START_KEEP_S,
    Job,
    Polling,
    Start,
)
from penelope.jobs.rows import COLUMNS, job_of, row_of
from penelope.jobs.schedule import forget_at
from penelope.store.database import Database
from penelope.store.unchanged import Unchanged

# Two counts, each by its partial index: one with OR reads every row, and jobs past their time stay until the sweep.
_HELD: Final = """
    SELECT (SELECT count(*) FROM jobs WHERE state = 'running')
         + (SELECT count(*) FROM jobs WHERE forget_at > :now AND of_run = 0)
"""
_INSERT: Final = """
    INSERT INTO jobs (job_id, page_id, plugin, callback, ttl, request_id, state, started_at, limit_s, traceparent)
    VALUES (:job_id, :page_id, :plugin, :callback, :ttl, :request_id, 'running', :started_at, :limit_s, :traceparent)
"""
_INSERT_ENDED: Final = """
    INSERT INTO jobs (job_id, page_id, plugin, callback, request_id, state, started_at, finished_at, forget_at,
                      traceparent, of_run)
    VALUES (:job_id, :page_id, :plugin, :callback, :request_id, :state, :started_at, :finished_at, :forget_at,
            :traceparent, 1)
    ON CONFLICT DO NOTHING RETURNING job_id
"""
_FINISH: Final = """
    UPDATE jobs SET state = :state, finished_at = :finished_at, forget_at = :forget_at
    WHERE job_id = :job_id AND state = 'running' RETURNING job_id
"""
_RESULT: Final = "INSERT INTO results (job_id, status, body) VALUES (:job_id, :status, :result)"
_DROP_CHECKPOINT: Final = "DELETE FROM checkpoints WHERE job_id = :job_id"
_CHECKPOINT: Final = """
    INSERT INTO checkpoints (job_id, value)
    SELECT job_id, :value FROM jobs WHERE job_id = :job_id AND state = 'running'
    ON CONFLICT (job_id) DO UPDATE SET value = excluded.value
"""
_ATTEMPTED: Final = """
    UPDATE jobs SET attempts = :attempts, last_at = :last_at, error = :error
    WHERE job_id = :job_id AND state <> 'running' AND attempts < :attempts
"""
# Of any state: a job whose end the disk refused is still running there, and is over all the same.
_DELETE: Final = "DELETE FROM jobs WHERE job_id = :job_id"
_MEDIA_UNTIL: Final = "UPDATE media SET expires_at = :until WHERE job_id = :job_id"
_MEDIA_FREE: Final = "UPDATE media SET expires_at = :until, job_id = NULL WHERE job_id = :job_id"
_GET: Final = f"""
    SELECT {COLUMNS}, r.status, r.body AS result, NULL AS checkpoint
    FROM jobs j LEFT JOIN results r USING (job_id) WHERE j.job_id = :job_id
"""  # constants only
_RUNNING: Final = f"""
    SELECT {COLUMNS}, NULL AS status, NULL AS result, c.value AS checkpoint
    FROM jobs j LEFT JOIN checkpoints c USING (job_id) WHERE j.state = 'running' ORDER BY j.started_at
"""
_TO_DELIVER: Final = f"""
    SELECT {COLUMNS}, NULL AS status, NULL AS result, NULL AS checkpoint
    FROM jobs j WHERE j.callback IS NOT NULL AND j.state <> 'running' ORDER BY j.finished_at
"""
_NEWEST: Final = (
    "SELECT max(max(started_at), max(coalesce(finished_at, 0)), max(coalesce(last_at, 0))) FROM jobs"
)
_PROBE: Final = "INSERT OR REPLACE INTO persona (name, value, changed_at) VALUES ('probe', '', :now)"
# One that is over may be there until the sweep; one that is not is never written over.
_START: Final = """
    INSERT INTO starts (key, salt, request, job_id, started_at)
    VALUES (:key, :salt, :request, :job_id, :started_at)
    ON CONFLICT (key) DO UPDATE
    SET salt = excluded.salt, request = excluded.request, job_id = excluded.job_id, started_at = excluded.started_at
    WHERE started_at <= :over RETURNING job_id
"""
_START_OF: Final = "SELECT key, salt, request, job_id FROM starts WHERE key = :key AND started_at > :over"
_STARTS_OVER: Final = "FROM starts WHERE started_at <= :over"
_LIST: Final = f"""
    SELECT {COLUMNS}, r.status, NULL AS result, NULL AS checkpoint
    FROM jobs j LEFT JOIN results r USING (job_id)
    WHERE (j.started_at, j.job_id) < (:started_at, :job_id) AND j.of_run = 0
      AND (:page_id IS NULL OR j.page_id = :page_id) AND (:plugin IS NULL OR j.plugin = :plugin)
    ORDER BY j.started_at DESC, j.job_id DESC LIMIT :limit
"""
_EXPIRED: Final = "SELECT job_id FROM jobs WHERE forget_at <= :now AND of_run = 0 AND ttl IS NOT NULL"


class JobStore:
    """The table of jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._unchanged = Unchanged[Job](
            database, lambda job: len(job.result or "") + len(job.checkpoint or "")
        )

    @property
    def refuses(self) -> bool:
        """Did the last write fail for want of disk, or of a lock?"""
        return self._database.refusal is not None

    async def probe(self, now: float) -> None:
        """Write something small, to learn whether the store takes it again.

        Raises:
            StoreBusy, StoreFull: it does not.
        """
        await self._database.write(lambda connection: connection.execute(_PROBE, {"now": now}))

    async def insert(self, job: Job, start: Start | None = None) -> None:
        """Count to 1000 and insert, in one transaction; durable once it returns.

        Args:
            start: what is to be known of the start when it is repeated; None: nothing.

        Raises:
            TooManyJobs: 1000 are held.
            KeyReused: the start's key is another's.
            StoreBusy, StoreFull: nothing was written, or the end of the page's last job was not yet.
        """

        def insert(connection: sqlite3.Connection) -> None:
            (held,) = connection.execute(_HELD, {"now": job.started_at}).fetchone()
            if held >= MAX_JOBS:
                raise TooManyJobs(
                    f"{held} jobs are held, which is all the worker holds; fetch or wait for some of them",
                    headers={"Retry-After": "60"},
                )
            try:
                connection.execute(_INSERT, row_of(job))
            except sqlite3.IntegrityError as exc:
                raise StoreFull(f"the store took no end yet of the last job on page {job.page_id}") from exc
            if start is not None:
                _keep_start(connection, start, job)

        await self._database.write(insert)

    async def save(self, job: Job, posts: Iterable[Entry] = ()) -> None:
        """Write a job that ended: its end if the store knows it as running, its last POST if it does not have it yet.

        Both in one transaction, since a disk that refused the end may get both at once; and with them the ledger's rows
        of its POSTs.
        """

        def save(connection: sqlite3.Connection) -> None:
            if job.of_run:
                insert_ended(connection, job)
            else:
                _finish(connection, job)
            if job.attempts:
                connection.execute(_ATTEMPTED, row_of(job))
            ledger.insert(connection, posts)

        await self._database.write(save)

    async def finish_all(self, jobs: Sequence[Job]) -> None:
        """Write the ends of many, in one transaction."""

        def finish_all(connection: sqlite3.Connection) -> None:
            for job in jobs:
                _finish(connection, job)

        await self._database.write(finish_all)

    async def checkpoint(self, job_id: str, value: str) -> None:
        """Keep the running job's last checkpoint, JSON text."""
        await self._database.write(
            lambda connection: connection.execute(_CHECKPOINT, {"job_id": job_id, "value": value})
        )

    async def settle(self, job_id: str, now: float, *, delivered: bool, posts: Iterable[Entry] = ()) -> None:
        """Forget a webhook job, but for the ledger's rows of its POSTs. Its media stays 5 minutes for the download when
        delivered, else goes at once; a run's files stay with the run.
        """
        until = now + MEDIA_AFTER_DELIVERY_S if delivered else now

        def settle(connection: sqlite3.Connection) -> None:
            if not job_id.startswith(RUN_PREFIX):
                connection.execute(_MEDIA_FREE, {"job_id": job_id, "until": until})
            connection.execute(_DELETE, {"job_id": job_id})
            ledger.insert(connection, posts)

        await self._database.write(settle)

    async def forget_expired(self, now: float) -> list[str]:
        """Delete the polling jobs whose hold is over, and free their media; returns their ids. And the starts under a
        key that are 24 hours old.
        """
        where = {"now": now, "over": now - START_KEEP_S}

        def forget(connection: sqlite3.Connection) -> list[str]:
            expired = [row["job_id"] for row in connection.execute(_EXPIRED, where)]
            for job_id in expired:
                connection.execute(_MEDIA_FREE, {"job_id": job_id, "until": now})
                connection.execute(_DELETE, {"job_id": job_id})
            connection.execute(f"DELETE {_STARTS_OVER}", where)
            return expired

        if not await self._database.read(
            lambda connection: any(
                connection.execute(f"{query} LIMIT 1", where).fetchone()
                for query in (_EXPIRED, f"SELECT 1 {_STARTS_OVER}")
            )
        ):
            return []
        return await self._database.write(forget)

    async def get(self, job_id: str) -> Job | None:
        """The job with its result; None: there is none."""

        def get(connection: sqlite3.Connection) -> Job | None:
            row = connection.execute(_GET, {"job_id": job_id}).fetchone()
            return None if row is None else job_of(row)

        return await self._unchanged.read(job_id, get)

    async def listed(self, *, page_id: str | None, plugin: str | None, after: Place, limit: int) -> list[Job]:
        """The first jobs after that place, newest first, without their results; expired ones are among them until the
        sweep.

        Args:
            page_id, plugin: of that one only; None: of any.
        """
        where = {
            "page_id": page_id,
            "plugin": plugin,
            "started_at": after.started_at,
            "job_id": after.job_id,
            "limit": limit,
        }
        return await self._database.read(
            lambda connection: [job_of(row) for row in connection.execute(_LIST, where)]
        )

    async def start_of(self, key: bytes, now: float) -> tuple[Start, str] | None:
        """The start under that key in the last 24 hours, and the id of its job; None: there was none."""
        where = {"key": key, "over": now - START_KEEP_S}

        def get(connection: sqlite3.Connection) -> tuple[Start, str] | None:
            row = connection.execute(_START_OF, where).fetchone()
            if row is None:
                return None
            return Start(key=row["key"], salt=row["salt"], request=row["request"]), row["job_id"]

        return await self._database.read(get)

    async def running(self) -> list[Job]:
        """Jobs that the last life left running, with their checkpoints."""
        return await self._database.read(
            lambda connection: [job_of(row) for row in connection.execute(_RUNNING)]
        )

    async def to_deliver(self) -> list[Job]:
        """The webhook jobs that ended and are not settled, without their results, oldest first."""
        return await self._database.read(
            lambda connection: [job_of(row) for row in connection.execute(_TO_DELIVER)]
        )

    async def newest(self) -> float | None:
        """The latest moment that a job's row knows, epoch seconds; None: there is no job."""

        def newest(connection: sqlite3.Connection) -> float | None:
            (at,) = connection.execute(_NEWEST).fetchone()
            return None if at is None else float(at)

        return await self._database.read(newest)

    async def held(self, now: float) -> int:
        """How many jobs are held, running ones included."""

        def held(connection: sqlite3.Connection) -> int:
            (count,) = connection.execute(_HELD, {"now": now}).fetchone()
            return int(count)

        return await self._database.read(held)


def _keep_start(connection: sqlite3.Connection, start: Start, job: Job) -> None:
    kept = connection.execute(
        _START,
        {
            "key": start.key,
            "salt": start.salt,
            "request": start.request,
            "job_id": job.job_id,
            "started_at": job.started_at,
            "over": job.started_at - START_KEEP_S,
        },
    ).fetchone()
    if kept is None:
        raise KeyReused("Idempotency-Key was given before, and that start is not over yet")


def insert_ended(connection: sqlite3.Connection, job: Job) -> None:
    """Write the end of a run that is to be delivered, unless it is there."""
    row = row_of(job)
    if connection.execute(_INSERT_ENDED, row).fetchone() is not None:
        connection.execute(_RESULT, row)


def _finish(connection: sqlite3.Connection, job: Job) -> bool:
    row = row_of(job)
    if connection.execute(_FINISH, row).fetchone() is None:
        return False
    connection.execute(_RESULT, row)
    connection.execute(_DROP_CHECKPOINT, row)
    if isinstance(job.way, Polling):
        connection.execute(_MEDIA_UNTIL, {"job_id": job.job_id, "until": forget_at(job)})
    return True
