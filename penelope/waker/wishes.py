"""What is asked of a keeper, how its task hears of it, and how those who ask hear what became of it.

Source: contract, section 9.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from penelope.waker.model import Why


class Attempt:
    """One start, and all who wait for it."""

    def __init__(self) -> None:
        self._over = trio.Event()
        self._error: Exception | None = None

    def settle(self, error: Exception | None) -> None:
        self._error = error
        self._over.set()

    async def wait(self) -> None:
        """Raises whatever kept the worker from being ready."""
        await self._over.wait()
        if self._error is not None:
            raise self._error


class Wishes:
    """Attributes:
    asked: somebody waits for the worker.
    off: it was stopped by hand, and starts by itself no more.
    command: why it has to end at once.
    renew: why it has to end at its next quiet moment.
    closing: the keeper ends once the worker has.
    shut: which is now.
    attempt: the start that is under way, or else the next one.
    """

    def __init__(self) -> None:
        self.asked = self.off = self.closing = self.shut = False
        self.command: Why | None = None
        self.renew: Why | None = None
        self.attempt = Attempt()
        self._stirred = trio.Event()

    def told(self) -> Why | None:
        """What the worker has to end for at once."""
        return Why.SHUTDOWN if self.shut else self.command

    def begin(self) -> None:
        """A start begins: what was asked for until now is behind it."""
        self.asked = self.off = False
        self.command = None
        self.renew = Why.REMOVED if self.closing else None

    def settle(self, error: Exception | None) -> None:
        """The start is over, for all who wait for it."""
        attempt, self.attempt = self.attempt, Attempt()
        attempt.settle(error)

    def recall(self, error: Exception) -> None:
        """Take back what was asked for and has not begun, for all who wait for it."""
        self.asked = False
        self.settle(error)

    def stir(self) -> None:
        """Let the keeper's task look again."""
        self._stirred.set()

    async def pause(self, seconds: float | None) -> None:
        """So long (None: for ever), or until something is asked for."""
        with trio.CancelScope() as scope:
            if seconds is not None:
                scope.deadline = trio.current_time() + max(0.0, seconds)
            await self._stirred.wait()
        if self._stirred.is_set():
            self._stirred = trio.Event()


class Traffic:
    """Requests that the gateway passes on.

    Attributes:
        passing: now.
        passed_at: when the last of them ended, epoch seconds; None: none has.
    """

    def __init__(self) -> None:
        self.passing = 0
        self.passed_at: float | None = None

    @contextmanager
    def passed(self, now: Callable[[], float]) -> Iterator[None]:
        """Count one while the block lasts."""
        self.passing += 1
        try:
            yield
        finally:
            self.passing -= 1
            self.passed_at = now()
