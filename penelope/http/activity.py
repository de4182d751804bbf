"""What the worker is doing, in numbers: what the waker reads before it stops one.

Source: contract, section 7 (`GET /api/v1/activity`).
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import psutil
import trio

from penelope.errors import StoreBusy, StoreFull
from penelope.http.worker import Worker
from penelope.jobs.calls import Live
from penelope.pages.manager import Page
from penelope.runs.entry import Entry

MIB: Final = 2**20
STALL_S: Final = 1.0
LOW_MEMORY: Final = 0.05


async def activity(worker: Worker) -> dict[str, Any]:
    """The numbers; times in epoch seconds, durations in seconds, memory in MiB."""
    supervisor = worker.supervisor
    now = worker.clock.now()
    pids = worker.pages.driver.health.pids
    try:
        held: int | None = await worker.jobs.held(now)
    except (StoreBusy, StoreFull):
        held = None
    used = await trio.to_thread.run_sync(partial(memory, pids))
    return {
        "in_flight": supervisor.in_flight,
        "jobs_running": sum(live.job_id is not None for live in supervisor.lives),
        "jobs_held": held,
        "runs_running": len(worker.runs.at_work),
        "runs_queued": worker.runs.queued,
        "deliveries_pending": len(supervisor.deliveries.pending),
        "last_client_activity": worker.last_client_activity,
        "idle_for_s": idle_for(worker, now),
        "rss_mb": used.worker,
        "browser_rss_mb": used.browser,
        "started_at": worker.started_at,
        "calls": [
            *map(_call, sorted(supervisor.lives, key=lambda live: live.since)),
            *map(_run, worker.runs.at_work),
        ],
        "pressure": {
            "why": why_not_free(worker, used),
            "pages": await _pages(list(worker.pages)),
            "driver_rss_mb": used.driver,
            "loop_lag_s": round(supervisor.loop_lag_s, 4),
            "browser_thread_lag_s": round(worker.pages.driver.health.thread_lag_s, 3),
        },
    }


def _call(live: Live) -> dict[str, Any]:
    return {
        "what": live.call.what,
        "page_id": live.call.page.page_id,
        "job_id": live.job_id,
        "request_id": live.call.request_id,
        "state": "running" if live.claimed else "waiting",
        "since": live.since,
        "progress": live.fraction,
        "note": live.note,
    }


def _run(entry: Entry) -> dict[str, Any]:
    """A run at work, as a call: it is one to its page."""
    run, far = entry.run, entry.far
    return {
        "what": run.agent_id,
        "page_id": run.page_id,
        "job_id": run.run_id,
        "request_id": run.request_id,
        "state": "waiting" if run.started_at is None else "running",
        "since": run.created_at if run.started_at is None else run.started_at,
        "progress": far.percentage / 100,
        "note": far.step or "",
    }


async def _pages(pages: list[Page]) -> list[dict[str, Any]]:
    """Each page's memory and last heartbeat, asked side by side: half a second at most."""
    said: dict[str, dict[str, Any]] = {}

    async def ask(page: Page) -> None:
        if page.tab is None:
            return
        vitals = await page.tab.vitals()
        said[page.page_id] = {
            "page_id": page.page_id,
            "memory_mb": None if vitals.memory is None else round(vitals.memory / MIB, 1),
            "silent_for_s": None if vitals.silent_s is None else round(vitals.silent_s, 3),
        }

    async with trio.open_nursery() as nursery:
        for page in pages:
            nursery.start_soon(ask, page)
    return [said[page.page_id] for page in pages if page.page_id in said]


def idle_for(worker: Worker, now: float) -> float:
    """Seconds since anybody wanted anything: 0 while anything is in flight."""
    if worker.supervisor.in_flight:
        return 0.0
    last = max(worker.last_client_activity or worker.started_at, worker.supervisor.quiet_since)
    return max(0.0, now - last)


def why_not_free(worker: Worker, used: "Memory") -> str:
    """One word: `ok`, or what keeps the worker from taking a call now."""
    health = worker.pages.driver.health
    if worker.supervisor.stopping:
        return "stopping"
    if worker.supervisor.ends.owed or worker.runs.owed or worker.jobs.refuses:
        return "disk"
    if not health.up or health.stuck or health.thread_lag_s > STALL_S:
        return "browser"
    if used.free_share < LOW_MEMORY:
        return "memory"
    if all(page.line.holder is not None for page in worker.pages):
        return "pages"
    return "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is resident, MiB. `free_share` is what the machine has left of its memory, 0 to 1."""

    worker: float
    browser: float
    driver: float
    free_share: float


def memory(roots: Sequence[int]) -> Memory:
    """What this process and the process trees below `roots` (the driver first) take. Blocking: it reads /proc.

    Chromium's processes share most of what they map: a page that several have counts once, not once for each.
    """
    resident: dict[int, int] = {}
    for root in roots:
        with suppress(psutil.Error):
            process = psutil.Process(root)
            for member in (process, *process.children(recursive=True)):
                if member.pid not in resident:
                    resident[member.pid] = _resident(member)
    machine = psutil.virtual_memory()
    return Memory(
        worker=_mib(psutil.Process().memory_info().rss),
        browser=_mib(sum(resident.values())),
        driver=_mib(resident.get(roots[0], 0) if roots else 0),
        free_share=machine.available / machine.total,
    )


def _resident(process: psutil.Process) -> int:
    try:
        full = process.memory_full_info()
    except psutil.AccessDenied:  # a sandboxed process of Chromium's
        return _rss(process)
    except psutil.Error:
        return 0
    return int(getattr(full, "pss", full.uss))


def _rss(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _mib(size: int) -> float:
    return round(size / MIB, 1)
