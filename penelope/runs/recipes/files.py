"""What a `file:` step writes: a text, JSON, or CSV.

Source: docs/recipes.md, "Files".
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penelope.registry import checked
from penelope.runs.recipes.budget import counted, spend
from penelope.runs.recipes.model import FileOptions
from penelope.runs.recipes.values import text, written

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
CSV: Final = "text/csv; charset=utf-8"
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class File:
    """A file, ready to be handed over."""

    name: str
    content: bytes
    content_type: str


def made(arguments: Mapping[str, Any]) -> File:
    """The file of a step's arguments, its `name` among them. Slow for a large one.

    Raises:
        BadParameter: an argument is bad, missing or unknown.
        ValueError: rows that are no rows.
        TooMuch: it is too large.
    """
    # A name or a text may be a number, where its template is nothing but that.
    words = {key: text(arguments[key]) for key in ("name", "text") if key in arguments}
    options = checked(FileOptions, {**arguments, **words})
    if "text" in options.model_fields_set:
        content, content_type = options.text, TEXT
    elif "csv" in options.model_fields_set:
        content, content_type = _table(options.csv, options.columns, options.spreadsheet), CSV
    else:
        content, content_type = written(options.json_, 2) + "\n", JSON
    # A page's title may hold a lone surrogate, which has no bytes in UTF-8.
    return File(options.name, content.encode("utf-8", "replace"), options.content_type or content_type)


def _table(rows: list[Any], columns: list[str] | None, spreadsheet: bool) -> str:
    """RFC 4180: a head, where there are names, and a line for each row."""
    lines = io.StringIO(newline="")
    writer = csv.writer(lines, lineterminator="\r\n")
    there = _names(rows)
    if columns and there and (lost := set(columns) - set(there)):
        raise ValueError(f"csv: no row has {', '.join(sorted(lost))}")
    names = there if columns is None else columns
    if names:
        writer.writerow(_cells(names, spreadsheet))
    for number, row in enumerate(counted(rows), 1):
        writer.writerow(_cells(_row(row, names, number), spreadsheet))
    return lines.getvalue()


def _names(rows: list[Any]) -> list[str]:
    """The fields of all rows that are objects, in the order in which they first come."""
    return list(dict.fromkeys(key for row in rows if isinstance(row, dict) for key in row))


def _row(row: Any, names: list[str], number: int) -> Iterable[Any]:
    match row:
        case dict():
            if not names:
                return row.values()
            return [row.get(name) for name in names]
        case list():
            if names and len(row) != len(names):
                raise ValueError(f"csv: row {number} has {len(row)} cells for {len(names)} columns")
            return row
    if len(names) > 1:
        raise ValueError(f"csv: row {number} is one value for {len(names)} columns")
    return [row]


def _cells(values: Iterable[Any], spreadsheet: bool) -> Iterator[str]:
    for value in values:
        cell = "" if value is None else text(value)
        spend(len(cell))
        # What a page says must not become a formula in somebody's spreadsheet.
        yield f"'{cell}" if spreadsheet and isinstance(value, str) and cell.startswith(_FORMULA) else cell
