"""What the worker is doing, in numbers: what the waker reads before it stops one.

Source: contract, section 7 (`GET /api/v1/activity`).
"""

import os
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import psutil
import trio

from penelope.errors import StoreBusy, StoreFull
from penelope.http.worker import Worker

MIB: Final = 2**20
STALL_S: Final = 1.0


async def activity(worker: Worker) -> dict[str, Any]:
    """The numbers; times in epoch seconds, durations in seconds, memory in MiB."""
    supervisor = worker.supervisor
    now = worker.clock.now()
    health = worker.pages.driver.health
    try:
        held: int | None = await worker.jobs.held(now)
    except (StoreBusy, StoreFull):
        held = None
    own, browser = await trio.to_thread.run_sync(partial(memory, health.pids))
    return {
        "in_flight": supervisor.in_flight,
        "jobs_running": sum(live.job_id is not None for live in supervisor.lives),
        "jobs_held": held,
        "deliveries_pending": len(supervisor.deliveries.pending),
        "last_client_activity": worker.last_client_activity,
        "idle_for_s": idle_for(worker, now),
        "rss_mb": round(own / MIB, 1),
        "browser_rss_mb": round(browser / MIB, 1),
        "started_at": worker.started_at,
        "browser_thread_lag_s": round(health.thread_lag_s, 3),
        "calls": [
            {
                "what": live.call.what,
                "page_id": live.call.page.page_id,
                "job_id": live.job_id,
                "state": "running" if live.claimed else "waiting",
                "since": live.since,
                "progress": live.fraction,
                "note": live.note,
            }
            for live in sorted(supervisor.lives, key=lambda live: live.since)
        ],
        "why": why_not_free(worker),
    }


def idle_for(worker: Worker, now: float) -> float:
    """Seconds since anybody wanted anything: 0 while anything is in flight."""
    if worker.supervisor.in_flight:
        return 0.0
    last = max(worker.last_client_activity or worker.started_at, worker.supervisor.quiet_since)
    return max(0.0, now - last)


def why_not_free(worker: Worker) -> str:
    """One word: `ok`, or what keeps the worker from taking a call now."""
    health = worker.pages.driver.health
    if worker.supervisor.stopping:
        return "stopping"
    if worker.supervisor.ends.owed or worker.jobs.refuses:
        return "disk"
    if not health.up or health.stuck or health.thread_lag_s > STALL_S:
        return "browser"
    if all(page.line.holder is not None for page in worker.pages):
        return "pages"
    return "ok"


def memory(roots: Iterable[int]) -> tuple[int, int]:
    """Bytes resident of this process, and of the process trees below `roots`. Blocking: it reads /proc.

    Chromium's processes share most of what they map: a page that several have counts once, not once for each.
    """
    browser = 0
    seen: set[int] = set()
    for root in roots:
        try:
            process = psutil.Process(root)
            family = [process, *process.children(recursive=True)]
        except psutil.Error:
            continue
        for member in family:
            if member.pid not in seen:
                seen.add(member.pid)
                browser += _resident(member)
    return psutil.Process(os.getpid()).memory_info().rss, browser


def _resident(process: psutil.Process) -> int:
    try:
        full = process.memory_full_info()
    except psutil.Error:
        return 0
    return int(getattr(full, "pss", full.uss))
