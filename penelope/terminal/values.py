"""Words of a command line as the parameters of a plugin, read by its schema.

key=value      text, a number, true or false, as the schema says; repeated, where the parameter is a list
key=@file      what the file holds
key:=json      any JSON value
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from penelope import jsontext
from penelope.terminal.client import Trouble

Schema = Mapping[str, Any]

_WORD: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)(:=|=)(.*)", re.DOTALL)
_TRUTH: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_MANY: Final = frozenset({"array"})


def parse(words: Iterable[str], schema: Schema) -> dict[str, Any]:
    """The JSON object that the words mean.

    Args:
        schema: of all parameters, as `GET /api/v1/plugins` has it.

    Raises:
        Trouble: a word that is none, an unknown parameter, a value that its type does not have.
    """
    known: Mapping[str, Any] = schema.get("properties", {})
    defs: Mapping[str, Any] = schema.get("$defs", {})
    given: dict[str, Any] = {}
    for word in words:
        match = _WORD.fullmatch(word)
        if match is None:
            raise Trouble(f"{word!r} is no parameter: write key=value, key=@file or key:=json")
        name, sign, text = match.groups()
        if name not in known:
            raise Trouble(f"parameter {name} is unknown; {_known(name, known)}")
        shape = list(_shapes(known[name], defs))
        if sign == ":=":
            _once(given, name)
            given[name] = _json(name, text)
        elif any(one.get("type") in _MANY for one in shape):
            items = [item for one in shape if one.get("type") in _MANY
                     for item in _shapes(one.get("items", {}), defs)]  # fmt: skip
            given.setdefault(name, []).append(_value(name, _text(name, text), items))
        else:
            _once(given, name)
            given[name] = _value(name, _text(name, text), shape)
    return given


def _once(given: Mapping[str, Any], name: str) -> None:
    if name in given:
        raise Trouble(f"parameter {name} is given more than once")


def _known(name: str, known: Mapping[str, Any]) -> str:
    if near := difflib.get_close_matches(name, known, n=3):
        return f"did you mean {' or '.join(near)}?"
    return f"there are {', '.join(known)}" if known else "there are none"


def _shapes(schema: Schema, defs: Mapping[str, Any]) -> Iterable[Schema]:
    """What a value may be: the alternatives of a schema, references followed, null left out."""
    if "$ref" in schema:
        yield from _shapes(defs.get(str(schema["$ref"]).rpartition("/")[2], {}), defs)
    elif parts := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        for part in parts:
            yield from _shapes(part, defs)
    elif schema.get("type") != "null":
        yield schema


def _text(name: str, text: str) -> str:
    """The value as it was written, or what the file behind its `@` holds."""
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text("utf-8")
    except OSError as exc:
        raise Trouble(f"parameter {name}: cannot read {text[1:]}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise Trouble(f"parameter {name}: {text[1:]} is no text in UTF-8") from exc


def _value(name: str, text: str, shapes: Iterable[Schema]) -> Any:
    """The text as the first of the shapes that has it; text itself counts last, since it has everything."""
    wanted = []
    for shape in sorted(shapes, key=lambda one: one.get("type") == "string"):
        for type_ in _types(shape):
            found, value = _as(type_, text)
            if found:
                return value
            wanted.append(type_)
    if not wanted:  # the schema says nothing
        return text
    raise Trouble(f"parameter {name}: {text[:60]!r} is not {' or '.join(map(_article, wanted))}")


def _types(shape: Schema) -> list[str]:
    named = shape.get("type", [])
    return [named] if isinstance(named, str) else list(named)


def _as(type_: str, text: str) -> tuple[bool, Any]:
    """Is the text a value of that type, and which?"""
    stripped = text.strip()
    match type_:
        case "string":
            return True, text
        case "boolean":
            return stripped.lower() in _TRUTH, _TRUTH.get(stripped.lower())
        case "integer" if re.fullmatch(r"[+-]?\d{1,4000}", stripped, re.ASCII):
            return True, int(stripped)
        case "number" if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", stripped, re.ASCII):
            return True, float(stripped)
        case "object" | "array":
            try:
                value = jsontext.loads(text)
            except ValueError:
                return False, None
            return isinstance(value, dict if type_ == "object" else list), value
    return False, None


def _json(name: str, text: str) -> Any:
    try:
        return jsontext.loads(_text(name, text))
    except ValueError as exc:
        raise Trouble(f"parameter {name}: what stands behind := is no JSON: {exc}") from exc


def _article(type_: str) -> str:
    return {"boolean": "true or false", "object": "a JSON object", "integer": "a whole number", "array": "a JSON list",
            "number": "a number"}.get(type_, f"of type {type_}")  # fmt: skip
