"""Watchers and downloads without a socket: when they come back, and that they do not for ever."""

from dataclasses import dataclass

import httpx
import pytest

from penelope.client import errors
from penelope.client import watching as watched
from penelope.client.asking import How
from penelope.client.files import Fetching, media_links, safe_name
from penelope.client.models import Media
from penelope.client.retrying import Retries
from penelope.client.watching import Watching

BROKEN = httpx.ReadError("reset")
LINK = Media(url="/api/v1/media/x", filename="a", content_type="a/b", size=100, expires_at=0.0)


@dataclass
class Time:
    now: float = 0.0

    def how(self, **bounds: float) -> How:
        retries = Retries(attempts=3, **bounds)
        return How(url="http://w", retries=retries, clock=lambda: self.now, chance=lambda: 0.0)


class TestWatching:
    def test_a_long_silence_before_a_break_is_no_failure(self) -> None:
        """Heartbeats are no events: a job that says nothing for an hour is watched on all the same."""
        time = Time()
        watching = Watching(time.how(), watched.job("j"))
        for _ in range(10):
            watching.ask()
            assert [] == watching.feed(b": a heartbeat\n\n")
            time.now += 3600
            assert watching.broke(BROKEN) < 1

    def test_streams_that_break_at_once_are_not_opened_for_ever(self) -> None:
        watching = Watching(Time().how(), watched.job("j"))
        for _ in range(2):
            watching.ask()
            watching.feed(b"retry: 2000\n\n")
            assert 2.0 == watching.broke(None)  # as long as it was asked to
        with pytest.raises(errors.Unreachable, match="ended before job j did"):
            watching.broke(None)

    def test_an_event_begins_anew(self) -> None:
        watching = Watching(Time().how(), watched.job("j"))
        for count in range(10):
            assert (None if count == 0 else str(count - 1)) == watching.ask().headers.get("Last-Event-ID")
            (event,) = watching.feed(f"event: progress\nid: {count}\ndata: {{}}\n\n".encode())
            assert ("progress", str(count)) == (event.kind, event.id)
            watching.broke(BROKEN)

    @pytest.mark.parametrize("data", ["", "[]", "x", "NaN"])
    def test_what_is_no_event_of_ours_is_named(self, data: str) -> None:
        with pytest.raises(errors.UnexpectedAnswer, match="the event end is no JSON"):
            Watching(Time().how(), watched.job("j")).feed(f"event: end\ndata: {data}\n\n".encode())

    def test_an_end_that_is_no_job_is_named(self) -> None:
        with pytest.raises(errors.UnexpectedAnswer, match="no job of a Penelope worker: page_id"):
            Watching(Time().how(), watched.job("j")).feed(b"event: end\ndata: {}\n\n")


class TestFetching:
    def test_as_long_as_it_gets_further_it_goes_on(self) -> None:
        fetching = Fetching(Time().how(), LINK)
        for at in range(0, 100, 10):
            assert (f"bytes={at}-" if at else None) == fetching.ask().headers.get("Range")
            assert fetching.starts(206 if at else 200, {"content-range": f"bytes {at}-99/100"})
            fetching.got(10)
            fetching.broke(BROKEN)

    def test_a_server_that_always_begins_anew_is_left_in_the_end(self) -> None:
        fetching = Fetching(Time().how(), LINK)

        def tries() -> None:
            for _ in range(100):
                assert fetching.starts(200, {})
                fetching.got(10)
                fetching.broke(BROKEN)

        with pytest.raises(errors.Unreachable):
            tries()

    def test_a_part_that_was_not_asked_for_is_not_taken(self) -> None:
        fetching = Fetching(Time().how(), LINK)
        fetching.starts(200, {})
        fetching.got(10)

        assert not fetching.starts(206, {"content-range": "bytes 0-99/100"})
        assert not fetching.starts(206, {})
        assert not fetching.starts(416, {})


def test_links_are_found_wherever_they_stand() -> None:
    link = LINK.model_dump()
    answer = {
        "a": [{"b": link}, "x"],
        "c": {"d": {**link, "url": "/api/v1/media/y"}},
        "e": {"url": "https://x/"},
    }

    assert ["/api/v1/media/x", "/api/v1/media/y"] == [one.url for one in media_links(answer)]


@pytest.mark.parametrize("name", ["a\ud800b", "a\x1b]0;b", "a\u202eb", "a\nb", "\x00"])
def test_names_have_no_characters_that_steer(name: str) -> None:
    assert safe_name(name).isprintable()
