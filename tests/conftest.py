"""Marks each test with its folder: `pytest -m "not browser"`, `pytest -m core`; bounds the way out."""

import faulthandler
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase

TESTS = Path(__file__).parent
FOLDERS = ("core", "spec", "io", "browser", "kill", "compat")
EXIT_S = 60.0

# No deadline: the machine's load is no fault of the code's. What failed once is tried first the next time.
settings.register_profile(
    "penelope",
    deadline=None,
    max_examples=40,
    print_blob=True,
    database=DirectoryBasedExampleDatabase(TESTS.parent / ".cache" / "hypothesis"),
)
settings.load_profile("penelope")
# For a second Python: the first has looked for the counterexample, this one for what the interpreter makes of it.
settings.register_profile("again", settings.get_profile("penelope"), max_examples=8)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = _folder(item.path)
        if folder in FOLDERS:
            item.add_marker(folder)
    order = _order(list(dict.fromkeys(item.path for item in items)))
    items.sort(key=lambda item: order[item.path])


def _folder(path: Path) -> str:
    return path.relative_to(TESTS).parts[0]


def _order(paths: list[Path]) -> dict[Path, tuple[int, float]]:
    """Where each file stands, for processes that take one after the other: few long tests first, many short ones last,
    so that in the end no process works alone; and by turns what needs a browser's CPU and what mostly waits.
    """
    order: dict[Path, tuple[int, float]] = {}
    for folder in {_folder(path) for path in paths}:
        files = [path for path in paths if _folder(path) == folder]
        stage = {"kill": 0, "io": 1, "browser": 1}.get(folder, 2)
        order |= {path: (stage, number / len(files)) for number, path in enumerate(files)}
    return order


def pytest_unconfigure() -> None:
    """What a test left behind must not hang the interpreter's end: show where, and fail."""
    faulthandler.dump_traceback_later(EXIT_S, exit=True, file=sys.__stderr__ or sys.stderr)
