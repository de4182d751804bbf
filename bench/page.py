"""The page that shows it: tables between two marks each, everything else on it written by hand and left alone.

<!-- bench: polls -->
…made…
<!-- /bench: polls -->
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from bench.numbers import Row
from bench.record import Record

GOALS: Final = "goals"
_BEGIN: Final = re.compile(r"^<!-- bench: ([a-z0-9-]+) -->$", re.MULTILINE)
_MARK: Final = re.compile(r"^<!-- (/?)bench: ([a-z0-9-]+) -->$", re.MULTILINE)


class BadMarks(ValueError):
    """The page's marks do not pair: nothing is written over what may be somebody's words."""


def written(page: str, blocks: Mapping[str, str]) -> str:
    """The page with what stands between the marks of each block replaced.

    A block that the page has no marks for comes at its end; what is between marks of no block stays.

    Raises:
        BadMarks: a mark without its other half, or twice; the message names it.
    """
    _check(page)
    for name, made in blocks.items():
        begin, end = f"<!-- bench: {name} -->", f"<!-- /bench: {name} -->"
        whole = f"{begin}\n{made.strip()}\n{end}"
        if begin not in page:
            page = f"{page.rstrip()}\n\n{whole}\n"
            continue
        before, _, rest = page.partition(begin)
        page = before + whole + rest.partition(end)[2]
    return page


def _check(page: str) -> None:
    open_one: str | None = None
    seen: set[str] = set()
    for ends, name in _MARK.findall(page):
        if ends:
            if name != open_one:
                raise BadMarks(f"the mark /bench: {name} ends what was not begun")
            open_one = None
        elif open_one is not None:
            raise BadMarks(f"the mark bench: {open_one} has no end before bench: {name}")
        elif name in seen:
            raise BadMarks(f"the mark bench: {name} is there twice")
        else:
            open_one = name
            seen.add(name)
    if open_one is not None:
        raise BadMarks(f"the mark bench: {open_one} has no end")


def order(page: str) -> list[str]:
    """The blocks as the page has them, from its top."""
    return _BEGIN.findall(page)


def blocks(records: Mapping[str, Record], ordered: Iterable[str], plots: str) -> dict[str, str]:
    """What goes between the marks: each record's section, and the goals of them all.

    Args:
        ordered: names in the page's order; the goals follow it.
        plots: where the page finds the plots, relative to it.
    """
    names = [name for name in ordered if name in records]
    names += [name for name in sorted(records) if name not in names]
    made = {name: _block(records[name], plots) for name in names}
    return {GOALS: goals([records[name] for name in names])} | made


def _block(record: Record, plots: str) -> str:
    before, after = record.load
    lines = [
        f"**{record.section.title}**",
        "",
        *table(record.section.rows),
        "",
        *(f"![{record.section.title}]({plots}/{name})\n" for name in record.section.plots),
        f"`{record.command}`, {record.when} UTC, load {before:.1f} before and {after:.1f} after. {record.on}",
    ]
    return "\n".join(lines)


def table(rows: Iterable[Row]) -> Iterator[str]:
    """A table; with the goals where there are any."""
    listed = list(rows)
    aimed = any(row.aim for row in listed)
    yield f"| | measured | spread |{' goal | |' if aimed else ''}"
    yield f"|---|---|---|{'---|---|' if aimed else ''}"
    for row in listed:
        goal = f" {row.aim.wanted} | {row.aim.verdict} |" if row.aim else " | |" if aimed else ""
        yield f"| {row.what} | {row.figure} | {row.spread} |{goal}"


def goals(records: Iterable[Record]) -> str:
    """Every figure that something was promised of, and whether it was kept; said first how many were."""
    rows = [(record, row) for record in records for row in record.section.rows if row.aim]
    if not rows:
        return "Nothing is measured yet."
    met = sum(1 for _, row in rows if row.aim and row.aim.met)
    lines = [f"{met} of {len(rows)} goals are met, {len(rows) - met} missed.", ""]
    lines += ["| work | | goal | measured | |", "|---|---|---|---|---|"]
    for record, row in rows:
        assert row.aim is not None
        lines.append(
            f"| {record.section.title} | {row.what} | {row.aim.wanted} | {row.aim.found} | {row.aim.verdict} |"
        )
    return "\n".join(lines)
