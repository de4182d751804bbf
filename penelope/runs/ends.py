"""The ends of runs: each is written now, or owed and written later; and handed over to who delivers it.

Source: contract, section 8 ("a result that cannot be written is kept in memory, retried and delivered all the same").
"""

from collections.abc import Callable

import structlog
import trio

from penelope.errors import StoreBusy, StoreFull
from penelope.jobs.model import Job
from penelope.jobs.supervisor import Supervisor
from penelope.runs import deliver, model
from penelope.runs.model import Run
from penelope.runs.store import RunStore

log = structlog.get_logger("penelope.runs")


class RunEnds:
    """Attributes:
    on_stored: called with the id of a run whose end was owed, once the store has it.
    """

    def __init__(self, store: RunStore, supervisor: Supervisor) -> None:
        self._store = store
        self._supervisor = supervisor
        self._owed: dict[str, Run] = {}
        self.on_stored: Callable[[str], None] = lambda _: None

    @property
    def owed(self) -> int:
        """How many ends the store has yet to take."""
        return len(self._owed)

    def owes(self, run_id: str) -> bool:
        return run_id in self._owed

    async def note(self, ended: Run) -> Run:
        """Note an end, and see it delivered. A stop waits for it, as long as the store takes for its answer.

        Returns:
            The run as it ended: one whose result the store can never take has failed.
        """
        with trio.CancelScope(shield=True):  # a stop must not lose what is known
            try:
                await self._note(ended)
            except Exception:
                log.exception(
                    "a run's end cannot be stored", run_id=ended.run_id, chars=len(ended.result or "")
                )
                ended = model.unstorable(ended)
                await self._note(ended)
        return ended

    async def _note(self, ended: Run) -> None:
        parcel = deliver.parcel(ended)
        try:
            await self._store.end(ended, parcel)
        except (StoreBusy, StoreFull) as error:
            # Only now: what is on its way into the store is not owed, and `pay` must not be there before it.
            self._owed[ended.run_id] = ended
            words = "store refuses a run's end; it is kept in memory"
            log.error(words, run_id=ended.run_id, error=error.message)  # noqa: TRY400  # the disk's, not ours
            if parcel is not None:  # from here on the jobs' own book has it, or owes it
                await self._supervisor.ends.finish(parcel)
        self.deliver(parcel)

    def deliver(self, parcel: Job | None) -> None:
        """Have an end POSTed, if anybody wants it. Immediate."""
        if parcel is not None:
            self._supervisor.deliveries.start(parcel)

    async def pay(self) -> None:
        """Tell the store the ends that it refused; stop at the first refusal."""
        for run_id, run in list(self._owed.items()):
            try:
                await self._store.end(run, None)
            except (StoreBusy, StoreFull):
                return
            if self._owed.pop(run_id, None) is not None:
                log.info("run stored at last", run_id=run_id)
                self.on_stored(run_id)
