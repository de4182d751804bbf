"""In which line of a TOML file a key stands, which the standard library's reader does not tell.

Source: contract, section 9; "errors name the line".
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Path = tuple[str, ...]
_HEADER = re.compile(r"\s*\[")


def lines_of(text: str) -> dict[Path, int]:
    """The line, from 1, in which each table and key of a valid document begins; the first where there are several."""
    found: dict[Path, int] = {}
    table: Path = ()
    for number, statement in _statements(text.split("\n")):
        parsed = tomllib.loads(statement)
        if _HEADER.match(statement):
            table = _path_to(parsed)
            for length in range(1, len(table) + 1):
                found.setdefault(table[:length], number)
        else:
            for path in _paths(parsed):
                found.setdefault(table + path, number)
    return found


def line_of(found: Mapping[Path, int], path: Sequence[str]) -> int:
    """The line of the key, or of the nearest table around it; 1 where none is written."""
    for length in range(len(path), 0, -1):
        if (line := found.get(tuple(path[:length]))) is not None:
            return line
    return 1


def _statements(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Each statement with the line where it begins: as many lines as it takes until they are TOML by themselves."""
    at = 0
    while at < len(lines):
        end = at + 1
        while not _is_toml("\n".join(lines[at:end])) and end < len(lines):
            end += 1
        yield at + 1, "\n".join(lines[at:end])
        at = end


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _path_to(parsed: Mapping[str, Any]) -> Path:
    """The one table that a header names; `[[…]]` is a list of one."""
    path: list[str] = []
    node: Any = parsed
    while True:
        if isinstance(node, list):
            node = node[0]
        if not node:
            return tuple(path)
        ((name, node),) = node.items()
        path.append(name)


def _paths(parsed: Mapping[str, Any]) -> Iterator[Path]:
    for name, value in parsed.items():
        yield (name,)
        if isinstance(value, dict):
            for path in _paths(value):
                yield (name, *path)
