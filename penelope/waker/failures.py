"""How often a persona's worker failed in a row, and when it may be tried again.

Source: contract, section 9 ("with back-off on crashes").
"""

from penelope.waker import lifecycle
from penelope.waker.model import Policy


class Failures:
    """Attributes:
    died: the last life ended unasked; what it left has to be seen to.
    """

    def __init__(self) -> None:
        self.died = False
        self._count = 0
        self._at = 0.0

    def add(self, now: float, lived_s: float) -> None:
        """It failed, having lived so long; 0: it did not start."""
        self._count = lifecycle.failures_after(self._count, lived_s)
        self._at = now

    def forget(self) -> None:
        """It ended as it should."""
        self._count = 0

    def due(self, policy: Policy) -> float | None:
        """When the worker is started without anybody asking, epoch seconds; None: not at all."""
        if not lifecycle.starts_itself(policy, died=self.died, failures=self._count):
            return None
        return self.again_at

    @property
    def again_at(self) -> float:
        """When it may be started at the earliest, by whoever does not insist."""
        return lifecycle.restart_at(self._count, self._at)
