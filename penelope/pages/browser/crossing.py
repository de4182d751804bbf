"""One function on its way from the browser's thread to Trio, and its result on its way back.

Each function says its flavour. Cancelling goes both ways, and neither side waits for one that is gone.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import trio


class Crossing:
    """A Trio-flavoured function that a call in the browser's thread waits for.

    Attributes:
        answer: in the browser's loop: its result, its error, or cancelled.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, function: Callable[..., Awaitable[Any]], args: Any
    ) -> None:
        self.answer: asyncio.Future[Any] = loop.create_future()
        self._loop = loop
        self._function, self._args = function, args
        self._scope = trio.CancelScope()

    async def work(self) -> None:
        """Trio-flavoured."""
        value, error = None, None
        try:
            with self._scope:
                try:
                    value = await self._function(*self._args)
                except Exception as raised:
                    error = raised
        except BaseException:
            self.refuse()
            raise
        if self._scope.cancelled_caught:
            self.refuse()
        else:
            call(self._loop, self._settle, value, error)

    def refuse(self) -> None:
        """On Trio's side."""
        call(self._loop, self.answer.cancel)

    async def end(self, token: trio.lowlevel.TrioToken) -> None:
        """Leave it: nothing when it was answered, else the function is cancelled and its end waited for.
        Asyncio-flavoured.
        """
        if not self.answer.done():
            self.cancel(token)
            await asyncio.wait([self.answer])

    def cancel(self, token: trio.lowlevel.TrioToken) -> None:
        """On asyncio's side."""
        try:
            token.run_sync_soon(self._scope.cancel)
        except trio.RunFinishedError:
            self.answer.cancel()

    def _settle(self, value: object, error: Exception | None) -> None:
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(value)
        else:
            self.answer.set_exception(error)


def call(loop: asyncio.AbstractEventLoop, function: Callable[..., Any], *args: Any) -> bool:
    """Have the loop call it; False when the loop is closed."""
    try:
        loop.call_soon_threadsafe(function, *args)
    except RuntimeError:
        return False
    return True
