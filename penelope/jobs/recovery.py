"""What the last life left: running jobs become interrupted, overdue ones go, the others go on.

A crash and a stop are one path: nothing is written at a stop that is not read here.

Source: contract, section 8 ("Start"); the owner's document, "Restarts".
"""

import structlog

from penelope.clock import Clock
from penelope.jobs import transitions
from penelope.jobs.model import Job
from penelope.jobs.schedule import forget_at
from penelope.jobs.store import JobStore
from penelope.store.media import MediaStore
from penelope.store.request_log import Entry, RequestLog

log = structlog.get_logger("penelope.jobs")


async def recover(store: JobStore, media: MediaStore, requests: RequestLog, clock: Clock) -> list[Job]:
    """Put the store in order before anything is served.

    Returns:
        The webhook jobs to deliver, interrupted ones among them.

    Raises:
        StoreBusy, StoreFull: the store cannot be read or written.
    """
    now = clock.now()
    interrupted = [transitions.interrupt(job, now) for job in await store.running()]
    await store.finish_all(interrupted)
    for job in interrupted:
        log.warning("job interrupted", job_id=job.job_id, request_id=job.request_id, plugin=job.plugin)
        requests.add(_ended(job, now))
    await store.forget_expired(now)
    to_deliver = [job for job in await store.to_deliver() if await _in_time(store, job, now)]
    await media.recover()
    await media.sweep(now)
    return to_deliver


async def _in_time(store: JobStore, job: Job, now: float) -> bool:
    deadline = forget_at(job)
    if deadline is None or now <= deadline:
        return True
    log.warning("webhook given up: its deadline passed while the worker was down", job_id=job.job_id)
    await store.settle(job.job_id, now, delivered=False)
    return False


def _ended(job: Job, now: float) -> Entry:
    return Entry(
        at=now,
        phase="end",
        kind="job",
        method="POST",
        route=f"/api/v1/{job.page_id}/plugin/{job.plugin}",
        page_id=job.page_id,
        request_id=job.request_id,
        job_id=job.job_id,
        status=job.status,
        duration_s=now - job.started_at,
    )
