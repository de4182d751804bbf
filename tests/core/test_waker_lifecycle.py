"""What becomes of a worker under the waker: contract, section 9."""

from dataclasses import replace
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from penelope.waker.lifecycle import (
    BACKOFF_S,
    LOOK_S,
    SLEEPY_TRIES,
    End,
    Seen,
    Stay,
    failures_after,
    idle_for,
    judge,
    restart_at,
    starts_itself,
)
from penelope.waker.model import Activity, Mode, Policy, Why

NOW = 1_800_000_000.0
spans = st.floats(0, 1e6)
counts = st.integers(0, 3)
activities = st.builds(Activity, in_flight=counts, idle_for_s=spans, memory_mb=st.floats(0, 4000))
policies = st.builds(
    Policy,
    mode=st.sampled_from(Mode),
    idle_timeout_s=st.floats(0.1, 1e5),
    recycle_after_s=st.none() | st.floats(1, 1e6),
    recycle_above_mb=st.none() | st.floats(1, 4000),
)
seens = st.builds(
    Seen,
    activity=activities,
    started_at=spans.map(lambda ago: NOW - ago),
    passing=counts,
    passed_at=st.none() | spans.map(lambda ago: NOW - ago),
    renew=st.none() | st.sampled_from([Why.CHANGED, Why.REMOVED]),
)


def seen(in_flight: int = 0, idle_for_s: float = 0.0, memory_mb: float = 100.0, **more: Any) -> Seen:
    activity = Activity(in_flight=in_flight, idle_for_s=idle_for_s, memory_mb=memory_mb)
    return Seen(**{"activity": activity, "started_at": NOW - 10, **more})


@given(policies, seens)
def test_never_ended_while_anything_is_in_flight(policy: Policy, what: Seen) -> None:
    """Never while `in_flight` is not 0, nor while the gateway passes a request on."""
    assume(what.activity.in_flight or what.passing)

    assert isinstance(judge(policy, what, NOW), Stay)
    assert 0 == idle_for(what, NOW)


@given(policies, seens)
def test_looks_again_later_and_no_later_than_something_is_due(policy: Policy, what: Seen) -> None:
    """Neither a busy loop, nor a moment missed: with nothing new, it ends at the very moment that was named."""
    verdict = judge(policy, what, NOW)
    if isinstance(verdict, End):
        return
    assert verdict.until > NOW
    if policy.mode is Mode.SLEEPY and what.renew is None and not what.activity.in_flight and not what.passing:
        waited = verdict.until - NOW
        then = replace(
            what, activity=replace(what.activity, idle_for_s=what.activity.idle_for_s + waited + 1e-6)
        )
        assert End(Why.IDLE) == judge(policy, then, verdict.until + 1e-3)


@given(policies, seens)
def test_a_sleepy_one_ends_when_idle_or_unwanted_only(policy: Policy, what: Seen) -> None:
    sleepy = replace(policy, mode=Mode.SLEEPY)
    verdict = judge(sleepy, what, NOW)

    if isinstance(verdict, End):
        idle = idle_for(what, NOW)
        assert verdict.why is what.renew or (verdict.why is Why.IDLE and idle >= sleepy.idle_timeout_s)


@given(policies, seens)
def test_one_that_is_kept_up_never_ends_for_idleness(policy: Policy, what: Seen) -> None:
    verdict = judge(replace(policy, mode=Mode.ALWAYS), what, NOW)

    assert verdict != End(Why.IDLE)
    if isinstance(verdict, Stay):
        assert verdict.until <= NOW + LOOK_S


def test_the_idle_clock_is_the_last_of_both_ways() -> None:
    """A request that the gateway has just passed on counts, whatever the worker said before."""
    assert 100 == idle_for(seen(idle_for_s=100), NOW)
    assert 3 == idle_for(seen(idle_for_s=100, passed_at=NOW - 3), NOW)
    assert 100 == idle_for(seen(idle_for_s=100, passed_at=NOW - 500), NOW)


def test_a_polling_job_that_ended_does_not_keep_a_worker_up() -> None:
    """It counts in `in_flight` no more; the idle clock runs from its end."""
    assert Stay(NOW + 15) == judge(Policy(), seen(idle_for_s=45), NOW)
    assert End(Why.IDLE) == judge(Policy(), seen(idle_for_s=60), NOW)


def test_recycled_by_age_and_memory() -> None:
    policy = Policy(mode=Mode.ALWAYS, recycle_after_s=3600, recycle_above_mb=800)

    assert End(Why.AGE) == judge(policy, seen(started_at=NOW - 3600), NOW)
    assert End(Why.MEMORY) == judge(policy, seen(memory_mb=801), NOW)
    assert Stay(NOW + 2) == judge(policy, seen(memory_mb=801, in_flight=1), NOW)
    assert Stay(NOW + 30) == judge(policy, seen(started_at=NOW - 3570), NOW)
    assert Stay(NOW + 60) == judge(policy, seen(memory_mb=800), NOW)


@given(st.integers(1, 50), st.floats(0, 59))
def test_back_off_grows_to_a_minute(failures: int, lived: float) -> None:
    wait = restart_at(failures, NOW) - NOW

    assert BACKOFF_S[0] <= wait <= BACKOFF_S[-1]
    assert wait <= restart_at(failures_after(failures, lived), NOW) - NOW
    assert NOW == restart_at(failures_after(failures, 60), NOW)


def test_who_starts_by_itself() -> None:
    """Always: kept up. Sleepy: what died may have left interrupted jobs and webhooks; but not for ever."""
    always, sleepy = Policy(mode=Mode.ALWAYS), Policy()

    assert starts_itself(always, died=False, failures=1000)
    assert not starts_itself(sleepy, died=False, failures=0)
    assert starts_itself(sleepy, died=True, failures=SLEEPY_TRIES)
    assert not starts_itself(sleepy, died=True, failures=SLEEPY_TRIES + 1)
