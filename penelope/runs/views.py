"""A run as clients see it, in the public server's own shapes: no envelope, times in ISO 8601; pure.

Source: contract, section 10; the owner's documents on runs.
"""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from penelope import jsontext
from penelope.runs.model import Far, Run

RUNS_PATH: Final = "/api/v1/runs"
# By the age of a run that is not over, seconds: its client sleeps exactly so long between two looks.
RETRY_AFTER_S: Final = ((10.0, 1), (60.0, 2), (math.inf, 5))


def iso(epoch: float | None) -> str | None:
    """UTC with microseconds and a `Z`."""
    if epoch is None:
        return None
    return f"{datetime.fromtimestamp(epoch, UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def submitted(run: Run, base: str) -> dict[str, Any]:
    """What a submit is answered.

    Args:
        base: scheme and host that the client used, without a slash at the end.
    """
    url = f"{base}{RUNS_PATH}/{run.run_id}"
    return {
        "job_id": run.run_id,
        "status": run.state.value,
        "created_at": iso(run.created_at),
        "poll_url": url,
        "stream_url": f"{url}/stream",
    }


def retry_after(run: Run, now: float) -> int | None:
    """Seconds until it is worth to look again; None: it is over."""
    if run.state.over:
        return None
    age = now - run.created_at
    return next(seconds for younger, seconds in RETRY_AFTER_S if age < younger)


def status(run: Run, now: float, far: Far | None = None) -> dict[str, Any]:
    """A run without its result.

    Args:
        now: epoch seconds.
        far: how far it is by now, where that is newer than the run.
    """
    progress = run.far if far is None or run.state.over else far
    return {
        "job_id": run.run_id,
        "status": run.state.value,
        "progress": {
            "percentage": round(progress.percentage, 2),
            "current_step": progress.step,
            "steps_completed": progress.completed,
            "steps_total": progress.total,
        },
        "created_at": iso(run.created_at),
        "started_at": iso(run.started_at),
        "completed_at": iso(run.completed_at),
        "agent_id": run.agent_id,
        "run_id": run.run_id,
        "session_id": run.session_id,
        "error": run.error,
        "retry_after": retry_after(run, now),
    }


def result(run: Run) -> bytes:
    """A run that is over, with its result, UTF-8. The result is spliced in as the text that was stored."""
    head = {"job_id": run.run_id, "status": run.state.value}
    tail = {
        "result_url": None,
        "metrics": None,
        "created_at": iso(run.created_at),
        "started_at": iso(run.started_at),
        "completed_at": iso(run.completed_at),
        "duration_seconds": run.duration_s,
        "error": run.error,
    }
    return _spliced(head, run.result, tail)


def posted(run: Run) -> bytes:
    """What its webhook carries, UTF-8."""
    head = {"job_id": run.run_id, "status": run.state.value}
    tail = {
        "error": run.error,
        "completed_at": iso(run.completed_at),
        "duration_seconds": run.duration_s,
    }
    return _spliced(head, run.result, tail)


def listed(runs: Sequence[dict[str, Any]], total: int, page: int, page_size: int) -> dict[str, Any]:
    return {"jobs": list(runs), "total": total, "page": page, "page_size": page_size}


def _spliced(head: dict[str, Any], text: str | None, tail: dict[str, Any]) -> bytes:
    parts = (jsontext.dumps(head)[:-1], ', "result": ', "null" if text is None else text, ", ")
    return "".join((*parts, jsontext.dumps(tail)[1:])).encode()
