"""How a call that lives in the worker's nursery answers the request that asked for it.

A call is not born with `nursery.start`: then it would live in the request's scope until it has started, and a client
that hangs up in that moment would cancel it between its row and its run. A ticket lets it be the worker's from its
first step, and the request only waits.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import trio

_Value = TypeVar("_Value")


class Ticket(Generic[_Value]):
    """A value or an error, handed over once; giving a second is harmless, the first counts."""

    def __init__(self) -> None:
        self._given = trio.Event()
        self._value: _Value | None = None
        self._error: Exception | None = None
        self._then: Callable[[], None] | None = None

    def then(self, function: Callable[[], None]) -> None:
        """Have this called once the ticket is answered, whoever waits for it; before that, and one only."""
        assert not self.answered
        assert self._then is None
        self._then = function

    @property
    def answered(self) -> bool:
        return self._given.is_set()

    def give(self, value: _Value) -> None:
        if not self.answered:
            self._value = value
            self._answer()

    def refuse(self, error: Exception) -> None:
        if not self.answered:
            self._error = error
            self._answer()

    def _answer(self) -> None:
        self._given.set()
        if self._then is not None:
            self._then()

    async def wait(self) -> _Value:
        """The value.

        Raises:
            Exception: the error that was given instead.
        """
        await self._given.wait()
        return self.value()

    def value(self) -> _Value:
        """The value; only once it is `answered`.

        Raises:
            Exception: the error that was given instead.
        """
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # set by `give`
