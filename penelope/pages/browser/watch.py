"""Watches the browser's thread from Trio: warns of a plugin that blocks it, and frees it after a cancelled call.

Trio-flavoured. Source: contract, section 2 ("A plugin that blocks its thread").
"""

import ctypes
import sys
import time
import traceback
from collections.abc import Callable

import structlog
import trio

from penelope.pages.browser.run import BrokenOff, Run
from penelope.pages.browser.thread import BrowserThread

PING_EVERY_S = 1.0
BLOCKED_S = 1.0  # a thread that has not answered for so long is not waited for
WARN_AFTER_S = 5.0
BREAK_EVERY_S = 0.5
BREAK_FOR_S = 5.0  # a call in C code (a sleep, a regex) sees no exception before it returns

log = structlog.get_logger("penelope.browser")


class Watch:
    """Pings the thread once a second.

    Attributes:
        stuck: set once a cancelled call blocks the thread and nothing ends it.
        on_blocked: called again and again, on Trio's side, while the thread does not answer.
    """

    def __init__(self, thread: BrowserThread) -> None:
        self.stuck = trio.Event()
        self.on_blocked: Callable[[], None] = lambda: None
        self._thread = thread
        self._sent_at: float | None = None  # of the ping that was not answered yet
        self._warned = False

    @property
    def lag_s(self) -> float:
        """For how long the thread has not answered, seconds; 0.0 when it does. Immediate."""
        sent_at = self._sent_at
        waited = 0.0 if sent_at is None else time.monotonic() - sent_at
        return waited if waited > PING_EVERY_S / 2 else 0.0

    def ping(self) -> None:
        """Send a ping unless one is on its way; immediate."""
        if self._sent_at is not None:
            return
        self._sent_at = time.monotonic()
        try:
            self._thread.loop.call_soon_threadsafe(self._pong)
        except RuntimeError:  # the loop is closed: the browser has been stopped
            self._sent_at = None

    def _pong(self) -> None:
        """In the browser's thread."""
        self._sent_at = None

    async def run(self) -> None:
        """Ping for ever, and warn once per stall."""
        while True:
            if self._sent_at is None:
                if self._warned:
                    log.info("the browser's thread answers again")
                self._warned = False
                self.ping()
            else:
                if self.lag_s >= BLOCKED_S:
                    self.on_blocked()
                if not self._warned and self.lag_s >= WARN_AFTER_S:
                    self._warned = True
                    self._warn()
            await trio.sleep(PING_EVERY_S if self.lag_s == 0.0 else PING_EVERY_S / 4)

    def _warn(self) -> None:
        run = self._thread.loop.at_work
        log.warning(
            "the browser's thread has not answered",
            plugin=None if run is None else run.name,
            for_s=round(self.lag_s, 1),
            stack=self.stack(),
        )

    def stack(self) -> str:
        """Where the thread is, as a traceback's text; immediate."""
        frame = sys._current_frames().get(self._thread.ident)
        return "".join(traceback.format_stack(frame)) if frame is not None else ""

    def held_by_another(self, run: Run[object]) -> bool:
        """Whether another call than this one has the thread right now, and keeps it. Immediate."""
        at_work = self._thread.loop.at_work
        return self.lag_s > 0.0 and at_work is not None and at_work is not run

    async def free(self, run: Run[object]) -> None:
        """Free the thread from a cancelled call that has passed its grace; bounded. Sets `stuck` when that fails.

        Only from that call: another one that blocks the thread was not cancelled, and has a right to its end.
        """
        log.warning(
            "breaking off a call that blocks the browser's thread", plugin=run.name, stack=self.stack()
        )
        until = trio.current_time() + BREAK_FOR_S
        while trio.current_time() < until and not self.held_by_another(run):
            if not _raise_in(self._thread.ident):
                break
            with trio.move_on_after(BREAK_EVERY_S):
                await run.ended.wait()
            if run.ended.is_set() or run.cancel_seen:
                _raise_in(self._thread.ident, clear=True)
                return
        _raise_in(self._thread.ident, clear=True)
        if self.held_by_another(run):
            return
        log.error(
            "nothing ends the call that blocks the browser's thread", plugin=run.name, stack=self.stack()
        )
        self.stuck.set()


def _raise_in(ident: int, *, clear: bool = False) -> bool:
    """Have BrokenOff raised at the thread's next Python instruction; False when there is no such thread."""
    error = None if clear else ctypes.py_object(BrokenOff)
    return bool(ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), error))
