"""Jobs that were started: polling one, and its cancel.

Source: contract, sections 5 and 11; the owner's document, "Polling".
"""

import re

from quart import Blueprint, Response, request

from penelope.errors import Conflict, MalformedBody, NotFound, Stopping
from penelope.http.envelope import json_response
from penelope.http.worker import Worker
from penelope.jobs import views
from penelope.jobs.model import Job, Polling, State
from penelope.jobs.schedule import forget_at

_JOB_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)


def blueprint(worker: Worker) -> Blueprint:
    """`GET` and `DELETE /api/v1/jobs/{job_id}`."""
    routes = Blueprint("jobs", __name__)

    @routes.get("/api/v1/jobs/<job_id>")
    async def poll(job_id: str) -> Response:
        job = await _held(worker, job_id)
        return json_response(views.shown(job, worker.clock.now()))

    @routes.delete("/api/v1/jobs/<job_id>")
    async def cancel(job_id: str) -> Response:
        if await request.get_data():
            raise MalformedBody("a job is cancelled without a body")
        job = await worker.supervisor.cancel_job(job_id)
        if job is None:
            job = await _held(worker, job_id)
            if job.state is State.RUNNING:  # cut off by the stop, and the next start's
                raise Stopping("the worker stopped before the job ended", headers={"Retry-After": "10"})
            raise _ended(job)
        if job.state is not State.CANCELLED:
            raise _ended(job)
        return json_response(views.shown(job, worker.clock.now()))

    return routes


def _ended(job: Job) -> Conflict:
    return Conflict(f"job {job.job_id} has ended already: it is {job.state.value}")


async def _held(worker: Worker, job_id: str) -> Job:
    """The job of that id.

    Raises:
        NotFound: unknown, or over, whether it was swept yet or not.
    """
    job = await worker.supervisor.ends.get(job_id) if _JOB_ID.fullmatch(job_id) else None
    if job is not None and isinstance(job.way, Polling):
        deadline = forget_at(job)
        if deadline is not None and worker.clock.now() >= deadline:  # the sweep comes later
            job = None
    if job is None:
        raise NotFound(f"there is no job {job_id!r}: unknown, expired or delivered")
    return job
