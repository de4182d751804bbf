"""A tool's result as a text of a bounded length, with as much of its structure as there is room for; pure.

Cut at its end alone, a page's long text would hide its links, which come after it: long texts and lists are cut first.
"""

from itertools import islice
from typing import Any, Final

from penelope import jsontext

MAX_DEPTH: Final = 50
# Characters of a text and items of a list, ever fewer.
_LEVELS: Final = ((16_000, 2_000), (8_000, 200), (4_000, 100), (2_000, 50), (1_000, 25), (300, 10))


def fitted(value: Any, most: int) -> str:
    """A JSON value as JSON; where that would have more than `most` characters, with its longest parts cut."""
    text = ""
    for chars, items in _LEVELS:
        text = jsontext.dumps(_cut(value, chars, items))
        if len(text) <= most:
            return text
    return f"{text[:most]}… ({len(text)} characters)"


def _cut(value: Any, chars: int, items: int, depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        return "…"
    match value:
        case str() if len(value) > chars:
            return f"{value[:chars]}… ({len(value)} characters)"
        case list():
            kept = [_cut(part, chars, items, depth + 1) for part in value[:items]]
            return kept if len(value) <= items else [*kept, f"… ({len(value)} items)"]
        case dict():
            some = {
                key[:chars]: _cut(part, chars, items, depth + 1) for key, part in islice(value.items(), items)
            }
            return some if len(value) <= items else {**some, "…": f"({len(value)} fields)"}
    return value
