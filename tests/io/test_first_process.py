"""The worker as process 1, as in a container: it inherits what loses its parent, and a zombie stays until it looks."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.io.worker_process import WorkerProcess

DEATHS = 3
ALONE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


@pytest.fixture
def room(tmp_path: Path) -> Iterator[tuple[psutil.Process, Path]]:
    """A worker that is process 1 of a room of its own, and its log."""
    if shutil.which("unshare") is None or subprocess.call([*ALONE, "true"], stderr=subprocess.DEVNULL):
        pytest.skip("needs the right to make a namespace of processes")
    home = WorkerProcess(tmp_path / "home")
    log = home.home / "log"
    with log.open("wb") as written:
        room = subprocess.Popen(
            [*ALONE, sys.executable, "-m", "penelope", "serve"],
            env=home.environment({}),
            cwd=home.home,
            stdout=written,
            stderr=written,
        )
    try:
        wait_until(lambda: '"ready"' in log.read_text(), 40)
        (child,) = psutil.Process(room.pid).children()
        yield child, log
        child.send_signal(signal.SIGTERM)
        assert 0 == room.wait(30)
    finally:
        room.kill()
        room.wait()


def wait_until(holds: Callable[[], object], within_s: float) -> None:
    until = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def browser_of(worker: psutil.Process) -> psutil.Process | None:
    """The browser that runs; None while there is none."""
    for child in worker.children(recursive=True):
        try:
            words = child.cmdline()
            whole = any(word.startswith("--user-data-dir") for word in words)
            if whole and not any(word.startswith(("--type=", "--monitor")) for word in words):
                return child
        except psutil.Error:
            continue
    return None


def zombies_of(worker: psutil.Process) -> list[str]:
    found = []
    for child in worker.children(recursive=True):
        try:
            if child.status() == psutil.STATUS_ZOMBIE:
                found.append(child.name())
        except psutil.Error:
            continue
    return found


def test_browsers_that_die_leave_no_zombies(room: tuple[psutil.Process, Path]) -> None:
    """B4: whatever the browser had started is nobody's then, and so the worker's."""
    worker, log = room
    for death in range(1, DEATHS + 1):
        wait_until(partial(has_started, log, death), 60)
        browser = browser_of(worker)
        assert browser is not None
        assert len(browser.children(recursive=True)) > 2, "else there is nothing to inherit"
        browser.kill()
    wait_until(partial(has_started, log, DEATHS + 1), 60)
    wait_until(lambda: not zombies_of(worker), 10)


def has_started(log: Path, times: int) -> bool:
    return log.read_text().count('"browser started"') >= times
