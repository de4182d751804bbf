"""Jobs that have ended, as values, and the store that holds them."""

import secrets
import time

from penelope import jsontext
from penelope.jobs.model import Job, State, Webhook
from penelope.jobs.store import JobStore

KEY = "the-key-of-the-tests-0123456789"


def ended(url: str, result: object = None, **changed: object) -> Job:
    """A webhook job that has just ended; `result` stands in its envelope."""
    now = time.time()
    envelope = {"success": True, "page_id": "main", "value": result}
    fields: dict[str, object] = {
        "job_id": secrets.token_hex(8),
        "page_id": "main",
        "plugin": "tested/echo",
        "way": Webhook(url),
        "request_id": "request",
        "started_at": now,
        "finished_at": now,
        "state": State.DONE,
        "status": 200,
        "result": jsontext.dumps(envelope),
    }
    return Job(**(fields | changed))  # type: ignore[arg-type]


async def stored(store: JobStore, job: Job) -> Job:
    """The same job, in the store."""
    running = Job(
        job_id=job.job_id,
        page_id=job.job_id,  # a page runs one job
        plugin=job.plugin,
        way=job.way,
        request_id=job.request_id,
        started_at=job.started_at,
    )
    await store.insert(running)
    await store.save(job)
    return job
