"""The moves of a job's life. `MOVES` is the whole table; the docs' diagram and the stateful tests read it.

Source: contract, sections 5 and 8.
"""

from dataclasses import dataclass, replace
from typing import Final

from penelope.errors import TimedOut
from penelope.jobs.model import Job, State, Webhook
from penelope.jobs.schedule import Verdict, next_attempt
from penelope.outcome import Outcome, failure, from_error

MOVES: Final = frozenset(
    {(State.RUNNING, State.DONE), (State.RUNNING, State.CANCELLED), (State.RUNNING, State.INTERRUPTED)}
)
INTERRUPTED_STATUS: Final = 503
INTERRUPTED_ERROR: Final = "job interrupted: the worker stopped before it ended"
CANCELLED_STATUS: Final = 499
CANCELLED_ERROR: Final = "job cancelled: a client asked for its end"


class IllegalMove(Exception):
    """A move that the table does not have: a bug of Penelope's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One POST that was made.

    Attributes:
        due: when the schedule had it, epoch seconds.
        at: when it began, epoch seconds.
        error: why it did not deliver, a few words; None when it did.
    """

    due: float
    at: float
    verdict: Verdict
    error: str | None


def finish(job: Job, outcome: Outcome, now: float) -> Job:
    """The job with its plugin's outcome.

    Raises:
        IllegalMove: it has ended already.
    """
    return _end(job, State.DONE, outcome, now)


def interrupt(job: Job, now: float) -> Job:
    """A job that the last stop or crash cut off; it counts as ended `now`, at the start that found it.

    Raises:
        IllegalMove: it has ended already.
    """
    return _cut_off(
        job, State.INTERRUPTED, failure(INTERRUPTED_STATUS, INTERRUPTED_ERROR, page_id=job.page_id), now
    )


def cancel(job: Job, now: float) -> Job:
    """A job whose plugin was ended because a client asked for it.

    Raises:
        IllegalMove: it has ended already.
    """
    return _cut_off(
        job, State.CANCELLED, failure(CANCELLED_STATUS, CANCELLED_ERROR, page_id=job.page_id), now
    )


def time_out(job: Job, now: float) -> Job:
    """A job whose plugin was ended because its limit passed: done, as a call that takes too long.

    Raises:
        IllegalMove: it has ended already, or has no limit.
    """
    if job.limit_s is None:
        raise IllegalMove(f"job {job.job_id} has no limit that could pass")
    late = TimedOut(f"job timed out: it took longer than its limit of {job.limit_s:g} s")
    return _cut_off(job, State.DONE, from_error(late, job.page_id), now)


def attempted(job: Job, attempt: Attempt) -> Job | None:
    """The job after a POST; None: forget it (delivered, given up, or no attempt is left).

    Raises:
        IllegalMove: it is no webhook job that ended.
    """
    if job.state is State.RUNNING or not isinstance(job.way, Webhook):
        raise IllegalMove(f"job {job.job_id} ({job.state.value}) has nothing to deliver")
    used_up = max(attempt.at, attempt.due)
    if attempt.verdict is not Verdict.RETRY or next_attempt(job.ended_at, used_up, job.ended_at) is None:
        return None
    return replace(job, attempts=job.attempts + 1, last_at=used_up, error=attempt.error)


def _cut_off(job: Job, state: State, outcome: Outcome, now: float) -> Job:
    """An end that was not the plugin's own: how far it came is its last checkpoint."""
    if job.checkpoint is not None:
        # Spliced in as the text that was stored: reading one that is nested deeply could fail, and with it the start.
        outcome = Outcome(outcome.status, f'{outcome.text[:-1]}, "checkpoint": {job.checkpoint}}}')
    return _end(job, state, outcome, now)


def _end(job: Job, state: State, outcome: Outcome, now: float) -> Job:
    if (job.state, state) not in MOVES:
        raise IllegalMove(f"job {job.job_id} cannot go from {job.state.value} to {state.value}")
    return replace(
        job,
        state=state,
        finished_at=max(now, job.started_at),
        status=outcome.status,
        result=outcome.text,
    )
