"""The real worker as a process of its own: started, watched, stopped or killed, and looked for afterwards.

Nothing of it may be left: neither a process of its tree, nor one that names its store on the command line.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import httpx
import psutil
import trio

from tests.io.forks import ROOT, Forked, Request

__all__ = ["ROOT", "WorkerProcess", "end_all"]

DYING: Final = ROOT / "tests" / "kill" / "dying.py"
PLUGINS: Final = Path(__file__).with_name("tested_plugins.py")
KEY: Final = "the-key-of-the-tests-0123456789"
READY_S: Final = 40.0
STOP_S: Final = 30.0
GONE_S: Final = 8.0
LOOK_AGAIN_S: Final = 0.02
KEPT_SETTINGS: Final = ("PENELOPE_BROWSER",)  # which browser to use is a fact of the machine


class WorkerProcess:
    """A worker with a home of its own: store, plugins, log.

    Attributes:
        home: folder of everything it has.
        base_url: once it is ready.
        unset: environment variables that it does not get.
        before: words before the command's, e.g. of one that gives it a name server of its own and becomes it.
        executed: whether it is the command as an operator starts it, with all of its imports; else a fork (`forks.py`).
        started_in_s: how long its last start took, to know what this machine can do now.
    """

    def __init__(self, home: Path, **settings: str) -> None:
        """
        Args:
            settings: environment variables.
        """
        self.home = home
        self.base_url = ""
        self.unset: set[str] = set()
        self.before: Sequence[str] = ()
        self.executed = False
        self.started_in_s = 0.0
        self._folder = home / "plugins"
        self._folder.mkdir(parents=True)
        (self._folder / "tested.py").write_text(PLUGINS.read_text())
        self._settings = settings
        self._process: subprocess.Popen[bytes] | Forked | None = None
        self._seen: dict[int, psutil.Process] = {}
        self._lives = 0

    @property
    def store(self) -> Path:
        return self.home / "store"

    @property
    def database(self) -> Path:
        return self.store / "penelope.db"

    @property
    def process(self) -> "subprocess.Popen[bytes] | Forked":
        assert self._process is not None, "not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log_file(self) -> Path:
        """Of the present life."""
        return self.home / f"log.{self._lives}"

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def lines(self, event: str | None = None) -> list[dict[str, Any]]:
        """The log of the present life as values, those of `event` only when it is named."""
        word = "" if event is None else json.dumps(event)  # most lines need not be read
        found = [json.loads(line) for line in self.log.splitlines() if line.startswith("{") and word in line]
        return [line for line in found if event in (None, line.get("event"))]

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in KEPT_SETTINGS or not name.startswith("PENELOPE_")
        }
        given = kept | {
            "PENELOPE_KEY": KEY,
            "PENELOPE_PORT": "0",
            "PENELOPE_STORE": str(self.store),
            "PENELOPE_PLUGINS": str(self._folder),
            "PENELOPE_LOG": "json",
            "PYTHONPATH": str(ROOT),
            **self._settings,
            **more,
        }
        return {name: value for name, value in given.items() if name not in self.unset}

    def launch(self, die_at: str | None = None, **settings: str) -> None:
        """Start the process; immediate.

        Args:
            die_at: a point of `tests/kill/points.py` at which it sends itself SIGKILL.
        """
        self._lives += 1
        self._seen = {}
        executed = self.executed or bool(self.before)
        with self.log_file.open("wb") as log, Path(os.devnull).open("rb") as nothing:
            start = self._execute if executed else self._fork
            self._process = start(die_at, self.environment(settings), nothing, log)

    def _execute(
        self, die_at: str | None, environment: dict[str, str], stdin: BinaryIO, log: BinaryIO
    ) -> "subprocess.Popen[bytes]":
        program = ["-m", "penelope"] if die_at is None else [os.fspath(DYING), die_at]
        words = [*self.before, sys.executable, *program, "serve"]
        return subprocess.Popen(words, env=environment, cwd=self.home, stdin=stdin, stdout=log, stderr=log)

    def _fork(
        self, die_at: str | None, environment: dict[str, str], stdin: BinaryIO, log: BinaryIO
    ) -> Forked:
        request = Request(
            program="penelope" if die_at is None else os.fspath(DYING),
            words=["serve"] if die_at is None else [die_at, "serve"],
            environment=environment,
            folder=os.fspath(self.home),
        )
        return Forked(request, stdin.fileno(), log.fileno(), log.fileno())

    async def start(self, die_at: str | None = None, **settings: str) -> None:
        """Start it and wait until it is ready."""
        began = time.monotonic()
        self.launch(die_at, **settings)
        await self.wait_for_line("ready", READY_S)
        self.started_in_s = time.monotonic() - began
        self.base_url = self.lines("ready")[0]["url"]
        self.look()

    async def wait_for_line(self, event: str, within_s: float = 10.0, **fields: object) -> dict[str, Any]:
        """The first line of the log with that event and those fields."""
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            for line in self.lines(event):
                if fields.items() <= line.items():
                    return line
            assert event != "ready" or self.process.poll() is None, self.log
            await trio.sleep(LOOK_AGAIN_S)
        raise AssertionError(f"no line {event!r} {fields} within {within_s} s:\n{self.log}")

    def look(self) -> list[psutil.Process]:
        """Remember which processes it has now."""
        family = _family(self.pid)
        self._seen |= {process.pid: process for process in family}
        return family

    def client(self, **options: Any) -> httpx.AsyncClient:
        """A client that has the key."""
        return httpx.AsyncClient(
            base_url=self.base_url,
            headers={"Authorization": f"Bearer {KEY}"},
            trust_env=False,
            timeout=60,
            **options,
        )

    def send_signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.look()
        self.process.send_signal(number)

    async def wait(self, within_s: float = STOP_S) -> int:
        """Its exit code, once it has ended and nothing of it is left."""
        until = time.monotonic() + within_s
        while (code := self.process.poll()) is None:
            assert time.monotonic() < until, f"still runs after {within_s} s:\n{self.log}"
            await trio.sleep(LOOK_AGAIN_S)
        await self.assert_gone()
        return code

    async def stop(self) -> int:
        """SIGTERM, and its exit code."""
        self.send_signal()
        return await self.wait()

    async def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)
        assert await self.wait() == -signal.SIGKILL

    async def assert_gone(self) -> None:
        """No process of its tree, and none that has its store on the command line, is left after a while."""
        until = time.monotonic() + GONE_S
        while left := self.left():
            assert time.monotonic() < until, f"left behind: {[_described(process) for process in left]}"
            await trio.sleep(0.05)

    def left(self) -> list[psutil.Process]:
        named = [process for process in psutil.process_iter(["cmdline"]) if self._is_named_in(process)]
        return [process for process in (*self._seen.values(), *named) if _runs(process)]

    def _is_named_in(self, process: psutil.Process) -> bool:
        return str(self.store) in " ".join(process.info["cmdline"] or ())

    def end(self) -> None:
        """End all of it, whatever state it is in; blocking. For the end of a test, a failed one too."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self.look()
            self._process.kill()
            self._process.wait()
        for process in self.left():
            _kill(process)


def _family(pid: int) -> list[psutil.Process]:
    try:
        worker = psutil.Process(pid)
        return [worker, *worker.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _described(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:120]}"
    except psutil.Error:
        return str(process.pid)


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


def end_all(workers: Iterable[WorkerProcess]) -> None:
    for worker in workers:
        worker.end()
