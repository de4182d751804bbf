"""How much a template may make, and for how long: every loop and every operation of one pays here.

A recipe's author means no harm, but what a page or a client sends decides how long his lists are.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

MAX_CHARS: Final = 32 * 2**20  # characters and items that one rendering may make, in all
MAX_ITEMS: Final = 100_000  # of a list that is sorted, looped over or made
MAX_SECONDS: Final = 5.0


class TooMuch(Exception):
    """A template made too much, or took too long; the message says of what."""


class Budget:
    """What is left of one rendering. Time is the machine's own: renderings happen in a thread."""

    def __init__(self, chars: int = MAX_CHARS, seconds: float = MAX_SECONDS) -> None:
        self._left = chars
        self._ends = time.monotonic() + seconds

    def spend(self, amount: int) -> None:
        """Pay, before something is made if its size is known.

        Raises:
            TooMuch: no more than that is left.
        """
        self._left -= amount
        if self._left < 0:
            raise TooMuch(f"makes more than {MAX_CHARS // 2**20} MiB")
        if time.monotonic() > self._ends:
            raise TooMuch(f"takes longer than {MAX_SECONDS:.0f} s")


_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def spending(budget: Budget) -> Iterator[None]:
    """What happens inside pays from this budget."""
    token = _current.set(budget)
    try:
        yield
    finally:
        _current.reset(token)


def spend(amount: int) -> None:
    """Pay from the budget of the rendering that this is part of.

    While a template is compiled, where constants are folded, each operation has one of its own.

    Raises:
        TooMuch: no more than that is left.
    """
    (_current.get() or Budget()).spend(amount)


def joined(chunks: Iterable[str]) -> str:
    """The chunks as one text, each paid for before the next is made.

    Raises:
        TooMuch: it is longer than what is left.
    """
    kept = []
    for chunk in chunks:
        spend(len(chunk))
        kept.append(chunk)
    return "".join(kept)


def counted(items: Iterable[Any]) -> Iterator[Any]:
    """The items, paid for one by one.

    Raises:
        TooMuch: there are more than `MAX_ITEMS`.
    """
    for at, item in enumerate(items, 1):
        if at > MAX_ITEMS:
            raise TooMuch(f"works a list of more than {MAX_ITEMS} items")
        spend(1)
        yield item


def few(items: Any) -> Any:
    """The same items; looked at before a filter takes them as a whole.

    Raises:
        TooMuch: there are more than `MAX_ITEMS`.
    """
    if isinstance(items, str | list | tuple | dict):
        if len(items) > MAX_ITEMS:
            raise TooMuch(f"works a list of more than {MAX_ITEMS} items")
        spend(len(items))
        return items
    return counted(items) if isinstance(items, Iterator) else items
