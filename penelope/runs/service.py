"""The queue of runs: admitted, given a page in order, worked, ended. What a stop leaves goes on at the next start.

A run at work is a task of the supervisor's, as every call is; here it is only decided which one comes next, and where.

Trio-flavoured. Source: contract, section 10.
"""

import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import structlog
import trio

from penelope import jsontext
from penelope.errors import (
    BadParameter,
    Conflict,
    NotFound,
    PenelopeError,
    Stopping,
    StoreBusy,
    StoreFull,
    Unavailable,
)
from penelope.jobs.supervisor import Parts, Supervisor
from penelope.pages.claim import Holder
from penelope.pages.driver import Tab
from penelope.pages.manager import Page
from penelope.registry import Registry
from penelope.runs import deliver, model, submission
from penelope.runs.desk import PageDesk
from penelope.runs.model import KEEP_S, RUN_ID_BYTES, Far, Run, RunState
from penelope.runs.places import Places
from penelope.runs.port import Work
from penelope.runs.store import RunStore, TooManyRuns
from penelope.runs.submission import Planner

STORE_GRACE_S: Final = 15.0
AGAIN_S: Final = 1.0  # a lease may have run out, a store may take what it refused: neither says so
SWEEP_EVERY_S: Final = 60.0

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


@dataclass(eq=False, slots=True)
class Entry:
    """A run that is not over, or whose end the store was not told yet.

    Attributes:
        far: how far it is.
        over: set once its end is stored or owed, or its task is gone.
    """

    run: Run
    work: Work
    far: Far = field(default_factory=Far)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    cancelled: bool = False
    over: trio.Event = field(default_factory=trio.Event)
    _changed: trio.Event | None = None

    async def change(self) -> None:
        """Return once its state or its progress is another one, or it is over."""
        if self._changed is None:
            self._changed = trio.Event()
        await self._changed.wait()

    def tell(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None


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
        self._parts = parts
        self._pages = parts.pages
        self._clock = parts.clock
        self._registry = registry
        self._store = store
        self._planner = planner
        self._limits = limits
        self._entries: dict[str, Entry] = {}  # not over, or owed
        self._queue: dict[str, Entry] = {}  # in the order of arrival
        self._owed: dict[str, Run] = {}
        self._at_work = 0
        self._places = Places(self._pages, self._clock)
        self._wake = trio.Event()

    @property
    def in_flight(self) -> int:
        """Runs that are queued, at work, or not stored yet."""
        return len(self._entries)

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
        try:
            with trio.CancelScope(
                shield=True
            ):  # what is stored is in the queue, whether its client waits or not
                stored = await self._store.insert(run, self._limits.admitted)
                if stored is run:
                    self._admit(Entry(run, work))
        except TooManyRuns:
            raise QueueFull from None
        return await self.get(stored.run_id) or stored

    def _admit(self, entry: Entry) -> None:
        self._entries[entry.run.run_id] = self._queue[entry.run.run_id] = entry
        self.wake()

    def wake(self) -> None:
        """Something may be otherwise: look whether a run can begin. Immediate."""
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

    async def wait(self, run_id: str, seconds: float) -> None:
        """Return when the run is over, when so many seconds have passed, or when the worker stops."""
        entry = self._entries.get(run_id)
        with trio.move_on_after(seconds):
            while entry is not None and not entry.over.is_set() and not self.stopping:
                await entry.change()

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
                await self._end(entry, model.cancelled(entry.run, entry.far, self._clock.now()))
        else:
            entry.scope.cancel(reason="its client cancelled it")
            await entry.over.wait()
        return _cancelled(entry.run)

    async def delete(self, run_id: str) -> None:
        """Forget a run that is over, its result and its files.

        Raises:
            NotFound: there is none.
            Conflict: it is not over.
        """
        if run_id in self._entries and not self._entries[run_id].run.state.over:
            raise Conflict("Cannot delete a running job. Cancel it first.")
        self._owed.pop(run_id, None)
        self._entries.pop(run_id, None)
        if not await self._store.delete(run_id, self._clock.now()):
            raise NotFound(f"Job not found: {run_id}")

    async def let_go(self) -> None:
        """When the worker is asked to stop, those who wait for a run wait no longer."""
        await self._supervisor.stop_asked.wait()
        for entry in self._entries.values():
            entry.tell()

    def attach(self) -> None:
        """Be counted with what is in flight, and told when a page is free."""
        self._supervisor.beside.append(lambda: self.in_flight)
        self._pages.on_change = self.wake

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
                self._admit(Entry(run, self._planner(submission.read(jsontext.loads(run.request))).work))
            except PenelopeError as error:  # e.g. its recipe is gone
                ends.append(model.failed(run, error.message, run.far, now))
        parcels = [(run, deliver.parcel(run)) for run in ends]
        await self._store.end_all(parcels)
        for run, parcel in parcels:
            log.warning("run interrupted", run_id=run.run_id, request_id=run.request_id, error=run.error)
            if parcel is not None:
                self._supervisor.deliveries.start(parcel)

    async def dispatch(self) -> None:
        """Give pages to runs, in their order, for ever."""
        swept_at = trio.current_time()
        while True:
            self._wake = trio.Event()
            await self._pay()
            if not self.stopping:
                self._begin_all()
                await self._places.close_idle(needed=bool(self._queue))
            if trio.current_time() - swept_at >= SWEEP_EVERY_S:
                swept_at = trio.current_time()
                await self._sweep()
            busy = self._queue or self._owed
            with trio.move_on_after(AGAIN_S if busy else SWEEP_EVERY_S):
                await self._wake.wait()

    async def _pay(self) -> None:
        """Tell the store the ends that it refused."""
        for run_id, run in list(self._owed.items()):
            try:
                await self._store.end(run, None)  # its delivery is owed by the jobs' own book
            except (StoreBusy, StoreFull):
                return
            if self._owed.pop(run_id, None) is not None:
                self._entries.pop(run_id, None)
                log.info("run stored at last", run_id=run_id)

    async def _sweep(self) -> None:
        now = self._clock.now()
        try:
            if gone := await self._store.forget(now - KEEP_S, now):
                log.info("runs forgotten", runs=gone)
        except (StoreBusy, StoreFull) as error:
            log.warning("sweep put off", error=error.message)

    def _begin_all(self) -> None:
        for run_id, entry in list(self._queue.items()):
            if self._at_work >= self._limits.concurrent:
                return
            place = self._places.take(entry.work.page)
            if place is None:  # those behind it may want another page
                continue
            del self._queue[run_id]
            self._at_work += 1
            name = f"run {run_id} of {entry.run.agent_id}"
            self._supervisor.spawn(self._run, entry, place, name=name, request_id=entry.run.request_id)

    async def _run(self, entry: Entry, place: str) -> None:
        """Begin a run on the page of that name, opening it if it is not there, and work it to its end."""
        try:
            if not await self._on_page(entry, place):
                await trio.sleep(AGAIN_S)  # what refused it may refuse it again, at once
                if entry.cancelled:
                    await self._end(entry, model.cancelled(entry.run, entry.far, self._clock.now()))
                else:
                    self._back(entry)
        except trio.Cancelled:
            raise  # its row stays as it is, and the next start's
        except Exception:  # a bug must not end the other calls
            log.exception("the worker failed on a run", run_id=entry.run.run_id)
            text = "the worker failed on this run; its log has the details"
            if not entry.run.state.over:
                await self._end(entry, model.failed(entry.run, text, entry.far, self._clock.now()))
        finally:
            self._places.give_back(place)
            self._at_work -= 1
            if entry.run.run_id not in self._queue:
                entry.over.set()
                entry.tell()
            self.wake()

    async def _on_page(self, entry: Entry, place: str) -> bool:
        """False: the page could not be had after all; nothing was begun."""
        run, claimed = entry.run, False
        holder = Holder(what=run.agent_id, job_id=run.run_id, since=self._clock.now())
        try:
            page = await self._places.open(place)
            async with self._pages.claim(page, holder, None, at_once=True) as tab:
                claimed = True
                return await self._claimed(entry, page, tab)
        except BadParameter as error:  # no page can have that name, now or later
            await self._end(entry, model.failed(run, error.message, entry.far, self._clock.now()))
            return True
        except PenelopeError as error:
            if claimed:
                raise
            log.info("run put back", run_id=run.run_id, page_id=place, error=error.message)
            return False

    async def _claimed(self, entry: Entry, page: Page, tab: Tab) -> bool:
        """False: the store does not take its beginning."""
        run = entry.run
        if entry.cancelled:
            await self._end(entry, model.cancelled(run, entry.far, self._clock.now()))
            return True
        entry.run = model.begun(run, page.page_id, self._clock.now())
        try:
            with trio.CancelScope(shield=True):
                begun = await self._store.begin(entry.run)
        except (StoreBusy, StoreFull) as error:
            entry.run = run
            log.warning("run put back", run_id=run.run_id, page_id=page.page_id, error=error.message)
            return False
        if not begun:
            raise RuntimeError(f"{run.run_id} is not queued in the store")
        entry.tell()
        await self._end(entry, await self._work(entry, page, tab))
        return True

    async def _work(self, entry: Entry, page: Page, tab: Tab) -> Run:
        """Do the work; the run as it ended."""
        desk = PageDesk(
            entry.run,
            page,
            tab,
            parts=self._parts,
            registry=self._registry,
            on_progress=lambda far: self._progressed(entry, far),
        )
        run = entry.run
        ended: Callable[[float], Run] | None = None
        with entry.scope, trio.move_on_after(run.timeout_s):
            try:
                text = jsontext.dumps(await entry.work.run(desk))
                ended = lambda now: model.succeeded(run, text, entry.far, now)
            except PenelopeError as error:
                words = error.message
                ended = lambda now: model.failed(run, words, entry.far, now)
            except Exception as error:
                log.exception("a run failed", run_id=run.run_id, agent_id=run.agent_id)
                what = f"{type(error).__name__}; the worker's log has the details"
                ended = lambda now: model.failed(run, what, entry.far, now)
        if desk.page_in_doubt:  # it was cut off
            await desk.tidy()
        now = self._clock.now()
        if entry.cancelled and entry.scope.cancel_called:  # what it says from then on counts no more
            return model.cancelled(run, entry.far, now)
        if ended is None:
            return model.failed(run, f"Job timed out after {run.timeout_s:g}s", entry.far, now)
        return ended(now)

    def _progressed(self, entry: Entry, far: Far) -> None:
        entry.far = far
        entry.tell()

    def _back(self, entry: Entry) -> None:
        """Into the queue again, where it was: before all that came later."""
        later = self._queue
        arrived = [*later.values(), entry]
        arrived.sort(key=lambda one: (one.run.created_at, one.run.run_id))
        self._queue = {one.run.run_id: one for one in arrived}

    async def _end(self, entry: Entry, ended: Run) -> None:
        """Note the end, and hand it over; what the store refuses is owed."""
        entry.run = ended
        parcel = deliver.parcel(ended)
        with trio.move_on_after(STORE_GRACE_S, shield=True):  # a stop must not lose what is known
            try:
                await self._store.end(ended, parcel)
            except (StoreBusy, StoreFull) as error:
                words = "store refuses a run's end; it is kept in memory"
                log.error(words, run_id=ended.run_id, error=error.message)  # noqa: TRY400  # the disk's, not ours
                self._owed[ended.run_id] = ended
                if parcel is not None:
                    await self._supervisor.ends.finish(parcel)
            else:
                self._entries.pop(ended.run_id, None)
        entry.over.set()
        entry.tell()
        if parcel is not None:
            self._supervisor.deliveries.start(parcel)


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
        nursery.start_soon(runs.let_go, name="waits for runs")
        yield runs
        nursery.cancel_scope.cancel(reason="the worker stops")
