"""Replys that wait for a job's end, as long as their client wants and no longer.

They wait in the request's own task: a client that leaves takes its wait along, and the job goes on.

Source: contract, section 11 ("Wait").
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penelope import outcome
from penelope.http import held, prefer
from penelope.http.envelope import Reply, said
from penelope.http.worker import Worker
from penelope.jobs import views
from penelope.jobs.model import State, Way
from penelope.jobs.watching import Ended
from penelope.outcome import Outcome


async def end(worker: Worker, job_id: str, seconds: int | None) -> Ended | None:
    """A job's end, if it comes within so many seconds; None: it did not, or nobody wants to wait.

    A stop of the worker ends the wait: what is so then is the answer.
    """
    if seconds is None:
        return None
    ended = await worker.supervisor.watching.wait(job_id, seconds)
    worker.touch()
    return ended


@dataclass(frozen=True, slots=True)
class Begun:
    """A job as its start has it. `replayed`: an earlier one, under the same key, began it."""

    job_id: str
    page_id: str
    way: Way
    replayed: bool


async def started(worker: Worker, job: Begun, seconds: int | None) -> Reply:
    """The answer to a job's start: the plain call's where it ended in time, else the `202`."""
    ended = await _outcome(worker, job, seconds)
    return accepted(job, seconds) if ended is None else said(ended, _headers(job, seconds))


def accepted(job: Begun, seconds: int | None = None) -> Reply:
    """The `202`; `seconds` as the client wanted to wait, None: it did not."""
    told = outcome.success(job.page_id, views.accepted(job.job_id, job.way), 202)
    return said(told, _headers(job, seconds))


def _headers(job: Begun, seconds: int | None) -> Mapping[str, str]:
    headers = {"Location": views.status_url(job.job_id), **prefer.applied(seconds)}
    return headers | {"Idempotency-Replayed": "true"} if job.replayed else headers


async def _outcome(worker: Worker, job: Begun, seconds: int | None) -> Outcome | None:
    """How the job ended, if it did in time and its client wants to know; one that began before may have long ago."""
    ended = await end(worker, job.job_id, seconds)
    if ended is not None:
        return ended.outcome
    if seconds is None or not job.replayed:
        return None
    known = await held.find(worker, job.job_id)
    return None if known is None or known.state is State.RUNNING else Ended(known).outcome
