"""Playwright's driver, started before there is anybody to speak to it: used if it is the right one, and never left."""

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import trio

from penelope.pages.browser import node
from penelope.pages.browser.loop import BrowserLoop
from penelope.pages.browser.node import HeadStart, head_start
from tests.io.conftest import NewWorker
from tests.io.worker_process import WorkerProcess

ECHO = "import sys; print(sys.stdin.readline().upper(), end='', flush=True); sys.stdin.read(); sys.exit(3)"
ARGUMENTS = ["-c", ECHO, node.VERB]
VARIABLES = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def ahead() -> Iterator[HeadStart]:
    """A driver that says a line in capitals, and ends with 3 when nobody speaks to it any more."""
    begun = HeadStart(node.command(sys.executable, ARGUMENTS), VARIABLES)
    yield begun
    begun.end()


def ask_through(loop: BrowserLoop) -> tuple[int, bytes, int]:
    """The pid, the answer and the exit code of what Playwright's way to start its driver leads to."""

    async def ask() -> tuple[int, bytes, int]:
        pipe = asyncio.subprocess.PIPE
        made = await asyncio.create_subprocess_exec(sys.executable, *ARGUMENTS, stdin=pipe, stdout=pipe)
        assert made.stdin is not None
        assert made.stdout is not None
        made.stdin.write(b"anybody there?\n")
        said = await made.stdout.readline()
        made.stdin.close()
        return made.pid, said, await made.wait()

    try:
        return loop.run_until_complete(asyncio.wait_for(ask(), 20))
    finally:
        loop.close()


def test_the_one_that_runs_is_used(ahead: HeadStart) -> None:
    loop = BrowserLoop(ahead)
    loop.environment = VARIABLES
    assert (ahead.process.pid, b"ANYBODY THERE?\n", 3) == ask_through(loop)
    assert [ahead.process.pid] == loop.drivers


def test_another_is_started_where_another_is_asked_for(ahead: HeadStart) -> None:
    """It had the wrong environment: another profile, another Playwright."""
    loop = BrowserLoop(ahead)
    loop.environment = VARIABLES | {"TMPDIR": "/elsewhere"}
    pid, said, code = ask_through(loop)
    assert (b"ANYBODY THERE?\n", 3) == (said, code)
    assert pid != ahead.process.pid
    assert -signal.SIGKILL == ahead.process.returncode


def test_another_is_started_where_it_has_died(ahead: HeadStart) -> None:
    ahead.process.kill()
    ahead.process.wait()
    loop = BrowserLoop(ahead)
    loop.environment = VARIABLES
    pid, said, code = ask_through(loop)
    assert (b"ANYBODY THERE?\n", 3) == (said, code)
    assert pid != ahead.process.pid


def test_it_is_taken_once(ahead: HeadStart) -> None:
    """A browser that is started again gets a driver of its own."""
    assert ahead.process is ahead.take(ahead.words, VARIABLES)
    assert ahead.take(ahead.words, VARIABLES) is None
    assert ahead.process.poll() is None, "whoever took it has it"


def test_a_driver_that_cannot_be_started_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever needs one finds out, and says so."""
    monkeypatch.setattr(node, "command", lambda *_: [str(tmp_path / "no-node")])
    with head_start(tmp_path) as none:
        assert none is None


def test_playwrights_own_ends_with_the_block_and_when_nobody_speaks_to_it(tmp_path: Path) -> None:
    """Where no signal tells it of its parent's death."""
    with head_start(tmp_path) as begun:
        assert begun is not None
    assert -signal.SIGKILL == begun.process.returncode
    with head_start(tmp_path) as begun:
        assert begun is not None
        assert begun.process.stdin is not None
        begun.process.stdin.close()
        assert 0 == begun.process.wait(20)


def drivers_of(worker: WorkerProcess) -> list[int]:
    """The pids of drivers, ahead or not, that were started for the worker's store."""
    mark = f"TMPDIR={node.temp_folder(worker.store / 'profile')}".encode()
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if (process.info["cmdline"] or [""])[-1] == node.VERB:
            with suppress(OSError):
                if mark in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0"):
                    found.append(process.pid)
    return found


async def begun_driver(worker: WorkerProcess) -> int:
    until = time.monotonic() + 20
    while not (found := drivers_of(worker)):
        assert time.monotonic() < until
        await trio.sleep(0.002)
    return found[0]


async def until_gone(worker: WorkerProcess) -> None:
    until = time.monotonic() + 5
    while left := drivers_of(worker):
        assert time.monotonic() < until, f"left behind: {left}"
        await trio.sleep(0.02)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
async def test_a_signal_while_the_worker_is_still_imported(
    new_worker: NewWorker, number: signal.Signals
) -> None:
    worker = new_worker()
    worker.executed = True
    worker.launch()
    await begun_driver(worker)
    worker.send_signal(number)
    assert (-number if number is signal.SIGKILL else 0) == await worker.wait()
    await until_gone(worker)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_a_start_that_fails_afterwards_leaves_none(new_worker: NewWorker) -> None:
    worker = new_worker()
    worker.executed = True
    with socket.create_server(("127.0.0.1", 0)) as taken:
        worker.launch(PENELOPE_PORT=str(taken.getsockname()[1]))
        assert 1 == await worker.wait()
    await until_gone(worker)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("closed", ["0<&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_standard_streams_that_are_closed_are_none_of_its_pipes(closed: str, tmp_path: Path) -> None:
    """The start is looked at once the driver runs, and ended there."""
    said = tmp_path / "said"
    code = f"""
import contextlib, os, pathlib, sys
from penelope import cli
from penelope.pages.browser import node
@contextlib.contextmanager
def look(profile, begin=node.head_start):
    with begin(profile):
        found = [os.readlink(f"/proc/self/fd/{{number}}") for number in range(3)]
        pathlib.Path({str(said)!r}).write_text(" ".join(found))
        os._exit(7)
    yield
node.head_start = look
cli._serve({{}})
"""
    words = ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", code]
    null = subprocess.DEVNULL
    done = subprocess.run(words, stdin=null, stdout=null, stderr=null, timeout=60, check=False, cwd=tmp_path)
    assert (7, ["/dev/null"] * 3) == (done.returncode, said.read_text().split())


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_bad_settings_are_all_that_is_said(new_worker: NewWorker) -> None:
    """The driver, which had begun by then, is ended without a word."""
    worker = new_worker()
    worker.executed = True
    worker.launch(PENELOPE_PORT="70000")
    assert 1 == await worker.wait()
    await until_gone(worker)
    assert 1 == len(worker.log.splitlines()), worker.log


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_a_worker_has_the_driver_that_was_begun(new_worker: NewWorker) -> None:
    """What this version of Playwright asks for is what was started; there is no other beside it."""
    worker = new_worker()
    worker.executed = True
    worker.launch()
    begun = await begun_driver(worker)
    assert begun == (await worker.wait_for_line("browser started", 40))["driver_pid"]
    await worker.wait_for_line("ready", 40)
    assert [begun] == drivers_of(worker)
    assert worker.pid == psutil.Process(begun).ppid()
    assert 0 == await worker.stop()
    await until_gone(worker)
