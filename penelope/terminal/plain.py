"""What terminals need: text of strangers made harmless, durations for people, and where it is printed."""

import re
import sys
from typing import Final

from rich.console import Console, RenderableType

WIDE: Final = 10_000  # of what is no terminal: nothing is wrapped, to be searched with grep
# Control characters but line feed and tab, C1 included, and those that turn the direction of text around: a page's
# words must not move the cursor, set the title or hide what stands before them.
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """The text as a terminal may show it."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    return " ".join(harmless(text).split())


def duration(seconds: float | None) -> str:
    """For people: `0.4 s`, `3 min 20 s`, `2 h 5 min`, `4 d 1 h`; "" for None."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for size, unit, smaller_size, smaller in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller_size
            return f"{whole // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    raise AssertionError("unreachable")


def is_terminal() -> bool:
    return sys.stdout.isatty()


def say(*what: RenderableType) -> None:
    """Print to standard output: with colours in a terminal, else plain and without white space at the ends of lines."""
    console = Console(width=None if is_terminal() else WIDE, highlight=False)
    with console.capture() as captured:
        for one in what:
            console.print(one)
    lines = captured.get().splitlines()
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in lines))
    sys.stdout.flush()


def note(text: str) -> None:
    """A line to standard error: about the answer, not part of it."""
    sys.stderr.write(f"{harmless(text)}\n")
    sys.stderr.flush()
