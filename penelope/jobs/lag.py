"""How late Trio's loop is: what blocks it delays every poll, delivery and sweep.

Source: contract, section 7 ("loop lag of Trio").
"""

from collections import deque
from typing import Final

import trio

MEASURE_EVERY_S: Final = 1.0
REMEMBERED: Final = 10


class LoopLag:
    """The worst of the last ten seconds."""

    def __init__(self) -> None:
        self._lags: deque[float] = deque(maxlen=REMEMBERED)

    @property
    def worst_s(self) -> float:
        """Seconds by which a task was woken too late."""
        return max(self._lags, default=0.0)

    async def run(self) -> None:
        """Measure once a second, for ever."""
        while True:
            due = trio.current_time() + MEASURE_EVERY_S
            await trio.sleep_until(due)
            self._lags.append(max(0.0, trio.current_time() - due))
