"""Signals, heard from the first moment of a worker to its last: what each asks for depends on how far the worker is.

Source: contract, section 8 ("Stops and starts").
"""

import signal
from typing import TYPE_CHECKING, Final

import structlog
import trio

if TYPE_CHECKING:
    from penelope.jobs.supervisor import Supervisor

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

log = structlog.get_logger("penelope")


def hear_no_more() -> None:
    """All is done: a signal that comes now must not make a failure of it."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


class Stops:
    """While the worker starts, a signal gives the start up. Afterwards the first drains, the second ends all now.

    Attributes:
        starting: around all that lives; cancelled by a signal before `hand_over`.
        serving: around what serves; cancelled by a second signal after it.
    """

    def __init__(self) -> None:
        self.starting = trio.CancelScope()
        self.serving = trio.CancelScope()
        self._supervisor: Supervisor | None = None

    def hand_over(self, supervisor: "Supervisor") -> None:
        """From now on there are calls and deliveries, which a stop lets come to their end. Immediate."""
        self._supervisor = supervisor

    async def hear(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Do what signals ask for, to the end: one that comes while the last POST is waited for, or the browser closes,
        must not end the process where it stands.
        """
        with trio.open_signal_receiver(*SIGNALS) as signals:
            task_status.started()
            async for number in signals:
                self._heard(signal.Signals(number))

    def _heard(self, number: signal.Signals) -> None:
        supervisor = self._supervisor
        if supervisor is None:
            log.info("signal", signal=number.name, second=self.starting.cancel_called)
            self.starting.cancel(reason="a signal while the worker starts")
            return
        log.info("signal", signal=number.name, second=supervisor.stopping)
        if not supervisor.stopping:
            supervisor.stop()
        elif not supervisor.hurried:
            supervisor.hurry()
            self.serving.cancel(reason="second signal")
