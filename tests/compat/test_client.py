"""`praisonai.recipe.submit_job` and its `JobHandle`, unmodified, as its documentation uses them."""

import re
from typing import Any

import pytest
import trio

from tests.compat.conftest import Client, Raised
from tests.io.receivers import Receiver, serve_receiver, status
from tests.io.worker_process import WorkerProcess


async def ended(client: Client, job_id: str) -> Any:
    """Its status, once it is over."""
    with trio.fail_after(30):
        while True:
            seen = await client.handle(job_id, "get_status")
            if seen["status"] in ("succeeded", "failed", "cancelled"):
                return seen
            await trio.sleep(0.05)


async def test_the_first_example(client: Client) -> None:
    """A dict as input arrives as such, although the client sends its `repr`; `config` is the recipe's."""
    job = await client.submit(
        "my-recipe",
        input={"query": "What is AI?", "deep": True, "none": None},
        config={"max_tokens": 1000},
        session_id="session_123",
        timeout_sec=3600,
        idempotency_key="unique-key-123",
    )
    assert re.fullmatch("run_[0-9a-f]{12}", job["job_id"])
    assert ("queued", "my-recipe") == (job["status"], job["recipe_name"])
    seen = await ended(client, job["job_id"])
    assert ("succeeded", "session_123", "recipe:my-recipe") == (
        seen["status"],
        seen["session_id"],
        seen["agent_id"],
    )
    result = await client.handle(job["job_id"], "get_result")
    assert {"query": "What is AI?", "deep": True, "none": None} == result["result"]["input"]
    assert {"max_tokens": 1000} == result["result"]["config"]
    assert result["duration_seconds"] >= 0


async def test_submitted_and_waited_for(client: Client) -> None:
    job = await client.submit("text", input="test", wait=True, poll_interval=0.05)
    result = await client.handle(job["job_id"], "get_result")
    assert ("succeeded", "test") == (result["status"], result["result"])


async def test_wait_after_the_submit(client: Client) -> None:
    job = await client.submit("slow", input="test")
    result = await client.handle(job["job_id"], "wait", poll_interval=0.1, timeout=300)
    assert ("succeeded", 2) == (result["status"], result["result"]["second"]["value"])


async def test_a_wait_that_gives_up_leaves_the_run_alone(client: Client) -> None:
    job = await client.submit("slow", config={"seconds": 2})
    given_up = await client.handle(job["job_id"], "wait", poll_interval=0.1, timeout=0.3)
    assert "timeout" == given_up["status"]
    assert "succeeded" == (await ended(client, job["job_id"]))["status"]


async def test_a_result_before_the_end(client: Client) -> None:
    """409: the client makes an error of it, and goes on."""
    job = await client.submit("slow", config={"seconds": 2})
    early = await client.handle(job["job_id"], "get_result")
    assert "409" in early["error"]
    assert "succeeded" == (await ended(client, job["job_id"]))["status"]


async def test_no_input_at_all(client: Client) -> None:
    job = await client.submit("my-recipe", wait=True, poll_interval=0.05)
    result = await client.handle(job["job_id"], "get_result")
    assert {} == result["result"]["input"]


async def test_the_same_key_is_the_same_run(client: Client, worker: WorkerProcess) -> None:
    first = await client.submit("text", input="one", idempotency_key="order-123")
    await ended(client, first["job_id"])
    again = await client.submit("text", input="another", idempotency_key="order-123")
    assert (first["job_id"], "succeeded") == (again["job_id"], again["status"])
    other = await client.submit("text", input="one", idempotency_key="order-124")
    assert first["job_id"] != other["job_id"]


async def test_cancel(client: Client) -> None:
    job = await client.submit("slow", config={"seconds": 60})
    await trio.sleep(0.3)
    assert await client.handle(job["job_id"], "cancel") is True
    assert "cancelled" == (await client.handle(job["job_id"], "get_status"))["status"]
    result = await client.handle(job["job_id"], "wait", poll_interval=0.1, timeout=5)
    assert "cancelled" == result["status"]
    assert await client.handle(job["job_id"], "cancel") is False


async def test_one_that_fails(client: Client) -> None:
    """Theirs says `succeeded` for a recipe that failed inside; ours does not."""
    job = await client.submit("fails", wait=True, poll_interval=0.05)
    result = await client.handle(job["job_id"], "get_result")
    assert ("failed", None) == (result["status"], result["result"])
    assert "step 1 (it, tested/fail): no luck" == result["error"]


async def test_one_whose_time_is_over(client: Client) -> None:
    job = await client.submit("slow", config={"seconds": 60}, timeout_sec=1)
    result = await client.handle(job["job_id"], "wait", poll_interval=0.1, timeout=20)
    assert ("failed", "Job timed out after 1s") == (result["status"], result["error"])


async def test_what_is_refused_is_raised(client: Client) -> None:
    for recipe, given in (("no-such", {}), ("strict", {"input": {"n": "x"}})):
        with pytest.raises(Raised, match="422"):
            await client.submit(recipe, **given)
    with pytest.raises(Raised, match="422"):
        await client.submit("text", webhook_url="http://127.0.0.1:1/h")


async def test_an_unknown_id(client: Client) -> None:
    seen = await client.handle("run_0123456789ab", "get_status")
    assert ("unknown", True) == (seen["status"], "404" in seen["error"])
    assert await client.handle("run_0123456789ab", "cancel") is False
    assert "404" in (await client.handle("run_0123456789ab", "get_result"))["error"]


async def test_a_webhook_has_its_shape_and_a_signature(client: Client, nursery: trio.Nursery) -> None:
    receiver: Receiver = await nursery.start(serve_receiver, status(200), None, "127.0.0.7")
    job = await client.submit("text", input="x", webhook_url=receiver.url)
    (post,) = await receiver.wait_for(1)
    assert ["job_id", "status", "result", "error", "completed_at", "duration_seconds"] == list(post.job)
    assert (job["job_id"], "succeeded", "x") == (post.job["job_id"], post.job["status"], post.job["result"])
    assert post.header("X-Penelope-Signature").startswith("sha256=")
    assert job["job_id"] == post.header("webhook-id")


async def test_fifty_at_once_under_one_key_are_one_run(client: Client, worker: WorkerProcess) -> None:
    ids = set()
    async with worker.client() as http, trio.open_nursery() as nursery:

        async def one() -> None:
            body = {"prompt": "x", "recipe_name": "text", "idempotency_key": "fifty"}
            ids.add((await http.post("/api/v1/runs", json=body)).json()["job_id"])

        for _ in range(50):
            nursery.start_soon(one)
    assert 1 == len(ids)
    assert "succeeded" == (await ended(client, ids.pop()))["status"]


async def test_a_server_that_is_killed(client: Client, worker: WorkerProcess, home: Any) -> None:
    """Queued ones run after the restart, running ones say that they were interrupted, and their key is free."""
    running = await client.submit("slow-on-main", config={"seconds": 60}, idempotency_key="killed")
    queued = await client.submit("slow-on-main", config={"seconds": 0})
    await trio.sleep(0.5)
    seen = [(await client.handle(one["job_id"], "get_status"))["status"] for one in (running, queued)]
    assert ["running", "queued"] == seen
    port = worker.base_url.rpartition(":")[2]
    await worker.kill()
    await worker.start(PENELOPE_PORT=port)
    result = await client.handle(running["job_id"], "get_result")
    assert ("failed", "Interrupted by service restart") == (result["status"], result["error"])
    assert "succeeded" == (await ended(client, queued["job_id"]))["status"]
    again = await client.submit("text", input="x", idempotency_key="killed")
    assert running["job_id"] != again["job_id"]
