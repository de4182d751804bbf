"""A job as a client may see it now, or that there is none.

Source: contract, section 5; the owner's document, "Polling".
"""

import re
from typing import Final

from penelope.errors import NotFound
from penelope.http.worker import Worker
from penelope.jobs.model import Job
from penelope.jobs.schedule import is_over

_JOB_ID: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)


async def find(worker: Worker, job_id: str) -> Job | None:
    """The job; None: unknown, expired, delivered or given up.

    Raises:
        StoreBusy, StoreFull: the store cannot be read.
    """
    job = await worker.supervisor.ends.get(job_id) if _JOB_ID.fullmatch(job_id) else None
    return None if job is None or is_over(job, worker.clock.now()) else job


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
