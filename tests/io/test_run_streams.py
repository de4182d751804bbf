"""Streams of runs on the real worker: many viewers, deaf ones, a stop, and a proxy that buffers.

Source: contract, section 10 ("GET /runs/{id}/stream"); scenarios J14, J107, J109.
"""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import trio

from penelope.demo.serving import free_port
from tests.io.conftest import NewWorker
from tests.io.forks import ROOT
from tests.io.waiting import until
from tests.io.worker_process import KEY, WorkerProcess
from tests.spec.stream import Events, viewing

RUNS: Final = "/api/v1/runs"
MANY: Final = httpx.Limits(max_connections=None, max_keepalive_connections=None)
GRACE_S: Final = 1.0
RECIPES: Final = {
    "until": "page: main\nsteps: [{plugin: tested/until, with: {file: '{{ input.file }}'}}]",
    "large": "page: main\nsteps:\n  - {plugin: tested/until, with: {file: '{{ input.file }}'}}\n"
    "  - {as: it, plugin: tested/large, with: {mib: 2}}\noutput: '{{ it.text }}'",
    "chatter": "page: main\nsteps: [{as: it, plugin: tested/chatter, with: {calls: 4000}}]\noutput: '{{ it.took }}'",
}


def with_recipes(new_worker: NewWorker, folder: Path, **settings: str) -> WorkerProcess:
    for name, text in RECIPES.items():
        (folder / "recipes" / name).mkdir(parents=True)
        (folder / "recipes" / name / "TEMPLATE.yaml").write_text(f"name: {name}\n{text}\n")
    return new_worker(PENELOPE_RECIPES=str(folder / "recipes"), **settings)


async def submit(client: httpx.AsyncClient, recipe: str, file: Path | None = None) -> str:
    body = {"prompt": json.dumps({"file": str(file)}), "recipe_name": recipe}
    answer = await client.post(RUNS, json=body)
    assert 202 == answer.status_code, answer.text
    return str(answer.json()["job_id"])


async def watched(client: httpx.AsyncClient, run_id: str, last_id: str | None = None) -> Events:
    """A viewer's stream, once it has ended."""
    async with viewing(client, run_id, last_id, path=f"{RUNS}/{run_id}/stream") as seen:
        await until(lambda: seen.over, 60)
    return seen


@contextmanager
def deaf_viewer(worker: WorkerProcess, run_id: str) -> Iterator[socket.socket]:
    """One that asks for the events and reads nothing of them."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect(("127.0.0.1", httpx.URL(worker.base_url).port or 0))
        head = (
            f"GET {RUNS}/{run_id}/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n\r\n"
        )
        connection.sendall(head.encode())
        yield connection


async def test_a_stop_ends_a_hundred_streams_and_the_next_life_goes_on(
    new_worker: NewWorker, tmp_path: Path
) -> None:
    """J14: of a run at work and a queued one; who waits is answered at once; afterwards both end."""
    worker = with_recipes(new_worker, tmp_path, STOP_GRACE_S=str(GRACE_S))
    await worker.start()
    streams: list[tuple[str, Events]] = []
    waits: list[tuple[float, httpx.Response]] = []
    file = tmp_path / "go on"
    async with worker.client(limits=MANY) as client:
        running, queued = await submit(client, "until", file), await submit(client, "until", file)

        async def view(run_id: str) -> None:
            streams.append((run_id, await watched(client, run_id)))

        async def wait(path: str) -> None:
            answer = await client.get(path, headers={"Prefer": "wait=60"})
            waits.append((time.monotonic(), answer))

        with deaf_viewer(worker, running):
            async with trio.open_nursery() as nursery:
                for _ in range(50):
                    nursery.start_soon(view, running)
                    nursery.start_soon(view, queued)
                for _ in range(10):
                    nursery.start_soon(wait, f"{RUNS}/{running}")
                    nursery.start_soon(wait, f"{RUNS}/{queued}/result")
                await until(lambda: len(worker.lines("request")) >= 103)  # the submits' and the viewers'
                await trio.sleep(0.5)
                began = time.monotonic()
                worker.send_signal()
            assert 0 == await worker.wait()
            assert time.monotonic() - began < GRACE_S + 8
    assert 20 == len([at for at, _ in waits if at - began < GRACE_S])
    assert {200, 409} == {said.status_code for _, said in waits}
    assert 100 == len(streams)
    assert {"status"} == {seen.names[-1] for _, seen in streams}
    assert {(running, "running"), (queued, "queued")} == {
        (run_id, json.loads(seen.events[-1].data)["status"]) for run_id, seen in streams
    }
    assert "Traceback" not in worker.log

    file.touch()
    await worker.start()
    async with worker.client() as client:
        last_ids = {run_id: seen.last_id for run_id, seen in streams}
        cut_off = await watched(client, running, last_ids[running])
        assert "Interrupted by service restart" == json.loads(cut_off.events[-1].data)["error"]
        gone_on = await watched(client, queued, last_ids[queued])
        assert ("status", "result") == (gone_on.names[0], gone_on.names[-1])


async def test_a_large_result_comes_whole_to_many_beside_one_that_reads_nothing(
    new_worker: NewWorker, tmp_path: Path
) -> None:
    worker = with_recipes(new_worker, tmp_path)
    await worker.start()
    streams: list[Events] = []
    async with worker.client(limits=MANY) as client:
        run_id = await submit(client, "large", tmp_path / "go on")

        async def view() -> None:
            streams.append(await watched(client, run_id))

        with deaf_viewer(worker, run_id):
            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(view)
                await until(lambda: len(worker.lines("request")) >= 12)
                (tmp_path / "go on").touch()
            assert {"é" * 2**20} == {json.loads(seen.events[-1].data)["result"] for seen in streams}
            began = time.monotonic()
            other = await client.get(f"{RUNS}/{run_id}")
            assert ("succeeded", True) == (other.json()["status"], time.monotonic() - began < 1)


async def test_a_plugin_that_says_much_is_not_slowed(new_worker: NewWorker, tmp_path: Path) -> None:
    """J109: whoever watches gets the latest; nobody's silence is the plugin's."""
    worker = with_recipes(new_worker, tmp_path)
    await worker.start()
    async with worker.client(limits=MANY) as client:

        async def took(viewers: int, turn: int) -> float:
            go_on = tmp_path / f"{viewers} {turn}"
            blocker = await submit(client, "until", go_on)
            run_id = await submit(client, "chatter")
            streams: list[Events] = []

            async def view() -> None:
                streams.append(await watched(client, run_id))

            with deaf_viewer(worker, run_id):
                async with trio.open_nursery() as nursery:
                    for _ in range(viewers):
                        nursery.start_soon(view)
                    await trio.sleep(0.5)
                    go_on.touch()
                assert blocker
            assert {"result"} == {seen.names[-1] for seen in streams}
            seconds = float(json.loads(streams[0].events[-1].data)["result"])
            assert all(len(seen.events) <= 5 * seconds + 20 for seen in streams)  # not four thousand
            return seconds

        # By turns, so that a machine that has other work meanwhile slows both.
        turns = [(await took(1, turn), await took(20, turn)) for turn in range(3)]
        assert min(many for _, many in turns) < 3 * max(alone for alone, _ in turns) + 1, turns


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[Any]:
    """Starts an nginx before a worker, with its defaults but for a silence of 8 s instead of 60; its base URL."""
    folders = f"/usr/sbin:/usr/local/sbin:{ROOT / '.cache/nginx/usr/sbin'}"  # the last is script/test's
    program = shutil.which("nginx") or shutil.which("nginx", path=folders)
    if program is None:
        pytest.skip("needs nginx (of the package nginx-light, say)")
    started: list[subprocess.Popen[bytes]] = []

    def start(worker: WorkerProcess) -> str:
        port = free_port("127.0.0.1")
        folder = tmp_path / "nginx"
        folder.mkdir()
        temps = " ".join(
            f"{name}_temp_path {folder}/{name};"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (folder / "nginx.conf").write_text(
            f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\n"
            "events {}\n"
            f"http {{ access_log off; {temps} gzip on; gzip_types text/event-stream;\n"
            f"  server {{ listen 127.0.0.1:{port}; location / {{\n"
            f"    proxy_pass {worker.base_url}; proxy_set_header Host $host; proxy_read_timeout 8s;\n"
            "  } } }\n"
        )
        started.append(
            subprocess.Popen([program, "-p", os.fspath(folder), "-c", os.fspath(folder / "nginx.conf")])
        )
        return f"http://127.0.0.1:{port}"

    yield start
    for process in started:
        process.terminate()
        process.wait()


async def test_events_come_at_once_through_a_proxy_that_buffers(
    new_worker: NewWorker, tmp_path: Path, nginx: Any
) -> None:
    """J107: the first event under 1 s, heartbeats keep an idle stream open, and the end comes through."""
    worker = with_recipes(new_worker, tmp_path)
    await worker.start()
    file = tmp_path / "go on"
    headers = {"Authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(
        base_url=nginx(worker), headers=headers, timeout=60, trust_env=False
    ) as client:

        async def answers() -> bool:
            try:
                return (await client.get("/healthz")).status_code == 200
            except httpx.TransportError:
                return False

        await until(answers, 10)
        run_id = await submit(client, "until", file)
        began = trio.current_time()
        async with viewing(client, run_id, path=f"{RUNS}/{run_id}/stream") as seen:
            await until(lambda: bool(seen.events), 5)
            assert trio.current_time() - began < 1
            await until(lambda: seen.names.count("heartbeat") >= 3, 25)
            assert trio.current_time() - began > 14
            file.touch()
            touched = trio.current_time()
            await until(lambda: seen.over, 5)
            assert trio.current_time() - touched < 2
        assert "result" == seen.names[-1]
