"""Server-sent events are read as the HTML standard reads them, however the network cuts them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penelope.client.sse import Message, Reader

LINE_ENDS = st.sampled_from(["\n", "\r", "\r\n"])
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=20)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1, max_size=10)


def read(*pieces: bytes) -> list[Message]:
    reader = Reader()
    return [message for piece in pieces for message in reader.feed(piece)]


def cut(text: bytes, places: list[int]) -> list[bytes]:
    at = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[begin:end] for begin, end in pairwise(at)]


class TestAsTheStandardHasIt:
    """The examples of the standard's own text."""

    @pytest.mark.parametrize(
        ("stream", "messages"),
        [
            ("data: YHOO\ndata: +2\ndata: 10\n\n", [("message", "YHOO\n+2\n10", "")]),
            (
                ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
                [("message", "first event", "1"), ("message", "second event", ""), ("message", " third event", "")],
            ),
            ("data\n\ndata\ndata\n\ndata:", [("message", "", ""), ("message", "\n", "")]),
            ("data:test\n\ndata: test\n\n", [("message", "test", ""), ("message", "test", "")]),
            ("event: add\ndata: 7\n\nevent: remove\ndata: 21\n\n", [("add", "7", ""), ("remove", "21", "")]),
            ("\ufeffdata: after a mark\n\n", [("message", "after a mark", "")]),
            ("data: \ufeffin it\n\n", [("message", "\ufeffin it", "")]),
            ("id: a\0b\ndata: x\n\n", [("message", "x", "")]),
            ("id: 7\n\ndata: x\n\n", [("message", "x", "7")]),  # the id stays, though its own block had no data
            ("event: lonely\n\ndata: x\n\n", [("message", "x", "")]),  # the type does not
            ("data: x\nfoo: bar\nDATA: no\n\n", [("message", "x", "")]),
            ("data: cut off\n", []),
        ],
    )  # fmt: skip
    def test_examples(self, stream: str, messages: list[tuple[str, str, str]]) -> None:
        assert [Message(*message) for message in messages] == read(stream.encode())

    def test_retry_is_in_milliseconds(self) -> None:
        reader = Reader()
        for line, seconds in [
            ("retry: 2500", 2.5),
            ("retry: x", 2.5),
            ("retry: ٣", 2.5),
            ("retry:", 2.5),
            ("retry:0", 0.0),
        ]:
            list(reader.feed(f"{line}\n".encode()))
            assert seconds == reader.retry_s

    def test_what_is_no_utf8_does_not_end_the_stream(self) -> None:
        assert [Message("message", "\ufffd!", "")] == read(b"data: \xff!\n\n")


@given(
    st.lists(st.tuples(NAMES, st.lists(TEXTS, min_size=1, max_size=3), NAMES), max_size=5),
    st.lists(LINE_ENDS, min_size=1, max_size=5),
    st.lists(st.integers(0, 10_000), max_size=12),
)
def test_what_was_written_is_read_however_it_is_cut(
    events: list[tuple[str, list[str], str]], ends: list[str], places: list[int]
) -> None:
    """Characters of several bytes, `\\r\\n` and lines may fall apart anywhere; line ends may be mixed."""
    written = ""
    count = 0
    for name, lines, last_id in events:
        for line in [f"event: {name}", *(f"data: {line}" for line in lines), f"id: {last_id}", ""]:
            end = ends[count % len(ends)]
            # A bare line feed after a bare carriage return would be one end, not two.
            written += line + ("\r\n" if written.endswith("\r") and not line else end)
            count += 1
    expected = [Message(name, "\n".join(lines), last_id) for name, lines, last_id in events]

    assert expected == read(*cut(written.encode(), places))


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=8))
def test_any_bytes_are_read_alike_in_any_pieces(stream: bytes, places: list[int]) -> None:
    assert read(stream) == read(*cut(stream, places))
