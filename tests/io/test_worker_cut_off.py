"""Cancels and limits in a real browser, of plugins that do not want to end."""

import time
from pathlib import Path
from typing import Any

import httpx
import trio

from tests.io.conftest import NewWorker
from tests.io.waiting import until
from tests.io.worker_process import WorkerProcess

PLUGIN = "/api/v1/main/plugin/tested"


async def started(client: httpx.AsyncClient, name: str, file: Path, **headers: str) -> str:
    """A job of that plugin, once it is at work."""
    answer = await client.post(
        f"{PLUGIN}/{name}", json={"file": str(file)}, headers={"X-Result-Ttl": "600", **headers}
    )
    assert 202 == answer.status_code, answer.text
    await until(file.exists)
    return str(answer.json()["job_id"])


async def ended(client: httpx.AsyncClient, job_id: str) -> Any:
    while True:
        job = (await client.get(f"/api/v1/jobs/{job_id}")).json()
        if job["state"] != "running":
            return job
        await trio.sleep(0.1)


async def all_is_well(client: httpx.AsyncClient, worker: WorkerProcess, *gone: str) -> None:
    """The claim is free, the page works, and nothing of the job is left in the tree."""
    answer = await client.post(f"{PLUGIN}/look", json={})
    assert (200, 2) == (answer.status_code, answer.json().get("sum"))
    tree = (await client.get("/api/v1/tree")).text
    assert not [name for name in gone if name in tree]
    assert 202 == (await client.post(f"{PLUGIN}/look", headers={"X-Result-Ttl": "1"})).status_code
    assert 0 == await worker.stop()


async def test_a_plugin_that_swallows_its_cancel_loses_its_page(
    new_worker: NewWorker, tmp_path: Path
) -> None:
    """J47: the page is closed under it, the claim is free, `/tree` is clean; nothing of it runs on."""
    worker = new_worker()
    await worker.start()
    async with worker.client() as client:
        notes = tmp_path / "notes"
        job = await started(client, "swallow", notes)
        began = time.monotonic()
        answer = await client.delete(f"/api/v1/jobs/{job}")
        assert 200 == answer.status_code
        assert 2 <= time.monotonic() - began < 12
        seen = answer.json()
        assert ("cancelled", 499, {"done": 3}) == (
            seen["state"],
            seen["status"],
            seen["result"]["checkpoint"],
        )
        assert "swallowed" in notes.read_text()
        at_the_end = notes.read_text()
        await worker.wait_for_line("a call will not end: its page is thrown away")
        await all_is_well(client, worker, job, "swallow")
        assert at_the_end == notes.read_text()


async def test_a_plugin_that_never_gives_the_thread_back_is_broken_off_at_its_limit(
    new_worker: NewWorker, tmp_path: Path
) -> None:
    """Past its limit the job ends as `408`, also when it blocks the browser's thread."""
    worker = new_worker()
    await worker.start()
    async with worker.client() as client:
        job = await started(client, "spin", tmp_path / "notes", **{"X-Job-Timeout": "1"})
        with trio.fail_after(20):
            seen = await ended(client, job)
        assert ("done", 408, "timeout") == (seen["state"], seen["status"], seen["result"]["kind"])
        assert {"done": 4} == seen["result"]["checkpoint"]
        assert 1 <= seen["finished_at"] - seen["started_at"] < 15
        await worker.wait_for_line("breaking off a call that blocks the browser's thread")
        await all_is_well(client, worker, job, "spin")
