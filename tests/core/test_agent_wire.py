"""What an endpoint says, in one piece or in many, read as it is meant."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penelope.runs.agent import streamed, wire
from penelope.runs.agent.asking import after_s
from penelope.runs.agent.model import Endpoint
from penelope.runs.agent.wire import BadAnswer, Said, ToolCall, Usage


def answer(message: Any, **more: Any) -> bytes:
    return json.dumps(
        {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], **more}
    ).encode()


def call(name: str, arguments: Any, call_id: Any = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def events(*chunks: Any, done: bool = True) -> bytes:
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join([*lines, "data: [DONE]\n\n" * done]).encode()


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def test_an_answer_of_text() -> None:
    said = wire.read(
        answer({"content": "Hi"}, usage={"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9})
    )
    assert Said(text="Hi", finish="stop", usage=Usage(7, 2)) == said


def test_an_answer_of_calls() -> None:
    said = wire.read(
        answer(
            {
                "content": None,
                "tool_calls": [call("a", '{"x": 1}'), call("b", {"y": "é"}, None), call("c", None)],
            }
        )
    )
    assert (
        ToolCall("c1", "a", '{"x": 1}'),
        ToolCall("", "b", '{"y": "é"}'),
        ToolCall("c1", "c", ""),
    ) == said.calls
    assert "" == said.text


def test_content_in_parts_and_refusals() -> None:
    said = wire.read(
        answer(
            {"content": [{"type": "text", "text": "a"}, {"type": "image"}, {"text": "b"}], "refusal": "no"}
        )
    )
    assert ("ab", "no") == (said.text, said.refusal)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<html>", "no JSON"),
        (b"[]", "no JSON object"),
        (b"{}", "no choices"),
        (b'{"choices": []}', "no choices"),
        (b'{"choices": [{"message": "x"}]}', "no choices"),
        (b'{"error": {"message": "out of  memory"}}', "it is an error: out of memory"),
        (answer({"tool_calls": "x"}), "tool_calls"),
        (answer({"tool_calls": [1]}), "no function"),
        (answer({"tool_calls": [call("a", "{}")] * 65}), "at most 64"),
    ],
)
def test_what_is_no_answer_says_why(data: bytes, words: str) -> None:
    with pytest.raises(BadAnswer, match=words):
        wire.read(data)


@pytest.mark.parametrize(
    "counted",
    [
        None,
        [],
        {},
        {"prompt_tokens": -1},
        {"prompt_tokens": True},
        {"prompt_tokens": 1.5},
        {"prompt_tokens": 10**12},
    ],
)
def test_tokens_that_are_none_are_not_counted(counted: Any) -> None:
    assert wire.read(answer({"content": "x"}, usage=counted)).usage is None


def test_a_stream_is_put_together() -> None:
    """Several calls, interleaved, their arguments in pieces; the usage comes last, without a choice."""
    said = streamed.read(
        events(
            delta(role="assistant", content=""),
            delta(content="Let me "),
            delta(content="look."),
            delta(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "web__open", "arguments": ""}}]),
            delta(tool_calls=[{"index": 1, "id": "c2", "function": {"name": "click", "arguments": '{"sel'}}]),
            delta(tool_calls=[{"index": 0, "function": {"arguments": '{"url": "a"}'}}]),
            delta(tool_calls=[{"index": 1, "function": {"name": "click", "arguments": 'ector": "b"}'}}]),
            delta("tool_calls"),
            {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 6}},
        )
    )
    assert "Let me look." == said.text
    assert (
        ToolCall("c1", "web__open", '{"url": "a"}'),
        ToolCall("c2", "click", '{"selector": "b"}'),
    ) == said.calls
    assert ("tool_calls", Usage(5, 6)) == (said.finish, said.usage)


def test_streams_of_the_less_careful() -> None:
    """Calls without an index, each whole; a stream that ends without its mark, but had a reason."""
    one = {"id": "x", "function": {"name": "a", "arguments": "{}"}}
    two = {"id": "y", "function": {"name": "b", "arguments": '{"n":'}}
    said = streamed.read(
        events(
            delta(tool_calls=[one]),
            delta(tool_calls=[two, {"function": {"arguments": " 1}"}}]),
            delta("stop"),
            done=False,
        )
    )
    assert (ToolCall("x", "a", "{}"), ToolCall("y", "b", '{"n": 1}')) == said.calls


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no pieces"),
        (b": ping\n\n", "no pieces"),
        (events(delta(content="half"), done=False), "broke off"),
        (events(delta(content="half"), {"error": {"message": "overloaded"}}), "overloaded"),
        (b"data: {\n\n", "no JSON"),
        (events(*[delta(tool_calls=[{"index": at}]) for at in range(65)]), "more than 64"),
        (events(delta(tool_calls=[3])), "no object"),
    ],
)
def test_what_is_no_stream_says_why(data: bytes, words: str) -> None:
    with pytest.raises(BadAnswer, match=words):
        streamed.read(data)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_whatever_comes_is_an_answer_or_none(data: bytes) -> None:
    for read in (wire.read, streamed.read):
        with pytest.raises(BadAnswer):
            read(data)


KEYS = st.sampled_from(
    "choices message delta content tool_calls function name arguments id index usage prompt_tokens text error".split()
)
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 99)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=15,
)


@given(ODD, ODD)
def test_answers_of_odd_shapes_never_break_the_reader(message: Any, counted: Any) -> None:
    whole = {"choices": [{"message": message, "delta": message, "finish_reason": counted}], "usage": counted}
    for read, data in ((wire.read, json.dumps(whole).encode()), (streamed.read, events(whole))):
        try:
            said = read(data)
        except BadAnswer:
            continue
        assert isinstance(said.text, str)
        assert {str} >= {type(part) for one in said.calls for part in (one.call_id, one.name, one.arguments)}


@given(st.lists(st.integers(0, 60), max_size=8), st.booleans())
def test_a_streams_end_is_seen_however_it_is_cut(cuts: list[int], spaced: bool) -> None:
    data = b'data: {"choices": []}\n\ndata:' + b" " * spaced + b"[DONE]\n\n"
    ends = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    seen, got = False, bytearray()
    for begin, end in itertools.pairwise(ends):
        got += data[begin:end]
        seen = streamed.is_done(got, end - begin)
        assert seen == (b"[DONE]" in got) or seen is False
        if seen:
            break
    assert seen
    assert not streamed.is_done(b'data: {"content": "data: [DONE]"}\n\n', 40)


def test_a_question_says_whether_it_may_call() -> None:
    def asked(**more: Any) -> Any:
        given: dict[str, Any] = {"tools": [{}], "may_call": True, "max_tokens": None, "stream": False, **more}
        return json.loads(wire.question(model="m", messages=[{"role": "user", "content": "\ud83d"}], **given))

    assert ["model", "messages", "tools", "tool_choice"] == list(asked())
    assert "auto" == asked()["tool_choice"]
    assert "none" == asked(may_call=False)["tool_choice"]
    assert {"tools", "tool_choice"}.isdisjoint(asked(tools=[]))
    assert 9 == asked(max_tokens=9)["max_tokens"]
    assert (True, {"include_usage": True}) == (
        asked(stream=True)["stream"],
        asked(stream=True)["stream_options"],
    )


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, 0),
        ("", 0),
        ("7", 7),
        (" 1.5 ", 1.5),
        ("-3", 0),
        ("nan", 0),
        ("inf", 0),
        ("soon", 0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
    ],
)
def test_retry_after(header: str | None, seconds: float) -> None:
    assert seconds == after_s(header)


def test_retry_after_a_date_to_come() -> None:
    assert after_s("Wed, 21 Oct 2122 07:28:00 GMT") > 1e6


@pytest.mark.parametrize("base", ["http://h/v1", "http://h/v1/", "http://h/v1/chat/completions"])
def test_the_address_that_is_asked(base: str) -> None:
    assert "http://h/v1/chat/completions" == Endpoint(base).address
