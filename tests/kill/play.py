"""A play that comes by every commit of the worker: the whole worker but for its browser, on the mock clock, two lives.

What its clients and its receiver see is written down at once, so that it outlives the process.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import structlog
import trio
from trio.testing import MockClock

from penelope.jobs import lag
from penelope.runs import service
from tests.spec.conftest import fit_for_mock_clock
from tests.spec.world import Life, World, live

ANSWERS: Final = {"good": 200, "bad": 500, "no": 404}
AFTER_ALL_S: Final = 900.0
RUNS_KEEP_S: Final = 400.0
SETTINGS: Final = {"runs_webhook_policy": "any"}
RUNS: Final = "/api/v1/runs"


class Witness:
    """Writes down what was seen, a line of JSON each; the kernel has it even if the process dies the next moment."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def saw(self, what: str, **more: Any) -> None:
        line = {"saw": what, "at": trio.current_time(), **more}
        os.write(self._file, (json.dumps(line) + "\n").encode())

    @staticmethod
    def read(path: Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Receivers(httpx.AsyncBaseTransport):
    """Receivers that answer by their name, and write down what they were sent first."""

    def __init__(self, witness: Witness, answers: dict[str, int]) -> None:
        self._witness = witness
        self._answers = answers

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        job = json.loads(await request.aread())
        answer = self._answers[request.url.host.partition(".")[0]]
        attempt = int(request.headers["X-Penelope-Attempt"])
        end = end_of(job) if "state" in job else end_of_run(job)
        self._witness.saw("post", job_id=job["job_id"], attempt=attempt, answer=answer, end=end)
        await trio.lowlevel.checkpoint()
        return httpx.Response(answer)


def end_of(job: dict[str, Any]) -> list[Any]:
    """What never changes once a job has ended."""
    return [job["state"], job["status"], job["result"], job["finished_at"]]


def end_of_run(run: dict[str, Any]) -> list[Any]:
    """The same of a run, as its result and its webhook have it."""
    return [run["status"], run["result"], run["error"], run["completed_at"]]


@contextmanager
def fitted() -> Iterator[None]:
    """As the fixtures of tests/spec do it."""
    with pytest.MonkeyPatch.context() as patch:
        fit_for_mock_clock(patch)
        patch.setattr(lag, "MEASURE_EVERY_S", 60.0)  # half of what an hour on the mock clock costs
        patch.setattr(service, "KEEP_S", RUNS_KEEP_S)  # a day would be most of the play
        structlog.configure(processors=[structlog.testing.LogCapture()])
        yield
        structlog.reset_defaults()


class Client:
    """A client that writes down what it is answered."""

    def __init__(self, life: Life, witness: Witness) -> None:
        self.life = life
        self._witness = witness

    async def start(
        self, name: str, page_id: str = "main", *, to: str | None = None, ttl: float = 600.0, **body: Any
    ) -> str:
        headers = {"X-Result-Ttl": f"{ttl:g}"} if to is None else {"X-Callback-Url": f"http://{to}.lan/"}
        answer = await self.life.call(name, page_id, headers, **body)
        assert 202 == answer.status_code, answer.text
        job_id = str(answer.json()["job_id"])
        self._witness.saw("accepted", job_id=job_id, ttl=ttl if to is None else None)
        return job_id

    async def end(self, job_id: str) -> dict[str, Any]:
        """Poll until it has ended."""
        while True:
            shown = (await self.life.poll(job_id)).json()
            if shown["state"] != "running":
                self._witness.saw("shown", job_id=job_id, end=end_of(shown))
                return dict(shown)
            await trio.sleep(0.1)

    async def cancel(self, job_id: str) -> None:
        answer = await self.life.http.delete(f"/api/v1/jobs/{job_id}")
        assert 200 == answer.status_code, answer.text
        self._witness.saw("shown", job_id=job_id, end=end_of(answer.json()))

    async def run(self, recipe: str, *, to: str | None = None, **given: Any) -> str:
        """Submit a run."""
        webhook = {} if to is None else {"webhook_url": f"http://{to}.lan/"}
        body = {"prompt": json.dumps(given), "recipe_name": recipe, **webhook}
        answer = await self.life.http.post(RUNS, json=body)
        assert 202 == answer.status_code, answer.text
        run_id = str(answer.json()["job_id"])
        self._witness.saw("submitted", run_id=run_id, webhook=to)
        return run_id

    async def end_of(self, run_id: str) -> None:
        """Wait until a run is over."""
        answer = await self.life.http.get(f"{RUNS}/{run_id}/result", headers={"Prefer": "wait=60"})
        assert 200 == answer.status_code, answer.text
        self._witness.saw("result", run_id=run_id, end=end_of_run(answer.json()))

    async def delete(self, run_id: str) -> None:
        self._witness.saw("delete", run_id=run_id)
        assert 204 == (await self.life.http.delete(f"{RUNS}/{run_id}")).status_code

    async def link(self, result: dict[str, Any], until: float) -> str:
        """The link of its file, which is there, and stays until then unless it is downloaded."""
        url = str(result["media"]["url"])
        assert 200 == (await self.life.http.head(url)).status_code
        self._witness.saw("file", url=url, size=result["media"]["size"], until=until)
        return url

    async def download(self, url: str) -> None:
        self._witness.saw("download", url=url)
        assert 200 == (await self.life.http.get(url)).status_code


async def play(store: Path, witness: Witness) -> None:
    """Both lives."""
    receivers: Any = Receivers(witness, ANSWERS)  # as a transport
    world = World(store, receiver=receivers, settings=dict(SETTINGS))
    async with live(world) as life:
        await life.open("second")
        client = Client(life, witness)
        await _jobs(client)
        await trio.sleep(70)  # a sweep, a second attempt
        life.database.refusal = "as a full disk says it"
        await trio.sleep(2)
        await trio.sleep(AFTER_ALL_S)
        await client.start("report", steps=60)
        await client.start("work", "second", to="good", seconds=60)
        await client.run("work", to="good", seconds=60)
        await client.run("echo", to="bad", page="second")
        await trio.sleep(5)
        life.supervisor.hurry()
    async with live(world) as life:
        await trio.sleep(5)
        await life.stop()


async def _jobs(client: Client) -> None:
    """Of every kind, some beside each other."""
    life = client.life
    await client.start("work", "second", to="good", seconds=5)
    await client.end(await client.start("report", steps=2, ttl=5))
    life.driver.jar = '[{"name": "session"}]'
    shown = await client.end(await client.start("file"))
    await client.download(await client.link(shown["result"], shown["finished_at"] + 600))
    shown = await client.end(await client.start("file", ttl=100))
    await client.link(shown["result"], shown["finished_at"] + 100)
    await trio.sleep(6)
    await client.start("file", "second", to="good")
    await client.start("file", to="bad")
    await trio.sleep(1)
    await client.start("echo", to="no")
    await client.start("fail", "second", to="bad", how="word")
    await client.cancel(await client.start("work", seconds=60))
    await client.cancel(await client.start("work", to="good", seconds=60))
    await trio.sleep(1)
    plain = await life.call("file")
    await client.link(plain.json(), plain.json()["media"]["expires_at"])
    await _runs(client)


async def _runs(client: Client) -> None:
    """One that is kept, one that is deleted, one that fails and is told of until nobody listens any more."""
    await client.end_of(await client.run("echo", to="good", say="words"))
    gone = await client.run("work", seconds=2)
    await client.end_of(gone)
    await client.delete(gone)
    await client.end_of(await client.run("fail", to="bad"))


def run(function: Any, *arguments: Any) -> Any:
    """On the mock clock, which jumps to the next thing that is due."""
    return trio.run(function, *arguments, clock=MockClock(autojump_threshold=0))
