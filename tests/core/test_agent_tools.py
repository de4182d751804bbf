"""An agent's tools: which are chosen, what they are called on the wire, and what their schemas still say."""

import re
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penelope import registry
from penelope.pages.primitives.table import PRIMITIVES
from penelope.runs.agent import tools
from penelope.runs.agent.model import DEFAULT_TOOLS, Tool

PLUGINS = registry.load(())
ALL, _ = tools.chosen(["*/*", "*"], PLUGINS)
PART = st.from_regex(r"[a-z0-9][a-z0-9-]{0,63}", fullmatch=True)
NAME = st.builds("{}/{}".format, PART, PART)


def chosen(*patterns: str) -> list[str]:
    found, faults = tools.chosen(list(patterns), PLUGINS)
    assert [] == faults
    return [tool.name for tool in found]


def test_a_list_names_plugins_and_primitives() -> None:
    """One with a slash means plugins, one without primitives; each once, in the list's order."""
    assert ["click", "web/read"] == chosen("click", "web/read", "click")
    assert [name for name in PLUGINS if name.startswith("web/")] == chosen("web/*")
    assert set(PRIMITIVES) == set(chosen("*"))
    assert set(PLUGINS) == set(chosen("*/*"))
    assert [] == chosen()


def test_without_a_list_it_reads_and_uses_pages_and_nothing_more() -> None:
    found, faults = tools.chosen(None, PLUGINS)

    assert [] == faults
    assert list(DEFAULT_TOOLS) == [tool.name for tool in found]
    assert not {"evaluate", "cookies", "set-cookies", "storage", "upload", "wait", "web/download"} & {
        tool.name for tool in found
    }


def test_what_is_not_there_is_said() -> None:
    _, faults = tools.chosen(["web/read", "shop/*", "klick", "Web/read"], PLUGINS)

    assert [
        (1, "there is no plugin shop/*"),
        (2, "there is no primitive klick"),
        (3, "there is no plugin Web/read"),
    ] == faults


@given(st.sets(NAME, max_size=20))
def test_names_fit_the_wire_and_stay_apart(names: set[str]) -> None:
    wires = [tools.wire_name(name) for name in (*names, *PRIMITIVES)]

    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", wire) for wire in wires)
    assert len(set(wires)) == len(wires)


def test_long_names_that_begin_alike_stay_apart() -> None:
    long = "a" * 64 + "/" + "b" * 63
    assert tools.wire_name(long + "c") != tools.wire_name(long + "d")


@pytest.mark.parametrize("tool", ALL, ids=lambda tool: tool.name)
def test_each_is_a_tool_of_the_wire_format(tool: Tool) -> None:
    (sent,) = tools.as_sent([tool])

    assert "function" == sent["type"]
    assert sent["function"]["description"]
    assert "object" == sent["function"]["parameters"]["type"]
    jsonschema.Draft202012Validator.check_schema(sent["function"]["parameters"])
    assert "timeout_ms" not in sent["function"]["parameters"]["properties"] or tool.is_plugin


def test_a_schema_says_what_is_needed_and_known() -> None:
    (click,) = (tool for tool in ALL if tool.name == "click")
    properties = click.parameters["properties"]

    assert ["selector"] == click.parameters["required"]
    assert ["left", "right", "middle"] == properties["button"]["enum"]
    assert (1, 10) == (properties["click_count"]["minimum"], properties["click_count"]["maximum"])
    assert {"x", "y"} == click.parameters["$defs"]["Position"]["properties"].keys()


def test_a_parameter_may_be_called_as_a_keyword_is() -> None:
    schema = {
        "title": "dropped",
        "properties": {
            "title": {"type": "string", "title": "Title", "maxLength": 5},
            "maxItems": {"default": {"title": 1}},
        },
        "anyOf": [{"title": "x", "type": "null"}],
    }

    assert {
        "properties": {"title": {"type": "string"}, "maxItems": {"default": {"title": 1}}},
        "anyOf": [{"type": "null"}],
    } == tools.lean(schema)


SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer", "array", "object"])},
        optional={
            "title": st.text(),
            "maxLength": st.integers(0, 9),
            "maxItems": st.integers(0, 3),
            "minimum": st.integers(),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {
            "type": st.just("object"),
            "properties": st.dictionaries(st.sampled_from(["title", "a", "maxItems"]), inner),
        },
        optional={"title": st.text(), "required": st.lists(st.sampled_from(["title", "a"]), unique=True)},
    ),
    max_leaves=5,
)
VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["title", "a", "maxItems"]), inner)
    ),
    max_leaves=6,
)


@given(SCHEMAS, VALUES)
def test_what_the_whole_schema_takes_the_lean_one_takes(schema: dict[str, Any], value: Any) -> None:
    if jsonschema.Draft202012Validator(schema).is_valid(value):
        assert jsonschema.Draft202012Validator(tools.lean(schema)).is_valid(value)
