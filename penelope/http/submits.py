"""A run's submit, whichever way it comes in: what is made of its body, and what is answered.

Source: contract, section 10 (`POST /api/v1/runs`), section 11 ("Wait").
"""

from penelope import jsontext
from penelope.http import prefer
from penelope.http.worker import Worker
from penelope.runs import service, submission, views
from penelope.runs.model import Run
from penelope.runs.submission import Planned, Submission

RETRY_AFTER_S = "2"


def run_of(
    worker: Worker,
    asked: Submission,
    planned: Planned,
    *,
    webhook: str | None,
    key: str | None,
    request_id: str,
    traceparent: str | None,
) -> Run:
    """The run that a submission is.

    Args:
        webhook: of the submission or its plan, checked.
        key: hashed; see `Run`.
    """
    return Run(
        run_id=service.new_id(),
        request=jsontext.dumps(asked.model_dump(exclude_none=True)),
        agent_id=planned.work.agent_id,
        timeout_s=submission.timeout_of(asked, planned, worker.settings.runs_timeout_s),
        request_id=request_id,
        traceparent=traceparent,
        created_at=worker.clock.now(),
        session_id=asked.session_id,
        webhook=webhook,
        events=planned.events,
        key=key,
    )


async def waited(worker: Worker, run: Run, seconds: int | None, *, whole: bool = False) -> Run:
    """The run as it is once it is over, or once its client's patience is; None: it has none."""
    if not seconds or run.state.over:
        return run
    ended = await worker.runs.wait(run.run_id, seconds)
    worker.touch()
    return ended or await worker.runs.get(run.run_id, whole=whole) or run


def accepted(run: Run, base: str, seconds: int | None) -> tuple[bytes, dict[str, str]]:
    """Body and headers of the `202`.

    Args:
        base: see `views.submitted`.
        seconds: of the client's patience; None: it said none.
    """
    body = views.submitted(run, base)
    headers = {"Location": body["poll_url"], "Retry-After": RETRY_AFTER_S, **prefer.applied(seconds)}
    return jsontext.dumps(body).encode(), headers
