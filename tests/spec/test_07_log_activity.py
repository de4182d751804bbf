"""Section 7: the request log and activity."""

from typing import Any

import pytest
import trio

from tests.spec.receiver import URL, Receiver, slow
from tests.spec.world import EPOCH, KEY, Life, World, live


async def log(life: Life, **query: Any) -> list[dict[str, Any]]:
    answer = await life.http.get("/api/v1/requests", params=query)
    assert 200 == answer.status_code, answer.text
    return list(answer.json()["requests"])


async def activity(life: Life) -> Any:
    answer = await life.http.get("/api/v1/activity")
    assert 200 == answer.status_code
    return answer.json()


async def test_a_call_is_a_pair_of_rows(life: Life) -> None:
    """Pairs of rows (begin, end) with `kind`, route, page, status, duration, request id."""
    await life.call("work", headers={"X-Request-Id": "r-1"}, seconds=5)
    end, begin = await log(life)
    common = {
        "kind": "plugin",
        "method": "POST",
        "route": "/api/v1/main/plugin/test/work",
        "page_id": "main",
        "job_id": None,
        "request_id": "r-1",
    }
    assert {**common, "at": EPOCH, "phase": "begin", "status": None, "duration_s": None} == begin
    assert {**common, "at": EPOCH + 5, "phase": "end", "status": 200, "duration_s": 5.0} == end


async def test_a_job_logs_its_start_and_its_run(life: Life) -> None:
    """The start logs its own request (status `202`, a few ms), and the job a pair of rows of kind `job`: how long the
    plugin really ran, and the status that the plain call would have answered.
    """
    job = (await life.ask("work", headers={"X-Request-Id": "r-2"}, seconds=50)).json()["job_id"]
    await trio.sleep(60)
    rows = await log(life)
    assert {"r-2"} == {row["request_id"] for row in rows}
    seen = {(row["kind"], row["phase"]): row for row in rows}
    assert 4 == len(rows) == len(seen)
    assert (202, 0.0) == (seen["plugin", "end"]["status"], seen["plugin", "end"]["duration_s"])
    assert (200, 50.0, job) == tuple(seen["job", "end"][name] for name in ("status", "duration_s", "job_id"))
    assert "/api/v1/main/plugin/test/work" == seen["job", "begin"]["route"]


async def test_a_failed_job_logs_its_status(life: Life) -> None:
    """The status the plain call would have answered."""
    await life.ask("fail", how="word", status=409)
    await trio.sleep(1)
    assert 409 == (await log(life, kind="job"))[0]["status"]


async def test_an_interrupted_job_has_its_end_in_the_log(world: World) -> None:
    """In pairs: what a stop cut off gets its end at the next start."""
    async with live(world) as life:
        job = await life.start("work", seconds=3600)
        await trio.sleep(30)
        await life.stop()
    async with live(world) as life:
        rows = [row for row in await log(life) if row["job_id"] == job]
    assert [("end", 503), ("begin", None)] == [(row["phase"], row["status"]) for row in rows]


async def test_what_is_not_in_it(life: Life) -> None:
    """Polls, health checks, metrics and the waker's own questions are not in it."""
    job = await life.start("echo", ttl=60)
    await trio.sleep(1)
    before = len(await log(life))
    await life.poll(job)
    for path in ("/healthz", "/readyz", "/metrics", "/api/v1/activity", "/api/v1/requests", "/openapi.json"):
        await life.http.get(path)
    assert before == len(await log(life))


async def test_ops_and_primitives_are_in_it(life: Life) -> None:
    """With `kind` (`plugin`, `op`, `primitive`, `job`, …)."""
    await life.http.get("/api/v1/pages")
    await life.http.post("/api/v1/main/text", json={"timeout_ms": -1})
    assert ["primitive", "primitive", "op", "op"] == [row["kind"] for row in await log(life)]


async def test_bodies_and_keys_never_are(life: Life, receiver: Receiver, logged: list[Any]) -> None:
    """Bodies and keys never are in it, nor is a media token, nor in any line of the log."""
    receiver.answers(404)
    await life.call("echo", text="b0dy-text")
    url = (await life.call("file")).json()["media"]["url"]
    token = url.rpartition("/")[2]
    await life.http.get(url)
    await life.ask("echo", text="b0dy-text")
    await life.http.get("/api/v1/main/plugin/test/echo", params={"text": "b0dy-text"})
    await life.http.get("/api/v1/pages", headers={"Authorization": f"Bearer {KEY}-wrong"})
    held = (await life.http.post("/api/v1/main/lease", json={"ttl": 5})).json()["lease"]
    await trio.sleep(1)
    for text in (str(await log(life, limit=1000)), str(logged)):
        for secret in ("b0dy-text", KEY, token, held):
            assert secret not in text


async def test_the_log_is_read_newest_first(life: Life) -> None:
    """`kind`, `page_id`, `since`, `limit`."""
    await life.open("second")
    for page_id in ("main", "second", "main"):
        await life.call("echo", page_id)
        await trio.sleep(10)
    plugin = await log(life, kind="plugin")
    assert [20, 20, 10, 10, 0, 0] == [row["at"] - EPOCH for row in plugin]
    assert 2 == len(await log(life, kind="plugin", page_id="second"))
    assert 2 == len(await log(life, since=EPOCH + 15))
    assert plugin[:3] == await log(life, kind="plugin", limit=3)


async def test_it_is_kept_for_seven_days(life: Life, world: World) -> None:
    """Kept 7 days."""
    await life.call("echo")
    await trio.sleep(20)
    assert 2 == len(await log(life))
    world.skew = 7 * 24 * 3600 - 100
    await trio.sleep(61)
    assert 2 == len(await log(life))
    await trio.sleep(121)
    assert [] == await log(life)


async def test_in_flight_counts_what_must_not_be_stopped(life: Life, receiver: Receiver) -> None:
    """`in_flight`: calls at work, running jobs, webhook jobs not yet settled; a polling job that ended does not."""
    receiver.answers(500, 200)
    polled = await life.start("work", ttl=600, seconds=10)
    await life.open("second")
    await life.start("work", "second", seconds=20)
    seen: list[tuple[int, ...]] = []
    for _ in range(9):
        await trio.sleep(9.5 if not seen else 10)
        now = await activity(life)
        seen.append((now["in_flight"], now["jobs_running"], now["jobs_held"], now["deliveries_pending"]))
    assert [(2, 2, 2, 0), (1, 1, 2, 0), *[(1, 0, 2, 1)] * 6, (0, 0, 1, 0)] == seen
    assert "done" == (await life.shown(polled))["state"]


async def test_idle_counts_from_the_last_of_it(life: Life) -> None:
    """`last_client_activity`: polls count, the waker's questions do not; `idle_for_s` is 0 while anything runs."""
    job = await life.start("work", ttl=600, seconds=30)
    await trio.sleep(20)
    assert 0 == (await activity(life))["idle_for_s"]
    await trio.sleep(30)
    now = await activity(life)
    assert (20.0, EPOCH) == (now["idle_for_s"], now["last_client_activity"])
    await life.http.get("/healthz")
    await life.http.get("/metrics")
    await trio.sleep(10)
    assert 30.0 == (await activity(life))["idle_for_s"]
    await life.poll(job)
    await trio.sleep(5)
    now = await activity(life)
    assert (5.0, EPOCH + 60) == (now["idle_for_s"], now["last_client_activity"])


async def test_a_stranger_is_no_client(life: Life) -> None:
    """Whoever has no key is no client's activity."""
    await trio.sleep(10)
    await life.http.get("/api/v1/pages", headers={"Authorization": "Bearer no"})
    await life.http.get("/api/v1/pages", headers={"Host": "evil.example"})
    now = await activity(life)
    assert (None, 10.0) == (now["last_client_activity"], now["idle_for_s"])


async def test_why_the_worker_is_not_free(life: Life) -> None:
    """One word that says why the worker is not free (`ok`, `pages`, …)."""
    assert "ok" == (await activity(life))["pressure"]["why"]
    await life.start("work", ttl=60, seconds=5)
    assert "pages" == (await activity(life))["pressure"]["why"]
    await trio.sleep(6)
    assert "ok" == (await activity(life))["pressure"]["why"]


async def test_activity_answers_while_a_webhook_waits(life: Life, receiver: Receiver) -> None:
    """A slow receiver holds up nothing of the worker's own."""
    receiver.answers(slow(9))
    await life.ask("echo")
    began = trio.current_time()
    for _ in range(10):
        assert 1 == (await activity(life))["in_flight"]
    assert began == trio.current_time()


@pytest.mark.parametrize(
    "query", ["kind=a&kind=b", "since=-1", "since=nan", "limit=1001", "limit=x", "page=1"]
)
async def test_a_bad_question_is_400(life: Life, query: str) -> None:
    """A bad or unknown parameter is `400`."""
    assert 400 == (await life.http.get(f"/api/v1/requests?{query}")).status_code


async def test_the_requests_own_page(life: Life) -> None:
    """The log of a start that was refused has its status, and no job."""
    await life.http.post("/api/v1/main/plugin/test/echo", json={}, headers={"X-Callback-Url": ""})
    await life.ask("echo", "nowhere")
    rows = await log(life, kind="plugin")
    assert [404, 400] == [row["status"] for row in rows if row["phase"] == "end"]
    assert URL not in str(rows)
