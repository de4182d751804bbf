"""A plugin's answer, to be read: short values in lines, lists of objects as tables, the rest as JSON."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.json import JSON
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from penelope import jsontext
from penelope.terminal.plain import harmless, one_line

SHORT: Final = 200  # characters of a value that stands in a line
MOST_ROWS: Final = 40  # in a terminal; what is no terminal gets all
MOST_LINES: Final = 60
MOST_COLUMNS: Final = 8
FOLDED: Final = 12  # characters of a column that folds, at least


def answer(fields: Mapping[str, Any], *, all_of_it: bool) -> RenderableType:
    """What a call answered.

    Args:
        fields: the result's, without the envelope's own.
        all_of_it: do not cut what is long.
    """
    lines = Table.grid(padding=(0, 2))
    lines.add_column(style="bold cyan")
    blocks: list[RenderableType] = []
    for name, value in fields.items():
        if (short := _short(value)) is not None:
            lines.add_row(name, short)
        else:
            blocks.append(_headed(name, value, all_of_it=all_of_it))
    return Group(*([lines] if lines.row_count else []), *blocks)


def text(value: str, *, all_of_it: bool) -> RenderableType:
    """A result that is a text."""
    return _block(value, all_of_it=all_of_it)


def _short(value: object) -> RenderableType | None:
    """A value that fits into a line; None: it does not."""
    match value:
        case None:
            return Text("null", style="dim")
        case bool():
            return Text(str(value).lower(), style="green" if value else "yellow")
        case int() | float():
            return Text(jsontext.dumps(value), style="magenta")
        case str() if len(value) <= SHORT and "\n" not in value.strip():
            return Text(one_line(value))
        case list() | dict() if not value:  # `{}` would match every object
            return Text("none", style="dim")
        case list() if (
            all(_is_plain(one) for one in value) and sum(len(str(one)) + 2 for one in value) <= SHORT
        ):
            return Text(", ".join(_cell(one) for one in value))
    return None


def _headed(name: str, value: Any, *, all_of_it: bool) -> RenderableType:
    size = f" ({len(value)})" if isinstance(value, list) else ""
    head = Text(f"{name}{size}", style="bold cyan")
    return Group(head, Padding(_block(value, all_of_it=all_of_it), (0, 0, 0, 2)))


def _block(value: Any, *, all_of_it: bool) -> RenderableType:
    match value:
        case str():
            lines = harmless(value).split("\n")
            shown = lines if all_of_it else lines[:MOST_LINES]
            return _cut(Text("\n".join(shown)), len(lines) - len(shown), "lines")
        case list() if all(_is_plain(one) for one in value):
            shown = value if all_of_it else value[:MOST_ROWS]
            return _cut(Text("\n".join(_cell(one) for one in shown)), len(value) - len(shown), "more")
        case list() if all(isinstance(one, dict) and _is_flat(one) for one in value):
            rows: list[dict[str, Any]] = [*value] if all_of_it else value[:MOST_ROWS]
            if (table := _table(rows)) is not None:
                return _cut(table, len(value) - len(rows), "rows")
        case dict() if _is_flat(value):
            return answer(value, all_of_it=all_of_it)
    return JSON(harmless(jsontext.dumps(value)), indent=2)


def _table(rows: list[dict[str, Any]]) -> Table | None:
    """Objects of much the same keys as a table; None: they would make too wide a one."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if not 0 < len(columns) <= MOST_COLUMNS:
        return None
    table = Table(
        *(Column(Text(one_line(name))) for name in columns), box=None, pad_edge=False, header_style="dim"
    )
    for row in rows:
        table.add_row(*(Text(_cell(row[name]) if name in row else "") for name in columns))
    return table


def table(
    heads: Iterable[str], rows: Iterable[Iterable[str | Text]], *, folds: Collection[str] = ()
) -> Table:
    """Rows under their heads; a column that nobody has a word for is left out.

    Args:
        folds: the columns that go over several lines where the terminal is too narrow.
    """
    cells = [tuple(row) for row in rows]
    names = list(heads)
    kept = [at for at in range(len(names)) if any(row[at] for row in cells)]
    made = Table(
        *(
            Column(
                names[at], no_wrap=names[at] not in folds, overflow="fold", min_width=_least(names[at], folds)
            )
            for at in kept
        ),
        box=None,
        pad_edge=False,
        header_style="dim",
    )
    for row in cells:
        made.add_row(*(Text(one) if isinstance(one, str) else one for one in (row[at] for at in kept)))
    return made


def _least(name: str, folds: Collection[str]) -> int | None:
    return FOLDED if name in folds else None


def _cut(shown: RenderableType, left: int, what: str) -> RenderableType:
    if left <= 0:
        return shown
    return Group(shown, Text(f"… {left} {what} left out; --json has all", style="dim"))


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _is_flat(value: Mapping[str, Any]) -> bool:
    return all(_is_plain(one) for one in value.values())


def _cell(value: object) -> str:
    return one_line(value) if isinstance(value, str) else jsontext.dumps(value)
