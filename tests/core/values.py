"""Values for the properties: JSON, jobs, outcomes. Times are epoch seconds."""

import json
from dataclasses import replace

from hypothesis import strategies as st

from penelope.jobs.model import MAX_LIMIT_S, MAX_TTL_S, Job, Polling, State, Way, Webhook
from penelope.outcome import Outcome

INT64 = st.integers(-(2**63), 2**64)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
# Text that can be encoded: emoji, slashes and angle brackets come often, since they are what encoders change.
TEXT = st.text() | st.text(alphabet="/<>&\"'\\\u2028é😀\x00\n", max_size=8)
# Any str of Python's, lone surrogates among them.
ANY_TEXT = st.text(alphabet=st.characters(codec=None)) | st.text(alphabet="a\ud83d\ude00\udfff😀", max_size=6)

JSON = st.recursive(
    st.none() | st.booleans() | INT64 | FINITE | st.sampled_from([1.0, 1e-7, 1e22, -0.0]) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=6,
)
EPOCH = st.floats(1.7e9, 2e9)
TTL = st.floats(0, MAX_TTL_S, exclude_min=True)
WAYS: st.SearchStrategy[Way] = st.builds(Polling, TTL) | st.builds(
    Webhook, st.sampled_from(["https://scheduler.lan/hooks/42", "http://h:8/?a=1&b=%20"])
)
ENVELOPES = st.dictionaries(TEXT, JSON, max_size=3).map(
    lambda more: {"success": True, "page_id": "main", **more}
)
OUTCOMES = st.builds(
    Outcome, st.integers(200, 599), ENVELOPES.map(lambda body: json.dumps(body, ensure_ascii=False))
)


@st.composite
def running(draw: st.DrawFn, way: Way | None = None) -> Job:
    """A job at work."""
    return Job(
        job_id=draw(st.text("0123456789abcdef", min_size=16, max_size=16)),
        page_id=draw(st.sampled_from(["main", "second_page-2"])),
        plugin="instagram/open-account",
        way=draw(WAYS) if way is None else way,
        request_id="r-1",
        started_at=draw(EPOCH),
        limit_s=draw(st.none() | st.floats(0, MAX_LIMIT_S, exclude_min=True)),
        checkpoint=draw(st.none() | JSON.map(json.dumps)),
    )


@st.composite
def ended(draw: st.DrawFn, way: Way | None = None) -> Job:
    """A job that ended, in any way, before its first attempt."""
    job, outcome = draw(running(way)), draw(OUTCOMES)
    return replace(
        job,
        state=draw(st.sampled_from([state for state in State if state is not State.RUNNING])),
        finished_at=job.started_at + draw(st.floats(0, 1e5)),
        status=outcome.status,
        result=outcome.text,
    )
