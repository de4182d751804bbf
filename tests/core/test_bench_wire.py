"""The bench's own HTTP, and how it asks each server: what comes in pieces is whole, and an error is no answer."""

import itertools
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.dialects import DIALECTS, Refused
from bench.peers.here import turned
from bench.wire import Answer, Asked, Incoming, request

COUNTED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n"


@given(st.lists(st.integers(0, 200), max_size=6))
def test_answers_are_whole_however_they_come(cuts: list[int]) -> None:
    stream = COUNTED + CHUNKED + EMPTY
    at = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    incoming, found = Incoming(), []
    for begin, end in itertools.pairwise(at):
        answer = incoming.feed(stream[begin:end])
        while answer is not None:
            found.append(answer)
            answer = incoming.feed(b"")

    assert [(200, b"hello"), (202, b"hello"), (204, b"")] == found
    assert not incoming.buffer


def test_the_last_answer_of_a_connection_says_so() -> None:
    incoming = Incoming()
    incoming.feed(COUNTED)
    assert not incoming.closing
    incoming.feed(COUNTED.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"))
    assert incoming.closing


def test_a_request_counts_its_bytes() -> None:
    raw = request(80, "key", {"method": "POST", "path": "/x", "json": {"a": "ä"}, "headers": {"X": "1"}})

    head, _, body = raw.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /x HTTP/1.1\r\nHost: 127.0.0.1:80\r\nAuthorization: Bearer key\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert {"a": "ä"} == json.loads(body)
    assert b"Authorization" not in request(80, "", {"method": "GET", "path": "/"})


def said(asked: Asked, answers: Sequence[Answer]) -> tuple[str, list[bytes]]:
    """What it comes to when it is answered so, and what it sent."""
    sent = []
    wanted = next(asked)
    for answer in answers:
        assert isinstance(wanted, bytes)
        sent.append(wanted)
        try:
            wanted = asked.send(answer)
        except StopIteration as stop:
            return str(stop.value), sent
    raise AssertionError("it asks for more")


def event(text: str) -> Answer:
    result = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}}
    return 200, b"event: message\ndata: " + json.dumps(result).encode() + b"\n\n"


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("penelope", [(200, b'{"success": true, "title": "T"}')]),
        ("webdriver", [(200, b'{"value": null}'), (200, b'{"value": "T"}')]),
        ("mcp", [event("### Page\n- Page URL: http://x/\n- Page Title: T\n")]),
        ("mcp", [event(""), event('### Result\n"T"\n')]),
        ("browserless", [(200, b'{"result": "T"}')]),
    ],
)
def test_each_way_to_open_a_page_tells_its_title(name: str, answers: list[Answer]) -> None:
    found, sent = said(DIALECTS[name](80, "k", "here").open("http://x/"), answers)

    assert "T" == found
    assert len(answers) == len(sent)
    assert any(b"here" in raw and b"http://x/" in raw for raw in sent)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("penelope", (200, b'{"success": true, "result": "v"}')),
        ("webdriver", (200, b'{"value": "v"}')),
        ("mcp", event('### Result\n"v"\n### Page\n- Page Title: T')),
        ("browserless", (200, b'{"result": "v"}')),
    ],
)
def test_each_way_to_evaluate_tells_the_value(name: str, answer: Answer) -> None:
    assert "v" == said(DIALECTS[name](80, "k", "here").evaluate('"v"'), [answer])[0]


@pytest.mark.parametrize("name", list(DIALECTS))
@pytest.mark.parametrize("answer", [(500, b"{}"), (200, b"<html>"), (200, b"{}"), (200, b"[]")])
def test_an_error_is_no_answer(name: str, answer: Answer) -> None:
    with pytest.raises(Refused):
        said(DIALECTS[name](80, "k", "here").evaluate("1"), [answer])


def test_each_turn_begins_with_another_page() -> None:
    titles = {str(number): f"t{number}" for number in range(12)}
    turns = [turned(titles, turn) for turn in range(12)]

    assert all(titles == turn for turn in turns)
    assert 12 == len({next(iter(turn)) for turn in turns})
