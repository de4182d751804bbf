"""The list of jobs in parts, and the cursor between them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penelope.errors import BadParameter
from penelope.jobs.listing import Place, from_cursor, page_of, to_cursor
from penelope.jobs.model import Job, Polling
from tests.core import values

JOBS = st.lists(values.running() | values.ended(), max_size=12, unique_by=lambda job: job.job_id)


@given(values.EPOCH, st.text("0123456789abcdef", min_size=16, max_size=16))
def test_a_cursor_names_its_place(at: float, job_id: str) -> None:
    """Opaque, and fit for a query string."""
    place = Place(at, job_id)
    cursor = to_cursor(place)
    assert place == from_cursor(cursor)
    assert set(cursor) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


BAD = ["", "a", "é", "MS4wIDAw", "====", "bmFuIDAwMDAwMDAwMDAwMDAwMDA", "MWU5OTkgMDAwMDAwMDAwMDAwMDAwMA"]


@pytest.mark.parametrize("cursor", [*BAD, to_cursor(Place(1.0, "0" * 16)) + "=", "\x00" * 9])
def test_what_was_not_given_out_is_no_cursor(cursor: str) -> None:
    """Bad values are `400`."""
    with pytest.raises(BadParameter, match="cursor"):
        from_cursor(cursor)


@given(st.text() | st.text("ABCDEabcdeMDQ0-_=", max_size=40))
def test_any_text_is_a_cursor_or_refused(text: str) -> None:
    """Never an error of the worker's own, and never two names for one place."""
    try:
        place = from_cursor(text)
    except BadParameter:
        return
    assert text == to_cursor(place)


@given(JOBS, st.integers(1, 5))
def test_the_parts_are_the_whole(jobs: list[Job], limit: int) -> None:
    """Each part begins after the place of the one before; together they have each job once."""
    jobs = sorted(jobs, key=lambda job: (job.started_at, job.job_id), reverse=True)
    seen: list[Job] = []
    left = jobs
    while True:
        part, rest = page_of(left, limit)
        assert len(part) <= limit
        seen += part
        if rest is None:
            break
        assert part
        left = [job for job in jobs if (job.started_at, job.job_id) < (rest.started_at, rest.job_id)]
    assert jobs == seen


def test_jobs_of_one_instant_are_apart() -> None:
    """Two jobs that started at once are told apart by their ids."""
    one = Job(
        job_id="a" * 16,
        page_id="main",
        plugin="a/b",
        way=Polling(1.0),
        request_id="r",
        started_at=1.5,
    )
    two = replace(one, job_id="b" * 16)
    part, rest = page_of([two, one], 1)
    assert ([two], Place(1.5, "b" * 16)) == (part, rest)
