"""A run as a value, and the moves of its life; pure. Times are epoch seconds, durations seconds.

Source: contract, section 10; the owner's documents on runs.
"""

import hashlib
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

KEEP_S: Final = 24 * 3600.0  # a run that ended, and its result
MAX_TIMEOUT_S: Final = 7 * 24 * 3600.0
RUN_ID_BYTES: Final = 6
INTERRUPTED: Final = "Interrupted by service restart"


class RunState(Enum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        return self in OVER


OVER: Final = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED})
MOVES: Final = frozenset(
    {
        (RunState.QUEUED, RunState.RUNNING),
        (RunState.QUEUED, RunState.CANCELLED),
        (RunState.QUEUED, RunState.FAILED),  # at a start that resumes none
        (RunState.RUNNING, RunState.SUCCEEDED),
        (RunState.RUNNING, RunState.FAILED),
        (RunState.RUNNING, RunState.CANCELLED),
    }
)


class IllegalMove(Exception):
    """A move that the table does not have: a bug of Penelope's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Far:
    """How far a run is. `percentage` 0 to 100; `total` None: nobody knows."""

    percentage: float = 0.0
    step: str | None = None
    completed: int = 0
    total: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Attributes:
    run_id: `run_` and 12 hex digits.
    request: what was submitted, JSON text; the work is made from it again after a restart. "" where it is not needed.
    agent_id: what does it: `recipe:<name>` or `agent:<name>`.
    timeout_s: of its work, from its start on.
    request_id, traceparent: of the request that submitted it.
    session_id: a label of the client's.
    webhook: where its end is POSTed; None: nowhere.
    events: of which ends it is told (`completed`, `failed`, `cancelled`); None: of all.
    key: what makes a repeated submit the same one, hashed; None: nothing does.
    result: JSON text; None until it succeeded.
    number: the order of arrival, which the store gives; 0: it has not been there.
    """

    run_id: str
    request: str
    agent_id: str
    timeout_s: float
    request_id: str
    created_at: float
    traceparent: str | None = None
    session_id: str | None = None
    webhook: str | None = None
    events: tuple[str, ...] | None = None
    key: str | None = None
    state: RunState = RunState.QUEUED
    started_at: float | None = None
    completed_at: float | None = None
    page_id: str | None = None
    far: Far = Far()
    error: str | None = None
    result: str | None = None
    number: int = 0

    @property
    def ended_at(self) -> float:
        """`completed_at` of a run that is over; asking another one is a bug."""
        assert self.completed_at is not None, f"{self.run_id} is {self.state.value}"
        return self.completed_at

    @property
    def duration_s(self) -> float | None:
        """From its start to its end; None: it never started, or is not over."""
        if self.started_at is None or self.completed_at is None:
            return None
        return self.completed_at - self.started_at

    @property
    def forget_at(self) -> float | None:
        """When it is kept no longer; None while it is not over."""
        return None if self.completed_at is None else self.completed_at + KEEP_S


def scoped_key(key: str, scope: str | None, session_id: str | None) -> str:
    """What has to be unique, as a hash: a key counts for all, or within its session.

    Args:
        scope: `session`; anything else counts for all, a key alone too: that is what the public client sends.
    """
    parts = ["session", session_id or ""] if scope == "session" else ["global"]
    return hashlib.sha256("\0".join([*parts, key]).encode()).hexdigest()


def begun(run: Run, page_id: str, now: float) -> Run:
    """Raises:
    IllegalMove: it is not queued.
    """
    return _moved(run, RunState.RUNNING, started_at=max(now, run.created_at), page_id=page_id)


def succeeded(run: Run, result: str, far: Far, now: float) -> Run:
    """Raises:
    IllegalMove: it does not run.
    """
    whole = replace(far, percentage=100.0, completed=far.total if far.total is not None else far.completed)
    return _ended(run, RunState.SUCCEEDED, now, result=result, far=whole)


def failed(run: Run, error: str, far: Far, now: float) -> Run:
    """Raises:
    IllegalMove: it is over.
    """
    return _ended(run, RunState.FAILED, now, error=error, far=far)


def interrupted(run: Run, now: float) -> Run:
    """A run that the last stop or crash cut off, at the start that found it. Its key is free: who submits it again gets
    a new one.
    """
    return replace(failed(run, INTERRUPTED, run.far, now), key=None)


def unstorable(run: Run) -> Run:
    """A run that is over, but with a result that the store can never take, e.g. of 1 GB."""
    if run.state is RunState.SUCCEEDED:
        run = replace(run, state=RunState.FAILED)
    error = "the result could not be stored; the worker's log has the details"
    return replace(run, result=None, error=error, far=Far(percentage=run.far.percentage))


def cancelled(run: Run, far: Far, now: float) -> Run:
    """Raises:
    IllegalMove: it is over.
    """
    return _ended(run, RunState.CANCELLED, now, far=far)


def _ended(run: Run, state: RunState, now: float, **more: Any) -> Run:
    return _moved(run, state, completed_at=max(now, run.started_at or run.created_at), **more)


def _moved(run: Run, state: RunState, **more: Any) -> Run:
    if (run.state, state) not in MOVES:
        raise IllegalMove(f"{run.run_id} cannot go from {run.state.value} to {state.value}")
    return replace(run, state=state, **more)
