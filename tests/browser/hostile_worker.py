"""A worker and the hostile site for the tests of both: one of each for all of them, since a start costs seconds."""

import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import trio

from penelope.demo.site import serve_site
from tests.io.worker_process import KEY, WorkerProcess

PLUGINS = Path(__file__).with_name("hostile_plugins.py")
MEDIA_MAX_MB = 8
NEXT_S = 15.0  # what the next call on a page may take, whatever happened: healing is bounded by 10 s


@dataclass(frozen=True)
class Answer:
    """Attributes:
    status: of the worker.
    body: its JSON.
    took_s: from the request to the answer.
    """

    status: int
    body: dict[str, Any]
    took_s: float

    def __getitem__(self, name: str) -> Any:
        return self.body[name]


@dataclass
class Desk:
    """What a client has: a page of the worker, and the site."""

    client: httpx.Client
    site: str
    process: WorkerProcess
    temp: Path
    page: str = "main"

    def call(self, name: str, /, *, timeout_ms: float | None = None, **body: Any) -> Answer:
        """One primitive, or with a slash in its name one plugin."""
        route = f"plugin/{name}" if "/" in name else name
        if timeout_ms is not None:
            body["timeout_ms"] = timeout_ms
        began = time.monotonic()
        answer = self.client.post(f"/api/v1/{self.page}/{route}", json=body)
        return Answer(answer.status_code, answer.json(), time.monotonic() - began)

    def goto(self, path: str, /, *, timeout_ms: float | None = None, **body: Any) -> Answer:
        return self.call("goto", url=f"{self.site}/hostile/{path}", timeout_ms=timeout_ms, **body)

    def evaluate(self, expression: str, timeout_ms: float | None = None) -> Any:
        answer = self.call("evaluate", expression=expression, timeout_ms=timeout_ms)
        assert answer.status == 200, answer
        return answer["result"]

    def get(self, path: str) -> httpx.Response:
        return self.client.get(path)

    def said(self, event: str, since: int = 0) -> list[dict[str, Any]]:
        """The lines of that event in the worker's log, those from line `since` on."""
        return [line for line in self.process.lines()[since:] if line.get("event") == event]

    def lines(self) -> int:
        """How many lines the worker's log has."""
        return len(self.process.lines())

    def wait_said(self, event: str, since: int, within_s: float = 5.0) -> list[dict[str, Any]]:
        until = time.monotonic() + within_s
        while not (found := self.said(event, since)):
            assert time.monotonic() < until, f"nobody said {event!r}: {self.process.lines()[since:]}"
            time.sleep(0.02)
        return found

    def works(self) -> None:
        """The page takes the next call, and the next navigation, in bounded time."""
        answer = self.call("evaluate", expression="1 + 1", timeout_ms=5_000)
        assert (answer.status, answer.body.get("result")) == (200, 2), answer
        assert answer.took_s < NEXT_S
        answer = self.goto("good", timeout_ms=10_000)
        assert (answer.status, answer.body.get("title")) == (200, "good"), answer
        assert answer.took_s < NEXT_S

    def worker_rss(self) -> int:
        """Bytes of the worker's own process."""
        return int(psutil.Process(self.process.pid).memory_info().rss)


@contextmanager
def serving() -> Iterator[str]:
    """The site, on Trio in a thread of its own."""
    started: queue.Queue[tuple[str, Callable[[], None]]] = queue.Queue()

    async def serve() -> None:
        async with trio.open_nursery() as nursery:
            url = await nursery.start(partial(serve_site, 0, list_latency_s=0.02))
            token = trio.lowlevel.current_trio_token()
            started.put((url, lambda: token.run_sync_soon(nursery.cancel_scope.cancel)))

    thread = threading.Thread(target=trio.run, args=(serve,))
    thread.start()
    url, stop = started.get(timeout=10)
    try:
        yield url
    finally:
        stop()
        thread.join(10)


@contextmanager
def opened_desk(home: Path) -> Iterator[Desk]:
    """A worker of its own process, so that its memory can be told from the site's and the tests'."""
    temp = Path(tempfile.mkdtemp(prefix="h", dir=tempfile.gettempdir()))
    worker = WorkerProcess(home, MEDIA_MAX_MB=str(MEDIA_MAX_MB), TMPDIR=str(temp))
    (home / "plugins" / "hostile.py").write_text(PLUGINS.read_text())
    try:
        with serving() as site:
            trio.run(worker.start)
            headers = {"Authorization": f"Bearer {KEY}"}
            with httpx.Client(
                base_url=worker.base_url, headers=headers, timeout=90, trust_env=False
            ) as client:
                yield Desk(client, site, worker, temp)
            assert trio.run(worker.stop) == 0, worker.log
    finally:
        worker.end()
        shutil.rmtree(temp, ignore_errors=True)
