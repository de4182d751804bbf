"""Where the worker commits, and how to die there.

A point is named for the function that asks for the write, a moment says how far the write has come. The worker knows
nothing of them: what it does is wrapped here. `test_points.py` holds that the tables have every write that there is.
"""

import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NoReturn

from penelope.store import media, opening
from penelope.store.database import Database
from penelope.store.media import MediaStore

# By who asks `Database.write`, with what is written.
COMMITS: Final = {
    "JobStore.checkpoint": "a running job's checkpoint",
    "JobStore.finish_all": "the ends of the jobs that the last life left running",
    "JobStore.forget_expired": "polling jobs whose hold is over go, and starts that are a day old",
    "JobStore.insert": "a job's start",
    "JobStore.probe": "a row that tells whether the disk takes something again",
    "JobStore.save": "a job's end; a POST that did not deliver",
    "JobStore.settle": "a webhook job that was delivered or given up goes",
    "Ledger.prune": "week-old rows of the ledger of deliveries go",
    "MediaStore._consume": "a file was downloaded",
    "MediaStore._insert": "a file's row",
    "MediaStore.recover": "media without owner, and rows without file, go",
    "MediaStore.sweep": "media whose time is over goes",
    "PersonaStore.save": "the cookies after a call",
    "RequestLog.flush": "rows of the request log",
    "RequestLog.prune": "week-old rows of the request log go",
    "RunStore.begin": "a run is at work",
    "RunStore.delete": "a run that its client deletes",
    "RunStore.end": "a run's end, and what is to be delivered of it",
    "RunStore.end_all": "the ends of the runs that the last life left at work",
    "RunStore.forget": "runs that ended a day ago go",
    "RunStore.insert": "a run's submit",
}
# Steps beside the commits that must come before or after one of them: the files, and the making of the store.
STEPS: Final = {
    "media._write_file": (media, "_write_file"),
    "MediaStore._remove": (MediaStore, "_remove"),
    "opening._create": (opening, "_create"),
    "opening._migrate": (opening, "_migrate"),
    "opening._tune": (opening, "_tune"),
    "opening.close": (opening, "close"),
}


class Moment(Enum):
    """How far a write is."""

    ASKED = "asked"  # before it is asked for; of a step: before it is taken
    OPEN = "open"  # done in the transaction, not committed
    COMMITTED = "committed"  # nobody knows it yet; of a step: it was taken


@dataclass(frozen=True, slots=True)
class Point:
    """The `nth` time that the function `name` writes."""

    name: str
    moment: Moment
    nth: int = 1

    @classmethod
    def read(cls, text: str) -> "Point":
        """From its text, `name moment nth`."""
        name, moment, nth = text.split()
        return cls(name, Moment(moment), int(nth))

    def __str__(self) -> str:
        return f"{self.name} {self.moment.value} {self.nth}"


def every_point(nth: int = 1) -> list[Point]:
    """Each commit at each moment, each step before and after."""
    return [
        *(Point(name, moment, nth) for name in COMMITS for moment in Moment),
        *(Point(name, moment, nth) for name in STEPS for moment in (Moment.ASKED, Moment.COMMITTED)),
    ]


def name_of(write: object) -> str:
    """Who asks for this write: `JobStore.insert` for a function that was made in it."""
    return str(getattr(write, "__qualname__", write)).partition(".<locals>")[0]


Last = Callable[[], object]


def die(last: Last) -> NoReturn:
    last()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL came back")


def arm(point: Point, last: Last = lambda: None) -> None:
    """Let this process send itself SIGKILL at the point.

    Args:
        last: called before.
    """
    if point.name in STEPS:
        owner, name = STEPS[point.name]
        setattr(owner, name, _step(getattr(owner, name), point, last))
    else:
        assert point.name in COMMITS, f"no such point: {point.name}"
        _arm_commit(point, last)


class _Marked:
    """A write at which the process dies: in its transaction, or once that is committed (`_arm_commit`)."""

    def __init__(self, write: Callable[..., Any], moment: Moment, last: Last) -> None:
        self._write = write
        self._moment = moment
        self._last = last

    def __call__(self, connection: Any) -> Any:
        value = self._write(connection)
        if self._moment is Moment.OPEN:
            die(self._last)
        return value


def _arm_commit(point: Point, last: Last) -> None:
    write, commit, left = Database.write, Database._commit, [point.nth]

    async def writing(self: Database, function: Any) -> Any:
        if name_of(function) == point.name:
            left[0] -= 1
            if left[0] == 0:
                if point.moment is Moment.ASKED:
                    die(last)
                function = _Marked(function, point.moment, last)
        return await write(self, function)

    def committing(self: Database, batch: Any) -> None:
        commit(self, batch)
        if any(isinstance(one.function, _Marked) for one in batch):
            die(last)

    Database.write = writing  # type: ignore[method-assign]
    Database._commit = committing  # type: ignore[method-assign]


def _step(step: Callable[..., Any], point: Point, last: Last) -> Callable[..., Any]:
    """Die before or after the nth time that it is taken; for a function, or one whose call is awaited."""
    left = [point.nth]

    def meant() -> bool:
        left[0] -= 1
        return left[0] == 0

    async def behind(awaited: Awaitable[Any]) -> None:
        await awaited
        die(last)

    def stepping(*args: Any, **kwargs: Any) -> Any:
        here = meant()
        if here and point.moment is Moment.ASKED:
            die(last)
        value = step(*args, **kwargs)
        if here and isinstance(value, Awaitable):
            return behind(value)
        if here:
            die(last)
        return value

    return stepping
