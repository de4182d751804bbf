"""The table of the docs, the hostile site and its tests have the same cases."""

import re
from pathlib import Path

from penelope.demo.hostile import paths
from penelope.demo.hostile_pages import PAGES
from penelope.demo.hostile_wire import REPLIES, SECURE

ROOT = Path(__file__).parents[2]
SERVED = {*paths, *PAGES, *(f"wire/{what}" for what in (*REPLIES, *SECURE))}


def cases() -> set[str]:
    """What the table's second column names, without a query."""
    text = (ROOT / "docs" / "pages.md").read_text("utf-8")
    rows = [
        line.split(" | ") for line in text.splitlines() if line.startswith("| ") and line.count(" | ") == 3
    ]
    return {case.partition("?")[0] for row in rows[1:] for case in re.findall(r"`([^`]+)`", row[1])}


def test_every_case_has_its_row_and_no_row_is_of_nothing() -> None:
    assert SERVED == cases()


def test_every_case_is_tried() -> None:
    """By its name; an encoding or a script by that of its page."""
    here = Path(__file__)
    tests = "".join(path.read_text() for path in here.parent.glob("test_hostile_*.py") if path != here)
    named = {word.removeprefix("/hostile/") for word in re.findall(r"[\w./-]+", tests)}
    others = {"encoding/<name>": "encoding/", "worker.js": "worker"}

    assert [] == sorted(case for case in SERVED if others.get(case, case) not in named)
