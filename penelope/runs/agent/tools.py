"""Plugins and primitives as the wire format's tools: names that it allows, schemas without what only strains others.

Source: contract, section 10 ("plugins and primitives as its tools"); the wire format's names, `[a-zA-Z0-9_-]{1,64}`.
"""

import hashlib
import inspect
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

from penelope.pages.primitives.model import Primitive
from penelope.pages.primitives.table import PRIMITIVES
from penelope.registry import Plugin, Registry
from penelope.runs.agent.model import DEFAULT_TOOLS, MAX_TOOLS, Tool

WIRE_CHARS: Final = 64
MAX_DESCRIPTION_CHARS: Final = 1000
_HASH_CHARS: Final = 8
# Names of the model's classes say nothing to a model; and where an endpoint makes a grammar of a schema, a bound of a
# million characters is more than it can take. The values are checked here in any case.
_LEFT_OUT: Final = frozenset({"title", "maxLength", "maxItems", "maxProperties"})
_NAMED: Final = frozenset({"properties", "$defs"})  # their keys are names, not keywords
_VALUES: Final = frozenset({"default", "examples", "enum", "const"})  # what is below is no schema
_OWN_LIMIT: Final = "timeout_ms"  # of every primitive: an agent's calls have the usual one


def chosen(patterns: list[str] | None, registry: Registry) -> tuple[list[Tool], list[tuple[int, str]]]:
    """The tools that a list names, each once, in its order; and what is wrong in it, by index.

    Args:
        patterns: names, `*` and `?` in them; one with a slash means plugins, one without primitives. None: those of
            `DEFAULT_TOOLS` that are there.
    """
    names: dict[str, None] = {}
    faults: list[tuple[int, str]] = []
    there = [*registry, *PRIMITIVES]
    for at, pattern in enumerate(DEFAULT_TOOLS if patterns is None else patterns):
        found = [name for name in there if ("/" in name) == ("/" in pattern) and fnmatchcase(name, pattern)]
        names |= dict.fromkeys(found)
        if not found and patterns is not None:
            kind = "plugin" if "/" in pattern else "primitive"
            faults.append((at, f"there is no {kind} {pattern:.140}"))
    if len(names) > MAX_TOOLS:
        faults.append((0, f"these are {len(names)} tools: at most {MAX_TOOLS} can be given"))
    return [_tool(name, registry) for name in names], faults


def wire_name(name: str) -> str:
    """A name as the wire format allows it; two names never have the same."""
    wire = name.replace("/", "__")
    if len(wire) <= WIRE_CHARS:
        return wire
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH_CHARS]
    return f"{wire[: WIRE_CHARS - _HASH_CHARS - 1]}_{digest}"


def as_sent(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """The tools as a question carries them."""
    return [
        {
            "type": "function",
            "function": {"name": tool.wire, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def _tool(name: str, registry: Registry) -> Tool:
    plugin = registry.get(name)
    parameters = _of_plugin(plugin) if plugin is not None else _of_primitive(PRIMITIVES[name])
    words = plugin.description if plugin is not None else inspect.cleandoc(PRIMITIVES[name].description)
    return Tool(
        name=name,
        wire=wire_name(name),
        is_plugin=plugin is not None,
        description=" ".join(words.split())[:MAX_DESCRIPTION_CHARS] or name,
        parameters=parameters,
    )


def _of_plugin(plugin: Plugin) -> dict[str, Any]:
    return lean(plugin.parameters_schema)


def _of_primitive(primitive: Primitive) -> dict[str, Any]:
    schema = lean(primitive.options.model_json_schema(by_alias=True))
    schema["properties"].pop(_OWN_LIMIT, None)
    return schema


def lean(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema for a model's eyes; it takes all that the whole one takes."""
    return dict(_lean_items(schema))


def _lean_items(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, dict):
            yield key, {name: _lean(part) for name, part in value.items()}
        elif key not in _LEFT_OUT:
            yield key, value if key in _VALUES else _lean(value)


def _lean(value: Any) -> Any:
    match value:
        case dict():
            return lean(value)
        case list():
            return [_lean(part) for part in value]
    return value
