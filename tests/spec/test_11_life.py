"""Section 11: cancel and limit."""

from typing import Any

import pytest
import trio

from tests.spec.receiver import Receiver
from tests.spec.test_08_owed import fill_disk, free_disk
from tests.spec.world import Life, World, live

CANCELLED = {"success": False, "error": "job cancelled: a client asked for its end", "page_id": "main"}


async def cancel(life: Life, job_id: str) -> Any:
    return await life.http.delete(f"/api/v1/jobs/{job_id}")


async def rows_of(life: Life, job_id: str) -> list[tuple[str, int | None]]:
    """The job's own rows of the request log, oldest first."""
    rows = (await life.http.get("/api/v1/requests?kind=job&limit=1000")).json()["requests"]
    return [(row["phase"], row["status"]) for row in reversed(rows) if row["job_id"] == job_id]


# Cancel


async def test_a_running_job_is_cancelled(life: Life) -> None:
    """`DELETE /jobs/{id}` → the plugin is cancelled; state `cancelled`, status `499`."""
    job = await life.start("work", ttl=60, seconds=500)
    await trio.sleep(5)
    answer = await cancel(life, job)
    assert 200 == answer.status_code
    assert answer.text == (await life.poll(job)).text
    seen = answer.json()
    assert ("cancelled", 499, CANCELLED) == (seen["state"], seen["status"], seen["result"])
    assert 60 == seen["expires_in"]
    assert ["work began", "work cut off"] == life.page.seen
    assert 1 == life.tab.healed
    assert [("begin", None), ("end", 499)] == await rows_of(life, job)
    assert 202 == (await life.ask("echo")).status_code  # the page is free
    await trio.sleep(61)
    assert await life.gone(job)


async def test_a_cancelled_job_is_delivered_like_any_end(life: Life, receiver: Receiver) -> None:
    """Delivered like any end, in its four attempts."""
    receiver.answers(500, 200)
    job = await life.start("work", seconds=500)
    await trio.sleep(1)
    assert 200 == (await cancel(life, job)).status_code
    await trio.sleep(70)
    assert [0, 60] == [round(post.at - 1) for post in receiver.of(job)]
    body = receiver.posts[-1].json
    assert ("cancelled", 499, CANCELLED) == (body["state"], body["status"], body["result"])
    assert await life.gone(job)


@pytest.mark.parametrize("job", ["0" * 16, "x"])
async def test_no_such_job(life: Life, job: str) -> None:
    """Unknown: `404`."""
    assert 404 == (await cancel(life, job)).status_code


async def test_a_job_that_has_ended(life: Life) -> None:
    """Ended already: `409`, naming its state; past its `ttl` `404`, swept or not."""
    done = await life.start("echo", ttl=50)
    await trio.sleep(1)
    cut = await life.start("work", ttl=50, seconds=500)
    assert 200 == (await cancel(life, cut)).status_code
    for job, state in ((done, "done"), (cut, "cancelled")):
        answer = await cancel(life, job)
        assert (409, f"job {job} has ended already: it is {state}") == (
            answer.status_code,
            answer.json()["error"],
        )
    await trio.sleep(52)
    assert [404, 404] == [(await cancel(life, job)).status_code for job in (done, cut)]


async def test_a_cancel_has_no_body(life: Life) -> None:
    """Bad input gets a clear error."""
    job = await life.start("work", ttl=60, seconds=3)
    answer = await life.http.request("DELETE", f"/api/v1/jobs/{job}", json={"force": True})
    assert (422, "running") == (answer.status_code, (await life.shown(job))["state"])


async def test_two_cancels_at_once_get_the_same_end(life: Life) -> None:
    """Two DELETEs at once get the same end."""
    job = await life.start("stubborn", ttl=60, seconds=2)
    answers: list[Any] = []

    async def ask() -> None:
        answers.append(await cancel(life, job))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(ask)
    assert [200] * 3 == [answer.status_code for answer in answers]
    assert 1 == len({answer.text for answer in answers})


@pytest.mark.parametrize("says", ["a result", "an error"])
async def test_a_cancel_that_is_swallowed(life: Life, says: str) -> None:
    """A late result cannot land; the claim is free, `/tree` is clean."""
    job = await life.start("stubborn", ttl=60, says=says)
    await trio.sleep(1)
    answer = await cancel(life, job)
    seen = answer.json()
    assert ("cancelled", 499, {**CANCELLED, "checkpoint": {"done": 7}}) == (
        seen["state"],
        seen["status"],
        seen["result"],
    )
    assert 4 == trio.current_time()
    assert [("begin", None), ("end", 499)] == await rows_of(life, job)
    assert 200 == (await life.call("echo")).status_code
    tree = (await life.http.get("/api/v1/tree")).json()
    assert not [name for name in (job, "stubborn") if name in str(tree)]
    assert None is tree["pages"][0]["holder"]


async def test_the_client_may_leave(life: Life) -> None:
    """The client that sent the DELETE may leave: the cancel goes on."""
    job = await life.start("stubborn", ttl=60)
    await trio.sleep(1)
    with trio.move_on_after(1):
        await cancel(life, job)
    assert 2 == trio.current_time()
    assert "running" == (await life.shown(job))["state"]
    await trio.sleep(3)
    assert "cancelled" == (await life.shown(job))["state"]


async def test_a_cancel_is_a_request_of_the_log(life: Life) -> None:
    """The request log has it as an op; polls are not in it."""
    job = await life.start("work", ttl=60, seconds=500)
    await life.poll(job)
    await cancel(life, job)
    rows = (await life.http.get("/api/v1/requests?kind=op")).json()["requests"]
    assert [("DELETE", 200), ("DELETE", None)] == [(row["method"], row["status"]) for row in rows]


async def test_a_thousand_cancels_at_the_moment_of_ending(life: Life, receiver: Receiver) -> None:
    """One terminal state; webhook, poll and log agree."""
    life.database._writer.execute(
        "PRAGMA synchronous = OFF"
    )  # thousands of syncs of the disk are not the matter
    ends: dict[str, tuple[str, int]] = {}
    for n in range(1000):
        start = life.start("work", seconds=0.1) if n % 2 else life.start("work", ttl=600, seconds=0.1)
        job = await start
        await trio.sleep(0.099 + (n % 3) * 0.001)
        for _ in range(n % 25):
            await trio.lowlevel.checkpoint()
        answer = await cancel(life, job)
        await trio.sleep(0.1)
        body = receiver.posts[-1].json if n % 2 else await life.shown(job)
        assert job == body["job_id"]
        state, status = body["state"], body["status"]
        assert (state, status, body["result"]["success"]) in {("done", 200, True), ("cancelled", 499, False)}
        match answer.status_code:
            case 200:
                assert "cancelled" == state == answer.json()["state"]
            case 409:
                assert "done" == state
                assert answer.json()["error"].endswith("done")
            case _:
                assert (404, "done", 1) == (answer.status_code, state, n % 2)  # delivered already
        ends[job] = (state, status)
        if not n % 2:  # not to hold a thousand
            await life.database.write(lambda c: c.execute("DELETE FROM jobs"))
    await life.worker.requests.flush()
    logged = await life.database.read(
        lambda c: c.execute(
            "SELECT job_id, status FROM requests WHERE kind = 'job' AND phase = 'end'"
        ).fetchall()
    )
    assert {job: status for job, (_, status) in ends.items()} == {
        row["job_id"]: row["status"] for row in logged
    }
    assert (1000, 500) == (len(logged), len(receiver.posts))
    states = [state for state, _ in ends.values()]
    assert min(states.count("done"), states.count("cancelled")) > 50


async def test_a_cancel_whose_end_the_disk_refuses(life: Life) -> None:
    """A result that cannot be written is kept in memory and retried; the log says so."""
    job = await life.start("stubborn", ttl=600, size=10**6)
    await trio.sleep(1)
    fill_disk(life)
    answer = await cancel(life, job)
    assert 1 == life.supervisor.ends.owed
    assert (200, "cancelled") == (answer.status_code, answer.json()["state"])
    assert 409 == (await cancel(life, job)).status_code
    free_disk(life)
    await trio.sleep(3)
    assert 0 == life.supervisor.ends.owed
    assert "cancelled" == (await life.shown(job))["state"]


async def test_a_cancel_while_the_worker_stops(world: World) -> None:
    """What is asked for within the stop's grace is done: the job is cancelled, not interrupted."""
    async with live(world) as life:
        job = await life.start("work", ttl=600, seconds=500)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(life.stop)
            await trio.sleep(1)
            assert 200 == (await cancel(life, job)).status_code
        assert 1 == trio.current_time()  # nothing else to wait for
    async with live(world) as life:
        assert "cancelled" == (await life.shown(job))["state"]


@pytest.mark.parametrize("says", ["nothing", "a result"])
async def test_a_cancel_that_the_stop_overtakes(world: World, says: str) -> None:
    """A cancel that comes before a stop is written as one, though the plugin ends only after the grace."""
    async with live(world) as life:
        job = await life.start("stubborn", ttl=600, seconds=15, says=says)
        answers: list[int] = []

        async def ask() -> None:
            answers.append((await cancel(life, job)).status_code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.sleep(1)
            nursery.start_soon(life.stop)
        assert [200] == answers
    async with live(world) as life:
        assert "cancelled" == (await life.shown(job))["state"]


async def test_a_cancel_of_what_the_stop_cut_off(world: World) -> None:
    """The worker stopped before the job ended: `503`, and the next start ends it."""
    async with live(world) as life:
        job = await life.start("work", ttl=600, seconds=500)
        await life.stop()
        answer = await cancel(life, job)
        assert (503, "10") == (answer.status_code, answer.headers["Retry-After"])
    async with live(world) as life:
        assert "interrupted" == (await life.shown(job))["state"]


# Limit


async def timed(life: Life, name: str, limit: str, **body: Any) -> str:
    headers = {"X-Result-Ttl": "600", "X-Job-Timeout": limit}
    answer = await life.call(name, headers=headers, **body)
    assert 202 == answer.status_code, answer.text
    return str(answer.json()["job_id"])


async def test_a_job_past_its_limit_ends_as_408(life: Life) -> None:
    """`X-Job-Timeout: <seconds>`: past it the job ends as `408`, and the page heals."""
    job = await timed(life, "work", "2.5", seconds=500)
    await trio.sleep(2.4)
    assert "running" == (await life.shown(job))["state"]
    await trio.sleep(0.2)
    seen = await life.shown(job)
    assert ("done", 408, 2.5) == (seen["state"], seen["status"], seen["finished_at"] - seen["started_at"])
    assert {
        "success": False,
        "error": "job timed out: it took longer than its limit of 2.5 s",
        "page_id": "main",
        "kind": "timeout",
    } == seen["result"]
    assert ["work began", "work cut off"] == life.page.seen
    assert 1 == life.tab.healed
    assert [("begin", None), ("end", 408)] == await rows_of(life, job)


async def test_a_limit_that_the_stop_overtakes(world: World) -> None:
    """A job whose limit had passed ends as `408`, though the plugin ends only after the stop's grace."""
    async with live(world) as life:
        job = await timed(life, "stubborn", "1", seconds=15, says="nothing")
        await trio.sleep(2)
        await life.stop()
    async with live(world) as life:
        shown = await life.shown(job)
        assert ("done", 408, {"done": 7}) == (shown["state"], shown["status"], shown["result"]["checkpoint"])


async def test_a_job_within_its_limit_has_its_own_result(life: Life) -> None:
    """Without passing it, the limit changes nothing."""
    job = await timed(life, "work", "3", seconds=2)
    await trio.sleep(20)
    assert ("done", 200) == ((await life.shown(job))["state"], (await life.shown(job))["status"])


async def test_a_late_result_is_dropped(life: Life) -> None:
    """The limit passes while the plugin ignores it; then it returns: dropped, and no page is shared by two calls."""
    job = await timed(life, "stubborn", "1", seconds=3)
    await trio.sleep(2)
    busy = await life.ask("echo")
    assert 409 == busy.status_code  # it is still at work on the page
    await trio.sleep(3)
    seen = await life.shown(job)
    assert ("done", 408, {"done": 7}) == (seen["state"], seen["status"], seen["result"]["checkpoint"])
    assert 200 == (await life.call("echo")).status_code


async def test_a_cancel_after_the_limit(life: Life) -> None:
    """Which came first is what the job ends as."""
    job = await timed(life, "stubborn", "1", seconds=3)
    await trio.sleep(2)
    answer = await cancel(life, job)
    assert (409, f"job {job} has ended already: it is done") == (answer.status_code, answer.json()["error"])
    assert 408 == (await life.shown(job))["status"]


@pytest.mark.parametrize("limit", ["0", "-1", "nan", "1e2", "", "86401", "5s"])
async def test_a_bad_limit(life: Life, limit: str) -> None:
    """By the rules of the ttl: `400`, and nothing starts."""
    answer = await life.ask("work", headers={"X-Job-Timeout": limit})
    assert 400 == answer.status_code
    assert "X-Job-Timeout" in answer.json()["error"]
    await trio.sleep(1)
    assert [] == life.page.seen


async def test_a_limit_on_a_plain_call(life: Life) -> None:
    """On a call that is no job: `400`."""
    answer = await life.call("work", headers={"X-Job-Timeout": "5"})
    assert (400, []) == (answer.status_code, life.page.seen)
    assert "X-Job-Timeout is for the start of a job" in answer.json()["error"]
