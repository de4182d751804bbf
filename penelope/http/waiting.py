"""Answers that wait for a job's end, as long as their client wants and no longer.

They wait in the request's own task: a client that leaves takes its wait along, and the job goes on.

Source: contract, section 11 ("Wait").
"""

from quart import Response

from penelope.http import prefer
from penelope.http.envelope import answer, success
from penelope.http.worker import Worker
from penelope.jobs import views
from penelope.jobs.model import Job
from penelope.jobs.watching import Ended


async def end(worker: Worker, job_id: str, seconds: int | None) -> Ended | None:
    """A job's end, if it comes within so many seconds; None: it did not, or nobody wants to wait.

    A stop of the worker ends the wait: what is so then is the answer.
    """
    if seconds is None:
        return None
    ended = await worker.supervisor.watching.wait(job_id, seconds)
    worker.touch()
    return ended


async def started(worker: Worker, job: Job, seconds: int | None) -> Response:
    """The answer to a job's start: the plain call's where it ended in time, else the `202`."""
    headers = {"Location": views.status_url(job.job_id), **prefer.applied(seconds)}
    ended = await end(worker, job.job_id, seconds)
    if ended is None:
        return success(views.accepted(job), page_id=job.page_id, status=202, headers=headers)
    return answer(ended.outcome, headers)
