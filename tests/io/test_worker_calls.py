"""The whole worker over real sockets: the owner's own lines, clients that leave, large results, names in the log."""

import json
import random
import shutil
import socket
import sqlite3
import struct
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from penelope.demo.site import serve_site
from penelope.signing import is_signed
from tests.io.conftest import SITE_PORT, NewReceiver
from tests.io.waiting import until
from tests.io.worker_process import KEY, WorkerProcess

MARK = "/api/v1/main/plugin/tested/mark"
LEAVES = 100


@pytest.fixture
async def site(nursery: trio.Nursery) -> str:
    """The stand-in site, where the shared worker's family looks for it."""
    base_url: str = await nursery.start(partial(serve_site, SITE_PORT, list_latency_s=0))
    return base_url


async def polled(client: httpx.AsyncClient, job_id: str, within_s: float = 20.0) -> dict[str, Any]:
    """The job once it has ended."""
    job: dict[str, Any] = {}

    async def has_ended() -> bool:
        nonlocal job
        answer = await client.get(f"/api/v1/jobs/{job_id}")
        assert 200 == answer.status_code
        job = answer.json()
        return bool(job["state"] != "running")

    await until(has_ended, within_s)
    return job


def marks(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


async def idle(client: httpx.AsyncClient) -> None:
    """Nobody works `main`, and nobody waits for it."""

    async def is_idle() -> bool:
        page = (await client.get("/api/v1/main")).json()
        activity = (await client.get("/api/v1/activity")).json()
        return bool(page["state"] == "idle" and activity["in_flight"] == 0)

    await until(is_idle, 30)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
async def test_the_owners_own_lines(
    shared_worker: WorkerProcess, site: str, new_receiver: NewReceiver, client: httpx.AsyncClient
) -> None:
    """As they stand in the specification of jobs; of another machine's address and key only."""
    receiver = await new_receiver()
    lines = """
curl -s -X POST "$BASE/main/plugin/instagram/open-account" -H "$AUTH" \\
  -H "X-Callback-Url: $HOOK" \\
  -H "Content-Type: application/json" -d '{"handle": "alice"}'
"""
    more = """
JOB=$(curl -s "$BASE/main/plugin/instagram/get-following" -H "$AUTH" \\
  -H "X-Result-Ttl: 600" | sed 's/.*"job_id": *"\\([0-9a-f]*\\)".*/\\1/')
curl -s "$BASE/jobs/$JOB" -H "$AUTH"
"""

    async def shell(text: str) -> dict[str, Any]:
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "BASE": f"{shared_worker.base_url}/api/v1",
            "AUTH": f"Authorization: Bearer {KEY}",
            "HOOK": receiver.url,
        }
        done = await trio.run_process(["sh", "-c", text], capture_stdout=True, env=environment)
        value = json.loads(done.stdout)
        assert isinstance(value, dict)
        return value

    accepted = await shell(lines)
    assert ["success", "page_id", "job_id", "status_url", "ttl", "callback"] == list(accepted)
    assert (True, "main", None, receiver.url) == tuple(
        accepted[name] for name in ("success", "page_id", "ttl", "callback")
    )
    assert f"/api/v1/jobs/{accepted['job_id']}" == accepted["status_url"]
    (received,) = await receiver.wait_for(1)
    assert is_signed(received.body, received.header("X-Penelope-Signature"), KEY)
    assert ("done", 200, "alice") == (
        received.job["state"],
        received.job["status"],
        received.job["result"]["handle"],
    )
    await until(lambda: gone(client, accepted["job_id"]))

    shown = await shell(more)
    assert (True, "running", None) == (shown["success"], shown["state"], shown["result"])
    job = await polled(client, shown["job_id"])
    assert ("done", 200) == (job["state"], job["status"])
    assert "alice" == job["result"]["handle"]
    assert job["result"]["following"]
    assert 0 < job["expires_in"] <= 600


async def gone(client: httpx.AsyncClient, job_id: str) -> bool:
    return (await client.get(f"/api/v1/jobs/{job_id}")).status_code == 404


async def test_a_job_shows_exactly_what_the_plain_call_answers(client: httpx.AsyncClient) -> None:
    for name, body in (
        ("echo", {"value": {"ü": [1.0, None, 2**60]}}),
        ("fail", {"text": "no such thing", "status": 418}),
        ("look", {}),
    ):
        route = f"/api/v1/main/plugin/tested/{name}"
        plain = await client.post(route, json=body)
        started = await client.post(route, json=body, headers={"X-Result-Ttl": "60"})
        assert 202 == started.status_code
        job = await polled(client, started.json()["job_id"])
        assert (plain.status_code, plain.json()) == (job["status"], job["result"])


def leave(url: str, path: str, body: dict[str, Any], headers: dict[str, str]) -> socket.socket:
    """Send a whole request; closing the socket then resets the connection."""
    target = httpx.URL(url)
    content = json.dumps(body).encode()
    fields = {
        "Host": f"127.0.0.1:{target.port}",
        "Authorization": f"Bearer {KEY}",
        "Content-Type": "application/json",
        "Content-Length": str(len(content)),
        **headers,
    }
    head = "\r\n".join(
        [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    )
    connection = socket.create_connection(("127.0.0.1", target.port or 0))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.sendall(head.encode() + content)
    return connection


async def test_a_client_that_leaves_a_plain_call_does_not_end_it(
    shared_worker: WorkerProcess, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    file = tmp_path / "marks"
    connection = leave(shared_worker.base_url, MARK, {"file": str(file), "seconds": 1}, {})
    await until(lambda: ["begin None"] == marks(file))
    connection.close()
    await until(lambda: ["begin None", "end None"] == marks(file))
    await idle(client)


async def test_a_client_that_leaves_the_line_never_runs(
    shared_worker: WorkerProcess, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(client.post, MARK, json={"file": str(first), "seconds": 1}))
        await until(lambda: marks(first) != [])
        connection = leave(shared_worker.base_url, MARK, {"file": str(second)}, {})
        await trio.sleep(0.3)
        connection.close()
    await idle(client)
    assert 2 == len(marks(first))
    assert [] == marks(second)


async def test_a_client_that_leaves_while_starting_a_job_starts_it_or_does_not(
    shared_worker: WorkerProcess, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    """J31: each job that exists ran to its end, nothing else ran, and the page is never left claimed."""
    dice = random.Random(31)
    file = tmp_path / "marks"
    headers = {"X-Result-Ttl": "500"}
    began = time.monotonic()
    assert 202 == (await client.post(MARK, json={"file": str(file)}, headers=headers)).status_code
    whole_s = (
        time.monotonic() - began
    )  # so that most have been read when they leave, however busy the machine is
    for _ in range(LEAVES):
        connection = leave(shared_worker.base_url, MARK, {"file": str(file)}, headers)
        await trio.sleep(dice.uniform(0, max(0.05, 2 * whole_s)))
        connection.close()
    await idle(client)

    with closing(sqlite3.connect(shared_worker.database)) as connection_to_store:
        rows = connection_to_store.execute(
            "SELECT job_id, state, status FROM jobs JOIN results USING (job_id) WHERE plugin = 'tested/mark'"
        ).fetchall()
    assert {("done", 200)} == {(state, status) for _, state, status in rows}
    ran = marks(file)
    assert {job_id for job_id, _, _ in rows} == {line.split()[1] for line in ran}
    assert 2 * len(rows) == len(ran)
    assert len(rows) > LEAVES / 4  # else nothing was tried
    assert 200 == (await client.post(MARK, json={"file": str(file)})).status_code


async def test_ten_megabytes_are_whole_both_ways(
    client: httpx.AsyncClient, new_receiver: NewReceiver
) -> None:
    """J49."""
    receiver = await new_receiver()
    route = "/api/v1/main/plugin/tested/large"
    expected = "é" * (10 * 2**19)
    started = await client.post(route, json={"mib": 10}, headers={"X-Result-Ttl": "60"})
    job = await polled(client, started.json()["job_id"])
    assert expected == job["result"]["text"]

    await client.post(route, json={"mib": 10}, headers={"X-Callback-Url": receiver.url})
    (received,) = await receiver.wait_for(1)
    assert expected == received.job["result"]["text"]
    assert is_signed(received.body, received.header("X-Penelope-Signature"), KEY)


async def test_every_kind_of_text_is_signed_as_it_is_sent(
    client: httpx.AsyncClient, new_receiver: NewReceiver
) -> None:
    """J85, through the whole worker."""
    receiver = await new_receiver()
    value = ["🦊", "</script>", "\u2028\x00\x7f", "\\/", 1.0, 1e-7, 2**63, 10**40, -0.0, None, {"": []}]
    await client.post(
        "/api/v1/main/plugin/tested/echo",
        content=json.dumps({"value": value}).encode(),
        headers={"X-Callback-Url": receiver.url, "Content-Type": "application/json"},
    )
    (received,) = await receiver.wait_for(1)
    assert value == received.job["result"]["value"]
    assert is_signed(received.body, received.header("X-Penelope-Signature"), KEY)


async def test_the_request_id_is_in_every_line_of_the_request_and_its_job(
    shared_worker: WorkerProcess, client: httpx.AsyncClient, new_receiver: NewReceiver
) -> None:
    receiver = await new_receiver()
    before = len(shared_worker.lines())
    answer = await client.post(
        "/api/v1/main/plugin/tested/say",
        json={"text": "the plugin's words"},
        headers={"X-Callback-Url": receiver.url, "X-Request-Id": "mine-42"},
    )
    assert "mine-42" == answer.headers["X-Request-Id"]
    await receiver.wait_for(1)
    await shared_worker.wait_for_line("webhook posted", job_id=answer.json()["job_id"])
    lines = shared_worker.lines()[before:]
    assert {"request", "the plugin's words", "webhook posted"} <= {line["event"] for line in lines}
    assert {"mine-42"} == {line.get("request_id") for line in lines if line["logger"] != "penelope.store"}


async def test_a_client_with_no_key_learns_nothing(shared_worker: WorkerProcess) -> None:
    async with httpx.AsyncClient(base_url=shared_worker.base_url, trust_env=False) as stranger:
        for key in (None, "x", "wrong", KEY + "é", KEY[:-1]):
            headers = [] if key is None else [(b"Authorization", f"Bearer {key}".encode())]
            answer = await stranger.post(MARK, json={"file": "/nowhere"}, headers=headers)
            assert 401 == answer.status_code
            assert {"success", "error", "page_id"} >= set(answer.json())
