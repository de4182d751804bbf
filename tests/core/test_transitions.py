"""The moves of a job's life."""

import itertools
import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penelope.jobs.model import Job, Polling, State, Webhook
from penelope.jobs.schedule import Verdict
from penelope.jobs.transitions import (
    MOVES,
    Attempt,
    IllegalMove,
    attempted,
    cancel,
    finish,
    interrupt,
    time_out,
)
from penelope.outcome import Outcome
from tests.core import values

OUTCOME = Outcome(200, '{"success": true, "page_id": "main"}')
TO: dict[State, Callable[[Job, float], Job]] = {
    State.DONE: lambda job, now: finish(job, OUTCOME, now),
    State.CANCELLED: cancel,
    State.INTERRUPTED: interrupt,
}
HOOK = Webhook("http://h/")
NOW = 1_800_000_000.0


def a_job(state: State) -> Job:
    job = Job(job_id="0" * 16, page_id="main", plugin="a/b", way=HOOK, request_id="r", started_at=NOW - 10)
    if state is State.RUNNING:
        return job
    return replace(job, state=state, finished_at=NOW, status=200, result=OUTCOME.text)


def test_the_table_has_three_moves() -> None:
    """A job runs, then is done, cancelled or interrupted, once."""
    ends = (State.DONE, State.CANCELLED, State.INTERRUPTED)
    assert {(State.RUNNING, end) for end in ends} == MOVES


@pytest.mark.parametrize(("state", "to"), list(itertools.product(State, TO)))
def test_the_table_is_what_the_moves_do(state: State, to: State) -> None:
    """A move that the table does not have is a bug of Penelope's, and is raised."""
    if (state, to) in MOVES:
        moved = TO[to](a_job(state), NOW)
        assert (to, NOW) == (moved.state, moved.finished_at)
    else:
        with pytest.raises(IllegalMove):
            TO[to](a_job(state), NOW)


@given(values.running(), values.OUTCOMES, st.floats(-100, 1e6))
def test_a_finished_job_has_the_plain_answer(job: Job, outcome: Outcome, later: float) -> None:
    """`status` and `result` are exactly what the plain call would have answered."""
    done = finish(job, outcome, job.started_at + later)
    assert (outcome.status, outcome.text) == (done.status, done.result)
    assert done.ended_at >= job.started_at
    assert replace(done, state=job.state, finished_at=None, status=None, result=None) == job


@pytest.mark.parametrize("depth", [10, 900, 5_000])
def test_a_checkpoint_of_any_depth_is_kept_as_it_is(depth: int) -> None:
    """The start reads what the last life left: what was stored once must not stop it."""
    checkpoint = "[" * depth + "]" * depth
    shown = interrupt(replace(a_job(State.RUNNING), checkpoint=checkpoint), NOW)
    assert shown.result is not None
    assert shown.result.endswith(f', "checkpoint": {checkpoint}}}')
    assert not json.loads(shown.result.replace(checkpoint, "[]"))["success"]


CUT: list[tuple[Callable[[Job, float], Job], State, int, str, dict[str, str]]] = [
    (interrupt, State.INTERRUPTED, 503, "job interrupted: the worker stopped before it ended", {}),
    (cancel, State.CANCELLED, 499, "job cancelled: a client asked for its end", {}),
    (
        time_out,
        State.DONE,
        408,
        "job timed out: it took longer than its limit of 2.5 s",
        {"kind": "timeout"},
    ),
]


@pytest.mark.parametrize(("move", "state", "status", "error", "more"), CUT, ids=[cut[1].value for cut in CUT])
@given(values.running(), st.floats(0, 1e6))
def test_a_job_that_is_cut_off_keeps_its_checkpoint(
    move: Callable[[Job, float], Job],
    state: State,
    status: int,
    error: str,
    more: dict[str, str],
    job: Job,
    later: float,
) -> None:
    """The status and the error, plus the last `checkpoint` in `result.checkpoint` where there was one."""
    after = move(replace(job, limit_s=2.5), job.started_at + later)
    assert (state, status, job.started_at + later) == (after.state, after.status, after.finished_at)
    assert after.result is not None
    result = json.loads(after.result)
    if job.checkpoint is not None:
        assert json.loads(job.checkpoint) == result.pop("checkpoint")
    assert [("success", False), ("error", error), ("page_id", job.page_id), *more.items()] == list(
        result.items()
    )


def test_a_job_without_a_limit_does_not_time_out() -> None:
    """Without the header a job may take as long as it wants."""
    with pytest.raises(IllegalMove):
        time_out(a_job(State.RUNNING), NOW)


@given(
    values.ended(HOOK),
    st.sampled_from(Verdict),
    st.integers(0, 3),
    st.floats(-0.001, 0) | st.floats(0, 9.9),
    st.text(),
)
def test_only_a_retry_before_the_fourth_stays(
    job: Job, verdict: Verdict, before: int, late: float, error: str
) -> None:
    """Until one is answered `2xx`, at most four times."""
    due = job.ended_at + (0, 60, 300, 600)[before]
    after = attempted(
        replace(job, attempts=before), Attempt(due=due, at=due + late, verdict=verdict, error=error)
    )
    if verdict is Verdict.RETRY and before < 3:
        assert after is not None
        assert (before + 1, error) == (after.attempts, after.error)
        assert after.last_at is not None
        assert max(due, due + late) == after.last_at
        assert replace(after, attempts=before, last_at=None, error=None) == replace(job, attempts=before)
    else:
        assert after is None


def test_a_job_without_an_end_has_nothing_to_deliver() -> None:
    """A webhook job is POSTed when it ended."""
    attempt = Attempt(due=NOW, at=NOW, verdict=Verdict.RETRY, error="x")
    with pytest.raises(IllegalMove):
        attempted(a_job(State.RUNNING), attempt)
    with pytest.raises(IllegalMove):
        attempted(replace(a_job(State.DONE), way=Polling(60)), attempt)
