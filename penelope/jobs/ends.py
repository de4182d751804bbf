"""The moves of jobs that the store refused: kept in memory, shown, retried until the store takes them.

Source: contract, section 8 ("a result that cannot be written is kept in memory, retried and delivered all the same").
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import structlog
import trio

from penelope.clock import Clock
from penelope.errors import StoreBusy, StoreFull
from penelope.jobs.ledger import Entry
from penelope.jobs.listing import NEWEST, Place, page_of
from penelope.jobs.model import Job, State
from penelope.jobs.schedule import is_over
from penelope.jobs.store import JobStore

RETRY_EVERY_S: Final = 1.0
SAY_EVERY_S: Final = 60.0

log = structlog.get_logger("penelope.jobs")


@dataclass(frozen=True, slots=True)
class _Owed:
    """What the store still has to be told: the job as it is or that it is over, and the ledger's rows of its POSTs."""

    job: Job
    posts: tuple[Entry, ...] = ()
    settled_at: float | None = None
    delivered: bool = False


class JobEnds:
    """The store, for moves that must not fail: each is written now, or owed and written later.

    Attributes:
        on_finished: called with each job whose end is written or owed.
    """

    def __init__(self, store: JobStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.on_finished: Callable[[Job], None] = lambda _: None
        self._owed: dict[str, _Owed] = {}
        self._said_at = float("-inf")

    @property
    def owed(self) -> int:
        """How many jobs the store has yet to be told about; 0 when it is well."""
        return len(self._owed)

    async def get(self, job_id: str) -> Job | None:
        """The job as it is, whether the store knows it yet or not.

        Raises:
            StoreBusy, StoreFull: the store cannot be read.
        """
        owed = self._owed.get(job_id)
        if owed is not None:
            return owed.job if owed.settled_at is None else None
        return await self._store.get(job_id)

    async def listed(
        self,
        *,
        page_id: str | None,
        plugin: str | None,
        state: State | None,
        after: Place | None,
        limit: int,
    ) -> tuple[list[Job], Place | None]:
        """The first jobs after that place as they are, newest first, without their results; and where the rest begins,
        None: there is no rest. See `JobStore.listed`.

        Raises:
            StoreBusy, StoreFull: the store cannot be read.
        """
        found: list[Job] = []
        place = after or NEWEST
        while True:  # some that the store has are over, or in another state than it knows
            stored = await self._store.listed(page_id=page_id, plugin=plugin, after=place, limit=limit + 1)
            known = [self._owed.get(job.job_id, _Owed(job)) for job in stored]
            now = self._clock.now()
            there = [one.job for one in known if one.settled_at is None and not is_over(one.job, now)]
            found += [job for job in there if state is None or job.state is state]
            if len(found) > limit or len(stored) <= limit:
                return page_of(found, limit)
            place = Place(stored[-1].started_at, stored[-1].job_id)

    async def finish(self, job: Job) -> None:
        """Note a job's end."""
        await self._tell(job.job_id, _Owed(job))
        self.on_finished(job)

    async def attempted(self, job: Job, post: Entry) -> None:
        """Note a POST that did not deliver."""
        await self._tell(job.job_id, _Owed(job, (post,)))

    async def settle(self, job: Job, *, delivered: bool, post: Entry | None) -> None:
        """Note that a webhook job is over; `post` is the one by which it is, if it is by one."""
        posts = () if post is None else (post,)
        await self._tell(job.job_id, _Owed(job, posts, self._clock.now(), delivered))

    async def retry(self) -> None:
        """Tell the store what it is owed, and ask one that refused whether it is well again; each second, for ever."""
        while True:
            await trio.sleep(RETRY_EVERY_S)
            if self._owed:
                await self.flush()
            elif self._store.refuses:
                with suppress(StoreBusy, StoreFull):
                    await self._store.probe(self._clock.now())

    async def flush(self) -> None:
        """Tell the store what it is owed; stop at the first refusal."""
        for job_id, owed in list(self._owed.items()):
            if not await self._write(owed):
                return
            if self._owed.get(job_id) is owed:
                del self._owed[job_id]
                log.info("job stored at last", job_id=job_id)

    async def _tell(self, job_id: str, owed: _Owed) -> None:
        # What is owed already is written by the retry, all of it at once.
        if (before := self._owed.get(job_id)) is not None:
            self._owed[job_id] = replace(owed, posts=before.posts + owed.posts)
            return
        try:
            written = await self._write(owed)
        except trio.Cancelled:  # perhaps written, perhaps not: to write it twice is harmless
            self._owed[job_id] = owed
            raise
        if not written:
            self._owed[job_id] = owed

    async def _write(self, owed: _Owed) -> bool:
        try:
            if owed.settled_at is None:
                await self._store.save(owed.job, owed.posts)
            else:
                await self._store.settle(
                    owed.job.job_id, owed.settled_at, delivered=owed.delivered, posts=owed.posts
                )
        except (StoreBusy, StoreFull) as exc:
            self._say(exc)
            return False
        return True

    def _say(self, error: StoreBusy | StoreFull) -> None:
        if trio.current_time() - self._said_at >= SAY_EVERY_S:
            self._said_at = trio.current_time()
            log.error("store refuses; what it is owed is kept in memory", error=error.message, owed=self.owed)
