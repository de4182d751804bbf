"""How a call that lives in the worker's nursery answers the request that asked for it.

A call is not born with `nursery.start`: then it would live in the request's scope until it has started, and a client
that hangs up in that moment would cancel it between its row and its run. A ticket lets it be the worker's from its
first step, and the request only waits.
"""

from typing import Generic, TypeVar

import trio

_Value = TypeVar("_Value")


class Ticket(Generic[_Value]):
    """A value or an error, handed over once; giving a second is harmless, the first counts."""

    def __init__(self) -> None:
        self._given = trio.Event()
        self._value: _Value | None = None
        self._error: Exception | None = None

    @property
    def answered(self) -> bool:
        return self._given.is_set()

    def give(self, value: _Value) -> None:
        if not self.answered:
            self._value = value
            self._given.set()

    def refuse(self, error: Exception) -> None:
        if not self.answered:
            self._error = error
            self._given.set()

    async def wait(self) -> _Value:
        """The value.

        Raises:
            Exception: the error that was given instead.
        """
        await self._given.wait()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # set by `give`
