"""A persona's work by the hour: contract, section 9."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penelope.waker.workload import HOUR_S, Work, by_hour, shown

BASE = 1_800_000_000 // HOUR_S * HOUR_S
works = st.builds(
    lambda is_job, began, took: Work(is_job, BASE + began, BASE + began + took),
    st.booleans(),
    st.floats(0, 10 * HOUR_S),
    st.floats(0, 3 * HOUR_S),
)


@given(st.lists(works, max_size=20))
def test_every_second_is_in_one_hour(done: list[Work]) -> None:
    """Sums over the hours are sums over the work, and no hour has more than the work side by side can fill."""
    hours = by_hour(done, BASE, BASE + 14 * HOUR_S)

    assert sum(work.is_job for work in done) == sum(hour.jobs for hour in hours)
    assert len(done) == sum(hour.calls + hour.jobs for hour in hours)
    assert sum(work.ended - work.began for work in done) == pytest.approx(sum(hour.busy_s for hour in hours))
    assert all(0 <= hour.busy_s <= HOUR_S * len(done) + 1e-6 for hour in hours)
    assert [BASE + HOUR_S * at for at in range(15)] == [hour.hour for hour in hours]


def test_a_job_over_three_hours() -> None:
    hours = by_hour([Work(True, BASE + 3000, BASE + 7500)], BASE, BASE + 3 * HOUR_S)

    assert [(1, 600), (0, 3600), (0, 300), (0, 0)] == [(hour.jobs, hour.busy_s) for hour in hours]
    assert {"jobs": 1, "calls": 0, "busy_s": 4500, "since": BASE}.items() <= shown(hours).items()


def test_what_lies_before_the_first_hour_is_left_out() -> None:
    (hour,) = by_hour([Work(False, BASE - 100, BASE + 50)], BASE, BASE)

    assert (0, 50) == (hour.calls, hour.busy_s)
