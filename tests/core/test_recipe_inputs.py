"""A prompt as a recipe's input: JSON, Python's repr of an object as the public client sends it, or words.

Source: contract, section 10 ("`prompt` is the input: …").
"""

import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penelope.errors import RunRefused
from penelope.runs.recipes import inputs
from penelope.runs.recipes.inputs import check, faults_of_schema, overridden, read_prompt, with_defaults

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
OBJECTS = st.dictionaries(
    st.text(),
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=5,
)


def read(prompt: str, *declared: str) -> dict[str, Any]:
    return read_prompt(prompt, "shop", {name: {} for name in declared})


@given(OBJECTS)
def test_an_object_arrives_as_json_and_as_pythons_repr(sent: dict[str, Any]) -> None:
    """The public client sends `str(input)`."""
    assert sent == read(json.dumps(sent)) == read(f" {sent!r}\n")
    assert repr(sent) == repr(read(repr(sent)))


@given(st.text())
def test_any_other_text_is_the_prompt(text: str) -> None:
    """Nothing that a client may send does more than be refused."""
    try:
        found = read(text, "prompt")
    except RunRefused:
        assert text.strip().startswith("{")
    else:
        assert found == {"prompt": text} or text.strip().startswith("{")


@given(st.text(st.sampled_from("{}[]()'\":,\\0123456789.eExj_-+ NoneTrueFalsebrfu\n#*"), max_size=60))
def test_what_looks_like_an_object_never_breaks(inside: str) -> None:
    with contextlib.suppress(RunRefused):
        read("{" + inside + "}")


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("{'query': 'What is AI?'}", {"query": "What is AI?"}),
        ("{'a': (1, 2), 1: None, 'b': {'c': True}}", {"a": [1, 2], "1": None, "b": {"c": True}}),
        ('{"a": true}', {"a": True}),
        ("{}", {}),
        ("{broken", {"prompt": "{broken"}),
        ("{'a': print(1)}", {"prompt": "{'a': print(1)}"}),
        ("{'a': '\\d'}", {"prompt": "{'a': '\\d'}"}),  # no repr has that, and Python would warn of it
        ("{'a', 'b'}", {"prompt": "{'a', 'b'}"}),
        ("[1, 2]", {"prompt": "[1, 2]"}),
        (" hello ", {"prompt": " hello "}),
    ],
)
def test_prompts(prompt: str, expected: dict[str, Any]) -> None:
    assert expected == read(prompt)


@pytest.mark.parametrize("nothing", ["", "  ", "Execute recipe: shop"])
def test_no_input_is_an_empty_one(nothing: str) -> None:
    """Which the public client says in words; a recipe that takes a prompt gets them."""
    assert {} == read(nothing)
    assert {"prompt": nothing} == read(nothing, "prompt")
    assert {"prompt": "Execute recipe: other"} == read("Execute recipe: other")


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("{'a': b'bytes'}", "a bytes in it that is no JSON"),
        ("{'a': {1, 2}}", "a set in it"),
        ("{'a': 1e999}", "a float in it"),
        ("{'a': 2j}", "a complex in it"),
        ("{'a': {None: 1}}", "a dict in it"),
        ('{"a": ' + "[" * 60 + "]" * 60 + "}", "nested more than 50 deep"),
        ("{'a': [" + "[]," * 21_000 + "]}", "more than 5000 values"),
        ("{'a': '" + "x" * 300_000 + "'}", "at most 131072"),
    ],
)
def test_what_no_recipe_could_take_is_refused(prompt: str, words: str) -> None:
    with pytest.raises(RunRefused, match=words) as refused:
        read(prompt)
    assert 422 == refused.value.status
    assert len(refused.value.message) < 200


@pytest.mark.parametrize(
    "bomb",
    [
        "{'a': " + "(" * 100_000 + "}",
        "{" + "-" * 100_000 + "}",
        "{'a':" * 40_000 + "}" * 40_000,
        "{" + "9" * 200_000 + ": 1}",
        "{'a': " + "1+" * 100_000 + "1}",
    ],
    ids=["brackets", "signs", "objects", "digits", "sum"],
)
def test_a_bomb_is_words_or_refused_at_once(bomb: str) -> None:
    began = time.monotonic()

    with contextlib.suppress(RunRefused):
        assert {"prompt": bomb} == read(bomb)
    assert time.monotonic() - began < 2.0


SCHEMA = {
    "type": "object",
    "properties": {
        "handle": {"type": "string", "pattern": "^[a-z]+$"},
        "limit": {"type": "integer", "minimum": 1, "default": 50},
        "mail": {"type": "string", "format": "email"},
        "options": {"type": "object", "properties": {"deep": {"type": "boolean", "default": True}}},
    },
    "required": ["handle"],
    "additionalProperties": False,
}


def test_defaults_of_the_schema_are_filled_in() -> None:
    """Where nothing was given; in an object below only if that is there."""
    assert {"handle": "a", "limit": 50} == with_defaults(SCHEMA, {"handle": "a"})
    assert {"handle": "a", "limit": 2, "options": {"deep": True}} == with_defaults(
        SCHEMA, {"handle": "a", "limit": 2, "options": {}}
    )


def test_a_configuration_overrides_what_the_input_declares() -> None:
    """And nothing else: a client's other settings are no input."""
    declared = inputs.properties(SCHEMA)

    assert {"handle": "b", "limit": 1} == overridden(
        {"handle": "a"}, {"handle": "b", "limit": 1, "max_tokens": 10}, declared
    )


@pytest.mark.parametrize(
    ("given_input", "words"),
    [
        ({"handle": "a", "options": {"xs": [0] * 5000}}, "the input has more than 5000 values"),
        ({"handle": "a", "options": {"xs": [[]] * 4000 + [{}] * 1000}}, "more than 5000 values"),
        ({}, "recipe shop: input: 'handle' is a required property"),
        ({"handle": "A"}, "recipe shop: input.handle: 'A' does not match"),
        ({"handle": "a", "limit": 0}, "input.limit: 0 is less than the minimum of 1"),
        ({"handle": "a", "more": 1}, "'more' was unexpected"),
        ({"handle": "a", "mail": "none"}, "input.mail: 'none' is not a 'email'"),
        ({"handle": 1, "limit": "x"}, "input.handle: 1 is not of type 'string'; input.limit:"),
        ({"handle": "A" * 100_000}, "input.handle: 'AAAA"),
        ({"handle": "a", "options": {"deep": 1}}, "input.options.deep: 1 is not of type 'boolean'"),
    ],
)
def test_a_bad_input_is_named(given_input: dict[str, Any], words: str) -> None:
    """Each field, with what is wrong with it, and never more of a value than a line holds."""
    with pytest.raises(RunRefused) as refused:
        check(SCHEMA, given_input, "shop")
    assert words in refused.value.message
    assert len(refused.value.message) < 1500


def test_a_good_input_passes() -> None:
    check(SCHEMA, {"handle": "a", "limit": 1, "mail": "a@b.example"}, "shop")
    check({}, {"any": "thing"}, "shop")


def test_the_largest_input_is_read_and_checked_at_once() -> None:
    """It happens between other requests."""
    schema = {"properties": {"xs": {"items": {"type": "object", "properties": {"n": {"minimum": 0}}}}}}
    text = repr({"xs": [{"n": at} for at in range(2400)]})
    began = time.monotonic()

    check(schema, with_defaults(schema, read(text)), "shop")

    assert time.monotonic() - began < 1.0


def test_a_schema_that_goes_round_ends() -> None:
    with pytest.raises(RunRefused, match="circles"):
        check({"$ref": "#"}, {"a": 1}, "shop")


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"type": "objekt"}, ("type",)),
        ({"type": "array"}, ("type",)),
        ({"properties": {"a": {"type": "text"}}}, ("properties", "a", "type")),
        ({"properties": {"a": {"pattern": "("}}}, ("properties", "a", "pattern")),
        ({"properties": {"a": {"$ref": "https://example.org/s"}}}, ("properties", "a", "$ref")),
        ({"properties": {"a": {"$ref": "file:///etc/hostname"}}}, ("properties", "a", "$ref")),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, ("properties", "a", "$ref")),
        ({"required": "a"}, ("required",)),
    ],
)
def test_a_bad_schema_is_found(schema: dict[str, Any], where: tuple[str, ...]) -> None:
    """When the recipe is read, not at the first client; and nothing is fetched for it."""
    assert [where] == [place for place, _ in faults_of_schema(schema)]


def test_a_good_schema_has_no_faults() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}}

    assert [] == list(faults_of_schema(schema))
    assert [] == list(faults_of_schema({}))
    check(schema, {"a": "x"}, "shop")
    with pytest.raises(RunRefused):
        check(schema, {"a": 1}, "shop")
