"""The demo's worker: `penelope serve` as a process of its own, which does not outlive the demo.

Source: contract, sections 8 and 12.
"""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx
import psutil
import trio

import penelope
from penelope.demo.curl import Request

READY_S: Final = 30.0
STOP_S: Final = 15.0  # an idle worker needs about one second; a busy one has 10 s of grace
KILL_S: Final = 5.0
LOOK_AGAIN_S: Final = 0.05
# Which browser to use is a fact of the machine; every other setting is the demo's own.
KEPT_SETTINGS: Final = ("PENELOPE_BROWSER",)


class StepFailed(Exception):
    """A step of the walk did not go as it must; the message says how."""


class Worker:
    """A running worker, as its client and as its parent see it.

    Attributes:
        origin: its address, e.g. `http://127.0.0.1:5000`.
        pid: of its process.
    """

    def __init__(
        self, process: trio.Process, client: httpx.AsyncClient, *, origin: str, key: str, home: Path
    ) -> None:
        self.origin = origin
        self.pid = process.pid
        self._process = process
        self._client = client
        self._key = key
        self._home = home

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative when a signal ended it, as in `subprocess`."""
        return self._process.returncode

    async def send(self, request: Request) -> httpx.Response:
        """Send what the request's `curl` line says.

        Raises:
            StepFailed: there was no answer.
        """
        url = request.url(self.origin)
        try:
            return await self._client.request(
                request.method, url, headers=request.sent_headers(self._key), content=request.content()
            )
        except httpx.HTTPError as error:
            raise StepFailed(f"no answer from {url}: {error!r}") from error

    async def wait_ready(self) -> None:
        """Return once `/readyz` says so.

        Raises:
            StepFailed: the process ended, or is not ready after READY_S.
        """
        with trio.move_on_after(READY_S):
            while self._process.poll() is None:
                if await self._is_ready():
                    return
                await trio.sleep(LOOK_AGAIN_S)
            raise StepFailed(
                f"the worker ended with exit code {self._process.returncode} instead of starting"
            )
        raise StepFailed(f"the worker was not ready after {READY_S:.0f} s")

    async def stop(self) -> tuple[int | None, list[str]]:
        """SIGTERM, then wait for the end.

        Returns:
            The exit code, None when the worker had not ended after STOP_S; and the processes that are left.
        """
        known = self._processes()
        self._process.send_signal(signal.SIGTERM)
        with trio.move_on_after(STOP_S):
            await self._process.wait()
        return self._process.returncode, [_described(left) for left in _alive(known + self._processes())]

    def last_log_lines(self, count: int = 20) -> list[str]:
        try:
            return _log_of(self._home).read_text(errors="replace").splitlines()[-count:]
        except OSError:
            return []

    async def end(self) -> None:
        """End it and everything it started, whatever state it is in."""
        known = self._processes()
        if self._process.returncode is None:
            await self.stop()
        left = _alive([*known, *self._processes()])
        for process in left:
            _kill(process)
        await self._process.wait()
        while _alive(left):  # noqa: ASYNC110 - the end of another's child sets no event
            await trio.sleep(LOOK_AGAIN_S)

    async def _is_ready(self) -> bool:
        try:
            answer = await self._client.get(f"{self.origin}/readyz")
        except httpx.HTTPError:
            return False  # it does not listen yet
        return answer.status_code == httpx.codes.OK

    def _processes(self) -> list[psutil.Process]:
        """The worker, its children, and whoever has the demo's folder on the command line: a browser may be
        handed to another parent when the worker dies."""
        try:
            mine = psutil.Process(self.pid)
            family = [mine, *mine.children(recursive=True)]
        except psutil.NoSuchProcess:
            family = []
        others = psutil.process_iter(["cmdline"])
        return [
            *family,
            *(found for found in others if str(self._home) in " ".join(found.info["cmdline"] or ())),
        ]


@asynccontextmanager
async def open_worker(*, key: str, port: int, site: str, home: Path) -> AsyncIterator[Worker]:
    """Start a worker whose store and log are in `home`, and which has `site` for its instagram family.

    Leaving the block ends it, if it has not ended by then.
    """
    temporary = home / "tmp"
    await trio.Path(temporary).mkdir()
    environment = {name: value for name, value in os.environ.items() if _is_kept(name)} | {
        "PENELOPE_KEY": key,
        "PENELOPE_PORT": str(port),
        "PENELOPE_STORE": str(home / "store"),
        "PENELOPE_INSTAGRAM_BASE_URL": site,
        "PENELOPE_LOG": "text",
        "TMPDIR": str(temporary),  # what a worker that is killed leaves behind goes with the demo's folder
        "PYTHONPATH": os.pathsep.join(_import_path()),
    }
    # In `home`, so that no `.env` file of the folder that the demo is started in has a say.
    command = [sys.executable, "-m", "penelope", "serve"]
    with _log_of(home).open("wb") as log:
        process = await trio.lowlevel.open_process(
            command, env=environment, cwd=home, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    # No proxy of the environment, and no time limit of its own: the walk as a whole has one.
    async with httpx.AsyncClient(trust_env=False, timeout=None) as client:
        worker = Worker(process, client, origin=f"http://127.0.0.1:{port}", key=key, home=home)
        try:
            yield worker
        finally:
            with trio.move_on_after(STOP_S + KILL_S, shield=True):
                await worker.end()


def _is_kept(name: str) -> bool:
    return name in KEPT_SETTINGS or not name.startswith("PENELOPE_")


def _import_path() -> list[str]:
    """Where the child finds this very package, also when the demo runs from a checkout."""
    here = str(Path(penelope.__file__).parent.parent)
    return [here, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]


def _log_of(home: Path) -> Path:
    return home / "worker.log"


def _alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that still run; a zombie is its parent's to bury."""
    return [process for process in dict.fromkeys(processes) if _runs(process)]


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
