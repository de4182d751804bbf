"""The processes of a run: each is started here, and ended when its block is left."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parent.parent
PLUGINS = Path(__file__).parent / "plugins"
START_S = 60.0
END_S = 30.0


def environment(**more: str) -> dict[str, str]:
    """This process's, without any setting of a worker's, with the checkout importable from anywhere.

    Bytecode is kept, as that of a package that was installed is.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENELOPE_")}
    return kept | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""} | more


@contextmanager
def program(
    *words: str, cwd: Path, log: Path, env: dict[str, str] | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """A process with pipes for stdin and stdout and `log` for stderr."""
    with log.open("w") as stderr:
        running = subprocess.Popen(
            words,
            cwd=cwd,
            env=env or environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        yield running
    except SystemExit:
        print(log.read_text()[-3000:], file=sys.stderr)
        raise
    finally:
        end(running)


@contextmanager
def process(
    *words: str, cwd: Path, log: Path, env: dict[str, str] | None = None, prefix: tuple[str, ...] = ()
) -> Iterator["subprocess.Popen[str]"]:
    """The same of this Python; `prefix` are words that become it."""
    with program(*prefix, sys.executable, *words, cwd=cwd, log=log, env=env) as running:
        yield running


def end(running: "subprocess.Popen[str]") -> None:
    if running.poll() is None:
        running.send_signal(signal.SIGTERM)
    try:
        running.wait(END_S)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()
    for pipe in (running.stdin, running.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # what it was told last, it did not live to read
                pipe.close()


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has used so far, its threads included, its children not."""
    used = psutil.Process(pid).cpu_times()
    return float(used.user + used.system)


def line_of(running: "subprocess.Popen[str]") -> str:
    """The next line that a process prints."""
    assert running.stdout is not None
    line = running.stdout.readline()
    if not line:
        raise SystemExit(f"{running.args!r} ended with {running.wait()}")
    return line.strip()


def tell(running: "subprocess.Popen[str]", line: str) -> str:
    """Give a process a line, and wait for its answer."""
    assert running.stdin is not None
    running.stdin.write(line + "\n")
    running.stdin.flush()
    return line_of(running)


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that runs. `ready_s`: seconds from its start to its word that it is ready."""

    process: "subprocess.Popen[str]"
    port: int
    key: str
    ready_s: float

    def get(self, path: str) -> dict[str, Any]:
        return self._ask("GET", path, None)

    def post(self, path: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> dict[str, Any]:
        return self._ask("POST", path, body, headers)

    def delete(self, path: str) -> dict[str, Any]:
        return self._ask("DELETE", path, None)

    def _ask(
        self, method: str, path: str, body: dict[str, Any] | None, headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        asked = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.key}",
                "Content-Type": "application/json",
                **(headers or {}),
            },
        )
        with urllib.request.urlopen(asked, timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


@contextmanager
def worker(folder: Path, prefix: tuple[str, ...] = (), **settings: str) -> Iterator[Worker]:
    """A worker with a store in `folder`, logging to a file as a service does; `prefix`: see `process`.

    Args:
        settings: environment variables.
    """
    key = secrets.token_hex(16)
    log = folder / "worker.log"
    usual = {
        "PENELOPE_KEY": key,
        "PENELOPE_PORT": "0",
        "PENELOPE_STORE": str(folder / "store"),
        "PENELOPE_PLUGINS": str(PLUGINS),
        "PENELOPE_LOG": "json",
    }
    env = environment(**usual, **settings)
    began = time.perf_counter()
    with process("-m", "penelope", "serve", cwd=folder, log=log, env=env, prefix=prefix) as running:
        url = _ready(running, log)
        took = time.perf_counter() - began
        yield Worker(running, int(url.rpartition(":")[2]), key, took)


def _ready(running: "subprocess.Popen[str]", log: Path) -> str:
    """The URL in the worker's word that it is ready."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and running.poll() is None:
        text = log.read_text()
        if '"event": "ready"' in text:
            said = next(line for line in text.splitlines() if '"event": "ready"' in line)
            return str(json.loads(said)["url"])
        time.sleep(0.002)
    raise SystemExit(f"the worker did not start:\n{log.read_text()}")


@contextmanager
def site(folder: Path) -> Iterator[str]:
    """The demo site; its base URL."""
    port = str(free_port())
    with process("-m", "penelope", "demo-site", "--port", port, cwd=folder, log=folder / "site.log"):
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(url, timeout=5):
                    break
            except OSError:
                time.sleep(0.05)
        yield url


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Client:
    """The load client."""

    def __init__(self, running: "subprocess.Popen[str]") -> None:
        self._running = running

    def order(self, port: int, key: str, **order: Any) -> dict[str, Any]:
        """See `bench.client`."""
        found: dict[str, Any] = json.loads(
            tell(self._running, json.dumps({"port": port, "key": key, **order}))
        )
        return found

    def once(self, port: int, key: str, **order: Any) -> float:
        """Make one request on the kept connection; milliseconds to its whole answer."""
        (took,) = self.order(port, key, count=1, **order)["ms"]
        return float(took)


@contextmanager
def client(folder: Path) -> Iterator[Client]:
    with process("-m", "bench.client", cwd=folder, log=folder / "client.log") as running:
        yield Client(running)
