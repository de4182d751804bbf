"""A job as clients see it."""

import json
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from penelope.jobs import views
from penelope.jobs.model import Job, Polling, State, Webhook
from penelope.jobs.schedule import forget_at
from tests.core import values

KEYS = "success page_id job_id state plugin started_at finished_at expires_in status result callback delivery".split()
DONE = Job(
    job_id="5b1d82d4dc257267",
    page_id="main",
    plugin="instagram/open-account",
    way=Webhook("https://scheduler.lan/hooks/42"),
    request_id="r",
    started_at=1792844301.5,
    state=State.DONE,
    finished_at=1792844331.57,
    status=200,
    result='{"success": true, "page_id": "main", "handle": "alice"}',
)


def test_a_poll_is_the_document_of_the_seed() -> None:
    """JSON exactly as in the seed, same keys in the same order."""
    assert (
        '{"success": true, "page_id": "main", "job_id": "5b1d82d4dc257267", "state": "done", '
        '"plugin": "instagram/open-account", "started_at": 1792844301.5, "finished_at": 1792844331.57, '
        '"expires_in": 600.0, "status": 200, "result": {"success": true, "page_id": "main", "handle": "alice"}, '
        '"callback": "https://scheduler.lan/hooks/42", '
        '"delivery": {"attempts": 1, "delivered": false, "error": null}}'
    ) == views.posted(DONE, 1792844341.57).decode()


def test_the_202_is_the_document_of_the_seed() -> None:
    """`ttl` is the polling hold (null for a webhook), `callback` the webhook URL (null for polling)."""
    assert [
        ("job_id", "5b1d82d4dc257267"),
        ("status_url", "/api/v1/jobs/5b1d82d4dc257267"),
        ("ttl", None),
        ("callback", "https://scheduler.lan/hooks/42"),
    ] == list(views.accepted(DONE.job_id, DONE.way).items())
    polled = views.accepted(DONE.job_id, Polling(600.0))
    assert (600.0, None) == (polled["ttl"], polled["callback"])


@given(values.running(), values.EPOCH)
def test_a_running_job_has_nulls(job: Job, now: float) -> None:
    """`null` where the seed has `null`."""
    seen = json.loads(views.shown(job, now))
    assert KEYS == list(seen)
    assert (True, "running", job.page_id) == (seen["success"], seen["state"], seen["page_id"])
    assert [None] * 4 == [seen[key] for key in ("finished_at", "expires_in", "status", "result")]


@given(values.ended(), st.floats(-10, 1000), st.integers(0, 3), st.none() | values.TEXT)
@example(DONE, 0.0, 0, None)
@example(
    replace(DONE, result='{"success": true, "a": "😀/<\\/", "b": 1e-7, "c": 1.0, "d": 18446744073709551615}'),
    0.0,
    1,
    "x",
)
def test_an_ended_job_is_shown_whole(job: Job, since: float, attempts: int, error: str | None) -> None:
    """Times as float epoch seconds, `expires_in` a float from the deadline, never negative; the result unchanged."""
    job = replace(job, attempts=attempts, error=error)
    body = views.shown(job, job.ended_at + since)
    seen = json.loads(body)

    assert KEYS == list(seen)
    assert job.result is not None
    assert job.result.encode() in body
    assert json.loads(job.result) == seen["result"]
    assert (job.status, job.state.value) == (seen["status"], seen["state"])
    assert (job.started_at, job.finished_at) == (seen["started_at"], seen["finished_at"])
    assert {float} == {type(seen[key]) for key in ("started_at", "finished_at", "expires_in")}
    deadline = forget_at(job)
    assert deadline is not None
    assert max(0.0, deadline - (job.ended_at + since)) == seen["expires_in"]
    if isinstance(job.way, Webhook):
        assert job.way.url == seen["callback"]
        assert [("attempts", attempts), ("delivered", False), ("error", error)] == list(
            seen["delivery"].items()
        )
    else:
        assert (None, None) == (seen["callback"], seen["delivery"])


@given(values.ended(Webhook("http://h/")), st.integers(0, 3), st.floats(0, 600))
def test_a_post_counts_itself(job: Job, attempts: int, since: float) -> None:
    """The worker POSTs the job as a poll would show it, that attempt counted."""
    job = replace(job, attempts=attempts)
    now = job.ended_at + since
    posted = json.loads(views.posted(job, now))
    assert attempts + 1 == posted["delivery"].pop("attempts")
    polled = json.loads(views.shown(job, now))
    assert attempts == polled["delivery"].pop("attempts")
    assert polled == posted
