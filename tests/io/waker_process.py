"""The real waker as a child process, with the workers that it starts; nothing of either outlives the test."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import trio

from tests.io.worker_process import GONE_S, KEPT_SETTINGS, LOOK_AGAIN_S, PLUGINS, ROOT

KEY: Final = "the-key-of-the-waker-0123456789"
READY_S: Final = 40.0
STOP_S: Final = 40.0


class WakerProcess:
    """A waker with a folder of its own: `personas.toml`, plugins, stores, logs.

    Attributes:
        url: once it is ready.
    """

    def __init__(self, home: Path, personas: str) -> None:
        self.home = home
        self.url = ""
        (home / "plugins").mkdir(parents=True)
        (home / "plugins" / "tested.py").write_text(PLUGINS.read_text())
        self.file = home / "personas.toml"
        self.file.write_text(personas)
        self._process: subprocess.Popen[bytes] | None = None
        self._lives = 0

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process

    @property
    def log(self) -> str:
        return (self.home / f"waker.{self._lives}").read_text(errors="replace")

    def lines(self, event: str) -> list[dict[str, Any]]:
        found = [
            json.loads(line)
            for line in self.log.splitlines()
            if line.startswith("{") and json.dumps(event) in line
        ]
        return [line for line in found if event == line.get("event")]

    def environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in KEPT_SETTINGS or not name.startswith("PENELOPE_")
        }
        return kept | {
            "PENELOPE_KEY": KEY,
            "PENELOPE_PLUGINS": str(self.home / "plugins"),
            "PENELOPE_LOG": "json",
            "PENELOPE_WAKER_URL": self.url,
            "PYTHONPATH": str(ROOT),
        }

    def launch(self) -> None:
        """Start the process; immediate."""
        self._lives += 1
        with (self.home / f"waker.{self._lives}").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "penelope", "waker", "--port", "0"],
                env=self.environment(),
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def start(self) -> None:
        """Start it and wait until it is ready."""
        self.launch()
        await self.until(lambda: bool(self.lines("ready")), READY_S)
        self.url = self.lines("ready")[0]["url"]

    async def until(self, condition: Any, within_s: float = 20.0) -> None:
        """Return once the condition holds, while the waker lives."""
        end = time.monotonic() + within_s
        while not condition():
            assert self.process.poll() is None, self.log
            assert time.monotonic() < end, self.log
            await trio.sleep(LOOK_AGAIN_S)

    def client(self) -> httpx.AsyncClient:
        """A client that has the waker's key."""
        return httpx.AsyncClient(
            base_url=self.url, headers={"Authorization": f"Bearer {KEY}"}, trust_env=False, timeout=60
        )

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Signal it, and its exit code."""
        self.process.send_signal(number)
        end = time.monotonic() + STOP_S
        while self.process.poll() is None:
            assert time.monotonic() < end, self.log
            await trio.sleep(LOOK_AGAIN_S)
        return int(self.process.returncode)

    def workers(self) -> dict[int, psutil.Process]:
        """What runs on this folder's stores or from it, but for the waker itself: workers and browsers, by pid."""
        return {process.pid: process for process in self._found() if process.pid != self.process.pid}

    def _found(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            try:
                mine = process.cwd() == str(self.home) or str(self.home) in " ".join(process.cmdline())
                if mine and process.status() != psutil.STATUS_ZOMBIE:
                    yield process
            except psutil.Error:
                continue

    async def assert_gone(self) -> None:
        """No worker and no browser is left after a while."""
        end = time.monotonic() + GONE_S
        while left := self.workers():
            assert time.monotonic() < end, [" ".join(one.cmdline())[:100] for one in left.values()]
            await trio.sleep(0.05)

    def end(self) -> None:
        """End all of it, whatever state it is in; blocking."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        while left := list(self.workers().values()):
            for process in left:
                try:
                    process.kill()
                except psutil.Error:
                    continue
            psutil.wait_procs(left, timeout=2)
