"""Runs `penelope` so that it sends itself SIGKILL at a named point: `python dying.py POINT serve`.

The points are between two steps of a job, where no signal from outside could hit. The worker itself knows nothing of
them: the steps are wrapped here.
"""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from penelope import cli
from penelope.jobs.model import Job
from penelope.jobs.store import JobStore

Step = Callable[..., Awaitable[Any]]
Meant = Callable[..., bool]


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL came back")


def before(step: Step, meant: Meant) -> Step:
    """Die instead of taking the step."""

    async def dying(*args: Any, **kwargs: Any) -> Any:
        if meant(*args, **kwargs):
            die()
        return await step(*args, **kwargs)

    return dying


def behind(step: Step, meant: Meant) -> Step:
    """Take the step, wait until it is done, and die."""

    async def dying(*args: Any, **kwargs: Any) -> Any:
        result = await step(*args, **kwargs)
        if meant(*args, **kwargs):
            die()
        return result

    return dying


def _always(*_: object, **__: object) -> bool:
    return True


def _is_end(_: object, job: Job) -> bool:
    return job.attempts == 0


def _is_attempt(_: object, job: Job) -> bool:
    return job.attempts > 0


POINTS: dict[str, tuple[str, Callable[[Step, Meant], Step], Meant]] = {
    "row committed": ("insert", behind, _always),
    "result known": ("save", before, _is_end),
    "result committed": ("save", behind, _is_end),
    "attempt made": ("save", before, _is_attempt),
    "attempt committed": ("save", behind, _is_attempt),
    "delivered": ("settle", before, _always),
    "delivery committed": ("settle", behind, _always),
}

if __name__ == "__main__":
    name, wrap, chosen = POINTS[sys.argv.pop(1)]
    setattr(JobStore, name, wrap(getattr(JobStore, name), chosen))
    cli.main(prog_name="penelope")
