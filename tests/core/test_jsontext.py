"""JSON as the API speaks it."""

import json
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penelope import jsontext
from tests.core import values


@given(values.JSON)
def test_what_is_written_is_read_back(value: Any) -> None:
    """JSON in UTF-8 both ways; 64-bit integers, `1e-7` and `1.0` stay what they are."""
    text = jsontext.dumps(value)
    back = jsontext.loads(text.encode())
    assert value == back
    assert repr(value) == repr(back)
    assert value == json.loads(text)


@given(values.ANY_TEXT)
@example("\ud83d\ude00")
@example("\ude00\ud83d")
def test_lone_surrogates_become_valid_utf8(text: str) -> None:
    """A lone surrogate in a title: valid JSON."""
    for value in (text, [text], {text: 1}):
        written = jsontext.dumps(value)
        written.encode("utf-8")
        json.loads(written)
    assert text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") == json.loads(
        jsontext.dumps(text)
    )


NOT_JSON = (
    *("NaN", "Infinity", "-Infinity", "[NaN]", '{"a": -Infinity}', "1e999", "-1e999", "[1E400]"),
    *("", " ", "{", "'a'", "01", "[1,]", "{1: 2}", "\ufeff{}", '"\t"', "1" * 5000),
)


@pytest.mark.parametrize("text", NOT_JSON)
def test_what_is_not_json_is_refused(text: str) -> None:
    """A malformed body is refused; so is a number that no JSON could carry back."""
    with pytest.raises(ValueError):
        jsontext.loads(text)
    with pytest.raises(ValueError):
        jsontext.loads(text.encode())


@given(st.binary())
@example(b"\xff")
@example(b'"\xed\xa0\x80"')
def test_reading_refuses_with_a_value_error(body: bytes) -> None:
    """Not UTF-8, not JSON: one kind of error, whatever the bytes."""
    with suppress(ValueError):
        jsontext.dumps(jsontext.loads(body)).encode()


def test_deep_nesting_is_refused() -> None:
    """Nested too deeply is a refusal, not a crash."""
    depth = 100_000
    with pytest.raises(ValueError):
        jsontext.loads("[" * depth)
    with pytest.raises(ValueError):
        jsontext.loads('{"a":' * depth)
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    with pytest.raises(ValueError):
        jsontext.dumps(nested)


@given(
    st.sampled_from([math.nan, math.inf, -math.inf, b"x", object(), {1, 2}, 1j, {(1, 2): 3}, 10**5000]),
    st.sampled_from([lambda v: v, lambda v: [v], lambda v: {"a": {"b": v}}]),
)
def test_what_is_no_json_is_not_written(value: Any, inside: Any) -> None:
    """A result that is no JSON is refused."""
    with pytest.raises(ValueError):
        jsontext.dumps(inside(value))


def test_a_circle_is_not_written() -> None:
    """Nor one that never ends."""
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ValueError):
        jsontext.dumps(circle)
