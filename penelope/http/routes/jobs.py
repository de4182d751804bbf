"""Polling a job.

Source: contract, section 5; the owner's document, "Polling".
"""

import re

from quart import Blueprint, Response

from penelope.errors import NotFound
from penelope.http.envelope import json_response
from penelope.http.worker import Worker
from penelope.jobs import views
from penelope.jobs.model import Polling
from penelope.jobs.schedule import forget_at

_JOB_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)


def blueprint(worker: Worker) -> Blueprint:
    """`GET /api/v1/jobs/{job_id}`."""
    routes = Blueprint("jobs", __name__)

    @routes.get("/api/v1/jobs/<job_id>")
    async def poll(job_id: str) -> Response:
        job = await worker.supervisor.ends.get(job_id) if _JOB_ID.fullmatch(job_id) else None
        now = worker.clock.now()
        if job is not None and isinstance(job.way, Polling):
            deadline = forget_at(job)
            if deadline is not None and now >= deadline:  # the sweep comes later
                job = None
        if job is None:
            raise NotFound(f"there is no job {job_id!r}: unknown, expired or delivered")
        return json_response(views.shown(job, now))

    return routes
