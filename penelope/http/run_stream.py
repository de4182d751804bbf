"""One viewer of a run: its states, how far it is, its end, and a heartbeat when there is nothing else to say.

Source: contract, section 10 ("GET /runs/{id}/stream").
"""

from collections.abc import Iterator
from typing import Final

import trio

from penelope.clock import Clock
from penelope.http import sse
from penelope.runs import events
from penelope.runs.entry import Entry
from penelope.runs.model import Far, Run
from penelope.runs.service import Runs

HEARTBEAT_S: Final = 5.0
PROGRESS_GAP_S: Final = 0.2


class RunViewer:
    """A `Source` of events."""

    def __init__(self, runs: Runs, clock: Clock, run_id: str, seen: int) -> None:
        """`seen`: the last id that the viewer has seen; 0: none."""
        self._runs = runs
        self._clock = clock
        self._run_id = run_id
        self._entry: Entry | None = (
            None  # kept once it is found: its end is there, whoever forgets the run then
        )
        self._seen = seen
        self._far: Far | None = None
        self._next_at = trio.current_time()
        self._done = False

    async def next(self) -> Iterator[bytes] | None:
        """The next events, but of progress only the latest, and that a few times a second."""
        until = trio.current_time() + HEARTBEAT_S
        while not self._done:
            entry = self._entry = self._entry or self._runs.entry(self._run_id)
            run = entry.run if entry is not None else await self._runs.get(self._run_id, whole=True)
            if run is None:
                self._done = True
                return sse.event("error", b'{"error": "Job not found"}')
            if int(events.state_id(run)) > self._seen:
                self._seen = int(events.state_id(run))
                return sse.event("status", events.state(run), events.state_id(run))
            if run.state.over:
                return self._end(run, entry)
            if self._runs.stopping and entry is not None and (entry.over.is_set() or run.started_at is None):
                self._done = True  # the next start's, and a viewer's that comes again
                return sse.event("status", events.state(run))
            if entry is not None and entry.far != self._far and trio.current_time() >= self._next_at:
                return self._progress(entry.far)
            if trio.current_time() >= until:
                return sse.event("heartbeat", events.heartbeat(self._clock.now()))
            await self._wait(entry, until)
        return None

    async def _wait(self, entry: Entry | None, until: float) -> None:
        """Until there may be something to tell. What is told later anyhow is not waited for: a plugin that says much
        must not wake each viewer each time.
        """
        if entry is None:
            await trio.sleep_until(until)
        elif entry.far == self._far:
            with trio.move_on_at(until):
                await entry.progress()
        else:
            with trio.move_on_at(min(until, self._next_at)):
                await entry.move()

    def _progress(self, far: Far) -> Iterator[bytes]:
        self._far = far
        self._next_at = trio.current_time() + PROGRESS_GAP_S
        return sse.event("progress", events.progress(far))

    def _end(self, run: Run, entry: Entry | None) -> Iterator[bytes]:
        if run.far != self._far and (self._far is not None or run.far != Far()):
            return self._progress(run.far)
        self._done = True
        name, data = events.end(run) if entry is None else entry.end()
        return sse.event(name, data, events.END_ID)
