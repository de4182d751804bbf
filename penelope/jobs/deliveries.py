"""The deliveries: one task per webhook job that is not settled, asleep between its attempts.

Source: contract, section 5 ("One slow receiver does not delay another"), section 8 (a stop lets a POST be recorded).
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import httpx
import structlog
import trio

from penelope.clock import Clock
from penelope.errors import StoreBusy, StoreFull
from penelope.jobs import delivery, trace, transitions
from penelope.jobs.ends import JobEnds
from penelope.jobs.ledger import Entry
from penelope.jobs.model import Job, Webhook
from penelope.jobs.schedule import Verdict, forget_at, next_attempt

STORE_RETRY_S: Final = 1.0

log = structlog.get_logger("penelope.delivery")


class Deliveries:
    """Attributes:
    pending: ids of the webhook jobs that ended and are not settled.
    posts: how many POSTs were made, by verdict and error class.
    on_settled: called when a job is settled.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        client: httpx.AsyncClient,
        ends: JobEnds,
        clock: Clock,
        keys: Sequence[str],
        sweep_media: Callable[[float], Awaitable[object]],
        run_client: httpx.AsyncClient | None = None,
    ) -> None:
        """`client` POSTs the ends of jobs, `run_client` those of runs, which may go elsewhere; None: the same."""
        self.pending: set[str] = set()
        self.posts: Counter[tuple[str, str]] = Counter()
        self._nursery = nursery
        self._client = client
        self._run_client = run_client or client
        self._ends = ends
        self._clock = clock
        self._keys = keys
        self._sweep_media = sweep_media
        self.on_settled: Callable[[], None] = lambda: None
        self._turns = delivery.Turns()
        self._posting: set[trio.CancelScope] = set()
        self._hurried = False

    def start(self, job: Job) -> None:
        """Deliver a webhook job that ended, from its next attempt on; immediate."""
        self.pending.add(job.job_id)
        self._nursery.start_soon(self._deliver, job, name=f"delivery of job {job.job_id}")

    def hurry(self) -> None:
        """A second signal: do not wait for the POSTs under way. They are made again at the next start."""
        self._hurried = True
        for scope in self._posting:
            scope.shield = False

    async def _deliver(self, job: Job) -> None:
        assert isinstance(job.way, Webhook)
        job_id, host = job.job_id, delivery.receiver(job.way.url)
        current: Job | None = job
        del job  # a large result need not wait in memory: nothing here may keep it between the attempts
        while current is not None:
            due = self._due(current)
            if due is None:  # only after a POST: the process lived, so at least one is made
                await self._settle(current, Verdict.GIVE_UP, None)
                break
            if due > self._clock.now() or not self._turns.free(host):
                current = _light(current)
            await self._clock.sleep_until(due)
            async with self._turns.turn(host):
                current = await self._attempt(current, due)
        self.pending.discard(job_id)
        self.on_settled()

    def _due(self, job: Job) -> float | None:
        """When the next attempt is. A clock that jumped past the deadline leaves one attempt that it jumped over."""
        now = min(self._clock.now(), forget_at(job) or 0.0)
        due = next_attempt(job.ended_at, job.last_at, now)
        return due if due is not None or job.attempts else self._clock.now()

    async def _whole(self, job: Job) -> Job | None:
        """The job with its result; None: it is gone."""
        if job.result is not None:
            return job
        while True:
            try:
                return await self._ends.get(job.job_id)
            except (StoreBusy, StoreFull):
                await trio.sleep(STORE_RETRY_S)

    async def _attempt(self, job: Job, due: float) -> Job | None:
        """Make and record one POST; the job after it, None when it is over."""
        whole = await self._whole(job)
        return None if whole is None else await self._post(whole, due)

    async def _post(self, job: Job, due: float) -> Job | None:
        """A stop waits for the POST and for its record, a second signal for neither."""
        with trio.CancelScope(shield=not self._hurried) as scope:
            self._posting.add(scope)
            try:
                client = self._run_client if job.of_run else self._client
                posted = await delivery.post(client, job, keys=self._keys, due=due, clock=self._clock)
                self.posts[posted.entry.verdict, posted.entry.error_class or ""] += 1
                after = transitions.attempted(job, posted.attempt)
                if after is None:
                    await self._settle(job, posted.attempt.verdict, posted.entry)
                else:
                    await self._ends.attempted(after, posted.entry)
            finally:
                self._posting.discard(scope)
        return after

    async def _settle(self, job: Job, verdict: Verdict, post: Entry | None) -> None:
        delivered = verdict is Verdict.DELIVERED
        if not delivered:
            log.warning(
                "webhook given up",
                job_id=job.job_id,
                request_id=job.request_id,
                trace_id=trace.trace_id(job.traceparent),
                attempts=job.attempts + 1,
            )
        await self._ends.settle(job, delivered=delivered, post=post)
        if not delivered:  # its files are to go at once, not at the next minute's sweep
            with suppress(StoreBusy, StoreFull):
                await self._sweep_media(self._clock.now())


def _light(job: Job) -> Job:
    """The job without its result, to be read again when it is wanted."""
    return replace(job, result=None)
