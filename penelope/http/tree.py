"""The live tree of nurseries and tasks: what a developer reads to reason about lifecycle.

Source: contract, section 7 (`GET /api/v1/tree`); design, section 2.
"""

import math
from collections.abc import Iterator
from typing import Any, Final

import trio

from penelope.births import Births
from penelope.http.worker import Worker
from penelope.jobs.calls import Live
from penelope.pages.claim import Holder
from penelope.pages.manager import Page

TRIO_S_OWN: Final = "<"  # how the names of Trio's own tasks begin, `<TrioToken.run_sync_soon task>`


def tree(worker: Worker) -> dict[str, Any]:
    """The tree from Trio's main task down, and each page's line; immediate. Durations in seconds.

    A task has its `nurseries`, outermost first; a nursery has the tasks that must end before its block can.
    """
    root = trio.lowlevel.current_root_task()
    assert root is not None  # the loop runs
    now = worker.clock.now()
    # A page knows nothing of calls: its holder's and the call's common traits bring them together.
    lives = {(live.call.page.page_id, live.call.what, live.since): live for live in worker.supervisor.lives}
    return {
        "tree": [_task(task, worker.births) for task in _visible(root)],
        "pages": [_page(worker, page, lives, now) for page in worker.pages],
    }


def _visible(root: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    for nursery in root.child_nurseries:
        for task in nursery.child_tasks:
            if not task.name.startswith(TRIO_S_OWN):
                yield task


def _task(task: trio.lowlevel.Task, births: Births) -> dict[str, Any]:
    return {
        "task": task.name,
        "for_s": _rounded(births.age(task)),
        "nurseries": [_nursery(nursery, births) for nursery in task.child_nurseries],
    }


def _nursery(nursery: trio.Nursery, births: Births) -> dict[str, Any]:
    scope = nursery.cancel_scope
    left = scope.deadline - trio.current_time()
    # Trio keeps them in a set: oldest first, so that two looks show the same order.
    tasks = sorted(nursery.child_tasks, key=lambda task: _order(task, births))
    return {
        "cancelled": scope.cancel_called,
        "ends_in_s": None if math.isinf(left) else _rounded(max(0.0, left)),
        "tasks": [_task(child, births) for child in tasks],
    }


def _order(task: trio.lowlevel.Task, births: Births) -> tuple[float, str]:
    age = births.age(task)
    return (-math.inf if age is None else -age, task.name)


def _page(
    worker: Worker, page: Page, lives: dict[tuple[str, str, float], Live], now: float
) -> dict[str, Any]:
    """Who holds a page and for how long, and who waits behind."""
    shown, holder = worker.pages.shown(page), page.line.holder
    live = None if holder is None else lives.get((page.page_id, holder.what, holder.since))
    run = None if holder is None or holder.job_id is None else worker.runs.entry(holder.job_id)
    far, note = (live.fraction, live.note) if live is not None else (0.0, "")
    if run is not None:
        far, note = run.far.percentage / 100, run.far.step or ""
    return {
        "page_id": page.page_id,
        "url": shown["url"],
        "state": shown["state"],
        "lease": shown["lease"],
        "holder": None
        if holder is None
        else {
            **_held(holder, now),
            "progress": far,
            "note": note,
        },
        "waiting": [_held(one, now) for one in page.line.waiting],
    }


def _held(holder: Holder, now: float) -> dict[str, Any]:
    return {"what": holder.what, "job_id": holder.job_id, "for_s": _rounded(now - holder.since)}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(max(0.0, seconds), 3)
