"""The browser's thread: an asyncio loop of its own, called from Trio.

Playwright is asyncio only; in a thread of its own a plugin that blocks does not stop the worker.

Source: docs/architecture.md, "The bridge".
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import structlog
import trio

from penelope.pages.browser.loop import BrowserLoop
from penelope.pages.browser.node import HeadStart
from penelope.pages.browser.run import GRACE_S, Abandoned, BrokenOff, Run

JOIN_S = 3.0
# Playwright's own notes, in tasks of its own, of what ended under it: nobody asks for them, and the keeper sees to it.
ENDED_UNDER_IT = (
    "Connection closed while reading from the driver",
    "Target page, context or browser has been closed",  # also: a start that was given up
)

_T = TypeVar("_T")

log = structlog.get_logger("penelope.browser")


class BrowserThread:
    """Runs asyncio-flavoured functions for Trio.

    Attributes:
        loop: of the thread.
        ident: of the thread, as `sys._current_frames` counts them; 0 before it has begun.
    """

    def __init__(self, ahead: HeadStart | None = None) -> None:
        """`ahead`: see `BrowserLoop`."""
        self.loop = BrowserLoop(ahead)
        self.ident = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._live, name="penelope-browser", daemon=True)

    def start(self) -> None:
        """Start the thread; immediate."""
        self._thread.start()
        self.ident = self._thread.ident or 0

    def _live(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.set_exception_handler(_log_unhandled)
        while not self._stopping:
            try:
                self.loop.run_forever()
            except BrokenOff:
                log.warning("the browser's loop was hit instead of the call that blocked it; it goes on")
        self.loop.close_transports()
        self.loop.close()

    def _stop(self) -> None:
        self._stopping = True
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.call_later(0.05, self.loop.stop)  # lets the cancelled tasks end

    async def run(
        self,
        function: Callable[..., Awaitable[_T]],
        *args: Any,
        grace: float = GRACE_S,
        name: str = "browser",
    ) -> _T:
        """Run `function` in the thread and wait until it has really ended. Trio-flavoured.

        Cancelled, it waits at most `grace` seconds for the end, then gives it up: it is not resumed.

        Raises whatever `function` raised.
        """

        async def end(run: Run[_T]) -> None:
            run.cancel()
            with trio.move_on_after(grace, shield=True):
                await run.ended.wait()
            if not run.ended.is_set():
                log.warning("will not end; given up", name=name, grace_s=grace)
                run.abandon()

        try:
            return await Run(self.loop, name, function, args).wait(end)
        except BrokenOff:  # meant for a call that blocked the thread; it hit this instead
            raise Abandoned(f"{name} was broken off") from None

    async def close(self) -> None:
        """End the thread; bounded, whatever it does. Trio-flavoured."""
        try:
            self.loop.call_soon_threadsafe(self._stop)
        except RuntimeError:
            return
        with trio.move_on_after(JOIN_S, shield=True):
            while self._thread.is_alive():  # noqa: ASYNC110 - a thread's end sets no event of Trio's
                await trio.sleep(0.005)
        if self._thread.is_alive():
            log.error("the browser's thread is blocked and was left behind")


def _log_unhandled(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if any(note in str(error) for note in ENDED_UNDER_IT):
        return
    log.warning("unhandled in the browser's thread", what=context.get("message"), exc_info=error)


@asynccontextmanager
async def open_thread(ahead: HeadStart | None = None) -> AsyncIterator[BrowserThread]:
    """The thread, for as long as the block. Trio-flavoured."""
    thread = BrowserThread(ahead)
    thread.start()
    try:
        yield thread
    finally:
        with trio.move_on_after(2 * JOIN_S, shield=True):
            await thread.close()
