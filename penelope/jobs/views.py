"""A job as clients see it: the `202`, and the JSON that a poll shows and a webhook carries.

The result is spliced in as the text that was stored: it may be 50 MB, and it must not change on the way.

Source: contract, section 5 ("JSON exactly as in the seed, same keys in the same order").
"""

from dataclasses import replace
from typing import Any, assert_never

from penelope import jsontext
from penelope.jobs.model import Job, Polling, Way, Webhook
from penelope.jobs.schedule import forget_at


def status_url(job_id: str) -> str:
    return f"/api/v1/jobs/{job_id}"


def accepted(job_id: str, way: Way) -> dict[str, Any]:
    """What follows `success` in the `202`."""
    return {
        "job_id": job_id,
        "status_url": status_url(job_id),
        "ttl": way.ttl if isinstance(way, Polling) else None,
        "callback": _callback(way),
    }


def listed(job: Job, now: float) -> dict[str, Any]:
    """What the list shows of a job: what a poll does, but for its result."""
    return {**_head(job, now), **_tail(job)}


def shown(job: Job, now: float) -> bytes:
    """What a poll answers, UTF-8."""
    return "".join(
        (
            jsontext.dumps({"success": True, **_head(job, now)})[:-1],
            ', "result": ',
            "null" if job.result is None else job.result,
            ", ",
            jsontext.dumps(_tail(job))[1:],
        )
    ).encode()


def posted(job: Job, now: float) -> bytes:
    """What the next POST carries: the job as a poll would show it, that attempt counted. UTF-8."""
    if job.of_run:
        return (job.result or "").encode()
    return shown(replace(job, attempts=job.attempts + 1), now)


def _head(job: Job, now: float) -> dict[str, Any]:
    forgotten = forget_at(job)
    return {
        "page_id": job.page_id,
        "job_id": job.job_id,
        "state": job.state.value,
        "plugin": job.plugin,
        "started_at": float(job.started_at),
        "finished_at": None if job.finished_at is None else float(job.finished_at),
        "expires_in": None if forgotten is None else max(0.0, forgotten - now),
        "status": job.status,
    }


def _tail(job: Job) -> dict[str, Any]:
    return {"callback": _callback(job.way), "delivery": _delivery(job)}


def _callback(way: Way) -> str | None:
    return way.url if isinstance(way, Webhook) else None


def _delivery(job: Job) -> dict[str, Any] | None:
    match job.way:
        case Polling():
            return None
        case Webhook():
            # A delivered job is gone, so what is shown was never delivered yet.
            return {"attempts": job.attempts, "delivered": False, "error": job.error}
        case _:
            assert_never(job.way)
