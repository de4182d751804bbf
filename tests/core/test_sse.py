"""Server-sent events on the wire, and the ids of a job's."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penelope.http import sse
from penelope.jobs import events
from penelope.jobs.events import Seen
from penelope.jobs.model import Job, Polling, State

JOB = Job(job_id="0" * 16, page_id="main", plugin="a/b", way=Polling(60), request_id="r", started_at=5.0)
MOMENTS = st.floats(0, 1e11, allow_nan=False)


def ended(at: float) -> Job:
    return replace(JOB, state=State.DONE, started_at=0.0, finished_at=at, status=200, result="{}")


def read(wire: str) -> list[tuple[str, str, str | None]]:
    """Name, data and id of each event, by the HTML standard's steps."""
    found = []
    for block in re.split(r"(?:\r\n|\r|\n){2}", wire)[:-1]:
        fields = [line.partition(": ")[::2] for line in re.split(r"\r\n|\r|\n", block)]
        data = [value for key, value in fields if key == "data"]
        named = dict(fields)
        if data:
            found.append((named["event"], "\n".join(data), named.get("id")))
    return found


@given(st.text(), st.none() | st.from_regex(r"[!-~]{1,20}", fullmatch=True))
def test_any_text_arrives(text: str, event_id: str | None) -> None:
    """Whole; each of the three line ends as a line feed, which is all that the format can say."""
    text = text.encode("utf-8", "replace").decode()
    wire = b"".join(sse.event("end", text.encode(), event_id)).decode()

    assert [("end", re.sub(r"\r\n|\r", "\n", text), event_id)] == read(wire)


@given(st.integers(0, 300_000))
def test_pieces_are_small_and_lose_nothing(size: int) -> None:
    """However large the result is."""
    data = bytes(33 + n % 90 for n in range(size))
    pieces = list(sse.event("end", data, "end-1.0"))

    assert all(len(piece) <= sse.PIECE_BYTES for piece in pieces)
    assert b"event: end\nid: end-1.0\ndata: " + data + b"\n\n" == b"".join(pieces)


def test_a_piece_is_made_when_it_is_wanted() -> None:
    """Of 50 MB one piece at a time is copied."""
    pieces = sse.event("end", b"x" * 50_000_000, None)

    assert b"event: end\ndata: " == next(pieces)
    assert sse.PIECE_BYTES == len(next(pieces))


def test_what_is_no_event() -> None:
    assert [] == read((sse.HEARTBEAT + sse.retry(2000)).decode())


@given(MOMENTS, MOMENTS)
def test_an_end_is_known_again(one: float, other: float) -> None:
    """By its exact moment, and no other end is taken for it."""
    seen = events.seen([events.end_id(ended(one))])

    assert seen == Seen(end=events.end_id(ended(one)))
    assert (one == other) == (seen.end == events.end_id(ended(other)))


@given(st.integers(0, 10**14))
def test_a_progress_is_known_again(number: int) -> None:
    assert Seen(number=number) == events.seen([str(number)])


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [""],
        ["00"],
        ["-1"],
        ["1.5"],
        ["٣"],
        ["9" * 400],
        ["end"],
        ["end-"],
        ["end-1.0 "],
        ["end-nan"],
        ["1", "2"],
        ["end-1.0", "end-1.0"],
    ],
)
def test_an_id_that_is_none_of_ours(headers: list[str]) -> None:
    """It is as if it were not there."""
    assert Seen() == events.seen(headers)


@given(st.lists(st.text(max_size=30), max_size=2))
def test_nothing_breaks_it(headers: list[str]) -> None:
    events.seen(headers)


def test_what_is_told_of_a_running_job() -> None:
    assert {
        "job_id": "0" * 16,
        "page_id": "main",
        "plugin": "a/b",
        "state": "running",
        "started_at": 5.0,
        "stopping": False,
    } == json.loads(events.state(JOB, stopping=False))
    assert {"progress": 0.5, "note": "a\nb", "at": 6.0} == json.loads(events.progress(0.5, "a\nb", 6.0))
    assert b"\n" not in events.progress(0.5, "a\nb", 6.0)
