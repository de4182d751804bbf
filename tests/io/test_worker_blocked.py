"""A plugin that blocks its thread, as real ones do, stops nothing but the browser."""

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import httpx
import trio

from tests.io import receivers
from tests.io.conftest import NewReceiver, NewWorker
from tests.io.waiting import until
from tests.io.worker_process import WorkerProcess

PLUGIN = "/api/v1/main/plugin/tested"
BLOCK_S = 6.5
DUE_IN_S = 3.0


def make_due(worker: WorkerProcess, job_id: str, at: float) -> None:
    """Move a stored job's times, while the worker is down, so that its second attempt is due then."""
    with closing(sqlite3.connect(worker.database)) as connection, connection:
        (ended,) = connection.execute("SELECT finished_at FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
        for column in ("started_at", "finished_at", "last_at", "forget_at"):
            connection.execute(f"UPDATE jobs SET {column} = {column} + ?", (at - 60 - ended,))


async def test_polls_health_and_attempts_go_on_while_a_plugin_blocks(
    new_worker: NewWorker, new_receiver: NewReceiver, tmp_path: Path
) -> None:
    """`time.sleep` for some seconds (B49, J45): `/healthz` and polls at 10 Hz answer in under 100 ms, a second attempt
    that is due meanwhile goes out on time, and after 5 s the log names the plugin and shows where it is.
    """
    worker = new_worker()
    receiver = await new_receiver(receivers.statuses(503, 200))
    await worker.start()
    async with worker.client() as client:
        late = await client.post(f"{PLUGIN}/echo", json={}, headers={"X-Callback-Url": receiver.url})
        await worker.wait_for_line("webhook posted")
    assert 0 == await worker.stop()
    due = time.time() + DUE_IN_S + 1.5 + 2 * worker.started_in_s
    make_due(worker, late.json()["job_id"], due)
    await worker.start()

    async with worker.client() as client:
        calm = await answered_while(client, "mark", tmp_path / "calm", 1)
        await trio.sleep(max(0.0, due - DUE_IN_S - time.time()))
        took = await answered_while(client, "block", tmp_path / "block", BLOCK_S)
        second = (await receiver.wait_for(2))[1]
        assert "2" == second.header("X-Penelope-Attempt")
        assert 200 == (await client.post(f"{PLUGIN}/look", json={})).status_code

    assert len(took) > 2 * BLOCK_S * 4
    assert nearly_all(took) < max(
        0.1, 3 * nearly_all(calm)
    )  # a machine that is busy is slow without any blocking
    assert max(took) < 2
    posted = worker.lines("webhook posted")[0]
    assert (2, 200) == (posted["attempt"], posted["status"])
    stalled = worker.lines("the browser's thread has not answered")
    assert 1 == len(stalled)
    assert ("tested/block", True) == (stalled[0]["plugin"], stalled[0]["for_s"] >= 5)
    assert "time.sleep(seconds)" in stalled[0]["stack"]
    await worker.wait_for_line("the browser's thread answers again")
    assert index(worker, "webhook posted") < index(worker, "the browser's thread answers again")
    assert 0 == await worker.stop()


def index(worker: WorkerProcess, event: str) -> int:
    return [line["event"] for line in worker.lines()].index(event)


def has_ended(file: Path) -> bool:
    return "end" in file.read_text()


async def answered_while(client: httpx.AsyncClient, name: str, file: Path, seconds: float) -> list[float]:
    """Run a plugin as a job; how long each question took meanwhile, seconds, in ten rounds a second."""
    body = {"file": str(file), "seconds": seconds}
    job = await client.post(f"{PLUGIN}/{name}", json=body, headers={"X-Result-Ttl": "60"})
    await until(file.exists)
    took: list[float] = []
    while not has_ended(file):
        for path in ("/healthz", job.json()["status_url"]):
            began = time.monotonic()
            answer = await client.get(path)
            took.append(time.monotonic() - began)
            assert 200 == answer.status_code
            if path != "/healthz" and not has_ended(file):
                assert "running" == json.loads(answer.content)["state"]
        await trio.sleep(0.1)
    return took


def nearly_all(took: list[float]) -> float:
    """19 of 20 took at most so long."""
    return sorted(took)[int(len(took) * 0.95)]
