"""A job and its row: what is written of it, and what is read.

Source: contract, sections 5 and 11.
"""

import sqlite3
from typing import Any, Final

from penelope.jobs.model import Job, Polling, State, Way, Webhook
from penelope.jobs.schedule import forget_at

# Of the table `jobs` as `j`. Whoever selects them adds `status`, `result` and `checkpoint`.
COLUMNS: Final = (
    "j.job_id, j.page_id, j.plugin, j.callback, j.ttl, j.request_id, j.state, j.started_at, j.finished_at, "
    "j.attempts, j.last_at, j.error, j.limit_s, j.traceparent"
)


def row_of(job: Job) -> dict[str, Any]:
    """What statements may name of a job."""
    return {
        "job_id": job.job_id,
        "page_id": job.page_id,
        "plugin": job.plugin,
        "callback": job.way.url if isinstance(job.way, Webhook) else None,
        "ttl": job.way.ttl if isinstance(job.way, Polling) else None,
        "request_id": job.request_id,
        "state": job.state.value,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "forget_at": forget_at(job),
        "status": job.status,
        "result": job.result,
        "attempts": job.attempts,
        "last_at": job.last_at,
        "error": job.error,
        "limit_s": job.limit_s,
        "traceparent": job.traceparent,
    }


def job_of(row: sqlite3.Row) -> Job:
    way: Way = Polling(row["ttl"]) if row["callback"] is None else Webhook(row["callback"])
    return Job(
        job_id=row["job_id"],
        page_id=row["page_id"],
        plugin=row["plugin"],
        way=way,
        request_id=row["request_id"],
        state=State(row["state"]),
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        status=row["status"],
        result=row["result"],
        checkpoint=row["checkpoint"],
        attempts=row["attempts"],
        last_at=row["last_at"],
        error=row["error"],
        limit_s=row["limit_s"],
        traceparent=row["traceparent"],
    )
