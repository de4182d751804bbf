"""`kill -9` of the real process at every point of a job's life, and what the next life makes of it.

No accepted job is without an end, no committed result is lost, and an attempt is made again only when its outcome was
not stored. Each time nothing of the old life is left, the profile opens again, and the file is sound.
"""

import signal
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from typing import Any

import httpx
import pytest
import trio

from tests.io import receivers
from tests.io.conftest import NewReceiver, NewWorker
from tests.io.receivers import Receiver
from tests.io.waiting import until
from tests.io.worker_process import WorkerProcess

PLUGIN = "/api/v1/main/plugin/tested"
QUIET_S = 1.0  # for so long nothing more comes


@pytest.fixture
def worker(new_worker: NewWorker) -> WorkerProcess:
    return new_worker(STOP_GRACE_S="1")


def rows(worker: WorkerProcess) -> list[dict[str, Any]]:
    """The jobs in the store of a dead worker, whose file is sound."""
    with closing(sqlite3.connect(worker.database)) as connection:
        connection.row_factory = sqlite3.Row
        assert ("ok",) == tuple(connection.execute("PRAGMA integrity_check").fetchone())
        return [dict(row) for row in connection.execute("SELECT * FROM jobs")]


@asynccontextmanager
async def next_life(worker: WorkerProcess) -> AsyncIterator[httpx.AsyncClient]:
    """The worker, started again: its page works, and nothing is at work any more. Then it is killed once more."""
    await worker.start()
    async with worker.client() as client:
        yield client
        assert 200 == (await client.post(f"{PLUGIN}/look", json={})).status_code
        assert [] == (await client.get("/api/v1/activity")).json()["calls"]
    await worker.kill()
    assert "Traceback" not in worker.log
    assert "running" not in {row["state"] for row in rows(worker)}


async def dies_with_a_job(worker: WorkerProcess, point: str, headers: dict[str, str]) -> dict[str, Any]:
    """Start it so that it dies at that point, start a job, and wait for its death; the job's row."""
    await worker.start(die_at=point)
    async with worker.client() as client:
        with suppress(httpx.RemoteProtocolError, httpx.ReadError):  # it may die before it answers
            await client.post(f"{PLUGIN}/echo", json={"value": "ä"}, headers=headers)
    assert -signal.SIGKILL == await worker.wait()
    found = rows(worker)
    return found[0] if found else {}


async def test_between_the_jobs_row_and_its_202(worker: WorkerProcess) -> None:
    """J1. It is there, so it has an end."""
    job = await dies_with_a_job(worker, "JobStore.insert committed 1", {"X-Result-Ttl": "600"})
    assert "running" == job["state"]
    async with next_life(worker) as client:
        shown = (await client.get(f"/api/v1/jobs/{job['job_id']}")).json()
        assert ("interrupted", 503) == (shown["state"], shown["status"])
        started = await client.post(f"{PLUGIN}/echo", json={}, headers={"X-Result-Ttl": "600"})
        assert 202 == started.status_code  # J12: at once
        await until(partial(ended, client, started.json()["job_id"]))


async def ended(client: httpx.AsyncClient, job_id: str) -> bool:
    return bool((await client.get(f"/api/v1/jobs/{job_id}")).json()["state"] != "running")


async def test_while_the_plugin_works(worker: WorkerProcess, new_receiver: NewReceiver) -> None:
    """The client of the webhook is told, with the last checkpoint."""
    receiver = await new_receiver()
    file = worker.home / "marks"
    await worker.start()
    async with worker.client() as client:
        body = {"file": str(file), "seconds": 60, "checkpoint": [1, 2]}
        started = await client.post(f"{PLUGIN}/mark", json=body, headers={"X-Callback-Url": receiver.url})
        await until(file.exists)
        await trio.sleep(0.3)
    await worker.kill()
    async with next_life(worker) as client:
        (received,) = await receiver.wait_for(1)
        assert started.json()["job_id"] == received.header("X-Penelope-Job")
        assert ("interrupted", 503) == (received.job["state"], received.job["status"])
        assert {
            "success": False,
            "error": "job interrupted: the worker stopped before it ended",
            "page_id": "main",
            "checkpoint": [1, 2],
        } == received.job["result"]
        await until(lambda: gone(client, started.json()["job_id"]))
    assert 1 == len(file.read_text().splitlines())


async def test_between_the_plugins_return_and_the_commit_of_its_result(worker: WorkerProcess) -> None:
    """J2. What was not committed is not known."""
    job = await dies_with_a_job(worker, "JobStore.save asked 1", {"X-Result-Ttl": "600"})
    assert "running" == job["state"]
    async with next_life(worker) as client:
        shown = (await client.get(f"/api/v1/jobs/{job['job_id']}")).json()
        assert ("interrupted", 503) == (shown["state"], shown["status"])
        assert 590 < shown["expires_in"] <= 600


async def test_between_the_results_commit_and_the_first_post(
    worker: WorkerProcess, new_receiver: NewReceiver
) -> None:
    """J3. Attempt 1 within a second of the next start, with the result."""
    receiver = await new_receiver()
    job = await dies_with_a_job(worker, "JobStore.save committed 1", {"X-Callback-Url": receiver.url})
    assert ("done", 0) == (job["state"], job["attempts"])
    assert [] == receiver.received
    async with next_life(worker):
        ready_at = trio.current_time()
        (received,) = await receiver.wait_for(1)
        assert received.at - ready_at < 1
        assert ("done", {"success": True, "page_id": "main", "value": "ä"}) == (
            received.job["state"],
            received.job["result"],
        )
        assert "1" == received.header("X-Penelope-Attempt")


async def gone(client: httpx.AsyncClient, job_id: str) -> bool:
    return (await client.get(f"/api/v1/jobs/{job_id}")).status_code == 404


async def made_again(worker: WorkerProcess, receiver: Receiver, job_id: str) -> None:
    """The next life makes the same attempt again, which delivers, and forgets the job."""
    receiver.answers(receivers.status(200))
    async with next_life(worker) as client:
        first, again = await receiver.wait_for(2)
        assert job_id == first.header("X-Penelope-Job") == again.header("X-Penelope-Job")
        assert "1" == first.header("X-Penelope-Attempt") == again.header("X-Penelope-Attempt")
        assert first.job | {"expires_in": 0} == again.job | {"expires_in": 0}
        await until(lambda: gone(client, job_id))
        await trio.sleep(QUIET_S)
    assert 2 == len(receiver.received)


async def test_in_the_middle_of_a_post(worker: WorkerProcess, new_receiver: NewReceiver) -> None:
    receiver = await new_receiver(receivers.hang)
    await worker.start()
    async with worker.client() as client:
        started = await client.post(f"{PLUGIN}/echo", json={}, headers={"X-Callback-Url": receiver.url})
        await receiver.wait_for(1)
    await worker.kill()
    await made_again(worker, receiver, started.json()["job_id"])


async def test_between_the_receivers_200_and_its_record(
    worker: WorkerProcess, new_receiver: NewReceiver
) -> None:
    """J4. Delivered at least once: twice, here."""
    receiver = await new_receiver()
    job = await dies_with_a_job(worker, "JobStore.settle asked 1", {"X-Callback-Url": receiver.url})
    assert ("done", 0) == (job["state"], job["attempts"])
    await made_again(worker, receiver, job["job_id"])


async def test_between_a_failed_attempt_and_its_record(
    worker: WorkerProcess, new_receiver: NewReceiver
) -> None:
    receiver = await new_receiver(receivers.status(503))
    job = await dies_with_a_job(worker, "JobStore.save asked 2", {"X-Callback-Url": receiver.url})
    assert ("done", 0) == (job["state"], job["attempts"])
    await made_again(worker, receiver, job["job_id"])


async def test_once_the_delivery_is_recorded(worker: WorkerProcess, new_receiver: NewReceiver) -> None:
    receiver = await new_receiver()
    job = await dies_with_a_job(worker, "JobStore.settle committed 1", {"X-Callback-Url": receiver.url})
    assert {} == job
    job_id = receiver.received[0].header("X-Penelope-Job")
    async with next_life(worker) as client:
        assert await gone(client, job_id)
        await trio.sleep(QUIET_S)
    assert 1 == len(receiver.received)


def shift(worker: WorkerProcess, by_s: float) -> None:
    """Let so much time pass for the jobs in the store, while the worker is down."""
    with closing(sqlite3.connect(worker.database)) as connection, connection:
        for column in ("started_at", "finished_at", "last_at", "forget_at"):
            connection.execute(f"UPDATE jobs SET {column} = {column} - ?", (by_s,))


async def test_while_the_second_attempt_is_waited_for(
    worker: WorkerProcess, new_receiver: NewReceiver
) -> None:
    """It comes 60 s after the end, neither at the next start nor later; attempt 1 counts, and is not made again.

    Killed again after attempts 2 and 3 were missed: they collapse into one. Past its deadline, it is deleted.
    """
    receiver = await new_receiver(receivers.status(503))
    job = await dies_with_a_job(worker, "JobStore.save committed 2", {"X-Callback-Url": receiver.url})
    assert ("done", 1, "answered 503") == (job["state"], job["attempts"], job["error"])

    due = time.time() + 3 + 2 * worker.started_in_s
    shift(worker, 60 - (due - job["finished_at"]))
    async with next_life(worker) as client:
        shown = (await client.get(f"/api/v1/jobs/{job['job_id']}")).json()
        assert {"attempts": 1, "delivered": False, "error": "answered 503"} == shown["delivery"]
        assert time.time() < due - 0.5, "the machine is too slow for this test"
        assert 1 == len(receiver.received)
        second = (await receiver.wait_for(2))[1]
        assert abs(time.time() - due) < 1
        assert "2" == second.header("X-Penelope-Attempt")
        assert 2 == second.job["delivery"]["attempts"]
        await worker.wait_for_line("webhook posted")

    shift(worker, 400)  # attempt 3 was due 100 s ago
    async with next_life(worker):
        third = (await receiver.wait_for(3))[2]
        assert "3" == third.header("X-Penelope-Attempt")
        await worker.wait_for_line("webhook posted")
        await trio.sleep(QUIET_S)
    assert 3 == len(receiver.received)

    shift(worker, 1000)
    async with next_life(worker) as client:
        assert await gone(client, job["job_id"])
        await worker.wait_for_line("webhook given up: its deadline passed while the worker was down")
    assert 3 == len(receiver.received)
