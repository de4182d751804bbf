"""`penelope run`, and the client's `runs`: the real commands and clients, a real worker, recipes of the tests.

Source: contract, section 10.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest
import trio

from penelope.client import AsyncClient, Client, Conflict, Failure, NotFound, RunFailed, StillRunning
from tests.io.commands import ESCAPE, printed, printed_until, refused, run, terminal, without_colours
from tests.io.worker_process import KEY, WorkerProcess, end_all

RECIPES: Final = {
    "echo": "steps: [{as: said, plugin: tested/echo, with: {value: '{{ input }}'}}]\noutput: '{{ said.value }}'",
    "text": "steps: [{as: said, plugin: tested/echo, with: {value: '{{ input.prompt }}'}}]\noutput: '{{ said.value }}'",
    "until": "steps:\n  - {plugin: tested/until, with: {file: '{{ input.file }}', note: half of it}}\n"
    "  - {as: last, plugin: tested/echo, with: {value: done}}",
    "fails": "steps: [{as: it, plugin: tested/fail, with: {text: no luck}}]",
}
RUN: Final = r"run_[0-9a-f]{12}"


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    home = tmp_path_factory.mktemp("runs")
    for name, text in RECIPES.items():
        (home / "recipes" / name).mkdir(parents=True)
        (home / "recipes" / name / "TEMPLATE.yaml").write_text(f"name: {name}\n{text}\n")
    worker = WorkerProcess(home / "worker", PENELOPE_RECIPES=str(home / "recipes"))
    yield worker
    end_all([worker])


@pytest.fixture
async def worker(one: WorkerProcess) -> WorkerProcess:
    if not one.base_url:
        await one.start()
    return one


@pytest.fixture
async def client(worker: WorkerProcess) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(worker.base_url, KEY) as made:
        yield made


class TestCommands:
    async def test_submit_prints_the_id(self, worker: WorkerProcess, tmp_path: Path) -> None:
        submit = ("run", "submit", '{"a": 1}', "--recipe", "echo")
        done = await run(*submit, worker=worker, cwd=tmp_path, executed=True)
        assert re.fullmatch(rf"{RUN}\n", done.stdout.decode())
        run_id = done.stdout.decode().strip()
        assert f"penelope run result --wait {run_id}" in done.stderr.decode()
        text = await printed("run", "result", "--wait", run_id, worker=worker, cwd=tmp_path)
        assert ["a", "1"] == text.split()
        text = await printed("run", "status", run_id, worker=worker, cwd=tmp_path)
        for words in ("status     succeeded", "what       recipe:echo", run_id):
            assert words in text

    async def test_wait_prints_what_came_of_it(self, worker: WorkerProcess, tmp_path: Path) -> None:
        words = ("run", "submit", "two\nlines", "--recipe", "text", "--wait")
        assert "two\nlines\n" == await printed(*words, worker=worker, cwd=tmp_path)
        found = json.loads(await printed(*words, "--json", worker=worker, cwd=tmp_path))
        assert ("two\nlines", "succeeded") == (found["result"], found["status"])

    async def test_one_that_fails_is_exit_code_1(self, worker: WorkerProcess, tmp_path: Path) -> None:
        line = await refused("run", "submit", "--recipe", "fails", "--wait", worker=worker, cwd=tmp_path)
        assert re.fullmatch(
            rf"penelope: {RUN} failed after \d\.\d s: step 1 \(it, tested/fail\): no luck", line
        )

    async def test_stream_tells_each_event_in_a_line(self, worker: WorkerProcess, tmp_path: Path) -> None:
        file = tmp_path / "go on"
        words = ("run", "submit", json.dumps({"file": str(file)}), "--recipe", "until", "--stream")
        text = await printed_until(*words, worker=worker, cwd=tmp_path, seen="half of it", then=file.touch)
        assert re.search(rf"^{RUN}  running$", text, re.MULTILINE)
        assert re.search(rf"^{RUN}   25%  .*half of it$", text, re.MULTILINE)
        assert re.search(rf"^{RUN}  100%  done$", text, re.MULTILINE)
        assert text.endswith("last\n  value  done\n"), text

    async def test_stream_draws_a_bar_in_a_terminal(self, worker: WorkerProcess, tmp_path: Path) -> None:
        file = tmp_path / "go on"
        words = ("run", "submit", json.dumps({"file": str(file)}), "--recipe", "until", "--stream")
        text = await terminal(*words, worker=worker, cwd=tmp_path, seen="half of it", then=file.touch)
        assert ESCAPE in text
        assert "100%" in without_colours(text)
        assert re.search(rf"{RUN}  succeeded", without_colours(text))

    async def test_stream_as_json_is_an_event_a_line(self, worker: WorkerProcess, tmp_path: Path) -> None:
        words = ("run", "submit", "x", "--recipe", "text", "--stream", "--json")
        lines = [
            json.loads(line) for line in (await printed(*words, worker=worker, cwd=tmp_path)).splitlines()
        ]
        assert ("result", "x") == (lines[-1]["event"], lines[-1]["data"]["result"])

    async def test_keys_and_sessions(self, worker: WorkerProcess, tmp_path: Path) -> None:
        words = ("run", "submit", "x", "--recipe", "text", "--idempotency-key", "k", "--session", "one")
        scoped = (*words, "--idempotency-scope", "session", "--recipe-config", '{"a": 1}', "--timeout", "60")
        first = await printed(*scoped, worker=worker, cwd=tmp_path)
        assert first == await printed(*scoped, worker=worker, cwd=tmp_path)
        assert first != await printed(*words, worker=worker, cwd=tmp_path)
        text = await printed("run", "list", "--session", "one", worker=worker, cwd=tmp_path)
        assert 2 == len(re.findall(RUN, text))
        listed = json.loads(
            await printed(
                "run", "list", "--session", "one", "--page-size", "1", "--json", worker=worker, cwd=tmp_path
            )
        )
        assert ["one"] == [found["session_id"] for found in listed]

    async def test_cancel_and_delete(self, worker: WorkerProcess, tmp_path: Path) -> None:
        words = ("run", "submit", json.dumps({"file": str(tmp_path / "never")}), "--recipe", "until")
        run_id = (await printed(*words, worker=worker, cwd=tmp_path)).strip()
        assert "409" in await refused("run", "delete", run_id, worker=worker, cwd=tmp_path)
        text = await printed("run", "cancel", run_id, worker=worker, cwd=tmp_path)
        assert text.startswith(f"{run_id}  cancelled")
        assert f"{run_id}  deleted\n" == await printed("run", "delete", run_id, worker=worker, cwd=tmp_path)
        assert "Job not found" in await refused("run", "status", run_id, worker=worker, cwd=tmp_path)

    async def test_what_cannot_be_run_is_said_in_a_line(self, worker: WorkerProcess, tmp_path: Path) -> None:
        line = await refused("run", "submit", "--recipe", "nothing", worker=worker, cwd=tmp_path)
        assert "nothing" in line
        assert line.endswith("(422)")
        done = await run("run", "submit", "--recipe-config", "[1]", worker=worker, cwd=tmp_path)
        assert (2, True) == (done.returncode, b"no JSON object" in done.stderr)
        assert "there is no worker at" in await refused("run", "list", worker=None, cwd=tmp_path)


class TestClients:
    async def test_a_run_from_its_submit_to_its_end(self, client: AsyncClient, tmp_path: Path) -> None:
        file = tmp_path / "go on"
        handle = await client.runs.submit({"file": str(file)}, "until", session_id="clients")
        kinds = []
        with pytest.raises(StillRunning) as still:
            await handle.wait(0.3)
        assert still.value.run is not None
        with pytest.raises(Conflict):
            await handle.delete()
        async for event in handle.events():
            kinds.append(event.kind)
            if event.data.get("percentage"):
                file.touch()
        assert ("status", "result") == (kinds[0], kinds[-1])
        assert {"last": {"value": "done"}} == await handle.result()
        seen = await client.runs.get(handle.run_id).status()
        assert (True, True, 100.0) == (seen.succeeded, seen.has_ended, seen.progress.percentage)
        assert [handle.run_id] == [found.job_id for found in await client.runs.list(session_id="clients")]
        await handle.delete()
        with pytest.raises(NotFound):
            await handle.status()

    async def test_one_that_fails_raises_its_words(self, client: AsyncClient) -> None:
        handle = await client.runs.submit(recipe="fails")
        with pytest.raises(RunFailed, match="no luck") as failed:
            await handle.result(20)
        assert "failed" == failed.value.run.status
        assert ["error"] == [event.kind async for event in handle.events()][-1:]
        with pytest.raises(Failure, match="no-such") as refusal:
            await client.runs.submit(recipe="no-such")
        assert 422 == refusal.value.status

    async def test_a_cancel_asked_twice_is_one(self, client: AsyncClient, tmp_path: Path) -> None:
        handle = await client.runs.submit({"file": str(tmp_path / "never")}, "until")
        assert "cancelled" == (await handle.cancel()).status == (await handle.cancel()).status
        done = await client.runs.submit("x", "text", idempotency_key="one")
        again = await client.runs.submit("y", "text", idempotency_key="one")
        assert ("x", done.run_id) == (await again.result(20), again.run_id)
        with pytest.raises(Conflict):
            await done.cancel()

    async def test_a_worker_that_starts_again_is_waited_for(
        self, worker: WorkerProcess, tmp_path: Path
    ) -> None:
        """Its queue outlives it; so does who waits."""
        file = tmp_path / "go on"
        port = worker.base_url.rpartition(":")[2]
        async with AsyncClient(worker.base_url, KEY) as client:
            first = await client.runs.submit({"file": str(file)}, "until")
            await trio.sleep(0.3)
            async with trio.open_nursery() as nursery:

                async def watch() -> None:
                    kinds.extend([event.kind async for event in first.events()])
                    nursery.cancel_scope.cancel()

                kinds: list[str] = []
                nursery.start_soon(watch)
                await trio.sleep(0.3)
                await worker.kill()
                await worker.start(PENELOPE_PORT=port)
                await trio.sleep(20)
            assert "error" == kinds[-1]
            with pytest.raises(RunFailed, match="Interrupted by service restart"):
                await first.result(5)

    def test_the_blocking_one(self, one: WorkerProcess) -> None:
        with Client(one.base_url, KEY) as client:
            handle = client.runs.submit("hello", "text")
            assert "hello" == handle.result(20)
            assert "succeeded" == handle.status().status == client.runs.list()[0].status
            assert "result" == [event.kind for event in handle.events()][-1]
            handle.delete()
