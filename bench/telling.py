"""What it ran on, and a section as it is printed."""

import os
import platform
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from bench.numbers import Section
from bench.page import table
from penelope.pages.browser.find import find_browser

PACKAGES = ("trio", "quart", "quart-trio", "hypercorn", "h11", "httpx", "playwright", "pydantic", "structlog")


def show(section: Section) -> None:
    print(f"\n### {section.title}\n", *table(section.rows), sep="\n", flush=True)


def machine(module: str = "bench") -> Iterator[str]:
    """The command and what it ran on, in a few lines."""
    words = " ".join([f"python -m {module}", *sys.argv[1:]])
    yield f"`{words}`"
    yield f"{on()} Load: {load():.1f}."


def on() -> str:
    """The machine and what is installed there."""
    browser = find_browser(None, bundled=Path("/nowhere"))
    said = subprocess.run([browser, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    python = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    return f"{platform.system()} {platform.release()}, {os.cpu_count()} cores; {python}, {packages}, {said}."


def load() -> float:
    """How many processes wanted a core, averaged over the last minute."""
    return os.getloadavg()[0]
