"""Watching and waiting on the real worker: many at once, over a stop and a kill, beside a plugin that says much."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import httpx
import psutil
import trio

from tests.io.conftest import NewWorker
from tests.io.waiting import until
from tests.io.worker_process import KEY, WorkerProcess
from tests.spec.stream import Events, viewing, watched

PLUGIN = "/api/v1/main/plugin/tested"
TTL = {"X-Result-Ttl": "600"}
MANY = httpx.Limits(max_connections=None, max_keepalive_connections=None)
GRACE_S = 1.0


async def start(client: httpx.AsyncClient, name: str, **body: Any) -> str:
    answer = await client.post(f"{PLUGIN}/{name}", json=body, headers=TTL)
    assert 202 == answer.status_code, answer.text
    return str(answer.json()["job_id"])


@contextmanager
def deaf_viewer(worker: WorkerProcess, job_id: str) -> Iterator[socket.socket]:
    """One that asks for the events and reads nothing of them."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect(("127.0.0.1", httpx.URL(worker.base_url).port or 0))
        head = f"GET /api/v1/jobs/{job_id}/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n\r\n"
        connection.sendall(head.encode())
        yield connection


async def test_a_stop_ends_a_hundred_streams_and_twenty_polls(new_worker: NewWorker) -> None:
    """J14: streams end with a last event, polls at once, and the process is gone within its grace."""
    worker = new_worker(STOP_GRACE_S=str(GRACE_S))
    await worker.start()
    streams: list[Events] = []
    polls: list[tuple[float, httpx.Response]] = []
    async with worker.client(limits=MANY) as client:
        job = await start(client, "mark", file=str(worker.home / "marks"), seconds=60)

        async def view() -> None:
            streams.append(await watched(client, job))

        async def poll() -> None:
            answer = await client.get(f"/api/v1/jobs/{job}", headers={"Prefer": "wait=60"})
            polls.append((time.monotonic(), answer))

        with deaf_viewer(worker, job):
            async with trio.open_nursery() as nursery:
                for _ in range(100):
                    nursery.start_soon(view)
                for _ in range(20):
                    nursery.start_soon(poll)
                await until(lambda: len(worker.lines("request")) >= 102)  # the start's and the viewers'
                await trio.sleep(0.5)
                began = time.monotonic()
                worker.send_signal()
            assert 0 == await worker.wait()
            assert time.monotonic() - began < GRACE_S + 8
    assert 20 == len([at for at, _ in polls if at - began < GRACE_S])
    assert {(200, "running")} == {(said.status_code, said.json()["state"]) for _, said in polls}
    assert 100 == len(streams)
    assert {("state", "state")} == {tuple(stream.names) for stream in streams}
    assert all(json.loads(stream.events[-1].data)["stopping"] for stream in streams)
    assert "Traceback" not in worker.log


async def test_a_plugin_that_says_much_is_not_slowed(new_worker: NewWorker) -> None:
    """J109: whoever watches gets the latest; the plugin pays for twenty viewers and a deaf one what it pays for one."""
    calls = 4_000
    worker = new_worker()
    await worker.start()
    async with worker.client(limits=MANY) as client:

        async def took(viewers: int) -> tuple[float, float, list[Events]]:
            """Seconds on the clock, the worker's seconds of CPU, and what was seen."""
            before = cpu_s(worker)
            job = await start(client, "chatter", calls=calls)
            streams: list[Events] = []

            async def view() -> None:
                streams.append(await watched(client, job))

            with deaf_viewer(worker, job) if viewers > 1 else nullcontext():
                async with trio.open_nursery() as nursery:
                    for _ in range(viewers):
                        nursery.start_soon(view)
            return json.loads(streams[0].events[-1].data)["result"]["took"], cpu_s(worker) - before, streams

        # By turns, so that a machine that has other work meanwhile slows both.
        turns = [(await took(1), await took(20)) for _ in range(3)]
    alone, many = (sorted(turn[which][0] for turn in turns) for which in (0, 1))
    alone_cpu, many_cpu = (sorted(turn[which][1] for turn in turns) for which in (0, 1))
    # CPU is what load does not change. On a busy machine the clock has the two threads wait for each other: there it
    # shows only that nobody is waited for.
    assert many_cpu[0] < alone_cpu[-1] * 2 + 1, (
        alone_cpu,
        many_cpu,
    )  # the opening of twenty streams is work, too
    assert many[0] < alone[-1] * 5 + 5, (alone, many)
    for seconds, _, streams in (turn[1] for turn in turns):
        assert 20 == len(streams)
        for stream in streams:
            assert ("state", "end") == (stream.names[0], stream.names[-1])
            numbers = [int(event.id) for event in stream.events[1:-1]]
            assert numbers == sorted(set(numbers))
            assert 1 <= len(numbers) <= 5 * seconds + 2


def cpu_s(worker: WorkerProcess) -> float:
    times = psutil.Process(worker.pid).cpu_times()
    return float(times.user + times.system)


async def test_ids_outlast_a_kill(new_worker: NewWorker) -> None:
    """Who comes back to the next life with the last id is told the end, and then that there is no more."""
    worker = new_worker()
    await worker.start()
    async with worker.client() as client:
        job = await start(client, "chatter", calls=3, then_s=60)
        async with viewing(client, job) as events:
            await until(lambda: events.last_id == "3")
        await worker.kill()
    await worker.start()
    async with worker.client() as client:
        began = time.monotonic()
        after = await watched(client, job, events.last_id)
        assert ["end"] == after.names
        assert "interrupted" == json.loads(after.events[0].data)["state"]
        assert time.monotonic() - began < 5
        headers = {"Last-Event-ID": after.last_id}
        assert 204 == (await client.get(f"/api/v1/jobs/{job}/events", headers=headers)).status_code


async def test_a_start_that_waits_is_answered_like_a_plain_call(new_worker: NewWorker) -> None:
    """J112 on real sockets: a hundred who wait for the same end, each answered with it."""
    worker = new_worker()
    await worker.start()
    answers: list[httpx.Response] = []
    async with worker.client(limits=MANY) as client:
        plain = await client.post(f"{PLUGIN}/echo", json={"value": 1})
        waited = await client.post(f"{PLUGIN}/echo", json={"value": 1}, headers={**TTL, "Prefer": "wait=10"})
        assert (200, plain.content) == (waited.status_code, waited.content)

        file = worker.home / "marks"
        job = await start(client, "mark", file=str(file), seconds=4)

        async def poll() -> None:
            answers.append(await client.get(f"/api/v1/jobs/{job}", headers={"Prefer": "wait=60"}))

        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(poll)
    assert 100 == len(answers)
    assert {"done"} == {answer.json()["state"] for answer in answers}
