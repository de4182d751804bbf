"""`penelope waker` as it runs: real workers with real browsers, signals, `kill -9`.

Source: contract, section 9.
"""

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import trio

from penelope.client import AsyncClient, media_links
from penelope.clock import Clock
from penelope.waker import child
from penelope.waker.process import ProcessDriver
from penelope.waker.records import Record, Records
from tests.io.commands import run_fork
from tests.io.waiting import until
from tests.io.waker_process import KEY, WakerProcess

ECHO = "/api/v1/main/plugin/tested/echo"
OWN_KEY = "the-key-of-carol-0123456789"
NewWaker = Callable[[str], WakerProcess]


@pytest.fixture
def new_waker(tmp_path: Path) -> Iterator[NewWaker]:
    """Makes wakers, each with a home of its own; nothing of them outlives the test."""
    made: list[WakerProcess] = []

    def make(personas: str) -> WakerProcess:
        made.append(WakerProcess(tmp_path / f"waker-{len(made)}", personas))
        return made[-1]

    yield make
    for waker in made:
        waker.end()


async def persona(client: httpx.AsyncClient, name: str = "alice") -> Any:
    return (await client.get(f"/api/v1/personas/{name}")).json()


async def test_a_call_to_a_sleeping_persona_from_nothing_to_its_answer(new_waker: NewWaker) -> None:
    """Started by the first request, once for all; works a real page; a job, its events, its file; then it sleeps, with
    its browser; a poll starts it again. Its keys are in no log, argument, file or answer.
    """
    waker = new_waker(f'[personas.carol]\nidle_timeout_s = 3\nkey = "{OWN_KEY}"\n')
    await waker.start()
    assert {} == waker.workers()
    headers = {"Authorization": f"Bearer {OWN_KEY}"}
    said: list[str] = []
    async with waker.client() as client:

        async def ask(method: str, path: str, **more: Any) -> httpx.Response:
            answer = await client.request(method, f"/p/carol{path}", **{"headers": headers, **more})
            said.append(answer.text)
            return answer

        async def look() -> None:
            answer = await ask("POST", "/api/v1/main/plugin/tested/look", json={})
            assert (200, 2) == (answer.status_code, answer.json()["sum"])

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(look)
        assert 1 == len(waker.lines("worker started"))
        said.append(json.dumps(await persona(client, "carol")))

        url = "data:text/html,<h1>Hello</h1>"
        await ask("POST", "/api/v1/main/plugin/web/open", json={"url": url})
        shot = await ask("POST", "/api/v1/main/plugin/web/screenshot", json={})
        link = _link(shot.json())
        async with httpx.AsyncClient(base_url=waker.url, trust_env=False) as keyless:
            file = await keyless.get(f"/p/carol{link}")
        assert (200, b"\x89PNG") == (file.status_code, file.content[:4])

        job = await ask("POST", ECHO, json={"value": "x"}, headers={**headers, "X-Result-Ttl": "600"})
        assert 202 == job.status_code

        async def sleeps() -> bool:
            said.append(json.dumps(await persona(client, "carol")))
            return '"stopped"' in said[-1]

        await until(sleeps, within_s=30)
        assert {} == waker.workers()

        work = (await client.get("/api/v1/personas/carol/workload?hours=2")).json()
        assert (5, 1) == (work["calls"], work["jobs"])  # the job's 202 is not among the calls
        assert 0 < work["busy_s"] < 60

        shown = (await ask("GET", f"/api/v1/jobs/{job.json()['job_id']}")).json()
        assert ("done", "x") == (shown["state"], shown["result"]["value"])
        async with AsyncClient(
            f"{waker.url}/p/carol", OWN_KEY
        ) as penelope:  # the client library knows no difference
            started = await penelope.start("main", "tested/echo", {"value": "y"})
            assert ["end"] == [event.kind async for event in started.events()][-1:]
            assert {"value": "y"} == await started.result()
            (picture,) = media_links(await penelope.run("main", "web/screenshot"))
            assert (await penelope.download(picture, waker.home)).read_bytes().startswith(b"\x89PNG")
        said += [(await client.get(path)).text for path in ("/metrics", "/api/v1/personas", "/openapi.json")]
        said += [(await client.get("/api/v1/personas/carol/logs?lines=1000")).text]
        said += [" ".join(process.cmdline()) for process in waker.workers().values()]
    assert 0 == await waker.stop()
    await waker.assert_gone()
    said += [waker.log]
    said += [path.read_text(errors="replace") for path in (waker.home / "waker").iterdir()]
    assert [] == [text for text in said if OWN_KEY in text or KEY in text]
    assert "Traceback" not in waker.log


def _link(answer: dict[str, Any]) -> str:
    """The one media link in an answer."""
    found: list[str] = []

    def look(node: Any) -> None:
        if isinstance(node, dict):
            for value in node.values():
                look(value)
        elif isinstance(node, str) and node.startswith("/api/v1/media/"):
            found.append(node)

    look(answer)
    (link,) = found
    return link


async def test_a_waker_that_was_killed_is_succeeded(new_waker: NewWaker) -> None:
    """Its crash leaves workers running; the next one takes them over; its stop drains and stops them."""
    waker = new_waker("[personas.alice]\n")
    await waker.start()
    async with waker.client() as client:
        assert 200 == (await client.post(f"/p/alice{ECHO}", json={"value": 1})).status_code
        before = await persona(client)
    await waker.stop(signal.SIGKILL)
    async with httpx.AsyncClient(trust_env=False) as direct:
        assert 200 == (await direct.get(f"http://127.0.0.1:{before['port']}/readyz")).status_code
    await waker.start()
    async with waker.client() as client:
        after = await persona(client)
        assert ("running", before["pid"], before["port"], before["started_at"]) == tuple(
            after[name] for name in ("state", "pid", "port", "started_at")
        )
        assert 200 == (await client.post(f"/p/alice{ECHO}", json={"value": 1})).status_code
        assert before["pid"] == (await persona(client))["pid"]

        # A second waker on the same file stays away.
        second = subprocess.run(
            [sys.executable, "-m", "penelope", "waker", "--port", "0"],
            cwd=waker.home,
            env=waker.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=40,
        )
        assert 1 == second.returncode
        assert f"is in use by the waker with pid {waker.process.pid}" in second.stderr

        # One that is stopped in its tracks takes no signal: it is killed, and its browser with it.
        waker.file.write_text("[personas.alice]\nkill_after_s = 1\nidle_timeout_s = 600\n")
        waker.process.send_signal(signal.SIGHUP)
        await waker.until(lambda: bool(waker.lines("personas reloaded")))
        assert before["pid"] == (await persona(client))["pid"]
        good = waker.file.read_text()
        faults = (
            good + 'store = "a\\u0000b"\n',
            good + 'user_agent = "a\u2028"\n',
            'state = "elsewhere"\n' + good,
        )
        for number, text in enumerate(faults, 1):  # they change nothing, and the waker lives on
            waker.file.write_text(text)
            waker.process.send_signal(signal.SIGHUP)
            said = "personas not reloaded: nothing changed"
            await waker.until(lambda number=number, said=said: number == len(waker.lines(said)))
        waker.file.write_text(good)
        os.kill(before["pid"], signal.SIGSTOP)
        began = time.monotonic()
        assert "stopped" == (await client.post("/api/v1/personas/alice/stop")).json()["state"]
        assert time.monotonic() - began >= 1
        await waker.assert_gone()
        assert waker.lines("worker does not stop; killed")
        assert 200 == (await client.post(f"/p/alice{ECHO}", json={"value": 1})).status_code
    assert 0 == await waker.stop()
    await waker.assert_gone()


async def test_kills_and_a_stop_under_load(new_waker: NewWaker) -> None:
    """A waker killed while a worker starts; a worker killed; a stop with a call under way through the gateway."""
    waker = new_waker("[personas.alice]\nenv = { STOP_GRACE_S = 8 }\n")
    record = waker.home / "waker" / "alice.json"
    await waker.start()

    async def ask(client: httpx.AsyncClient, answers: list[httpx.Response], **given: Any) -> None:
        with suppress(httpx.TransportError):
            answers.append(await client.post("/p/alice/api/v1/main/plugin/tested/mark", json=given))

    async with waker.client() as client, trio.open_nursery() as nursery:
        nursery.start_soon(ask, client, [])
        await waker.until(lambda: record.exists() and json.loads(record.read_text())["pid"])
        starting = json.loads(record.read_text())["pid"]
        await waker.stop(signal.SIGKILL)
    await waker.start()
    async with waker.client() as client:

        async def is_running() -> bool:
            return bool((await persona(client))["state"] == "running")

        await until(is_running, within_s=30)
        assert starting == (await persona(client))["pid"]
        assert psutil.Process(starting).ppid() != waker.process.pid

        os.kill(starting, signal.SIGKILL)
        await until(lambda: len(waker.lines("worker started")) == 2, within_s=30)
        shown = await persona(client)
        assert starting != shown["pid"]
        assert "the worker ended" == shown["last_error"]

        answers: list[httpx.Response] = []
        marks = waker.home / "marks"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ask, client, answers, file=str(marks), seconds=2))
            await until(marks.exists, within_s=20)
            waker.process.send_signal(signal.SIGTERM)
        assert [200] == [answer.status_code for answer in answers]
        assert 2 == len(marks.read_text().splitlines())
    assert 0 == await waker.stop()
    await waker.assert_gone()


async def test_fifty_that_sleep_cost_next_to_nothing(new_waker: NewWaker) -> None:
    """Under 100 MB, and no measurable CPU."""
    waker = new_waker("".join(f"[personas.p{number}]\n" for number in range(50)))
    await waker.start()
    process = psutil.Process(waker.process.pid)
    async with waker.client() as client:
        assert 50 == len((await client.get("/api/v1/personas")).json()["personas"])
    await trio.sleep(0.5)
    before = process.cpu_times()
    await trio.sleep(2)
    after = process.cpu_times()

    assert process.memory_info().rss < 100e6
    assert (after.user - before.user) + (after.system - before.system) <= 0.02
    assert {} == waker.workers()
    assert 0 == await waker.stop()


async def test_a_worker_that_dies_at_its_start_is_told_with_its_last_words(new_waker: NewWaker) -> None:
    """A port that is taken; then one that is not."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        waker = new_waker(f"[personas.alice]\nport = {port}\n")
        await waker.start()
        async with waker.client() as client:
            answer = await client.post("/api/v1/personas/alice/start")
            assert 502 == answer.status_code
            said = answer.json()
            words = f"port {port} of 127.0.0.1 is taken: set PENELOPE_PORT to another"
            assert f"the worker of alice ended with 1 instead of starting: {words}" == said["error"]
            assert f"penelope: {words}" == said["log"][-1]
            assert "failed" == (await persona(client))["state"]

            code, _, told = await command(waker, "start", "alice")
            *log, last = told
            assert 1 == code
            assert last.startswith("penelope: the worker of alice ended with 1 instead of starting")
            assert log[-1].endswith(words)

            done = await side_by_side(
                waker,
                "list",
                "logs alice --lines 1",
                "restart nobody",
                "list --url http://127.0.0.1:1",
                "new bob --always",
            )
            code, (head, row), _ = done[0]
            assert 0 == code
            assert ["NAME", "MODE", "STATE", "PORT"] == head.split()[:4]
            assert ["alice", "sleepy", "failed", str(port)] == row.split()[:4]
            assert [f"penelope: {words}"] == done[1][1]
            assert "there is no persona 'nobody' (404)" in done[2][2][0]
            assert done[3][2][0].startswith(
                "penelope: there is no waker at http://127.0.0.1:1: start one with"
            )
            assert 0 == done[4][0]
            text = waker.file.read_text()
            assert '[personas.bob]\nmode = "always"' in text
            waker.file.write_text(text.replace('"always"', '"sleepy"'))  # its start is not what this is about
            reloaded, (code, (text,), _) = await side_by_side(waker, "reload", "stop alice --json")
            assert ["added: bob", "removed: -", "changed: -", "restarting: -"] == reloaded[1]
            assert (0, "stopped", None) == (code, json.loads(text)["state"], json.loads(text)["last_error"])
            waker.file.write_text(f"[personas.alice]\nport = {port}\n")
            await client.post("/api/v1/personas/reload")
            await client.post("/api/v1/personas/alice/start")
            seen, code = await trio.to_thread.run_sync(top_in_a_terminal, waker)
            assert 0 == code
            assert "1 persona, 0 up, 0 with something in flight; Ctrl-C leaves" in seen
            assert "sleepy" in seen
            assert "Traceback" not in seen


async def command(waker: WakerProcess, *words: str) -> tuple[int, list[str], list[str]]:
    """`penelope personas …` in a pipe: its exit code, and the lines on both of its outputs."""
    with trio.fail_after(60):
        done = await run_fork(["personas", *words], waker.environment(), waker.home)
    return done.returncode, done.stdout.decode().splitlines(), done.stderr.decode().splitlines()


async def side_by_side(waker: WakerProcess, *lines: str) -> list[tuple[int, list[str], list[str]]]:
    """What each of these commands came to: most of the time they take is their start."""
    found: dict[str, tuple[int, list[str], list[str]]] = {}

    async def run(line: str) -> None:
        found[line] = await command(waker, *line.split())

    async with trio.open_nursery() as nursery:
        for line in lines:
            nursery.start_soon(run, line)
    return [found[line] for line in lines]


def top_in_a_terminal(waker: WakerProcess) -> tuple[str, int]:
    """What it shows, and its exit code after Ctrl-C; blocking."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "penelope", "personas", "top"],
        cwd=waker.home,
        env={**waker.environment(), "COLUMNS": "150", "LINES": "40", "TERM": "xterm-256color"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    try:
        while b"failed" not in seen:
            seen += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # how the end of a terminal reads
            while chunk := os.read(ours, 65536):
                seen += chunk
        return seen.decode(errors="replace"), process.wait(20)
    finally:
        process.kill()
        os.close(ours)


async def test_what_is_wrong_with_the_file_stops_the_start(new_waker: NewWaker) -> None:
    waker = new_waker("[personas.alice]\nport = 1\n\n[personas.bob]\nport = 1\n")
    waker.launch()
    await trio.to_thread.run_sync(waker.process.wait)

    assert 1 == waker.process.returncode
    assert (
        "penelope: personas.toml, line 5: personas.bob.port is 1, which alice has" in waker.log.splitlines()
    )


def json_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.json"))


async def test_a_strangers_process_is_never_taken_over(tmp_path: Path) -> None:
    """By pid, start time and a token: each of them must fit."""
    stranger = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], env={**os.environ, child.TOKEN: "its-own"}
    )
    try:
        born = child.birth(stranger.pid)
        base: dict[str, Any] = {
            "token": "its-own", "pid": stranger.pid, "birth": born, "address": "http://127.0.0.1:1",
            "started_at": 0.0, "log_from": 0, "digest": "", "store": str(tmp_path),
        }  # fmt: skip
        wrong: dict[str, dict[str, Any]] = {
            "token": {"token": "another"},
            "birth": {"birth": "boot:1"},
            "pid": {"pid": 2**22 + 1},
            "nothing": {"pid": None, "birth": None, "token": "another"},
        }
        records = Records(tmp_path)
        for name, changes in wrong.items():
            records.put(Record(name=name, **{**base, **changes}))
        (tmp_path / "broken.json").write_text("{")
        driver = ProcessDriver(tmp_path, {}, Clock())
        assert {} == dict(await driver.status())
        for name in wrong:
            await driver.stop(name, 1)
        assert stranger.poll() is None
        assert ["broken.json"] == json_files(tmp_path)

        # One that fits is found, also when the waker died between its birth and its record.
        for name, pid in (("whole", stranger.pid), ("half", None)):
            records.put(Record(name=name, **{**base, "pid": pid, "birth": born if pid else None}))
            driver = ProcessDriver(tmp_path, {}, Clock())
            assert stranger.pid == (await driver.status())[name].pid
            records.drop(name)
        assert psutil.pid_exists(stranger.pid)
    finally:
        stranger.kill()
        stranger.wait()
