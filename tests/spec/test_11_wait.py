"""Section 11, Wait: `Prefer: wait=N` on a job's start and on a poll."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import trio

from penelope.errors import StoreFull
from tests.spec.receiver import URL, Receiver, slow
from tests.spec.world import EPOCH, Life, World, live


async def start(life: Life, name: str, wait: int | str, ttl: str = "60", **body: Any) -> httpx.Response:
    return await life.call(name, headers={"X-Result-Ttl": ttl, "Prefer": f"wait={wait}"}, **body)


async def poll(life: Life, job_id: str, wait: int | str = 30) -> httpx.Response:
    return await life.http.get(f"/api/v1/jobs/{job_id}", headers={"Prefer": f"wait={wait}"})


@asynccontextmanager
async def waiting(life: Life, job_id: str, many: int = 1, wait: int = 30) -> AsyncGenerator[list[Any]]:
    """So many who wait for the job's end; what they were answered and when, once the block is left."""
    answers: list[tuple[float, httpx.Response]] = []

    async def ask() -> None:
        answer = await poll(life, job_id, wait)
        answers.append((trio.current_time(), answer))

    async with trio.open_nursery() as nursery:
        for _ in range(many):
            nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        yield answers


# On a start


async def test_a_start_that_ends_in_time_is_answered_plainly(life: Life) -> None:
    """Status and body as the plain call's, at the moment the job ends; `Location` and `Preference-Applied` besides."""
    plain = await life.call("work", seconds=3)
    answer = await start(life, "work", 10, seconds=3)
    assert 6 == trio.current_time()
    assert (200, plain.content) == (answer.status_code, answer.content)
    assert "wait=10" == answer.headers["Preference-Applied"]
    job = answer.headers["Location"]
    shown = (await life.http.get(job)).json()
    assert ("done", plain.json()) == (shown["state"], shown["result"])
    await trio.sleep(59)
    assert 200 == (await life.http.get(job)).status_code  # the job still exists: held its ttl
    await trio.sleep(2)
    assert 404 == (await life.http.get(job)).status_code


@pytest.mark.parametrize(("how", "status"), [("word", 451), ("TimedOut", 408), ("SiteFailed", 502)])
async def test_a_failure_is_answered_plainly_too(life: Life, how: str, status: int) -> None:
    """Exactly as the plain call would have answered."""
    plain = await life.call("fail", how=how, status=451)
    answer = await start(life, "fail", 10, how=how, status=451)
    assert (status, plain.content) == (answer.status_code, answer.content)
    assert "Location" in answer.headers


async def test_a_start_that_takes_longer_is_a_202(life: Life) -> None:
    """Else `202`, after N s, with the body of every start."""
    answer = await start(life, "work", 10, seconds=12)
    assert (202, 10.0) == (answer.status_code, trio.current_time())
    assert "wait=10" == answer.headers["Preference-Applied"]
    assert answer.headers["Location"] == answer.json()["status_url"]
    assert ["success", "page_id", "job_id", "status_url", "ttl", "callback"] == list(answer.json())
    assert "running" == (await life.shown(answer.json()["job_id"]))["state"]


async def test_more_than_60_is_60(life: Life) -> None:
    """N is at most 60; what was taken is said."""
    answer = await start(life, "work", 3600, seconds=100)
    assert (202, 60.0) == (answer.status_code, trio.current_time())
    assert "wait=60" == answer.headers["Preference-Applied"]


@pytest.mark.parametrize("prefer", ["wait=soon", "wait=-1", "wait", "respond-async", "return=minimal"])
async def test_a_preference_that_is_none_of_ours_is_ignored(life: Life, prefer: str) -> None:
    """As RFC 7240 says: the `202` comes at once, and nothing is said to be applied."""
    answer = await life.call("work", headers={"X-Result-Ttl": "60", "Prefer": prefer}, seconds=5)
    assert (202, 0.0) == (answer.status_code, trio.current_time())
    assert "Preference-Applied" not in answer.headers


async def test_without_a_job_header_it_means_nothing(life: Life) -> None:
    """On a job's start: a plain call waits anyway."""
    answer = await life.call("work", headers={"Prefer": "wait=1"}, seconds=5)
    assert (200, 5.0) == (answer.status_code, trio.current_time())
    assert "Preference-Applied" not in answer.headers


async def test_a_webhook_is_delivered_all_the_same(life: Life, receiver: Receiver) -> None:
    """The job is one like others, whatever its start was answered."""
    answer = await life.ask("work", headers={"Prefer": "wait=10"}, seconds=3)
    assert (200, 3.0) == (answer.status_code, trio.current_time())
    await trio.sleep(1)
    (post,) = receiver.posts
    assert answer.headers["Location"].endswith(post.json["job_id"])
    assert answer.json() == post.json["result"]


async def test_a_refused_start_is_refused_at_once(life: Life) -> None:
    """There is nothing to wait for."""
    await life.start("work", ttl=60, seconds=50)
    answer = await start(life, "work", 10)
    assert (409, 0.0) == (answer.status_code, trio.current_time())
    assert "Preference-Applied" not in answer.headers


async def test_a_client_that_leaves_its_start_leaves_the_job(life: Life) -> None:
    """The waiting client's task is freed; the job runs to its end."""
    with trio.move_on_after(2):
        await start(life, "work", 30, seconds=5)
    before = trio.lowlevel.current_statistics().tasks_living
    await trio.sleep(10)
    assert ["work began", "work ended"] == life.page.seen
    assert trio.lowlevel.current_statistics().tasks_living <= before


async def test_an_end_that_the_disk_refuses_is_answered_all_the_same(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It happened, and is owed to the store."""

    async def refuse(*_: Any) -> None:
        await trio.lowlevel.checkpoint()
        raise StoreFull("the disk is full")

    monkeypatch.setattr(life.worker.jobs, "save", refuse)
    answer = await start(life, "echo", 10)
    assert (200, 0.0) == (answer.status_code, trio.current_time())


# On a poll


async def test_a_poll_waits_for_the_end(life: Life) -> None:
    """It answers when the job has ended."""
    job = await life.start("work", ttl=60, seconds=5)
    answer = await poll(life, job)
    assert (200, 5.0) == (answer.status_code, trio.current_time())
    assert "wait=30" == answer.headers["Preference-Applied"]
    assert ("done", 60.0) == (answer.json()["state"], answer.json()["expires_in"])
    assert answer.content == (await life.poll(job)).content


async def test_a_poll_waits_no_longer_than_it_says(life: Life) -> None:
    """Or N s passed: the job as it is."""
    job = await life.start("work", ttl=60, seconds=100)
    answer = await poll(life, job, 7)
    assert (200, 7.0) == (answer.status_code, trio.current_time())
    assert "running" == answer.json()["state"]
    assert (await poll(life, job, 99)).headers["Preference-Applied"] == "wait=60"
    assert 67 == trio.current_time()
    assert "wait=0" == (await poll(life, job, 0)).headers["Preference-Applied"]
    assert 67 == trio.current_time()


async def test_a_poll_for_what_has_ended_does_not_wait(life: Life) -> None:
    """Nor for what never was."""
    job = await life.start("echo", ttl=60)
    await trio.sleep(1)
    assert "done" == (await poll(life, job)).json()["state"]
    assert 404 == (await poll(life, "0" * 16)).status_code
    assert 404 == (await poll(life, "nonsense")).status_code
    assert 1 == trio.current_time()


async def test_a_thousand_waiters_are_answered_once_and_at_once(life: Life) -> None:
    """J112: at the moment the job ends, each with the whole of it."""
    job = await life.start("late", ttl=60, seconds=20)
    async with waiting(life, job, 1000) as answers:
        pass
    assert 1000 == len(answers)
    assert {20.0} == {at for at, _ in answers}
    assert 1 == len({answer.content for _, answer in answers})
    assert 1_000_000 == len(answers[0][1].json()["result"]["a"])


async def test_a_waiter_outlives_the_delivery(life: Life, receiver: Receiver) -> None:
    """J112: delivered and gone in the same moment, the job is still what they waited for."""
    job = await life.start("work", seconds=5)
    async with waiting(life, job, 10) as answers:
        pass
    assert [("done", 200)] * 10 == [(said.json()["state"], said.json()["status"]) for _, said in answers]
    await trio.sleep(1)
    assert await life.gone(job)
    assert 1 == len(receiver.posts)


async def test_a_waiter_outlives_the_expiry(life: Life) -> None:
    """J112: a hold that is over before the waiter is asked what it got."""
    started = await life.call("work", headers={"X-Result-Ttl": "0.000000001"}, seconds=5)
    job = started.json()["job_id"]
    async with waiting(life, job, 10) as answers:
        pass
    assert ["done"] * 10 == [said.json()["state"] for _, said in answers]
    await trio.sleep(1)
    assert await life.gone(job)


async def test_between_attempts_a_poll_does_not_wait(life: Life, receiver: Receiver) -> None:
    """The job has ended: its delivery is another matter."""
    receiver.answers(500)
    job = await life.start("echo")
    await trio.sleep(30)
    answer = await poll(life, job)
    assert (30.0, 1) == (trio.current_time(), answer.json()["delivery"]["attempts"])


async def test_a_waiting_client_that_leaves_frees_its_task(life: Life) -> None:
    """And disturbs nobody."""
    job = await life.start("work", ttl=60, seconds=20)
    await trio.sleep(2)
    before = trio.lowlevel.current_statistics().tasks_living
    for _ in range(20):
        with trio.move_on_after(0.1):
            await poll(life, job)
    await trio.sleep(2)
    assert before == trio.lowlevel.current_statistics().tasks_living
    assert "done" == (await poll(life, job)).json()["state"]


async def test_a_wait_is_a_clients_activity_and_no_request(life: Life) -> None:
    """Not in the request log, like every poll; it counts when it comes and when it is answered."""
    job = await life.start("work", ttl=60, seconds=20)
    await poll(life, job)
    activity = (await life.http.get("/api/v1/activity")).json()
    assert EPOCH + 20 == activity["last_client_activity"]
    assert 0 == activity["in_flight"]
    rows = (await life.http.get("/api/v1/requests")).json()["requests"]
    assert {"plugin", "job"} == {row["kind"] for row in rows}


# When the worker stops


async def test_a_stop_answers_those_who_wait_at_once(world: World) -> None:
    """A poll with the job as it is, a start with its `202`."""
    async with live(world) as life:
        await life.open("second")
        job = await life.start("work", ttl=60, seconds=60)
        started: list[httpx.Response] = []

        async def begin() -> None:
            headers = {"X-Callback-Url": URL, "Prefer": "wait=60"}
            started.append(await life.call("work", "second", headers, seconds=60))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(begin)
            async with waiting(life, job, 20, wait=60) as answers:
                await trio.sleep(5)
                nursery.start_soon(life.stop)
            assert [(5.0, "running")] * 20 == [(at, said.json()["state"]) for at, said in answers]
            await trio.testing.wait_all_tasks_blocked()
            assert [202] == [answer.status_code for answer in started]
            assert "running" == (await poll(life, job)).json()["state"]  # who comes now does not wait at all
            assert 5 == trio.current_time()


async def test_a_wait_is_over_when_a_second_signal_ends_the_job(world: World, receiver: Receiver) -> None:
    """Nothing is left to wait for."""
    receiver.answers(slow(1))
    async with live(world) as life:
        job = await life.start("work", ttl=60, seconds=60)
        async with waiting(life, job) as answers:
            life.supervisor.hurry()
    assert ["running"] == [said.json()["state"] for _, said in answers]
    async with live(world) as life:
        assert "interrupted" == (await poll(life, job)).json()["state"]


async def test_a_waiter_outlives_the_cancel(life: Life) -> None:
    """J112: it is answered when the job is cancelled, with that."""
    job = await life.start("work", ttl=60, seconds=60)
    async with waiting(life, job, 10) as answers:
        await trio.sleep(5)
        assert 200 == (await life.http.delete(f"/api/v1/jobs/{job}")).status_code
    assert [(5.0, "cancelled", 499)] * 10 == [
        (at, said.json()["state"], said.json()["status"]) for at, said in answers
    ]


async def test_a_start_that_is_cancelled_is_answered_so(life: Life) -> None:
    """By the status that the job has."""
    answers: list[httpx.Response] = []

    async def begin() -> None:
        answers.append(await start(life, "work", 30, seconds=60))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(begin)
        await trio.sleep(5)
        (live_call,) = life.supervisor.lives
        await life.http.delete(f"/api/v1/jobs/{live_call.job_id}")
    assert (499, False) == (answers[0].status_code, answers[0].json()["success"])
    assert 5 == trio.current_time()
