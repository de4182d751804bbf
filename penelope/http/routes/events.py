"""Watching a job: its state, how far it is, and its end, as they come.

Source: contract, section 11 ("Watch").
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import trio
from quart import Blueprint, Response, request

from penelope.errors import StoreBusy, StoreFull
from penelope.http import held, sse
from penelope.http.streaming import stream
from penelope.http.worker import Worker
from penelope.jobs import events
from penelope.jobs.events import Seen
from penelope.jobs.model import Job, State
from penelope.jobs.watching import Ended, Progress, Watched

LAST_EVENT_ID: Final = "Last-Event-ID"
PROGRESS_GAP_S: Final = 0.2


def blueprint(worker: Worker) -> Blueprint:
    """`GET /api/v1/jobs/{job_id}/events`."""
    routes = Blueprint("events", __name__)

    @routes.get("/api/v1/jobs/<job_id>/events")
    async def watch(job_id: str) -> Response:
        seen = events.seen(request.headers.getlist(LAST_EVENT_ID))
        watched = worker.supervisor.watching.get(job_id)
        if watched is not None:
            return _streamed(worker, job_id, Viewer(worker, watched, seen))
        job = await held.find(worker, job_id)
        if seen.end is not None and (job is None or _has_seen(job, seen)):
            return _nothing_more()
        if job is None:
            raise held.missing(job_id)
        return _streamed(worker, job_id, Told(worker, job))

    return routes


def _nothing_more() -> Response:
    """What makes an EventSource stop: after a `200` it would come again."""
    response = Response(b"", 204)
    for name in ("Content-Type", "Content-Length"):
        response.headers.pop(name, None)
    return response


def _has_seen(job: Job, seen: Seen) -> bool:
    return job.state is not State.RUNNING and events.end_id(job) == seen.end


def _streamed(worker: Worker, job_id: str, source: "Viewer | Told") -> Response:
    return stream(source, on_end=worker.touch, name=f"viewer of job {job_id}")


class Told:
    """The one event of a job that does not run: its end; or that the worker goes, which cut it off."""

    def __init__(self, worker: Worker, job: Job) -> None:
        self._worker = worker
        self._job: Job | None = job

    async def next(self) -> Iterator[bytes] | None:
        await trio.lowlevel.checkpoint()
        job, self._job = self._job, None
        return None if job is None else _last(self._worker, job)


class Viewer:
    """One viewer of a running job: what it has been given, and what comes next for it."""

    def __init__(self, worker: Worker, watched: Watched, seen: Seen) -> None:
        self._worker = worker
        self._watched = watched
        self._number = seen.number if self._is_ours(seen.number) else None
        self._next_at = trio.current_time()
        self._done = False

    def _is_ours(self, number: int | None) -> bool:
        latest = self._watched.progress
        return number is not None and number <= (0 if latest is None else latest.number)

    async def next(self) -> Iterator[bytes] | None:
        """The next events, but of progress only the latest, and that a few times a second."""
        watched = self._watched
        if self._number is None and not watched.over:
            return self._opening()
        while not self._done:
            if watched.over:
                events_left = await self._closing()
                self._done = True
                return events_left
            latest = watched.progress
            if latest is None or latest.number == self._number:
                await watched.change()
            elif trio.current_time() < self._next_at:
                with trio.move_on_at(self._next_at):
                    await watched.closed.wait()
            else:
                return self._progress(latest)
        return None

    def _opening(self) -> Iterator[bytes]:
        self._number = 0
        data = events.state(self._watched.job, stopping=False)
        return sse.event("state", data, events.STATE_ID)

    def _progress(self, latest: Progress) -> Iterator[bytes]:
        self._number = latest.number
        self._next_at = trio.current_time() + PROGRESS_GAP_S
        data = events.progress(latest.fraction, latest.note, latest.at)
        return sse.event("progress", data, str(latest.number))

    async def _closing(self) -> Iterator[bytes]:
        """The end; where the job's task left none, the one that the store is owed, or that the worker goes."""
        if self._watched.ended is not None:
            return _end(self._watched.ended, self._worker.clock.now())
        job: Job | None = None
        with suppress(StoreBusy, StoreFull):
            job = await held.find(self._worker, self._watched.job.job_id)
        return _last(self._worker, job or self._watched.job)


def _last(worker: Worker, job: Job) -> Iterator[bytes]:
    if job.state is State.RUNNING:
        return sse.event("state", events.state(job, stopping=worker.supervisor.stopping))
    return _end(Ended(job), worker.clock.now())


def _end(ended: Ended, now: float) -> Iterator[bytes]:
    return sse.event("end", ended.shown(now), events.end_id(ended.job))
