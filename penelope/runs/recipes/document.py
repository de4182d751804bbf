"""YAML that knows on which line each of its values stands, so that a fault can name it.

The schema is YAML 1.2's, which has JSON's types and nothing else: `on`, `no` and `2026-01-01` are texts, as is `007`.
Tags make no objects.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

MAX_FILE_BYTES: Final = 256 * 1024
MAX_NODES: Final = (
    20_000  # aliases count as often as they are named: a few lines of them can stand for billions
)
MAX_DEPTH: Final = 50
BOM: Final = "\ufeff"

# Where a value stands in a document: keys and indices, e.g. `("steps", 0, "with")`.
Where = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong in a file. `line` counts from 1."""

    file: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


class Unreadable(Exception):
    """The file is no document of ours at all."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


@dataclass(frozen=True, slots=True)
class Place:
    """Lines, from 1: where a value's key, or an item, begins; and where a text itself does."""

    line: int
    text_line: int


@dataclass(frozen=True, slots=True)
class Document:
    """A document's value, of JSON's types, and where its parts stand."""

    value: Any
    places: Mapping[Where, Place]

    def known(self, where: Iterable[str | int]) -> Where:
        """As much of a path as the document has."""
        found: Where = ()
        for part in where:
            if (*found, part) not in self.places:
                break
            found = (*found, part)
        return found

    def line(self, where: Iterable[str | int]) -> int:
        """The line of a value, or of what is around it."""
        return self.places[self.known(where)].line

    def text_line(self, where: Iterable[str | int]) -> int:
        """The line on which a text begins: for a block scalar the one after its `|`."""
        return self.places[self.known(where)].text_line


class _Loader(yaml.SafeLoader):
    """Resolves plain scalars by YAML 1.2's core schema, as far as that is JSON's."""


_Loader.yaml_implicit_resolvers = {}  # none of its parent's: YAML 1.1 reads `no` as false
_NUMBER: Final = r"-?(?:0|[1-9][0-9]*)"
for _name, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", _NUMBER, list("-0123456789")),
    ("float", rf"{_NUMBER}(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", list("-0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(rf"(?:{_pattern})\Z"), _first)


def parse(data: bytes) -> Document:
    """Read a YAML document.

    Raises:
        Unreadable: it is none, or has what JSON has not; with the line.
    """
    if len(data) > MAX_FILE_BYTES:
        raise Unreadable(1, f"the file has {len(data)} bytes: at most {MAX_FILE_BYTES} are read")
    try:
        text = data.decode("utf-8").removeprefix(BOM)
    except UnicodeDecodeError as exc:
        raise Unreadable(data[: exc.start].count(b"\n") + 1, "is not UTF-8") from exc
    try:
        root = _compose(text)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        said = " ".join(f"{exc.context or ''} {exc.problem or ''}".split())
        raise Unreadable(mark.line + 1 if mark else 1, f"is no YAML: {said}") from exc
    except yaml.reader.ReaderError as exc:
        line = text[: int(exc.position)].count("\n") + 1
        raise Unreadable(line, f"is no YAML: {exc.reason}") from exc
    except RecursionError as exc:
        raise Unreadable(1, "is nested too deeply") from exc
    if root is None:
        raise Unreadable(1, "is empty")
    places: dict[Where, Place] = {(): Place(1, 1)}
    return Document(_Building(places).value(root, ()), places)


def _compose(text: str) -> yaml.Node | None:
    loader = _Loader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


class _Building:
    """Makes values of nodes, and notes their places."""

    def __init__(self, places: dict[Where, Place]) -> None:
        self._places = places
        self._nodes = 0

    def value(self, node: yaml.Node, where: Where) -> Any:
        self._nodes += 1
        line = node.start_mark.line + 1
        if self._nodes > MAX_NODES:
            raise Unreadable(line, f"has more than {MAX_NODES} values")
        if len(where) > MAX_DEPTH:
            raise Unreadable(line, "is nested too deeply")
        match node:
            case yaml.MappingNode(tag="tag:yaml.org,2002:map"):
                return self._mapping(node, where)
            case yaml.SequenceNode(tag="tag:yaml.org,2002:seq"):
                return [self._item(part, (*where, at)) for at, part in enumerate(node.value)]
            case yaml.ScalarNode():
                return _scalar(node)
        raise Unreadable(line, f"the tag {node.tag} is not taken")

    def _item(self, node: yaml.Node, where: Where) -> Any:
        self._note(where, node.start_mark.line, node)
        return self.value(node, where)

    def _mapping(self, node: yaml.MappingNode, where: Where) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key_node, part in node.value:
            line = key_node.start_mark.line
            key = _scalar(key_node) if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str):
                raise Unreadable(line + 1, "a key is no text")
            if key in made:
                raise Unreadable(line + 1, f"the key {key} is there twice")
            self._note((*where, key), line, part)
            made[key] = self.value(part, (*where, key))
        return made

    def _note(self, where: Where, line: int, node: yaml.Node) -> None:
        in_block = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
        self._places[where] = Place(line + 1, node.start_mark.line + 1 + in_block)


def _whole(text: str) -> str:
    """JSON writes a character beyond the first plane as two escapes, which YAML takes for two characters.

    Raises:
        ValueError: one of two is missing.
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _scalar(node: yaml.ScalarNode) -> Any:
    text: str = node.value
    try:
        match node.tag:
            case "tag:yaml.org,2002:str":
                return text if text.isascii() else _whole(text)
            case "tag:yaml.org,2002:null":
                return {"": None, "~": None, "null": None}[text.lower()]
            case "tag:yaml.org,2002:bool":
                return {"true": True, "false": False}[text.lower()]
            case "tag:yaml.org,2002:int":
                return int(text)
            case "tag:yaml.org,2002:float" if math.isfinite(number := float(text)):
                return number
            case "tag:yaml.org,2002:float":
                raise ValueError("too large")
    except (ValueError, KeyError) as exc:
        kind = {"str": "text"}.get(name := node.tag.rpartition(":")[2], name)
        raise Unreadable(node.start_mark.line + 1, f"{text[:40]!r} is no {kind}") from exc
    raise Unreadable(node.start_mark.line + 1, f"the tag {node.tag} is not taken")
