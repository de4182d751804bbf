"""`penelope run submit`, `status`, `result`, `list`, `cancel` and `delete`."""

import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from penelope import jsontext
from penelope.client import AsyncClient, AsyncRunHandle, Run
from penelope.terminal import shown
from penelope.terminal.jobs import moment, print_json
from penelope.terminal.plain import duration, is_terminal, note, one_line, say

STYLES = {
    "queued": "dim",
    "running": "yellow",
    "succeeded": "green",
    "failed": "bold red",
    "cancelled": "magenta",
}


def submitted(handle: AsyncRunHandle, url: str, *, as_json: bool) -> None:
    """Print the id of a run that is in the queue, and where to look."""
    if as_json:
        print_json({"job_id": handle.run_id, "poll_url": f"{url}/api/v1/runs/{handle.run_id}"})
        return
    print(handle.run_id, flush=True)  # noqa: T201
    note(f"in the queue; `penelope run result --wait {handle.run_id}` waits for it")


async def show(handle: AsyncRunHandle, *, as_json: bool) -> bool:
    """Print a run; whether it is well so far."""
    run = await handle.status()
    if as_json:
        print_json(run.model_dump(mode="json", exclude={"result"}))
    else:
        say(_head(run))
    return run.status not in ("failed", "cancelled")


async def show_result(handle: AsyncRunHandle, *, wait: bool, as_json: bool) -> bool:
    """Print what a run answered; whether it did what it was asked. One that is not over says so."""
    run = await (handle.wait() if wait else handle.status())
    return ended(run, as_json=as_json)


def ended(run: Run, *, as_json: bool) -> bool:
    """Print a run with what came of it; whether it did what it was asked."""
    if as_json:
        print_json(run.model_dump(mode="json"))
    elif run.succeeded:
        say(_result(run.result))
        note(f"{run.job_id} {_came_to(run)}")
    else:
        note(f"penelope: {run.job_id} {_came_to(run)}")
    return run.succeeded


async def show_list(
    client: AsyncClient,
    *,
    status: str | None,
    session_id: str | None,
    page: int,
    page_size: int,
    as_json: bool,
) -> None:
    """Print one page of the worker's runs, newest first, a line each."""
    runs = await client.runs.list(status=status, session_id=session_id, page=page, page_size=page_size)
    if as_json:
        print_json([run.model_dump(mode="json", exclude={"result", "duration_seconds"}) for run in runs])
        return
    if not runs:
        note("the worker has no such run")
        return
    heads = ("run", "status", "progress", "step", "what", "session", "submitted", "took", "error")
    say(shown.table(heads, map(_row, runs), folds=("step", "what", "error")))
    if len(runs) == page_size:
        note(f"there may be more: --page {page + 1}")


def _row(run: Run) -> Iterable[str | Text]:
    return (
        run.job_id,
        Text(run.status, style=STYLES.get(run.status, "")),
        "" if run.has_ended or run.status == "queued" else f"{run.progress.percentage:.0f}%",
        "" if run.has_ended else one_line(run.progress.current_step or ""),
        one_line(run.agent_id or ""),
        one_line(run.session_id or ""),
        moment(run.created_at.timestamp()),
        took(run),
        one_line(run.error or ""),
    )


async def cancel(handles: Iterable[AsyncRunHandle], *, as_json: bool) -> None:
    """Cancel runs, one after the other.

    Raises:
        PenelopeClientError: one could not be cancelled; those after it were not tried.
    """
    for handle in handles:
        run = await handle.cancel()
        if as_json:
            print_json(run.model_dump(mode="json", exclude={"result"}))
        else:
            say(f"{run.job_id}  {_came_to(run)}")


async def delete(handles: Iterable[AsyncRunHandle], *, as_json: bool) -> None:
    """Have the worker forget runs, one after the other.

    Raises:
        PenelopeClientError: one could not be; those after it were not tried.
    """
    for handle in handles:
        await handle.delete()
        if as_json:
            print_json({"job_id": handle.run_id, "status": "deleted"})
        else:
            say(f"{handle.run_id}  deleted")


def _head(run: Run) -> RenderableType:
    fields: dict[str, Any] = {"run": run.job_id, "what": run.agent_id, "status": run.status}
    if not run.has_ended:
        fields["progress"] = f"{run.progress.percentage:.0f} %  {run.progress.current_step or ''}".rstrip()
    if run.session_id is not None:
        fields["session"] = run.session_id
    fields["submitted"] = moment(run.created_at.timestamp())
    if run.started_at is not None:
        fields |= {"waited": duration(_seconds(run.created_at, run.started_at)), "took": took(run)}
    if run.error is not None:
        fields["error"] = run.error
    return shown.answer(fields, all_of_it=True)


def _result(value: Any) -> RenderableType:
    whole = not is_terminal()
    if isinstance(value, dict) and value:
        return shown.answer(value, all_of_it=whole)
    if isinstance(value, str):
        return shown.text(value, all_of_it=whole)
    return Group(Text("result", style="bold cyan"), Padding(Text(jsontext.dumps(value)), (0, 0, 0, 2)))


def _came_to(run: Run) -> str:
    error = "" if run.error is None else f": {one_line(run.error)}"
    after = took(run)
    return f"{run.status} after {after}{error}" if after else f"{run.status}{error}"


def took(run: Run) -> str:
    """For how long it has worked, or did; "" of one that never began."""
    if run.started_at is None:
        return ""
    until = time.time() if run.completed_at is None else run.completed_at.timestamp()
    return duration(max(0.0, until - run.started_at.timestamp()))


def _seconds(since: datetime, until: datetime) -> float:
    return max(0.0, (until - since).total_seconds())
