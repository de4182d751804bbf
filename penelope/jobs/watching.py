"""Who runs now, for those who watch: how far each running job is, and that it ended, told at once and by value.

Whoever waits for a job's end is told here, not by asking the store again and again; and gets the job itself, which may
be delivered and forgotten by the time that a waiter looks.

Source: contract, section 11 ("Wait", "Watch").
"""

from dataclasses import dataclass
from typing import Final

import trio

from penelope.clock import Clock
from penelope.jobs import views
from penelope.jobs.model import Job
from penelope.outcome import Outcome

SHARED_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Progress:
    """Attributes:
    number: 1 for the job's first.
    fraction: 0 to 1.
    at: epoch seconds.
    """

    number: int
    fraction: float
    note: str
    at: float


class Ended:
    """A job that ended, and how it is shown: made once for all who waited for it, since a result may be large."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._shown: tuple[float, bytes] | None = None

    @property
    def outcome(self) -> Outcome:
        """What the plain call would have answered."""
        status, result = self.job.status, self.job.result
        assert status is not None
        assert result is not None
        return Outcome(status, result)

    def shown(self, now: float) -> bytes:
        """As a poll would show it, to a second: its `expires_in` is that of the first who asked."""
        if self._shown is None or now - self._shown[0] > SHARED_S:
            self._shown = now, views.shown(self.job, now)
        return self._shown[1]


class Watched:
    """A job whose task lives.

    Attributes:
        job: as it began.
        progress: the latest; None before the first.
        ended: None while it runs, and for ever when a stop cut it off.
        closed: set once nothing more will come.
        answerable: set then too, or when the worker is asked to stop: those who wait wait no longer.
    """

    def __init__(self, job: Job, clock: Clock) -> None:
        self.job = job
        self.progress: Progress | None = None
        self.ended: Ended | None = None
        self.closed = trio.Event()
        self.answerable = trio.Event()
        self._clock = clock
        self._changed: trio.Event | None = None

    @property
    def over(self) -> bool:
        return self.closed.is_set()

    def progressed(self, fraction: float, note: str) -> None:
        """Immediate, and of one price: nothing is made for viewers, who come for the latest when they are ready."""
        number = 1 if self.progress is None else self.progress.number + 1
        self.progress = Progress(number, fraction, note, self._clock.now())
        self._wake()

    def close(self, ended: Ended | None) -> None:
        self.ended = ended
        self.closed.set()
        self.answerable.set()
        self._wake()

    async def change(self) -> None:
        """Return once there is more progress, or it is over."""
        if self._changed is None:
            self._changed = trio.Event()
        await self._changed.wait()

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None


class Watching:
    """The jobs whose tasks live, by id."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watched: dict[str, Watched] = {}
        self._stopping = False

    def get(self, job_id: str) -> Watched | None:
        """None: it does not run (any more)."""
        return self._watched.get(job_id)

    def begin(self, job: Job) -> Watched:
        """A job runs. Whoever calls this calls `leave`."""
        watched = self._watched[job.job_id] = Watched(job, self._clock)
        if self._stopping:
            watched.answerable.set()
        return watched

    def end(self, job: Job) -> None:
        """A job ended, and the store knows it or owes it; its first end counts."""
        if (watched := self._watched.pop(job.job_id, None)) is not None:
            watched.close(Ended(job))

    def leave(self, job_id: str) -> None:
        """A job's task is over; nothing where it had its end."""
        if (watched := self._watched.pop(job_id, None)) is not None:
            watched.close(None)

    def stop(self) -> None:
        """The worker is asked to stop: nobody waits for an end any longer. Viewers stay until their job is over."""
        self._stopping = True
        for watched in self._watched.values():
            watched.answerable.set()

    async def wait(self, job_id: str, seconds: float) -> Ended | None:
        """Wait for a job's end.

        Returns:
            The job's end, even if it is delivered or expired by now. None: it did not come in time, or the job did not
            run to begin with: the store knows what it is.
        """
        watched = self._watched.get(job_id)
        if watched is None:
            await trio.lowlevel.checkpoint()
            return None
        with trio.move_on_after(seconds):
            await watched.answerable.wait()
        return watched.ended
