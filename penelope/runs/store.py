"""The runs' rows: every write names the state that it expects, and tells whether it found it.

A run that ends with a webhook leaves, in the same transaction, what is to be delivered as a job's row has it: from then
on it is the jobs' deliveries that know of it.

Source: contract, sections 8 and 10.
"""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from penelope.jobs.model import Job
from penelope.jobs.store import insert_ended
from penelope.jsontext import encodable
from penelope.runs.model import Far, Run, RunState
from penelope.store.database import Database
from penelope.store.unchanged import Unchanged

_COLUMNS: Final = (
    "r.run_id, r.state, r.agent_id, r.timeout_s, r.request_id, r.traceparent, r.session_id, r.webhook, "
    "r.events, r.key, r.page_id, r.created_at, r.started_at, r.completed_at, r.percentage, r.step, r.steps_completed, "
    "r.steps_total, r.error, r.number"
)
_ADMITTED: Final = "SELECT count(*) FROM runs WHERE completed_at IS NULL"
# Without what was submitted, which may have 16 MB, and which only a run that is begun again needs.
_BARE: Final = f"SELECT {_COLUMNS}, '' AS request, NULL AS result FROM runs r"  # constants only
_BY_KEY: Final = f"{_BARE} WHERE r.key = :key"
_INSERT: Final = """
    INSERT INTO runs (run_id, state, request, agent_id, timeout_s, request_id, traceparent, session_id, webhook, events,
                      key, created_at)
    VALUES (:run_id, :state, :request, :agent_id, :timeout_s, :request_id, :traceparent, :session_id, :webhook, :events,
            :key, :created_at)
    RETURNING number
"""
_BEGIN: Final = """
    UPDATE runs SET state = 'running', started_at = :started_at, page_id = :page_id
    WHERE run_id = :run_id AND state = 'queued'
"""
_END: Final = """
    UPDATE runs SET state = :state, started_at = :started_at, completed_at = :completed_at, page_id = :page_id,
                    key = :key, error = :error, percentage = :percentage, step = :step,
                    steps_completed = :steps_completed, steps_total = :steps_total
    WHERE run_id = :run_id AND completed_at IS NULL RETURNING run_id
"""
_RESULT: Final = "INSERT INTO run_results (run_id, body) VALUES (:run_id, :result)"
_MEDIA_UNTIL: Final = "UPDATE media SET expires_at = :until WHERE job_id = :run_id"
_MEDIA_FREE: Final = "UPDATE media SET expires_at = :now, job_id = NULL WHERE job_id = :run_id"
_GET: Final = f"""
    SELECT {_COLUMNS}, '' AS request, s.body AS result
    FROM runs r LEFT JOIN run_results s USING (run_id) WHERE r.run_id = :run_id
"""
_STATUS: Final = f"{_BARE} WHERE r.run_id = :run_id"
_LEFT: Final = f"""
    SELECT {_COLUMNS}, r.request, NULL AS result FROM runs r WHERE r.completed_at IS NULL ORDER BY r.number
"""
_OF_STATE: Final = "r.state = :state"
_OF_SESSION: Final = "r.session_id = :session_id"
_DELETE: Final = "DELETE FROM runs WHERE run_id = :run_id AND completed_at IS NOT NULL"
_EXPIRED: Final = "SELECT run_id FROM runs WHERE completed_at <= :before LIMIT :most"

_NEWEST: Final = (
    "SELECT max(max(created_at), max(coalesce(started_at, 0)), max(coalesce(completed_at, 0))) FROM runs"
)

MAX_OFFSET: Final = 2**62
FORGOTTEN_AT_ONCE: Final = 1000  # others write in between


class TooManyRuns(Exception):
    """As many are admitted as may be."""


class RunStore:
    """The table of runs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._unchanged = Unchanged[Run](database, lambda run: len(run.error or ""))

    async def insert(self, run: Run, admitted: int) -> Run:
        """Count and insert, in one transaction; durable once it returns.

        Args:
            admitted: how many may be queued or at work.

        Returns:
            The run, with its number and without its request; or the one that was submitted before with the same key.

        Raises:
            TooManyRuns: there are so many already; nothing was written, so the key stays free.
            StoreBusy, StoreFull: nothing was written.
        """

        def insert(connection: sqlite3.Connection) -> Run:
            if run.key is not None:
                row = connection.execute(_BY_KEY, {"key": run.key}).fetchone()
                if row is not None:
                    return _run(row)
            (count,) = connection.execute(_ADMITTED).fetchone()
            if count >= admitted:
                raise TooManyRuns
            (number,) = connection.execute(_INSERT, _row(run)).fetchone()
            return replace(run, number=number, request="")  # the store has it, and nobody asks it for that

        return await self._database.write(insert)

    async def by_key(self, key: str) -> Run | None:
        """The run that was submitted with this key; None: none was."""
        return await self._one(_BY_KEY, {"key": key})

    async def begin(self, run: Run) -> bool:
        """Note that a queued run is at work; False: it is not queued (any more)."""
        begun = {"run_id": run.run_id, "started_at": run.started_at, "page_id": run.page_id}
        return await self._database.write(lambda c: c.execute(_BEGIN, begun).rowcount == 1)

    async def end(self, run: Run, delivery: Job | None) -> bool:
        """Note the end of a run that is not over, and what is to be delivered of it; False: it is over already."""

        def end(connection: sqlite3.Connection) -> bool:
            row = _row(run)
            if connection.execute(_END, row).fetchone() is None:
                return False
            if run.result is not None:
                connection.execute(_RESULT, row)
            connection.execute(_MEDIA_UNTIL, {"run_id": run.run_id, "until": run.forget_at})
            if delivery is not None:
                insert_ended(connection, delivery)
            return True

        return await self._database.write(end)

    async def end_all(self, ends: Sequence[tuple[Run, Job | None]]) -> None:
        """Note the ends of many, in one transaction."""

        def end_all(connection: sqlite3.Connection) -> None:
            for run, delivery in ends:
                connection.execute(_END, _row(run)).fetchone()
                connection.execute(_MEDIA_UNTIL, {"run_id": run.run_id, "until": run.forget_at})
                if delivery is not None:
                    insert_ended(connection, delivery)

        await self._database.write(end_all)

    async def get(self, run_id: str, *, whole: bool = True) -> Run | None:
        """The run; `whole`: with its result. None: there is none."""
        where = {"run_id": run_id}
        if whole:
            return await self._one(_GET, where)
        return await self._unchanged.read(run_id, _reading(_STATUS, where))

    async def left(self) -> list[Run]:
        """Those that are not over, in the order of their arrival."""
        return await self._database.read(lambda c: [_run(row) for row in c.execute(_LEFT)])

    async def page(
        self, state: RunState | None, session_id: str | None, page: int, page_size: int
    ) -> tuple[list[Run], int]:
        """One page of the list, newest first and without results; and how many there are in all."""
        which: dict[str, Any] = {"state": None if state is None else state.value, "session_id": session_id}
        # Each asks for what it has to, and no more: a condition that may be none is looked up in no index.
        wanted = [
            part
            for part, value in zip((_OF_STATE, _OF_SESSION), which.values(), strict=True)
            if value is not None
        ]
        where = f"WHERE {' AND '.join(wanted)}" if wanted else ""
        offset = min((page - 1) * page_size, MAX_OFFSET)

        def read(connection: sqlite3.Connection) -> tuple[list[Run], int]:
            (total,) = connection.execute(f"SELECT count(*) FROM runs r {where}", which).fetchone()
            rows = connection.execute(
                f"{_BARE} {where} ORDER BY r.number DESC LIMIT :limit OFFSET :offset",
                {**which, "limit": page_size, "offset": offset},
            )
            return [_run(row) for row in rows], int(total)

        return await self._database.read(read)

    async def newest(self) -> float | None:
        """The latest moment that a run's row knows, epoch seconds; None: there is no run."""

        def newest(connection: sqlite3.Connection) -> float | None:
            (at,) = connection.execute(_NEWEST).fetchone()
            return None if at is None else float(at)

        return await self._database.read(newest)

    async def delete(self, run_id: str, now: float) -> bool:
        """Forget a run that is over, and its files; False: there is none."""

        def delete(connection: sqlite3.Connection) -> bool:
            if connection.execute(_DELETE, {"run_id": run_id}).rowcount != 1:
                return False
            connection.execute(_MEDIA_FREE, {"run_id": run_id, "now": now})
            return True

        return await self._database.write(delete)

    async def forget(self, before: float, now: float) -> int:
        """Forget the runs that ended before then, `FORGOTTEN_AT_ONCE` at most; returns how many."""
        which = {"before": before, "most": FORGOTTEN_AT_ONCE}
        expired = await self._database.read(lambda c: [row["run_id"] for row in c.execute(_EXPIRED, which)])
        if not expired:
            return 0

        def forget(connection: sqlite3.Connection) -> None:
            for run_id in expired:
                connection.execute(_DELETE, {"run_id": run_id})
                connection.execute(_MEDIA_FREE, {"run_id": run_id, "now": now})

        await self._database.write(forget)
        return len(expired)

    async def _one(self, statement: str, values: dict[str, Any]) -> Run | None:
        return await self._database.read(_reading(statement, values))


def _reading(statement: str, values: dict[str, Any]) -> Callable[[sqlite3.Connection], Run | None]:
    """A transaction that reads the one run that there is."""

    def one(connection: sqlite3.Connection) -> Run | None:
        row = connection.execute(statement, values).fetchone()
        return None if row is None else _run(row)

    return one


def _row(run: Run) -> dict[str, Any]:
    """Its texts come from clients, plugins and pages: a lone surrogate in one of them must not keep it from its end."""
    row = _values(run)
    return {name: encodable(value) if isinstance(value, str) else value for name, value in row.items()}


def _values(run: Run) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "state": run.state.value,
        "request": run.request,
        "agent_id": run.agent_id,
        "timeout_s": run.timeout_s,
        "request_id": run.request_id,
        "traceparent": run.traceparent,
        "session_id": run.session_id,
        "webhook": run.webhook,
        "events": None if run.events is None else " ".join(run.events),
        "key": run.key,
        "page_id": run.page_id,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "completed_at": run.completed_at,
        "percentage": run.far.percentage,
        "step": run.far.step,
        "steps_completed": run.far.completed,
        "steps_total": run.far.total,
        "error": run.error,
        "result": run.result,
    }


def _run(row: sqlite3.Row) -> Run:
    return Run(
        run_id=row["run_id"],
        state=RunState(row["state"]),
        request=row["request"],
        agent_id=row["agent_id"],
        timeout_s=row["timeout_s"],
        request_id=row["request_id"],
        traceparent=row["traceparent"],
        session_id=row["session_id"],
        webhook=row["webhook"],
        events=None if row["events"] is None else tuple(row["events"].split()),
        key=row["key"],
        page_id=row["page_id"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        completed_at=row["completed_at"],
        far=Far(
            percentage=row["percentage"],
            step=row["step"],
            completed=row["steps_completed"],
            total=row["steps_total"],
        ),
        error=row["error"],
        result=row["result"],
        number=row["number"],
    )
