"""What is delivered of a run's end: a job's row of its own, so that the jobs' deliveries make and record its POSTs.

Source: contract, section 10 ("signed and retried like a job's").
"""

from typing import Final

from penelope.jobs.model import Job, State, Webhook
from penelope.runs import views
from penelope.runs.model import Run, RunState

EVENTS: Final = {
    RunState.SUCCEEDED: "completed",
    RunState.FAILED: "failed",
    RunState.CANCELLED: "cancelled",
}


def parcel(run: Run) -> Job | None:
    """The job that carries the end of this run to its webhook; None: nobody wants it."""
    if run.webhook is None or (run.events is not None and EVENTS[run.state] not in run.events):
        return None
    return Job(
        job_id=run.run_id,
        page_id=run.page_id or "",
        plugin=run.agent_id,
        way=Webhook(run.webhook),
        request_id=run.request_id,
        started_at=run.started_at if run.started_at is not None else run.created_at,
        state=State.DONE,
        finished_at=run.ended_at,
        status=200,
        result=views.posted(run).decode(),
        traceparent=run.traceparent,
    )
