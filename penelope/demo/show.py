"""What the demo says: in colour to a terminal, in plain lines to everything else."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.text import Text

SHOWN_OF_A_LIST = 4
SHOWN_OF_A_TEXT = 100


class Show:
    """The demo's voice. Rich drops colours and the spinner by itself where nobody sees them."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)

    def step(self, title: str) -> None:
        self._say(f"\n{title}", "bold cyan")

    def note(self, words: str) -> None:
        self._say(words, "dim")

    def command(self, line: str) -> None:
        """A line of the shell, before it is executed."""
        self._say(
            "\n".join(f"{'$' if at == 0 else ' '} {part}" for at, part in enumerate(line.splitlines())),
            "yellow",
        )

    def preamble(self, lines: str) -> None:
        """Lines of the shell that each stand for themselves."""
        self._say("\n".join(f"$ {line}" for line in lines.splitlines()), "yellow")

    def answer(self, status: int, value: object) -> None:
        self._say(f"{status} {json.dumps(shortened(value), ensure_ascii=False)}", "default")

    def headers(self, headers: Mapping[str, str]) -> None:
        for name, value in headers.items():
            self._say(f"  {name}: {value}", "default")

    def verified(self, words: str) -> None:
        self._say(f"✓ {words}", "green")

    def failed(self, words: str) -> None:
        self._say(f"✗ {words}", "bold red")

    def log(self, lines: list[str]) -> None:
        """Lines of another program, whose colours are kept where there are colours."""
        self._console.print(Text.from_ansi("\n".join(lines)))

    @contextmanager
    def live(self) -> Iterator["Live"]:
        """A line that changes while something is going on."""
        if not self._console.is_terminal:
            yield Live(self, None)
            return
        with self._console.status("") as status:
            yield Live(self, status)

    def _say(self, words: str, style: str) -> None:
        # Text, not markup: an answer of the worker may hold square brackets.
        self._console.print(Text(words, style=style))


class Live:
    """One changing line of a terminal, or one new line for each change elsewhere."""

    def __init__(self, show: Show, status: Status | None) -> None:
        self._show = show
        self._status = status
        self._last = ""

    def update(self, words: str) -> None:
        if self._status is not None:
            self._status.update(Text(words))
        elif words != self._last:
            self._show.note(f"  {words}")
        self._last = words


def shortened(value: Any) -> Any:
    """A JSON value with its long lists and texts cut, to be read by a person."""
    match value:
        case dict():
            return {name: shortened(part) for name, part in value.items()}
        case list() if len(value) > SHOWN_OF_A_LIST:
            return [*map(shortened, value[:SHOWN_OF_A_LIST]), f"… {len(value) - SHOWN_OF_A_LIST} more"]
        case list():
            return [shortened(part) for part in value]
        case str() if len(value) > SHOWN_OF_A_TEXT:
            return f"{value[:SHOWN_OF_A_TEXT]}…"
        case _:
            return value
