"""When a webhook is POSTed, when a job is forgotten, and what an answer means."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penelope.jobs.model import Job, Polling, Webhook
from penelope.jobs.schedule import Verdict, forget_at, next_attempt, verdict
from tests.core import values

MOMENTS = (0.0, 60.0, 300.0, 600.0)
# Whole seconds: sums of floats of this size are exact.
ENDED = st.integers(1_700_000_000, 2_000_000_000).map(float)
SINCE = st.integers(-5, 700).map(float)


@given(ENDED, st.none() | SINCE, SINCE)
def test_an_attempt_is_never_early_and_never_in_the_past(
    ended: float, last: float | None, since: float
) -> None:
    """Attempts at 0, 60, 300 and 600 s after `finished_at`; missed attempts collapse into one."""
    now = ended + since
    at = next_attempt(ended, None if last is None else ended + last, now)
    if at is None:
        assert since > 610 or (last is not None and last >= 600)
        return
    assert at >= now
    unused = [moment for moment in MOMENTS if last is None or moment > last]
    assert max(ended + unused[0], now) == at


@given(ENDED, st.lists(st.floats(0, 10), min_size=4, max_size=4))
def test_a_worker_that_is_never_down_posts_at_the_four_moments(ended: float, took: list[float]) -> None:
    """A schedule that does not drift: slow attempts do not shift the rest."""
    made: list[float] = []
    now, last = ended, None
    while (at := next_attempt(ended, last, now)) is not None:
        made.append(at - ended)
        last, now = at, at + took[len(made) - 1]
    assert list(MOMENTS) == made


@given(ENDED, st.floats(610, 1e7, exclude_min=True), st.none() | SINCE)
def test_past_the_deadline_there_is_none(ended: float, since: float, last: float | None) -> None:
    """A job past its deadline (10 minutes for a webhook) is deleted without a last try."""
    assume(ended + since > ended + 610)
    assert next_attempt(ended, None if last is None else ended + last, ended + since) is None


@pytest.mark.parametrize("status", [*range(100, 600), None])
def test_every_answer_has_its_verdict(status: int | None) -> None:
    """Any `2xx` delivers. A network error, a timeout, `429` or a `5xx` waits; any other answer gives up at once."""
    if status is not None and status // 100 == 2:
        expected = Verdict.DELIVERED
    elif status is None or status == 429 or status // 100 == 5:
        expected = Verdict.RETRY
    else:
        expected = Verdict.GIVE_UP
    assert expected is verdict(status)


@given(values.running())
def test_a_running_job_has_no_deadline(job: Job) -> None:
    """`expires_in` is null while it runs."""
    assert forget_at(job) is None


@given(values.ended())
def test_a_deadline_counts_from_the_end(job: Job) -> None:
    """Polling `finished_at + ttl`; webhook `finished_at + 610`."""
    match job.way:
        case Polling(ttl=ttl):
            assert job.ended_at + ttl == forget_at(job)
        case Webhook():
            assert job.ended_at + 610 == forget_at(job)
