"""`penelope.client` against the real worker, in all three flavours.

Source: contract, sections 5, 6, 8 and 11.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from pydantic import BaseModel

from penelope import signing
from penelope.client import (
    Conflict,
    Failure,
    JobFailed,
    NotFound,
    Retries,
    StillRunning,
    Unauthorized,
    UnexpectedAnswer,
    media_links,
    verify,
)
from penelope.demo.site import serve_site
from tests.io.conftest import SITE_PORT, NewWorker
from tests.io.flavours import FLAVOURS, Scenario, play
from tests.io.receivers import Receiver
from tests.io.waiting import until
from tests.io.worker_process import KEY, ROOT, WorkerProcess
from tests.test_docs import blocks

NewReceiver = Callable[..., Awaitable[Receiver]]
Play = Callable[[Scenario], Awaitable[Any]]


class Echoed(BaseModel):
    value: list[int]


@pytest.fixture(params=FLAVOURS)
def flavour(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def played(flavour: str, shared_worker: WorkerProcess, client: httpx.AsyncClient) -> Play:
    """Once the page is free: it may have what the test before has left."""

    async def is_free() -> bool:
        return bool((await client.get("/api/v1/main")).json()["state"] == "idle")

    await until(is_free, 20)

    async def run(scenario: Scenario) -> Any:
        return await play(flavour, scenario, shared_worker.base_url, KEY)

    return run


class TestCalls:
    async def test_a_plain_call(self, played: Play) -> None:
        async def scenario(client: Any) -> Any:
            typed = await client.call("main", "tested/echo", {"value": [1, 2]}, result=Echoed)
            bare = await client.call("main", "tested/echo", {"value": "é"})
            return typed, bare

        assert (Echoed(value=[1, 2]), {"value": "é"}) == await played(scenario)

    async def test_a_result_of_another_form_is_named(self, played: Play) -> None:
        async def scenario(client: Any) -> Any:
            return await client.call("main", "tested/echo", {"value": "no list"}, result=Echoed)

        with pytest.raises(
            UnexpectedAnswer, match="the result is no Echoed: value: Input should be a valid list"
        ):
            await played(scenario)

    @pytest.mark.parametrize(
        ("call", "error", "words"),
        [
            (("main", "tested/fail", {"text": "not today"}), Conflict, "not today"),
            (("main", "tested/nothing"), NotFound, "there is no plugin"),
            (("nope", "tested/look"), NotFound, "there is no page"),
            (("main", "tested/echo", {"valeu": 1}), Failure, "valeu"),
        ],
    )
    async def test_failures(
        self, played: Play, call: tuple[Any, ...], error: type[Failure], words: str
    ) -> None:
        async def scenario(client: Any) -> Any:
            return await client.call(*call)

        with pytest.raises(error, match=words):
            await played(scenario)

    async def test_a_wrong_key(self, flavour: str, shared_worker: WorkerProcess) -> None:
        async def scenario(client: Any) -> Any:
            return await client.get("/api/v1/activity")

        with pytest.raises(Unauthorized):
            await play(flavour, scenario, shared_worker.base_url, "another-key-0123456789")


class TestJobs:
    async def test_start_wait_result(self, played: Play) -> None:
        async def scenario(client: Any) -> Any:
            job = await client.start("main", "tested/echo", {"value": [7]}, result=Echoed, ttl=30)
            ended = await job.wait()
            again = client.job(job.job_id, result=Echoed)
            return ended, await again.result(), await again.status()

        ended, result, status = await played(scenario)
        assert ("done", 200, Echoed(value=[7])) == (ended.state, ended.status, result)
        assert ended.result == status.result

    async def test_run_is_a_call_that_nothing_loses(self, played: Play) -> None:
        async def scenario(client: Any) -> Any:
            quick = await client.run("main", "tested/echo", {"value": [1]}, result=Echoed)
            slow = await client.run("main", "tested/steps", {"seconds": 0.5}, timeout_s=20)
            return quick, slow

        assert (Echoed(value=[1]), {}) == await played(scenario)

    async def test_past_the_time_given_it_runs_on(self, played: Play) -> None:
        async def scenario(client: Any) -> Any:
            job = await client.start("main", "tested/steps", {"seconds": 60}, ttl=30)
            try:
                return await job.wait(timeout_s=1)
            except StillRunning as exc:
                return exc.job, (await job.cancel()).state

        job, state = await played(scenario)
        assert ("running", "cancelled") == (job.state, state)

    async def test_a_limit_ends_it(self, played: Play) -> None:
        async def scenario(client: Any) -> Any:
            job = await client.start("main", "tested/steps", {"seconds": 60}, ttl=30, timeout_s=1)
            return await job.result()

        with pytest.raises(JobFailed) as caught:
            await played(scenario)
        assert 408 == caught.value.status

    async def test_a_plugins_failure_is_the_jobs(self, played: Play) -> None:
        async def scenario(client: Any) -> Any:
            return await (await client.start("main", "tested/fail", {"text": "not today"})).result()

        with pytest.raises(JobFailed, match="not today") as caught:
            await played(scenario)
        assert (409, "done") == (caught.value.status, caught.value.job.state)

    async def test_events_to_the_end(self, played: Play) -> None:
        async def scenario(client: Any) -> Any:
            job = await client.start("main", "tested/steps", {"seconds": 0.6, "note": "half of it"}, ttl=30)
            return [event async for event in job.events()]

        state, progress, end = await played(scenario)
        assert ("state", "running") == (state.kind, state.data["state"])
        assert ("progress", 0.5, "half of it") == (
            progress.kind,
            progress.data["progress"],
            progress.data["note"],
        )
        assert ("end", "done") == (end.kind, end.job.state)

    async def test_who_leaves_the_events_disturbs_nobody(self, played: Play) -> None:
        async def scenario(client: Any) -> Any:
            job = await client.start("main", "tested/steps", {"seconds": 0.6}, ttl=30)
            async with job.events() as events:
                first = await anext(aiter(events))
            return first.kind, (await job.wait()).state

        assert ("state", "done") == await played(scenario)

    async def test_the_same_start_again_is_the_same_job(self, played: Play) -> None:
        """Under a key of the caller's own, say after a crash of theirs."""

        async def scenario(client: Any) -> Any:
            more = {"ttl": 30, "idempotency_key": f"mine-{time.time()}"}
            jobs = [await client.start("main", "tested/echo", {"value": [1]}, **more) for _ in range(3)]
            return {job.job_id for job in jobs}

        assert 1 == len(await played(scenario))

    async def test_the_list(self, played: Play) -> None:
        async def scenario(client: Any) -> Any:
            job = await client.start("main", "tested/steps", {"seconds": 1}, ttl=30)
            running = await client.jobs(state="running")
            await job.wait()
            return job.job_id, running, await client.jobs(plugin="tested/steps", page_id="main")

        job_id, running, later = await played(scenario)
        assert [(job_id, "running")] == [(job.job_id, job.state) for job in running]
        assert (job_id, "done", 200) == (later[0].job_id, later[0].state, later[0].status)

    async def test_a_job_that_nobody_knows(self, played: Play) -> None:
        async def scenario(client: Any) -> Any:
            return await client.job("0" * 16).wait()

        with pytest.raises(NotFound, match="unknown, expired or delivered"):
            await played(scenario)


class TestTheRest:
    async def test_files(self, played: Play, tmp_path: Path) -> None:
        async def scenario(client: Any) -> Any:
            answer = await client.call("main", "tested/files", {"filenames": ["a.txt", "../b.txt"]})
            return [await client.download(link, tmp_path) for link in media_links(answer)]

        paths = await played(scenario)
        assert [tmp_path / "a.txt", tmp_path / "b.txt"] == paths
        assert ["content", "content"] == [path.read_text() for path in paths]

    async def test_a_webhook_is_believed_and_noted_in_the_ledger(
        self, played: Play, new_receiver: NewReceiver
    ) -> None:
        receiver = await new_receiver()

        async def start(client: Any) -> Any:
            return (await client.start("main", "tested/echo", {"value": [3]}, callback=receiver.url)).job_id

        job_id = await played(start)
        (received,) = await receiver.wait_for(1)
        job = verify(received.body, dict(received.headers), KEY)
        assert (job_id, "done", [3]) == (job.job_id, job.state, (job.result or {})["value"])

        async def look(client: Any) -> Any:
            return await client.deliveries(job_id=job_id)

        async def is_noted() -> bool:
            return bool(await played(look))

        await until(is_noted)
        (posted,) = await played(look)
        assert (1, "delivered", 200, "127.0.0.1") == (
            posted.attempt,
            posted.verdict,
            posted.status,
            posted.address,
        )


async def test_the_code_of_the_page_works(
    shared_worker: WorkerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    """Each block of docs/client.md, as it stands, against the stand-in site."""
    await nursery.start(partial(serve_site, SITE_PORT, list_latency_s=0))
    monkeypatch.setenv("PENELOPE_URL", shared_worker.base_url)
    monkeypatch.setenv("PENELOPE_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    code = [*blocks(ROOT / "docs" / "client.md", "python"), blocks(ROOT / "README.md", "python")[0]]
    said: list[str] = []
    names: dict[str, Any] = {"print": lambda *words: said.append(" ".join(map(str, words)))}
    for block in code:
        with trio.fail_after(60):
            await trio.to_thread.run_sync(exec, compile(block, "client.md", "exec"), names)

    assert {"bob", "carol"} <= set(await names["names"]())
    assert {"bob", "carol"} <= set(await trio.to_thread.run_sync(asyncio.run, names["names"]()))
    assert any(line.startswith("['bob', 'carol'") for line in said)
    assert any(line.startswith("{'handle': 'alice', 'following': ['bob'") for line in said)
    assert [".png"] == [file.suffix for file in files_in(tmp_path)]
    body = b'{"job_id": "5b1d82d4dc257267", "page_id": "main", "state": "done", "plugin": "a/b", "started_at": 1}'
    signed = signing.standard("5b1d82d4dc257267", int(time.time()), body, [KEY])
    assert [204, 401] == [names["receive"](signed, body, key) for key in (KEY, "another")]


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_a_worker_that_is_killed_and_started_again_is_waited_for(new_worker: NewWorker) -> None:
    """Its job is interrupted, and the waiter is told."""
    worker = new_worker()
    await worker.start()
    port = worker.base_url.rpartition(":")[2]
    patient = Retries(attempts=60, longest_s=1.0)

    async def start(client: Any) -> Any:
        return (await client.start("main", "tested/steps", {"seconds": 60}, ttl=60)).job_id

    job_id = await play("blocking", start, worker.base_url, KEY)
    errors: list[JobFailed] = []

    async def wait() -> None:
        async def scenario(client: Any) -> Any:
            return await client.job(job_id).result()

        with pytest.raises(JobFailed, match="the worker stopped before it ended") as caught:
            await play("blocking", scenario, worker.base_url, KEY, patient)
        errors.append(caught.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.sleep(1)
        await worker.kill()
        await worker.start(PENELOPE_PORT=port)
    assert ("interrupted", 503) == (errors[0].job.state, errors[0].status)
    await worker.stop()
