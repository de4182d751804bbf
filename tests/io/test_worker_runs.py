"""Runs on the real worker: plugins that block or will not end, and a flood.

Source: contract, section 10.
"""

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import trio

from tests.io.conftest import NewWorker
from tests.io.waiting import until
from tests.io.worker_process import WorkerProcess

RUNS: Final = "/api/v1/runs"
MANY: Final = httpx.Limits(max_connections=200, max_keepalive_connections=200)
RECIPES: Final = {
    "echo": "steps: [{as: it, plugin: tested/echo, with: {value: '{{ input.n }}'}}]\noutput: '{{ it.value }}'",
    "block": "steps: [{plugin: tested/block, with: {file: '{{ input.file }}', seconds: '{{ input.seconds }}'}}]",
    "swallow": "page: main\nsteps: [{plugin: tested/swallow, with: {file: '{{ input.file }}'}}]",
    "spin": "page: main\nsteps: [{plugin: tested/spin, with: {file: '{{ input.file }}'}}]",
    "large": "steps: [{as: it, plugin: tested/large, with: {mib: '{{ input.mib }}'}}]\noutput: '{{ it.text }}'",
}


@pytest.fixture
def worker(new_worker: NewWorker, tmp_path: Path) -> WorkerProcess:
    for name, text in RECIPES.items():
        (tmp_path / "recipes" / name).mkdir(parents=True)
        (tmp_path / "recipes" / name / "TEMPLATE.yaml").write_text(f"name: {name}\n{text}\n")
    return new_worker(PENELOPE_RECIPES=str(tmp_path / "recipes"))


@pytest.fixture
async def client(worker: WorkerProcess) -> AsyncIterator[httpx.AsyncClient]:
    await worker.start(RUNS_MAX_QUEUED="100")
    async with worker.client(limits=MANY) as made:
        yield made


async def submit(client: httpx.AsyncClient, recipe: str, headers: Any = None, **given: Any) -> httpx.Response:
    body = {"prompt": json.dumps(given), "recipe_name": recipe}
    return await client.post(RUNS, json=body, headers=headers)


async def test_status_is_answered_while_a_plugin_blocks(client: httpx.AsyncClient, tmp_path: Path) -> None:
    """Blocking plugin calls: the status is there in milliseconds, and so are submits and the list."""
    file = tmp_path / "notes"
    run_id = (await submit(client, "block", file=str(file), seconds=3)).json()["job_id"]
    await until(file.exists, 20)
    took = []
    for path in (f"{RUNS}/{run_id}", RUNS) * 50:
        began = time.perf_counter()
        assert 200 == (await client.get(path)).status_code
        took.append(time.perf_counter() - began)
    assert 202 == (await submit(client, "echo", n=1)).status_code
    assert "begin" == file.read_text().split()[-1]  # it has blocked all the time
    assert sorted(took)[len(took) // 2] < 0.1
    answer = await client.get(f"{RUNS}/{run_id}", headers={"Prefer": "wait=30"})
    assert "succeeded" == answer.json()["status"]


@pytest.mark.parametrize("recipe", ["swallow", "spin"])
async def test_a_cancel_ends_a_plugin_that_will_not_end(
    client: httpx.AsyncClient, tmp_path: Path, recipe: str
) -> None:
    """The plugin's effect stops, and only then the run is `cancelled` and its page another's."""
    file = tmp_path / "notes"
    run_id = (await submit(client, recipe, file=str(file))).json()["job_id"]
    await until(file.exists, 20)
    with trio.fail_after(40):
        answer = await client.post(f"{RUNS}/{run_id}/cancel")
    assert (200, "cancelled") == (answer.status_code, answer.json()["status"])
    size = file.stat().st_size
    other = await submit(client, "echo", {"Prefer": "wait=30"}, n=2)
    assert "succeeded" == other.json()["status"]
    await trio.sleep(0.5)
    assert size == file.stat().st_size


async def test_a_thousand_submits_at_once(client: httpx.AsyncClient) -> None:
    """A flood: what is over the ceiling is refused at once, what is accepted comes to its end, in its order."""
    answers: list[httpx.Response] = []
    limiter = trio.CapacityLimiter(200)

    async def one(n: int) -> None:
        async with limiter:
            answers.append(await submit(client, "echo", n=n))

    async with trio.open_nursery() as nursery:
        for n in range(1000):
            nursery.start_soon(one, n)
    assert {answer.status_code for answer in answers} <= {202, 503}
    accepted = [answer.json()["job_id"] for answer in answers if answer.status_code == 202]
    assert 100 <= len(accepted) < 1000

    async def all_over() -> bool:
        return not (await client.get("/api/v1/activity")).json()["in_flight"]

    await until(all_over, 120)
    listed = (await client.get(RUNS, params={"status": "succeeded", "page_size": 1})).json()
    assert len(accepted) == listed["total"]
    pages = [
        (await client.get(RUNS, params={"page": page, "page_size": 100})).json()["jobs"]
        for page in range(1, len(accepted) // 100 + 2)
    ]
    starts = [run["started_at"] for page in pages for run in page]
    # Newest first. Those that are given their pages in one moment begin in any order, some microseconds apart.
    quarter = len(starts) // 4
    assert max(starts[-quarter:]) < min(starts[:quarter])


async def test_a_large_result(client: httpx.AsyncClient) -> None:
    """One of 50 MB comes whole."""
    run_id = (await submit(client, "large", {"Prefer": "wait=60"}, mib=50)).json()["job_id"]
    answer = await client.get(f"{RUNS}/{run_id}/result", headers={"Prefer": "wait=60"})
    assert (200, "succeeded", None) == (
        answer.status_code,
        answer.json()["status"],
        answer.json()["error"],
    )
    assert 25 * 2**20 == len(answer.json()["result"])
