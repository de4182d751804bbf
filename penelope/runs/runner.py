"""One run, from its page to its end.

Trio-flavoured. Source: contract, section 10.
"""

from typing import Final

import structlog
import trio

from penelope import jsontext
from penelope.errors import (
    BadParameter,
    LeaseHeld,
    PageBusy,
    PageMissing,
    PenelopeError,
    StoreBusy,
    StoreFull,
)
from penelope.jobs.supervisor import Parts
from penelope.pages.claim import Holder
from penelope.pages.driver import Tab
from penelope.pages.manager import Page
from penelope.registry import Registry
from penelope.runs import model
from penelope.runs.desk import PageDesk
from penelope.runs.ends import RunEnds
from penelope.runs.entry import Entry
from penelope.runs.model import Run, RunState
from penelope.runs.places import Places
from penelope.runs.store import RunStore
from penelope.runs.views import RUNS_PATH
from penelope.store.request_log import Entry as LogEntry

# For the request log: what a plain call that came to this would have been answered.
STATUSES: Final = {RunState.SUCCEEDED: 200, RunState.FAILED: 500, RunState.CANCELLED: 499}

log = structlog.get_logger("penelope.runs")


class RunRunner:
    """Runs one run at a time, any number of them side by side."""

    def __init__(
        self, parts: Parts, registry: Registry, store: RunStore, ends: RunEnds, places: Places
    ) -> None:
        self._parts = parts
        self._pages = parts.pages
        self._clock = parts.clock
        self._registry = registry
        self._store = store
        self._ends = ends
        self._places = places

    async def run(self, entry: Entry, place: str) -> bool:
        """Work a run on the page of that name, opening it if it is not there. A bug must not end the other calls.

        Returns:
            False: the page could not be had after all, or the store did not take the beginning: nothing was begun.

        Raises:
            trio.Cancelled: the worker stops. The row is as it was, and the next start's, unless its end is known.
        """
        try:
            return await self._on_page(entry, place)
        except Exception:
            log.exception("the worker failed on a run", run_id=entry.run.run_id)
            text = "the worker failed on this run; its log has the details"
            if not entry.run.state.over:
                await self.end(entry, model.failed(entry.run, text, entry.far, self._clock.now()))
            return True

    async def end(self, entry: Entry, ended: Run) -> None:
        """Note how a run ended; nobody is told before the store was."""
        entry.run = await self._ends.note(ended)
        if ended.started_at is not None:
            self._log(entry.run, "end")
        entry.close()

    async def _on_page(self, entry: Entry, place: str) -> bool:
        run, claimed, entry.outrun = entry.run, False, False
        holder = Holder(what=run.agent_id, job_id=run.run_id, since=self._clock.now())
        try:
            page = await self._places.open(place)
            async with self._pages.claim(page, holder, None, at_once=True) as tab:
                claimed = True
                return await self._claimed(entry, page, tab)
        except BadParameter as error:  # no page can have that name, now or later
            if claimed:
                raise
            await self.end(entry, model.failed(run, error.message, entry.far, self._clock.now()))
            return True
        except PenelopeError as error:
            if claimed:
                raise
            entry.outrun = isinstance(error, PageBusy | LeaseHeld | PageMissing)
            log.info("run put back", run_id=run.run_id, page_id=place, error=error.message)
            return False

    async def _claimed(self, entry: Entry, page: Page, tab: Tab) -> bool:
        """False: the store does not take its beginning."""
        run = entry.run
        if entry.cancelled:
            await self.end(entry, model.cancelled(run, entry.far, self._clock.now()))
            return True
        begun = model.begun(run, page.page_id, self._clock.now())
        try:
            with trio.CancelScope(shield=True):
                stored = await self._store.begin(begun)
        except (StoreBusy, StoreFull) as error:
            log.warning("run put back", run_id=run.run_id, page_id=page.page_id, error=error.message)
            return False
        if not stored:
            raise RuntimeError(f"{run.run_id} is not queued in the store")
        entry.run = begun
        entry.tell()
        self._log(begun, "begin")
        await self._worked(entry, page, tab)
        return True

    async def _worked(self, entry: Entry, page: Page, tab: Tab) -> None:
        """Do the work, and note how it ended. This task alone does: a run has one end, whoever asks for it.

        Raises:
            trio.Cancelled: the worker stops. The run has no end then, unless it had one already but for the tidying,
                or was being cut off already.
        """
        desk = PageDesk(
            entry.run,
            page,
            tab,
            parts=self._parts,
            registry=self._registry,
            on_progress=entry.progressed,
        )
        entry.scope.deadline = trio.current_time() + entry.run.timeout_s
        said: Run | None = None
        try:
            with entry.scope:
                said = await self._work(entry, desk)
                if entry.scope.cancel_called:
                    said = None  # what it says from then on counts no more
            if desk.page_in_doubt:  # it was cut off
                await desk.tidy()
        finally:  # the stop's Cancelled comes alone, or in a nursery's group
            ended = said or self._cut_off(entry)
            if ended is not None:
                page.line.settling()  # whoever is told may start a job on it at once
                await self.end(entry, ended)  # noqa: ASYNC102  # shielded there

    def _cut_off(self, entry: Entry) -> Run | None:
        """How a run ended that was cut off; None: by the worker's stop."""
        run, now = entry.run, self._clock.now()
        if entry.cancelled:
            log.info("run cancelled", run_id=run.run_id, agent_id=run.agent_id)
            return model.cancelled(run, entry.far, now)
        if entry.scope.cancel_called:
            log.warning("run timed out", run_id=run.run_id, agent_id=run.agent_id, limit_s=run.timeout_s)
            return model.failed(run, f"Job timed out after {run.timeout_s:g}s", entry.far, now)
        return None

    async def _work(self, entry: Entry, desk: PageDesk) -> Run:
        """The run as its work ended it."""
        run = entry.run
        try:
            text = jsontext.dumps(await entry.work.run(desk))
        except PenelopeError as error:
            return model.failed(run, error.message, entry.far, self._clock.now())
        except Exception as error:
            log.exception("a run failed", run_id=run.run_id, agent_id=run.agent_id)
            what = f"{type(error).__name__}; the worker's log has the details"
            return model.failed(run, what, entry.far, self._clock.now())
        return model.succeeded(run, text, entry.far, self._clock.now())

    def _log(self, run: Run, phase: str) -> None:
        self._parts.requests.add(logged(run, phase))


def logged(run: Run, phase: str) -> LogEntry:
    """A row of a run's own pair in the request log; the `202` of its submit is another request's."""
    begins = phase == "begin"
    at = run.started_at if begins else run.completed_at
    return LogEntry(
        at=at or run.created_at,
        phase=phase,
        kind="run",
        method="POST",
        route=RUNS_PATH,
        page_id=run.page_id,
        request_id=run.request_id,
        job_id=run.run_id,
        status=None if begins else 503 if run.error == model.INTERRUPTED else STATUSES[run.state],
        duration_s=None if begins else run.duration_s,
    )
