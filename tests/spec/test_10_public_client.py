"""Section 10: requests as the public client sends them, byte for byte, and what it needs of the answers.

Captured from its package, 4.7.19. tests/compat runs the package itself.
"""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from tests.spec.stream import viewing
from tests.spec.test_10_runs import RUNS
from tests.spec.world import Life, World, live

AGENT = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate", "User-Agent": "python-httpx/0.28.1"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "store", settings={"runs_webhook_policy": "any", "runs_auth": "loopback"})


async def post(life: Life, body: str, **headers: str) -> httpx.Response:
    """Without a key, as it comes."""
    async with httpx.AsyncClient(transport=life.http._transport, base_url="http://127.0.0.1:5000") as client:
        given = {**AGENT, "Content-Type": "application/json", **headers}
        return await client.post(RUNS, content=body.encode(), headers=given)


async def over(life: Life, answer: httpx.Response) -> Any:
    """The result of what was submitted, once it is over."""
    assert 202 == answer.status_code, answer.text
    run_id = answer.json()["job_id"]
    await life.http.get(f"{RUNS}/{run_id}", headers={"Prefer": "wait=60"})
    return (await life.http.get(f"{RUNS}/{run_id}/result")).json()


async def test_submit_job(life: Life) -> None:
    """`praisonai.recipe.submit_job`: a dict as its `repr`, `config`, the key in the body alone."""
    body = (
        '{"prompt":"{\'say\': \'What is AI?\'}","recipe_name":"echo","timeout":60,"config":{"max_tokens":10},'
        '"session_id":"sess1","idempotency_key":"ik-1"}'
    )
    first = await post(life, body)
    assert {"job_id", "status", "poll_url", "stream_url"} <= set(first.json())
    assert "succeeded" == (await over(life, first))["status"]
    again = await post(life, body.replace("What is AI?", "another"))
    assert (202, first.json()["job_id"], "succeeded") == (
        again.status_code,
        again.json()["job_id"],
        again.json()["status"],
    )


async def test_submit_job_of_the_command_line(life: Life) -> None:
    """Always `framework` and `timeout`; the key in the header, too."""
    body = (
        '{"prompt":"{}","framework":"praisonai","timeout":3600,"recipe_name":"echo","recipe_config":{"format":"json"},'
        '"session_id":"s2","idempotency_key":"c1","idempotency_scope":"session"}'
    )
    first = await post(life, body, **{"Idempotency-Key": "c1"})
    assert first.json()["job_id"] == (await post(life, body, **{"Idempotency-Key": "c1"})).json()["job_id"]
    other = await post(life, body.replace('"s2"', '"s3"'), **{"Idempotency-Key": "c1"})
    assert first.json()["job_id"] != other.json()["job_id"]


async def test_a_request_of_its_own_model(life: Life) -> None:
    """`JobSubmitRequest(...).model_dump()`: every field, most of them null."""
    body = {
        "prompt": "{}",
        "agent_file": None,
        "agent_yaml": None,
        "recipe_name": "echo",
        "recipe_config": None,
        "framework": "praisonai",
        "config": None,
        "webhook_url": None,
        "timeout": 3600,
        "session_id": None,
        "idempotency_key": None,
        "idempotency_scope": "none",
    }
    assert "succeeded" == (await over(life, await post(life, json.dumps(body))))["status"]
    assert (
        "succeeded" == (await over(life, await post(life, json.dumps({**body, "new_in_5_0": [1]}))))["status"]
    )
    for empty in ("webhook_url", "idempotency_key", "session_id"):
        assert "succeeded" == (await over(life, await post(life, json.dumps({**body, empty: ""}))))["status"]


async def test_what_its_handle_and_its_command_line_read(life: Life) -> None:
    """`progress` is an object with numbers, `created_at` a text; no redirect; a cancel has no body and no type."""
    run_id = (
        await post(life, '{"prompt":"{\\"seconds\\": 60}","recipe_name":"work","timeout":3600}')
    ).json()["job_id"]
    for path in (f"{RUNS}/{run_id}", RUNS):
        answer = await life.http.get(path)
        run = answer.json() if path != RUNS else answer.json()["jobs"][0]
        assert isinstance(run["progress"]["percentage"], float)
        assert isinstance(run["created_at"], str)
        assert isinstance(run["retry_after"], int)
        assert not answer.is_redirect
    answer = await life.http.post(f"{RUNS}/{run_id}/cancel", headers={"Content-Length": "0"})
    assert (200, "cancelled") == (answer.status_code, answer.json()["status"])


async def test_what_its_stream_reads(life: Life) -> None:
    """Only lines that begin with `data:`, and of them the keys `event` and `data`."""
    run_id = (await post(life, '{"prompt":"{\\"seconds\\": 2}","recipe_name":"work"}')).json()["job_id"]
    async with viewing(life.http, run_id, path=f"{RUNS}/{run_id}/stream") as seen:
        await trio.sleep(5)
    said = [json.loads(event.data) for event in seen.events]
    told = [(one["event"], one["data"]) for one in said if "event" in one]
    assert ("progress", {"percentage": 50.0, "current_step": "second 2"}) in told
    assert ("complete", {"status": "succeeded"}) == told[-1]
    assert {"succeeded"} == {one["status"] for one in said[-3:] if "status" in one}


async def test_a_key_is_taken_either_way(world: World) -> None:
    """It sends none; who puts one before it may use either header."""
    world.settings["runs_auth"] = "key"
    async with live(world) as life:
        assert 401 == (await post(life, '{"prompt":"{}","recipe_name":"echo"}')).status_code
        key = life.http.headers["Authorization"].removeprefix("Bearer ")
        for headers in ({"X-API-Key": key}, {"Authorization": f"Bearer {key}"}):
            assert 202 == (await post(life, '{"prompt":"{}","recipe_name":"echo"}', **headers)).status_code
