#!/usr/bin/env python3
"""Make docs/demo.svg of what the demo really says: `.venv/bin/python script/picture.py`."""

import io
import re
import sys
from pathlib import Path

import trio
from rich.console import Console
from rich.terminal_theme import MONOKAI

from penelope.demo.show import Show
from penelope.demo.walk import run_demo

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "demo.svg"
WIDTH = 104


class Painter(Show):
    """Says it to a console that remembers."""

    def __init__(self) -> None:
        # No terminal, so that nothing is drawn over; its colours are recorded all the same.
        self.console = Console(
            file=io.StringIO(), record=True, width=WIDTH, highlight=False, force_terminal=False
        )
        super().__init__(self.console)

    def svg(self) -> str:
        """The picture, with the reader's own monospace font: Rich would have it fetched from somewhere."""
        text = self.console.export_svg(title="script/demo", theme=MONOKAI)
        text = re.sub(r"\s*@font-face \{.*?\}", "", text, flags=re.DOTALL)
        return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def main() -> int:
    painter = Painter()
    code = trio.run(run_demo, None, painter)
    if code == 0:
        PICTURE.write_text(painter.svg(), encoding="utf-8")
    else:
        sys.stderr.write(painter.console.export_text())
    return code


if __name__ == "__main__":
    sys.exit(main())
