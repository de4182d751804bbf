"""What was measured, kept as JSON beside the page that is made of it: a part measured anew leaves the others alone."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.numbers import Aim, Row, Section


@dataclass(frozen=True, slots=True)
class Record:
    """A section as it was measured.

    Attributes:
        command: that measured it.
        when: it was, UTC, to the minute.
        on: the machine and the versions, in one line.
        load: the machine's, before and after: 1-minute averages.
    """

    section: Section
    command: str
    when: str
    on: str
    load: tuple[float, float]


def read(path: Path) -> dict[str, Record]:
    """The records by their sections' names; {} when there is no file yet."""
    if not path.is_file():
        return {}
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return {name: _record(name, raw) for name, raw in found.items()}


def write(path: Path, records: Mapping[str, Record]) -> None:
    """In a stable order; plots are files of their own."""
    told = {name: _told(records[name]) for name in sorted(records)}
    path.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _told(record: Record) -> dict[str, Any]:
    return {
        "title": record.section.title,
        "command": record.command,
        "when": record.when,
        "on": record.on,
        "load": list(record.load),
        "rows": [asdict(row) for row in record.section.rows],
        "plots": sorted(record.section.plots),
    }


def _record(name: str, raw: dict[str, Any]) -> Record:
    rows = [
        Row(row["what"], row["figure"], row["spread"], None if row["aim"] is None else Aim(**row["aim"]))
        for row in raw["rows"]
    ]
    section = Section(name, raw["title"], rows, dict.fromkeys(raw["plots"], ""))
    before, after = raw["load"]
    return Record(section, raw["command"], raw["when"], raw["on"], (before, after))
