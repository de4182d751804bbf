"""Stops of the real process: what they end, what they leave to the next start, and that nothing of it is left."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from tests.io import receivers
from tests.io.conftest import NewReceiver, NewWorker
from tests.io.waiting import until
from tests.io.worker_process import KEY, READY_S, WorkerProcess

PLUGIN = "/api/v1/main/plugin/tested"


def noted(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def integrity(worker: WorkerProcess) -> str:
    with closing(sqlite3.connect(worker.database)) as connection:
        (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
    return str(verdict)


async def test_a_stop_leaves_jobs_to_the_next_start(
    new_worker: NewWorker, new_receiver: NewReceiver, tmp_path: Path
) -> None:
    """Two that work past the grace, a plain call, one that ends within it, and a POST under way."""
    worker = new_worker(STOP_GRACE_S="1")
    answer = trio.Event()
    slow = await new_receiver(receivers.after(answer, receivers.status(204)))
    receiver = await new_receiver()
    await worker.start()
    async with worker.client() as client:
        for page in ("one", "two", "three"):
            assert 201 == (await client.post("/api/v1/pages", json={"page_id": page})).status_code
        posting = await client.post(f"{PLUGIN}/echo", json={}, headers={"X-Callback-Url": slow.url})
        await slow.wait_for(1)
        long = {"file": str(tmp_path / "long"), "seconds": 60, "checkpoint": {"seen": ["a", "b"]}}
        webhook = await client.post(f"{PLUGIN}/mark", json=long, headers={"X-Callback-Url": receiver.url})
        polled = await client.post(
            f"{PLUGIN}/mark".replace("main", "one"),
            json={"file": str(tmp_path / "polled"), "seconds": 60},
            headers={"X-Result-Ttl": "600"},
        )
        short = await client.post(
            f"{PLUGIN}/mark".replace("main", "two"),
            json={"file": str(tmp_path / "short"), "seconds": 0.8},
            headers={"X-Result-Ttl": "600"},
        )
        plain: dict[str, Any] = {}

        async def call_plainly() -> None:
            body = {"file": str(tmp_path / "plain"), "seconds": 60}
            answered = await client.post(f"{PLUGIN}/mark".replace("main", "three"), json=body)
            plain.update(status=answered.status_code, **answered.json())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call_plainly)
            for name in ("long", "polled", "short", "plain"):
                await until(lambda name=name: noted(tmp_path / name) != "")  # type: ignore[misc]
            worker.send_signal()
            await worker.wait_for_line("stopping")
            refused = await client.post(f"{PLUGIN}/echo", json={})
            assert 503 == refused.status_code
            assert "Retry-After" in refused.headers
            assert {"success": False, "error": "the worker is stopping", "page_id": "main"} == refused.json()
            await trio.sleep(0.3)
            answer.set()
        assert 503 == plain["status"]  # J16: never blamed on the plugin
        assert "the worker stopped before the call ended" == plain["error"]
        assert 0 == await worker.wait()
        assert "Traceback" not in worker.log

    await worker.start()
    async with worker.client() as client:
        (received,) = await receiver.wait_for(1)
        assert ("1", webhook.json()["job_id"]) == (
            received.header("X-Penelope-Attempt"),
            received.header("X-Penelope-Job"),
        )
        interrupted = {
            "success": False,
            "error": "job interrupted: the worker stopped before it ended",
            "page_id": "main",
        }
        assert ("interrupted", 503) == (received.job["state"], received.job["status"])
        assert interrupted | {"checkpoint": {"seen": ["a", "b"]}} == received.job["result"]

        shown = (await client.get(polled.json()["status_url"])).json()
        assert ("interrupted", 503) == (shown["state"], shown["status"])
        assert interrupted | {"page_id": "one"} == shown["result"]
        assert 590 < shown["expires_in"] <= 600
        shown = (await client.get(short.json()["status_url"])).json()
        assert ("done", 200) == (shown["state"], shown["status"])
        assert 404 == (await client.get(posting.json()["status_url"])).status_code
        assert 1 == len(slow.received)
        started = await client.post(f"{PLUGIN}/echo", json={}, headers={"X-Result-Ttl": "60"})
        assert 202 == started.status_code
    assert 0 == await worker.stop()
    assert "ok" == integrity(worker)


async def test_a_second_signal_ends_it_at_once(
    new_worker: NewWorker, new_receiver: NewReceiver, tmp_path: Path
) -> None:
    """Not after the grace of 60 s, nor after the 10 s of a POST; both are read at the next start."""
    worker = new_worker(STOP_GRACE_S="60")
    hole = await new_receiver(receivers.hang)
    await worker.start()
    async with worker.client() as client:
        posting = await client.post(f"{PLUGIN}/echo", json={}, headers={"X-Callback-Url": hole.url})
        await hole.wait_for(1)
        body = {"file": str(tmp_path / "long"), "seconds": 60}
        running = await client.post(f"{PLUGIN}/mark", json=body, headers={"X-Result-Ttl": "600"})
        await until(lambda: noted(tmp_path / "long") != "")
    worker.send_signal()
    await worker.wait_for_line("stopping")
    await trio.sleep(0.2)
    assert worker.process.poll() is None
    began = time.monotonic()
    worker.send_signal(signal.SIGINT)
    await worker.wait()
    assert time.monotonic() - began < 8
    assert 143 == worker.process.poll()  # 0 says that everything was let to its end
    assert "Traceback" not in worker.log

    hole.answers(receivers.status(200))
    await worker.start()
    async with worker.client() as client:
        again = (await hole.wait_for(2))[1]
        assert ("1", posting.json()["job_id"]) == (
            again.header("X-Penelope-Attempt"),
            again.header("X-Penelope-Job"),
        )
        shown = (await client.get(running.json()["status_url"])).json()
        assert "interrupted" == shown["state"]


async def test_a_second_signal_while_the_last_post_is_waited_for(
    new_worker: NewWorker, new_receiver: NewReceiver
) -> None:
    """The calls are drained and the server is down: it cuts the POST, and the way out is the same."""
    worker = new_worker()
    hole = await new_receiver(receivers.hang)
    await worker.start()
    async with worker.client() as client:
        posting = await client.post(f"{PLUGIN}/echo", json={}, headers={"X-Callback-Url": hole.url})
        await hole.wait_for(1)
    worker.send_signal()
    await worker.wait_for_line("stopping")
    await trio.sleep(2)
    assert worker.process.poll() is None
    with pytest.raises(httpx.ConnectError):
        async with worker.client() as client:
            await client.get("/healthz")
    began = time.monotonic()
    worker.send_signal()
    assert 143 == await worker.wait()
    assert time.monotonic() - began < 5
    assert "Traceback" not in worker.log
    with closing(sqlite3.connect(worker.database)) as connection:
        row = connection.execute("SELECT job_id, state, attempts FROM jobs").fetchone()
    assert (posting.json()["job_id"], "done", 0) == row
    assert not worker.database.with_name("penelope.db-wal").exists()


async def test_a_signal_while_it_starts(new_worker: NewWorker, new_receiver: NewReceiver) -> None:
    """It gives the start up, as clean as a stop: nothing is left, and the job of the life before is not touched."""
    worker = new_worker()
    worker.executed = True
    receiver = await new_receiver(receivers.status(500))
    await worker.start()
    async with worker.client() as client:
        job = await client.post(f"{PLUGIN}/echo", json={}, headers={"X-Callback-Url": receiver.url})
        await receiver.wait_for(1)
    assert 0 == await worker.stop()
    moments = (("settings", 0.0), ("settings", 0.3), ("browser started", 0.0), ("browser started", 0.2))
    for number, (event, after_s) in enumerate(moments):
        worker.launch()
        await worker.wait_for_line(event, READY_S)
        await trio.sleep(after_s)
        worker.send_signal(signal.SIGINT if number % 2 else signal.SIGTERM)
        assert 0 == await worker.wait(), (event, after_s)
        assert "Traceback" not in worker.log
        assert "ok" == integrity(worker)
        assert not worker.database.with_name("penelope.db-wal").exists()
        with closing(sqlite3.connect(worker.database)) as connection:
            row = connection.execute("SELECT job_id, state, attempts FROM jobs").fetchone()
        assert (job.json()["job_id"], "done", 1) == row
    assert 1 == len(receiver.received)


async def test_a_client_that_never_reads_does_not_hold_the_stop_up(new_worker: NewWorker) -> None:
    """J14: 40 MiB for one that reads nothing of it."""
    worker = new_worker(STOP_GRACE_S="1")
    await worker.start()
    port = httpx.URL(worker.base_url).port or 0
    body = json.dumps({"mib": 40}).encode()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", port))
        head = (
            f"POST {PLUGIN}/large HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        connection.sendall(head.encode() + body)
        await worker.wait_for_line("request", path=f"{PLUGIN}/large")
        began = time.monotonic()
        assert 0 == await worker.stop()
        assert time.monotonic() - began < 10


async def test_a_plugin_that_blocks_past_the_stop(new_worker: NewWorker, tmp_path: Path) -> None:
    """It sits in C code, which no exception reaches: the worker ends itself, says so, and leaves nothing."""
    worker = new_worker(STOP_GRACE_S="0.5")
    await worker.start()
    file = tmp_path / "block"
    async with worker.client() as client:
        body = {"file": str(file), "seconds": 120}
        job = await client.post(f"{PLUGIN}/block", json=body, headers={"X-Result-Ttl": "600"})
        assert 202 == job.status_code
        await until(lambda: noted(file) != "")
    began = time.monotonic()
    assert os.EX_TEMPFAIL == await worker.stop()
    assert time.monotonic() - began < 20
    assert any("tested/block" in json.dumps(line) for line in worker.lines())
    assert "begin\n" == noted(file)
    assert "ok" == integrity(worker)
    with closing(sqlite3.connect(worker.database)) as connection:
        assert ("running",) == connection.execute("SELECT state FROM jobs").fetchone()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def test_a_full_disk_starts_nothing_and_loses_nothing(
    new_worker: NewWorker, new_receiver: NewReceiver, disk: Path
) -> None:
    """J17, on a disk that is really full: the browser's profile is on it too."""
    worker = new_worker(PENELOPE_STORE=str(disk / "store"))
    receiver = await new_receiver()
    file = worker.home / "marks"
    await worker.start()
    async with worker.client() as client:
        body = {"file": str(file), "seconds": 2}
        running = await client.post(f"{PLUGIN}/mark", json=body, headers={"X-Callback-Url": receiver.url})
        assert 201 == (await client.post("/api/v1/pages", json={"page_id": "other"})).status_code
        _fill(disk / "ballast")
        nothing = worker.home / "nothing"
        refused = await client.post(
            f"{PLUGIN}/mark".replace("main", "other"),
            json={"file": str(nothing)},
            headers={"X-Result-Ttl": "60"},
        )
        assert 507 == refused.status_code
        assert "" == noted(nothing)
        assert "idle" == (await client.get("/api/v1/other")).json()["state"]

        (received,) = await receiver.wait_for(
            1
        )  # its end could not be written, and is delivered all the same
        assert running.json()["job_id"] == received.header("X-Penelope-Job")
        assert "done" == received.job["state"]
        ready = await client.get("/readyz")
        assert (503, True) == (ready.status_code, "the store takes no writes" in ready.json()["error"])

        (disk / "ballast").unlink()

        async def is_well() -> bool:
            return (await client.get("/readyz")).status_code == 200

        await until(is_well)
        assert 404 == (await client.get(running.json()["status_url"])).status_code
        started = await client.post(f"{PLUGIN}/echo", json={}, headers={"X-Result-Ttl": "60"})
        assert 202 == started.status_code
    refusals = worker.lines("store refuses; what it is owed is kept in memory")
    assert 1 == len(refusals)
    assert 0 == await worker.stop()
    assert 1 == len(receiver.received)


def _fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        for size in (2**20, 4096, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue


async def test_a_stop_waits_for_the_call_at_work_and_no_longer(new_worker: NewWorker) -> None:
    """Here by Ctrl-C, a stop too."""
    worker = new_worker()
    await worker.start()
    file = worker.home / "marks"
    async with worker.client() as client, trio.open_nursery() as nursery:
        answers: list[httpx.Response] = []

        async def call() -> None:
            body = {"file": str(file), "seconds": 1}
            answers.append(await client.post(f"{PLUGIN}/mark", json=body))

        nursery.start_soon(call)
        await until(partial(_has_begun, file))
        worker.send_signal(signal.SIGINT)
    began = time.monotonic()
    assert [200] == [answer.status_code for answer in answers]
    assert 0 == await worker.wait()
    assert time.monotonic() - began < 6
    assert "Traceback" not in worker.log
    assert "ok" == integrity(worker)
    assert not worker.database.with_name("penelope.db-wal").exists()


def _has_begun(file: Path) -> bool:
    return noted(file) != ""
