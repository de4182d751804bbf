"""Epoch seconds that move with Trio's clock.

Source: contract, section 5 ("Wall-clock steps"); docs/architecture.md, "Time".
"""

import time
from collections.abc import Callable

import structlog
import trio

ANCHOR_EVERY_S = 60.0
STEP_S = 1.0  # below it a difference is drift, which is adopted without a word

log = structlog.get_logger("penelope.clock")


class Clock:
    """Epoch seconds as this worker counts them: an anchor, plus the distance Trio's clock has moved since.

    Once a minute it looks at the wall. A wall that is ahead (a suspended machine, NTP) is adopted. One that has gone
    back is not: this clock never runs backwards, so that no attempt is made twice and no held result stays for
    hours; it is then ahead of the wall until the next start.
    """

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._anchor = wall()
        self._anchored_at = trio.current_time()
        self._warned = False

    def at_least(self, epoch: float) -> None:
        """Do not start before what an earlier life wrote down: the wall may have gone back meanwhile."""
        if epoch > self.now():
            log.warning("the store is ahead of the wall clock", by_s=round(epoch - self.now(), 3))
            self._anchor, self._anchored_at = epoch, trio.current_time()

    def now(self) -> float:
        """Epoch seconds; immediate, never smaller than before."""
        return self._anchor + (trio.current_time() - self._anchored_at)

    def wall(self) -> float:
        """What the machine's clock shows: for what others compare with theirs. It may go back; immediate."""
        return self._wall()

    def look(self) -> None:
        """Compare with the wall, and adopt it when it is ahead."""
        now, wall = self.now(), self._wall()
        if wall - now > STEP_S:
            log.warning("clock stepped forward", by_s=round(wall - now, 3))
        if wall > now:
            self._anchor, self._anchored_at = wall, trio.current_time()
            self._warned = False
        elif now - wall > STEP_S and not self._warned:
            log.warning("clock stepped back; not followed until the next start", by_s=round(now - wall, 3))
            self._warned = True

    async def run(self) -> None:
        """Look at the wall once a minute, for ever."""
        while True:  # nothing announces that the wall was moved
            await trio.sleep(ANCHOR_EVERY_S)
            self.look()

    async def sleep_until(self, epoch: float) -> None:
        """Sleep until this clock shows `epoch`, following its steps within a minute."""
        while (left := epoch - self.now()) > 0:  # noqa: ASYNC110  # see `run`
            await trio.sleep(min(left, ANCHOR_EVERY_S))
