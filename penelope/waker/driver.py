"""The port: where workers run. The process driver is the first; one for an orchestrator goes behind the same.

A driver starts and stops what it is told to and knows what runs. When to do either is the keeper's to decide. It
outlives nobody: a worker that runs when the waker ends goes on, and the next waker's `status` finds it.

Source: contract, section 9; docs/waker.md, "Another driver".
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from penelope.waker.model import Life, Order


class Driver(Protocol):
    """Workers by their personas' names; calls for one name do not overlap, but for `ended` and `log`."""

    async def start(self, order: Order) -> Life:
        """Start a worker, or go on with one that is not ready yet; return once it takes requests.

        Cancelled, it leaves nothing that runs.

        Raises:
            WorkerDown: it ended instead; with the last lines of its log. Nothing of it is left.
            WorkerLate: it was not ready within `order.start_within_s`; the same.
        """
        ...

    async def stop(self, name: str, kill_after_s: float) -> None:
        """Tell a worker to stop, and return when nothing of it is left, its browser included; by force after so many
        seconds. At once where there is none.
        """
        ...

    async def status(self) -> Mapping[str, Life]:
        """The workers that run, also those that an earlier waker started; never what is not its own."""
        ...

    def address(self, name: str) -> str | None:
        """The base URL of a worker that runs and is ready; None else. Immediate."""
        ...

    async def ended(self, name: str) -> str:
        """Wait until a worker that runs has ended, whoever ended it; a clause that says how, e.g. "ended with 1"."""
        ...

    async def log(self, name: str, lines: int) -> Sequence[str]:
        """The last lines of its log, oldest first, those of a worker that ended too; empty where there is none."""
        ...

    def hurry(self) -> None:
        """Cut stops short that are under way. Immediate."""
        ...
