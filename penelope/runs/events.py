"""What a viewer of a run is told; pure. Names and keys are the public server's; its client's command line reads others,
inside `event` and `data`, which are there as well.

Each piece of data is JSON and whole. What lasts has an id: a state, and the end.

Source: contract, section 10 ("GET /runs/{id}/stream").
"""

from collections.abc import Iterable
from typing import Any, Final

from penelope import jsontext
from penelope.runs.model import Far, Run, RunState
from penelope.runs.views import iso

STATE_IDS: Final = {RunState.QUEUED: "1", RunState.RUNNING: "2"}
END_ID: Final = "4"  # 3: the state that it ended in
OVER_ID: Final = "3"


def seen(headers: Iterable[str]) -> int:
    """The last id that a viewer says it has seen; 0: none. What is no id of ours is as if it were not there."""
    given = list(headers)
    known = {*STATE_IDS.values(), OVER_ID, END_ID}
    return int(given[0]) if len(given) == 1 and given[0] in known else 0


def state_id(run: Run) -> str:
    return STATE_IDS.get(run.state, OVER_ID)


def state(run: Run) -> bytes:
    """The data of `status`."""
    return _data(status=run.state.value, job_id=run.run_id)


def progress(far: Far) -> bytes:
    """The data of `progress`."""
    percentage = round(far.percentage, 2)
    return _data(
        percentage=percentage,
        step=far.step or "",
        steps_completed=far.completed,
        steps_total=far.total,
        event="progress",
        data={"percentage": percentage, "current_step": far.step or ""},
    )


def heartbeat(now: float) -> bytes:
    """The data of `heartbeat`; `now` in epoch seconds."""
    return _data(timestamp=iso(now))


def end(run: Run) -> tuple[str, bytes]:
    """The name and the data of the last event of a run that is over. A result is spliced in as the text that it is."""
    complete = {"event": "complete", "data": {"status": run.state.value}}
    match run.state:
        case RunState.SUCCEEDED:
            tail = jsontext.dumps({"job_id": run.run_id, **complete})[1:]
            return "result", f'{{"result": {run.result or "null"}, {tail}'.encode()
        case RunState.CANCELLED:
            return "cancelled", _data(message="Job was cancelled", job_id=run.run_id, **complete)
        case _:
            error = run.error or ""
            return "error", _data(error=error, job_id=run.run_id, event="error", data={"error": error})


def _data(**fields: Any) -> bytes:
    return jsontext.dumps(fields).encode()
