"""Marks each test with its folder: `pytest -m "not browser"`, `pytest -m core`."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FOLDERS = ("core", "spec", "io", "browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in FOLDERS:
            item.add_marker(folder)
