"""`penelope run submit --stream`: a run as it goes, a bar in a terminal, a line for each event in a pipe."""

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from penelope import jsontext
from penelope.client import AsyncRunHandle, Event
from penelope.terminal.plain import is_terminal, one_line

WIDTH: Final = 60  # characters of a step


class Screen(Protocol):
    """Where a run is shown, while the block lasts."""

    def shown(self) -> AbstractContextManager[Any]: ...

    def told(self, event: Event) -> None:
        """Show what happened."""


async def follow(handle: AsyncRunHandle, *, as_json: bool) -> None:
    """Follow a run to its end; what it answered is for others to show, but as JSON, where it is the last event."""
    screen: Screen = _Json() if as_json else _Bar(handle.run_id) if is_terminal() else _Lines(handle.run_id)
    with screen.shown():
        async with handle.events() as events:
            async for event in events:
                screen.told(event)


class _Lines:
    """Plain lines, the run's id first: to be searched with grep."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    def shown(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def told(self, event: Event) -> None:
        if words := _words(event):
            _say(f"{self._run_id}  {words}")


class _Json:
    """Each event as a JSON object in a line."""

    def shown(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def told(self, event: Event) -> None:
        _say(jsontext.dumps({"event": event.kind, "data": event.data}))


class _Bar:
    """One bar, which moves."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._progress = Progress(
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[said]}", markup=False),
            TimeElapsedColumn(),
            console=Console(),
        )
        self._task = self._progress.add_task(run_id, total=100.0, said="")

    def shown(self) -> AbstractContextManager[Any]:
        return self._progress

    def told(self, event: Event) -> None:
        match event.kind:
            case "status":
                status = one_line(str(event.data.get("status", "")))
                self._progress.update(self._task, description=f"{self._run_id}  {status}", said="")
            case "progress":
                far = event.data.get("percentage")
                completed = float(far) if isinstance(far, int | float) else 0.0
                self._progress.update(self._task, completed=completed, said=_step(event))


def _words(event: Event) -> str:
    """What happened, in a few words; "" for what says nothing to people, and for the end, which is shown whole."""
    match event.kind:
        case "status":
            return one_line(str(event.data.get("status", "")))
        case "progress":
            far = event.data.get("percentage")
            share = f"{far:3.0f}%" if isinstance(far, int | float) else "    "
            return f"{share}  {_step(event)}".rstrip()
    return ""


def _step(event: Event) -> str:
    return one_line(str(event.data.get("step") or ""))[:WIDTH]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
