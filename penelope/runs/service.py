"""The queue of runs: admitted, given a page in order, worked, ended. What a stop leaves goes on at the next start.

A run at work is a task of the supervisor's, as every call is; here it is only decided which one comes next, and where.

Trio-flavoured. Source: contract, section 10.
"""

import math
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

import structlog
import trio

from penelope import jsontext
from penelope.errors import Conflict, NotFound, PenelopeError, Stopping, StoreBusy, StoreFull, Unavailable
from penelope.jobs.supervisor import Parts, Supervisor
from penelope.registry import Registry
from penelope.runs import deliver, model, submission
from penelope.runs.ends import RunEnds
from penelope.runs.entry import Entry
from penelope.runs.model import KEEP_S, RUN_ID_BYTES, Run, RunState
from penelope.runs.places import Places
from penelope.runs.port import Work
from penelope.runs.runner import RunRunner, logged
from penelope.runs.store import RunStore, TooManyRuns
from penelope.runs.submission import Planner

AGAIN_S: Final = 1.0  # a lease may have run out, a store may take what it refused: neither says so
TIDY_EVERY_S: Final = 30.0
UNREADABLE: Final = "the worker could not read this run again; its log has the details"

log = structlog.get_logger("penelope.runs")


class QueueFull(Unavailable):
    """As many runs are admitted as may be."""

    def __init__(self) -> None:
        super().__init__("Job queue is full; retry later.", headers={"Retry-After": "1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Attributes:
    concurrent: runs at work at once.
    admitted: runs that are queued or at work.
    resume: whether those that a stop left in the queue go on.
    """

    concurrent: int
    admitted: int
    resume: bool


class Runs:
    """Open it with `open_runs`."""

    def __init__(
        self,
        supervisor: Supervisor,
        parts: Parts,
        registry: Registry,
        store: RunStore,
        planner: Planner,
        limits: Limits,
    ) -> None:
        self._supervisor = supervisor
        self._pages = parts.pages
        self._clock = parts.clock
        self._requests = parts.requests
        self._store = store
        self._planner = planner
        self._limits = limits
        self._entries: dict[str, Entry] = {}  # not over, or owed
        self._queue: dict[str, Entry] = {}  # in the order of arrival
        self._at_work: dict[str, Entry] = {}
        self._places = Places(self._pages, self._clock)
        self._ends = RunEnds(store, supervisor)
        self._ends.on_stored = self._forget
        self._runner = RunRunner(parts, registry, store, self._ends, self._places)
        self._wake = trio.Event()

    @property
    def in_flight(self) -> int:
        """Runs that are queued, at work, or not stored yet."""
        return len(self._entries)

    @property
    def queued(self) -> int:
        return len(self._queue)

    @property
    def at_work(self) -> list[Entry]:
        """Runs that have a page, or are given one."""
        return list(self._at_work.values())

    @property
    def owed(self) -> int:
        """Ends that the store has yet to take."""
        return self._ends.owed

    @property
    def stopping(self) -> bool:
        return self._supervisor.stopping

    def entry(self, run_id: str) -> Entry | None:
        """A run that is not over; None: it is, or there is none."""
        return self._entries.get(run_id)

    async def submit(self, run: Run, work: Work) -> Run:
        """Take a run into the queue; durable once this returns. With the key of an earlier one: that one, as it is.

        Raises:
            QueueFull: nothing was kept, the key is free.
            Stopping, StoreBusy, StoreFull: nothing was kept.
        """
        self._supervisor.refuse_when_unable()
        if run.key is None and len(self._queue) + len(self._at_work) >= self._limits.admitted:
            raise QueueFull  # without a transaction: the more are refused, the more come
        try:
            # What is stored is in the queue, whether its client waits or not.
            with trio.CancelScope(shield=True):
                stored = await self._store.insert(run, self._limits.admitted)
                if stored.run_id == run.run_id:
                    self._admit(Entry(stored, work))
        except TooManyRuns:
            raise QueueFull from None
        return await self.get(stored.run_id) or stored

    async def submitted(self, key: str) -> Run | None:
        """The run that was submitted with this key, as it is; None: none was.

        Raises:
            StoreBusy, StoreFull: the store cannot be read.
        """
        stored = await self._store.by_key(key)
        return None if stored is None else await self.get(stored.run_id)

    def _admit(self, entry: Entry) -> None:
        self._entries[entry.run.run_id] = entry
        self._enqueue(entry)
        self.wake()

    def _enqueue(self, entry: Entry) -> None:
        """In the order of arrival: those whose rows were committed together come here in any."""
        last = next(reversed(self._queue.values()), entry)
        self._queue[entry.run.run_id] = entry
        if last.run.number > entry.run.number:
            arrived = sorted(self._queue.values(), key=lambda one: one.run.number)
            self._queue = {one.run.run_id: one for one in arrived}

    def wake(self) -> None:
        """Something may be otherwise: look whether a run can begin. Immediate."""
        if self._queue or self._ends.owed:
            self._wake.set()

    async def get(self, run_id: str, *, whole: bool = False) -> Run | None:
        """The run as it is; `whole`: with its result. None: there is none.

        Raises:
            StoreBusy, StoreFull: the store cannot be read.
        """
        entry = self._entries.get(run_id)
        return entry.run if entry is not None else await self._store.get(run_id, whole=whole)

    async def page(
        self, state: RunState | None, session_id: str | None, page: int, page_size: int
    ) -> tuple[list[Run], int]:
        """One page of the list, newest first; and how many there are."""
        rows, total = await self._store.page(state, session_id, page, page_size)
        known = {run_id: entry.run for run_id, entry in self._entries.items()}
        return [known.get(run.run_id, run) for run in rows], total

    async def wait(self, run_id: str, seconds: float) -> Run | None:
        """Return when the run is over, when so many seconds have passed, or when the worker stops.

        Returns:
            The run as it ended, with its result, even if it was deleted since; None: it has not, or had before.
        """
        entry = self._entries.get(run_id)
        if entry is None:
            await trio.lowlevel.checkpoint()
            return None
        if not self.stopping:
            with trio.move_on_after(seconds):
                await entry.answerable.wait()
        return entry.run if entry.run.state.over else None

    async def cancel(self, run_id: str) -> Run:
        """End a run that is not over, and wait for its end.

        Raises:
            NotFound: there is none.
            Conflict: it is over already.
            Stopping: the worker stopped before it ended.
        """
        entry = self._entries.get(run_id)
        if entry is None or entry.run.state.over:
            run = await self.get(run_id)
            if run is None:
                raise NotFound(f"Job not found: {run_id}")
            raise Conflict(f"Job is already complete. Status: {run.state.value}")
        entry.cancelled = True
        if self._queue.pop(run_id, None) is not None:
            with trio.CancelScope(shield=True):
                await self._end_queued(entry)
        else:
            entry.scope.cancel(reason="its client cancelled it")
            await entry.over.wait()
        return _cancelled(entry.run)

    async def _end_queued(self, entry: Entry) -> None:
        await self._runner.end(entry, model.cancelled(entry.run, entry.far, self._clock.now()))
        self._leave(entry)
        self.wake()  # its end may be owed

    async def delete(self, run_id: str) -> None:
        """Forget a run that is over, its result and its files.

        Raises:
            NotFound: there is none.
            Conflict: it is not over.
            StoreBusy, StoreFull: it is kept.
        """
        entry = self._entries.get(run_id)
        if entry is not None and not entry.run.state.over:
            raise Conflict("Cannot delete a running job. Cancel it first.")
        if self._ends.owes(run_id):
            await self._ends.pay()
        if self._ends.owes(run_id):
            raise StoreBusy("the store has not taken the run's end yet", headers={"Retry-After": "5"})
        if not await self._store.delete(run_id, self._clock.now()):
            raise NotFound(f"Job not found: {run_id}")
        self._forget(run_id)

    async def let_go(self) -> None:
        """When the worker is asked to stop, those who wait for a run wait no longer."""
        await self._supervisor.stop_asked.wait()
        for entry in self._entries.values():
            entry.let_go()

    def attach(self) -> None:
        """Be counted with what is in flight, and told when a page is free."""
        self._supervisor.beside.append(lambda: self.in_flight)
        self._pages.on_free = self.wake

    # What runs them.

    async def recover(self) -> None:
        """Put in order what the last life left: those at work have failed, those in the queue go on."""
        now = self._clock.now()
        ends: list[Run] = []
        for run in await self._store.left():
            if run.state is RunState.RUNNING or not self._limits.resume:
                ends.append(model.interrupted(run, now))
                continue
            try:
                work = self._planner(submission.read(jsontext.loads(run.request))).work
            except PenelopeError as error:  # e.g. its recipe is gone
                ends.append(model.failed(run, error.message, run.far, now))
            except Exception:  # one row must not keep the worker from its start, for ever
                log.exception("a run in the queue cannot be read", run_id=run.run_id)
                ends.append(model.failed(run, UNREADABLE, run.far, now))
            else:
                self._admit(Entry(replace(run, request=""), work))
        parcels = [(run, deliver.parcel(run)) for run in ends]
        await self._store.end_all(parcels)
        for run, parcel in parcels:
            log.warning("run interrupted", run_id=run.run_id, request_id=run.request_id, error=run.error)
            if run.started_at is not None:
                self._requests.add(logged(run, "end"))
            self._ends.deliver(parcel)

    async def dispatch(self) -> None:
        """Give pages to runs, in their order, for ever."""
        while True:
            self._wake = trio.Event()
            await self._ends.pay()
            if not self.stopping:
                self._begin_all()
            await self._woken(AGAIN_S if self._queue or self._ends.owed else math.inf)

    async def _woken(self, within_s: float) -> None:
        if self._wake.is_set() or within_s == math.inf:
            await self._wake.wait()
            return
        with trio.move_on_after(within_s):
            await self._wake.wait()

    async def tidy(self) -> None:
        """Close the pages that runs need no longer, and forget runs whose time is over; apart from the queue, which
        waits for neither.
        """
        while True:
            await trio.sleep(TIDY_EVERY_S)
            if not self.stopping:
                await self._places.close_idle(needed=bool(self._queue))
            await self._sweep()

    async def _sweep(self) -> None:
        now = self._clock.now()
        try:
            while gone := await self._store.forget(now - KEEP_S, now):
                log.info("runs forgotten", runs=gone)
        except (StoreBusy, StoreFull) as error:
            log.warning("sweep put off", error=error.message)

    def _begin_all(self) -> None:
        """In the order of arrival; those behind one that waits for its page may want another."""
        now, none_for = trio.current_time(), set[str | None]()
        for run_id, entry in list(self._queue.items()):
            wanted = entry.work.page
            if wanted in none_for:
                continue
            if len(self._at_work) >= self._limits.concurrent or not self._places.left:
                return
            place = None if entry.not_before > now else self._places.take(wanted)
            if place is None:
                none_for.add(wanted)
                continue
            del self._queue[run_id]
            self._at_work[run_id] = entry
            name = f"run {run_id} of {entry.run.agent_id}"
            self._supervisor.spawn(self._run, entry, place, name=name, request_id=entry.run.request_id)

    async def _run(self, entry: Entry, place: str) -> None:
        try:
            if not await self._runner.run(entry, place):
                await self._back(entry)
        finally:
            self._places.give_back(place)
            del self._at_work[entry.run.run_id]
            self._leave(entry)
            self.wake()

    def _leave(self, entry: Entry) -> None:
        """A run's task is over: it has ended, or the worker stops before it did, or it is in the queue again."""
        run_id = entry.run.run_id
        if run_id in self._queue:
            return
        self._supervisor.quiet()
        if entry.run.state.over and not self._ends.owes(run_id):
            self._forget(run_id)
        entry.close()

    def _forget(self, run_id: str) -> None:
        """The store knows all of it."""
        self._entries.pop(run_id, None)

    async def _back(self, entry: Entry) -> None:
        """Into the queue again, where it was: before all that came later."""
        if entry.cancelled:  # meanwhile
            await self._end_queued(entry)
            return
        # One that was outrun finds its page taken now: it gets another, or is told when that one is free.
        entry.not_before = 0.0 if entry.outrun else trio.current_time() + AGAIN_S
        self._enqueue(entry)


def _cancelled(run: Run) -> Run:
    """What a cancel comes to.

    Raises:
        Conflict: the run ended by itself in that moment.
        Stopping: it has no end.
    """
    if not run.state.over:
        raise Stopping("the worker stopped before the run ended", headers={"Retry-After": "10"})
    if run.state is not RunState.CANCELLED:
        raise Conflict(f"Job is already complete. Status: {run.state.value}")
    return run


def new_id() -> str:
    return f"run_{secrets.token_hex(RUN_ID_BYTES)}"


@asynccontextmanager
async def open_runs(runs: Runs) -> AsyncGenerator[Runs]:
    """Recover, then give pages to runs while the block lasts.

    Raises:
        StoreBusy, StoreFull: the recovery could not read or write the store.
    """
    runs.attach()
    await runs.recover()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(runs.dispatch, name="queue of runs")
        nursery.start_soon(runs.tidy, name="pages and rows of runs")
        nursery.start_soon(runs.let_go, name="waits for runs")
        yield runs
        nursery.cancel_scope.cancel(reason="the worker stops")
