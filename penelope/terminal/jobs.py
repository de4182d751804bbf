"""`penelope jobs list`, `show` and `cancel`."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from penelope import jsontext
from penelope.client import AsyncClient, Job, JobFailed, media_links
from penelope.client.models import shown as as_shown
from penelope.terminal import shown
from penelope.terminal.calling import save, without_links
from penelope.terminal.plain import duration, is_terminal, note, one_line, say

MOST = 1000  # jobs that a worker holds, and that one answer may have
STYLES = {"running": "yellow", "done": "green", "interrupted": "red", "cancelled": "magenta"}


async def show_list(client: AsyncClient, filters: Mapping[str, object], *, as_json: bool) -> None:
    """Print the jobs that the worker holds, newest first, a line each."""
    answer = await client.get("/api/v1/jobs", {**filters, "limit": MOST})
    if as_json:
        print_json(answer)
        return
    jobs = [as_shown(Job, one) for one in answer["jobs"]]
    if not jobs:
        note("the worker holds no such job" if any(filters.values()) else "the worker holds no job")
        return
    heads = ("job", "state", "started", "took", "plugin", "to")
    say(shown.table(heads, (_row(job) for job in jobs), folds=("plugin", "to")))


def _row(job: Job) -> Iterable[str | Text]:
    status = "" if job.status is None else f" {job.status}"
    return (
        job.job_id,
        Text(f"{job.state}{status}", style=STYLES.get(job.state, "")),
        moment(job.started_at),
        took(job),
        f"{job.plugin} on {job.page_id}",
        "" if job.callback is None else one_line(urlsplit(job.callback).netloc.rpartition("@")[2]),
    )


async def show(client: AsyncClient, job_id: str, *, as_json: bool, folder: Path | None) -> None:
    """Print a job, with its result.

    Args:
        folder: where the files of its result are saved; None: they wait behind their links.
    """
    if as_json:
        print_json(await client.get(f"/api/v1/jobs/{job_id}"))
        return
    job = await client.job(job_id).status()
    saved = [] if folder is None else [await save(client, link, folder) for link in media_links(job.result)]
    if saved:  # their links are used up
        job = job.model_copy(update={"result": without_links(job.result)})
    say(described(job))
    for path in saved:
        note(f"saved {path}")


def described(job: Job) -> RenderableType:
    """A job, to be read: what it is, then what came of it."""
    fields: dict[str, Any] = {
        "job": job.job_id,
        "plugin": f"{job.plugin} on {job.page_id}",
        "state": job.state,
        "started": moment(job.started_at),
        "took": took(job),
    }
    if job.status is not None:
        fields["status"] = job.status
    if job.expires_in is not None:
        fields["kept for"] = duration(job.expires_in)
    if job.callback is not None:
        fields["to"] = job.callback
    if job.delivery is not None:
        fields["delivery"] = f"{job.delivery.attempts} of 4 attempts made"
        if job.delivery.error:
            fields["last error"] = job.delivery.error
    head = shown.answer(fields, all_of_it=True)
    if job.result is None:
        return head
    result = {name: value for name, value in job.result.items() if name not in ("success", "page_id")}
    whole = not is_terminal()
    return Group(
        head, Text("result", style="bold cyan"), Padding(shown.answer(result, all_of_it=whole), (0, 0, 0, 2))
    )


async def cancel(client: AsyncClient, job_ids: Iterable[str], *, as_json: bool) -> None:
    """Cancel jobs, one after the other.

    Raises:
        PenelopeClientError: one could not be cancelled; those after it were not tried.
    """
    for job_id in job_ids:
        job = await client.job(job_id).cancel()
        if as_json:
            print_json(job.model_dump())
        else:
            say(f"{job.job_id}  {job.state} after {took(job)}")


def ending(job: Job) -> str:
    """How a job ended, in a line: `done 200 after 4.2 s`; with its own words where it did not do what it was asked."""
    line = f"{job.state} {job.status} after {took(job)}"
    try:
        job.answer()
    except JobFailed as failed:
        kind = f", {failed.kind}" if failed.kind else ""
        return f"{line}: {one_line(failed.message)}{kind}"
    return line


def took(job: Job) -> str:
    """For how long it has run, or did."""
    return duration(max(0.0, (job.finished_at or time.time()) - job.started_at))


def moment(epoch: float) -> str:
    """Epoch seconds as a local time; of today without the day, which is of the last week."""
    when, now = time.localtime(epoch), time.localtime()
    return time.strftime("%H:%M:%S" if when[:3] == now[:3] else "%m-%d %H:%M", when)


def print_json(value: object) -> None:
    print(jsontext.dumps(value))  # noqa: T201
