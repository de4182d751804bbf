"""Tables as commands print them: as wide as the terminal, or in lines that grep can search."""

import sys
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

WIDE: Final = 10_000  # of what is no terminal: one line a row


def show(table: Table) -> None:
    """Print it."""
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    with console.capture() as captured:
        console.print(table)
    console.out("\n".join(line.rstrip() for line in captured.get().splitlines()), highlight=False)


def from_here(source: str) -> str:
    """The path of a file, from here if it lies below."""
    path = Path(source)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else source
