"""`penelope jobs watch`: jobs as they go, each a bar in a terminal, a line for each event in a pipe."""

import sys
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Protocol, Self

import trio
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from penelope import jsontext
from penelope.client import AsyncClient, Event, PenelopeClientError
from penelope.terminal.client import in_a_line
from penelope.terminal.jobs import ending
from penelope.terminal.plain import is_terminal, note, one_line

WIDTH: Final = 60  # characters of a note


class Screen(Protocol):
    """Where jobs are shown."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def told(self, job_id: str, event: Event) -> None:
        """Show what happened to a job."""

    def lost(self, job_id: str, words: str) -> None:
        """Show why nothing more will be heard of a job."""


async def watch(client: AsyncClient, job_ids: Iterable[str], *, as_json: bool) -> bool:
    """Follow jobs to their ends, all at once; did each do what it was asked?

    Args:
        job_ids: none: those that run now.
    """
    wanted = list(dict.fromkeys(job_ids)) or [job.job_id for job in await client.jobs(state="running")]
    if not wanted:
        note("no job runs")
        return True
    well: list[bool] = []

    async def follow(job_id: str) -> None:
        try:
            async with client.job(job_id).events() as events:
                async for event in events:
                    screen.told(job_id, event)
                    if event.job is not None:
                        well.append(event.job.succeeded)
        except PenelopeClientError as exc:
            screen.lost(job_id, in_a_line(exc, client.url))

    screen: Screen = _Json() if as_json else _Bars() if is_terminal() else _Lines()
    with screen:
        async with trio.open_nursery() as nursery:
            for job_id in wanted:
                nursery.start_soon(follow, job_id)
    return len(well) == len(wanted) and all(well)


class _Lines:
    """Plain lines, the job's id first: to be searched with grep."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def told(self, job_id: str, event: Event) -> None:
        if words := _words(event):
            self._say(f"{job_id}  {words}")

    def lost(self, job_id: str, words: str) -> None:
        note(f"penelope: {job_id}: {one_line(words)}")

    def _say(self, line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


class _Json(_Lines):
    """Each event as a JSON object in a line."""

    def told(self, job_id: str, event: Event) -> None:
        self._say(jsontext.dumps({"job_id": job_id, "event": event.kind, "data": event.data}))


class _Bars:
    """A bar for each job; those that ended stay."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskID] = {}
        self._progress = Progress(
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[said]}", markup=False),
            TimeElapsedColumn(),
            console=Console(),
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def told(self, job_id: str, event: Event) -> None:
        task, said = self._task(job_id), _words(event)
        match event.kind:
            case "state":
                about = f"{event.data.get('plugin', '')} on {event.data.get('page_id', '')}"
                self._progress.update(task, description=f"{job_id}  {one_line(about)}", said=said)
            case "progress" if event.data.get("progress"):
                self._progress.update(task, total=1.0, completed=event.data["progress"], said=said)
            case "end" if event.job is not None:
                about = one_line(f"{event.job.plugin} on {event.job.page_id}")
                self._progress.update(
                    task, description=f"{job_id}  {about}", total=1.0, completed=1.0, said=said
                )
                self._progress.stop_task(task)
            case _:
                self._progress.update(task, said=said)

    def lost(self, job_id: str, words: str) -> None:
        task = self._task(job_id)
        self._progress.update(task, said=one_line(words))
        self._progress.stop_task(task)

    def _task(self, job_id: str) -> TaskID:
        if job_id not in self._tasks:
            self._tasks[job_id] = self._progress.add_task(job_id, total=None, said="")
        return self._tasks[job_id]


def _words(event: Event) -> str:
    """What happened, in a few words; "" for what says nothing to people."""
    if event.job is not None:
        return ending(event.job)
    match event.kind:
        case "state" if event.data.get("stopping"):
            return "the worker stops; its next start tells how the job ended"
        case "state":
            about = f"{event.data.get('plugin', '')} on {event.data.get('page_id', '')}"
            return one_line(f"{event.data.get('state', '')}  {about}")
        case "progress":
            fraction = event.data.get("progress")
            share = f"{fraction:4.0%}" if isinstance(fraction, int | float) else "    "
            return f"{share}  {one_line(str(event.data.get('note') or ''))[:WIDTH]}".rstrip()
    return ""
