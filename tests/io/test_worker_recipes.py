"""Recipes on the real worker: over HTTP, on the real page of the stand-in site, over a kill and a start.

Source: contract, section 10; docs/recipes.md.
"""

import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from penelope.demo.accounts import following
from penelope.demo.site import serve_site
from tests.io.conftest import NewWorker
from tests.io.worker_process import ROOT, WorkerProcess

EXAMPLES = ROOT / "docs" / "examples" / "recipes"
RUNS = "/api/v1/runs"
SLOW = """
name: slow
page: main
input: {properties: {rounds: {type: integer, default: 200}}}
steps:
  - as: waited
    for_each: range(input.rounds)
    primitive: wait
    with: {delay_ms: 50}
output: "{{ waited | length }} waits by {{ config.who | default('nobody') }}"
"""


@pytest.fixture
async def worker(new_worker: NewWorker, nursery: trio.Nursery, tmp_path: Path) -> WorkerProcess:
    """One that has the shipped recipes, and a slow one in two folders' places."""
    site: str = await nursery.start(serve_site, 0)
    for name in ("slow", "gone"):
        (tmp_path / "recipes" / name).mkdir(parents=True)
        (tmp_path / "recipes" / name / "TEMPLATE.yaml").write_text(
            SLOW.replace("name: slow", f"name: {name}")
        )
    made = new_worker(PENELOPE_RECIPES=f"{EXAMPLES}:{tmp_path / 'recipes'}", PENELOPE_INSTAGRAM_BASE_URL=site)
    await made.start()
    return made


async def submitted(client: httpx.AsyncClient, recipe: str, prompt: str, **more: Any) -> str:
    answer = await client.post(RUNS, json={"prompt": prompt, "recipe_name": recipe, **more})
    assert 202 == answer.status_code, answer.text
    return str(answer.json()["job_id"])


async def ended(client: httpx.AsyncClient, run_id: str) -> dict[str, Any]:
    answer = await client.get(f"{RUNS}/{run_id}/result", headers={"Prefer": "wait=30"})
    assert 200 == answer.status_code, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def at_work(client: httpx.AsyncClient, run_id: str) -> None:
    """Return once it has done some of its rounds."""
    with trio.fail_after(20):
        while (await client.get(f"{RUNS}/{run_id}")).json()["progress"]["percentage"] < 1:  # noqa: ASYNC110 - as a client polls
            await trio.sleep(0.05)


async def test_recipes_over_http(worker: WorkerProcess) -> None:
    """The shipped recipe: an account, whom it follows, a CSV behind a media link; what fails names its step, what
    cannot be is refused; a cancelled one ends between its steps, and the next has the page.
    """
    async with worker.client() as client:
        run_id = await submitted(client, "follow-report", "{'handle': 'bob'}")
        end = await ended(client, run_id)

        assert ("succeeded", None) == (end["status"], end["error"])
        report = end["result"].pop("report")
        assert {
            "handle": "bob",
            "name": "Bob Brandt",
            "follows": 12,
            "listed": 12,
            "complete": True,
        } == end["result"]
        file = await client.get(report["url"])
        assert "text/csv; charset=utf-8" == file.headers["Content-Type"]
        assert ["handle", *following("bob")] == file.text.splitlines()
        status = (await client.get(f"{RUNS}/{run_id}")).json()
        assert "recipe:follow-report" == status["agent_id"]
        assert {
            "percentage": 100.0,
            "current_step": "done",
            "steps_completed": 3,
            "steps_total": 3,
        } == status["progress"]

        end = await ended(client, await submitted(client, "follow-report", '{"handle": "missing-one"}'))
        assert (
            "failed",
            "step 1 (account, instagram/open-account): there is no account missing-one",
        ) == (end["status"], end["error"])

        for recipe, prompt, words in (
            (
                "follow-reports",
                "{}",
                "there is no recipe 'follow-reports': there are follow-report, gone, slow",
            ),
            ("../follow-report", "{}", "there is no recipe '../follow-report'"),
            ("follow-report", "bob", "recipe follow-report: input: 'handle' is a required property"),
        ):
            answer = await client.post(RUNS, json={"prompt": prompt, "recipe_name": recipe})
            assert (422, words) == (answer.status_code, answer.json()["detail"][: len(words)])

        slow = await submitted(client, "slow", "")
        await at_work(client, slow)
        assert "cancelled" == (await client.post(f"{RUNS}/{slow}/cancel")).json()["status"]
        quick = await submitted(client, "slow", "", recipe_config={"rounds": 1, "who": "me"})
        assert "1 waits by me" == (await ended(client, quick))["result"]


async def test_recipes_over_a_kill(worker: WorkerProcess, tmp_path: Path) -> None:
    """Queued ones are planned again at the next start, with what was submitted; one whose recipe is gone says so."""
    async with worker.client() as client:
        first = await submitted(client, "slow", "")
        second = await submitted(client, "slow", "{'rounds': 2}", config={"who": "them"})
        third = await submitted(client, "gone", "")
        await at_work(client, first)
    await worker.kill()
    shutil.rmtree(tmp_path / "recipes" / "gone")
    await worker.start()

    async with worker.client() as client:
        ends = [await ended(client, run_id) for run_id in (first, second, third)]

    assert ["failed", "succeeded", "failed"] == [end["status"] for end in ends]
    assert "Interrupted by service restart" == ends[0]["error"]
    assert "2 waits by them" == ends[1]["result"]
    assert "there is no recipe 'gone': there are follow-report, slow" == ends[2]["error"]
