"""Jobs that were started: their list, polling one, with as much patience as the client asks for, and its cancel.

Source: contract, sections 5 and 11; the owner's document, "Polling".
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from quart import Blueprint, Response, request

from penelope.errors import Conflict, MalformedBody, Stopping
from penelope.http import held, prefer, reading, waiting
from penelope.http.envelope import json_response, success
from penelope.http.worker import Worker
from penelope.jobs import listing, views
from penelope.jobs.model import Job, State


class Query(BaseModel):
    """The query of `GET /api/v1/jobs`."""

    model_config = ConfigDict(extra="forbid")

    state: State | None = None
    page_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = None
    plugin: Annotated[str, Field(pattern=r"^[^/]+/[^/]+$")] | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    cursor: str | None = None


def blueprint(worker: Worker) -> Blueprint:
    """`GET /api/v1/jobs`, and `GET` and `DELETE /api/v1/jobs/{job_id}`."""
    routes = Blueprint("jobs", __name__)

    @routes.get("/api/v1/jobs")
    async def listed() -> Response:
        asked = reading.checked_query(Query)
        after = None if asked.cursor is None else listing.from_cursor(asked.cursor)
        shown, rest = await worker.supervisor.ends.listed(
            page_id=asked.page_id, plugin=asked.plugin, state=asked.state, after=after, limit=asked.limit
        )
        now = worker.clock.now()
        return success(
            {
                "jobs": [views.listed(job, now) for job in shown],
                "next_cursor": None if rest is None else listing.to_cursor(rest),
            }
        )

    @routes.get("/api/v1/jobs/<job_id>")
    async def poll(job_id: str) -> Response:
        seconds = prefer.wait(request.headers.getlist(prefer.PREFER))
        ended = await waiting.end(worker, job_id, seconds)
        if ended is None:
            job = await held.get(worker, job_id)
            body = views.shown(job, worker.clock.now())
        else:  # by now it may be delivered, or expired
            body = ended.shown(worker.clock.now())
        return json_response(body, headers=prefer.applied(seconds))

    @routes.delete("/api/v1/jobs/<job_id>")
    async def cancel(job_id: str) -> Response:
        if await request.get_data():
            raise MalformedBody("a job is cancelled without a body")
        job = await worker.supervisor.cancel_job(job_id)
        if job is None:
            job = await held.get(worker, job_id)
            if job.state is State.RUNNING:  # cut off by the stop, and the next start's
                raise Stopping("the worker stopped before the job ended", headers={"Retry-After": "10"})
            raise _ended(job)
        if job.state is not State.CANCELLED:
            raise _ended(job)
        return json_response(views.shown(job, worker.clock.now()))

    return routes


def _ended(job: Job) -> Conflict:
    return Conflict(f"job {job.job_id} has ended already: it is {job.state.value}")
