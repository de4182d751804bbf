"""A job as a client may see it now, or that there is none.

Source: contract, section 5; the owner's document, "Polling".
"""

import re
from typing import Final

from penelope.errors import NotFound
from penelope.http.worker import Worker
from penelope.jobs.model import Job, Polling
from penelope.jobs.schedule import forget_at

_JOB_ID: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)


async def find(worker: Worker, job_id: str) -> Job | None:
    """The job; None: unknown, expired, delivered or given up.

    Raises:
        StoreBusy, StoreFull: the store cannot be read.
    """
    job = await worker.supervisor.ends.get(job_id) if _JOB_ID.fullmatch(job_id) else None
    if job is not None and isinstance(job.way, Polling):
        deadline = forget_at(job)
        if deadline is not None and worker.clock.now() >= deadline:  # the sweep comes later
            return None
    return job


async def get(worker: Worker, job_id: str) -> Job:
    """The job.

    Raises:
        NotFound: there is none.
        StoreBusy, StoreFull: the store cannot be read.
    """
    job = await find(worker, job_id)
    if job is None:
        raise missing(job_id)
    return job


def missing(job_id: str) -> NotFound:
    return NotFound(f"there is no job {job_id!r}: unknown, expired or delivered")
