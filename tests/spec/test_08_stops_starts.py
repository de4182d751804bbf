"""Section 8: stops and starts. A stop, a crash and a full disk, then the next worker on the same store."""

import json
import os
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import trio

from penelope.errors import StoreHeld
from penelope.jobs.ledger import Entry
from penelope.jobs.model import Job, Start
from penelope.jobs.store import JobStore
from penelope.store import database
from tests.spec.receiver import URL, Receiver, slow
from tests.spec.world import EPOCH, Life, World, live

INTERRUPTED = {
    "success": False,
    "error": "job interrupted: the worker stopped before it ended",
    "page_id": "main",
}


def at(receiver: Receiver, job_id: str) -> list[tuple[float, int]]:
    """When a job's POSTs came, and their numbers."""
    return [(round(post.at, 3), post.attempt) for post in receiver.of(job_id)]


@asynccontextmanager
async def stopping(life: Life) -> AsyncGenerator[None]:
    """A `SIGTERM` now, then whatever the block does while the worker drains."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(life.stop)
        await trio.sleep(0.001)
        yield


# Stops


async def test_a_stop_takes_no_new_calls(life: Life) -> None:
    """No new calls (`503`, `Retry-After`), running calls get their grace to end; polls go on."""
    job = await life.start("work", ttl=60, seconds=5)
    async with stopping(life):
        for answer in (
            await life.call("echo"),
            await life.ask("echo"),
            await life.http.post("/api/v1/main/text", json={}),
            await life.http.post("/api/v1/main/lease", json={"ttl": 5}),
            await life.http.post("/api/v1/pages", json={"page_id": "new"}),
        ):
            assert 503 == answer.status_code
            assert int(answer.headers["Retry-After"]) > 0
            assert answer.json()["success"] is False
        assert 503 == (await life.http.get("/readyz")).status_code
        assert 200 == (await life.http.get("/healthz")).status_code
        assert "stopping" == (await life.http.get("/api/v1/activity")).json()["pressure"]["why"]
        assert "running" == (await life.shown(job))["state"]
    assert 5 == trio.current_time()  # drained when the last call ended, no later
    assert "done" == (await life.shown(job))["state"]


async def test_a_call_that_ends_in_its_grace_is_answered(life: Life) -> None:
    """Running calls get `STOP_GRACE_S` (10) to end."""
    async with trio.open_nursery() as nursery:
        answers: list[httpx.Response] = []

        async def call() -> None:
            answers.append(await life.call("work", seconds=10.5))

        nursery.start_soon(call)
        await trio.sleep(1)
        await life.stop()
    assert [200] == [answer.status_code for answer in answers]


async def test_a_call_past_its_grace_is_cut_off(life: Life) -> None:
    """Then they are cancelled: the client gets `503`, the worker stopped; never `500`."""
    async with trio.open_nursery() as nursery:
        answers: list[httpx.Response] = []

        async def call() -> None:
            answers.append(await life.call("work", seconds=60))

        nursery.start_soon(call)
        await trio.sleep(1)
        await life.stop()
        assert 11 == trio.current_time()
    assert ["work began", "work cut off"] == life.page.seen
    (answer,) = answers
    assert 503 == answer.status_code
    assert "the worker stopped" in answer.json()["error"]
    assert int(answer.headers["Retry-After"]) > 0


async def test_a_call_in_line_is_answered_too(life: Life) -> None:
    """A plain call that waits in line when the worker stops gets the `503`, and never runs."""
    async with trio.open_nursery() as nursery:
        answers: list[httpx.Response] = []

        async def call(tag: str) -> None:
            answers.append(await life.call("work", seconds=60, tag=tag))

        nursery.start_soon(call, "first")
        await trio.sleep(1)
        nursery.start_soon(call, "second")
        await trio.sleep(1)
        await life.stop()
    assert [503, 503] == [answer.status_code for answer in answers]
    assert ["first began", "first cut off"] == life.page.seen


async def test_a_second_signal_cancels_at_once(life: Life) -> None:
    """A second signal cancels at once."""
    await life.start("work", seconds=60)
    async with stopping(life):
        await trio.sleep(2)
        life.supervisor.hurry()
    assert trio.current_time() < 2.1
    assert ["work began", "work cut off"] == life.page.seen


async def test_an_attempt_in_flight_is_recorded(world: World, receiver: Receiver) -> None:
    """An attempt in flight gets its 10 s to be recorded."""
    receiver.answers(slow(8))
    async with live(world) as life:
        job = await life.start("echo")
        await trio.sleep(1)
        await life.stop()
    assert 8 == trio.current_time()
    async with live(world) as life:
        assert await life.gone(job)
        await trio.sleep(700)
    assert [(0, 1)] == at(receiver, job)


async def test_an_attempt_that_a_second_signal_cut_is_made_again(world: World, receiver: Receiver) -> None:
    """One that a stop cut off is made again, under the same number, at the next start."""
    receiver.answers(slow(8), 200)
    async with live(world) as life:
        job = await life.start("echo")
        await trio.sleep(1)
        await life.stop()
        life.supervisor.hurry()
    assert 1 == trio.current_time()
    await trio.sleep(10)
    async with live(world) as life:
        await trio.sleep(1)
        assert await life.gone(job)
    assert [(0, 1), (11, 1)] == at(receiver, job)


async def test_a_job_that_ends_while_draining_is_delivered_at_the_latest_by_the_next(
    world: World, receiver: Receiver
) -> None:
    """A result that was known at the stop is never lost."""
    async with live(world) as life:
        job = await life.start("work", seconds=5)
        await trio.sleep(1)
        await life.stop()
    async with live(world) as life:
        await trio.sleep(1)
        assert await life.gone(job)
    (post,) = receiver.of(job)
    assert ("done", EPOCH + 5) == (post.json["state"], post.json["finished_at"])


# The next start


async def test_a_polling_job_cut_off_is_interrupted(world: World) -> None:
    """Jobs still `running` become `interrupted`: the seed's status and error; held `ttl` from that start."""
    async with live(world) as life:
        job = await life.start("work", ttl=60, seconds=3600)
        await trio.sleep(5)
        await life.stop()
    await trio.sleep(85)  # 100 s in all
    async with live(world) as life:
        seen = await life.shown(job)
        assert ("interrupted", 503, EPOCH + 100) == (seen["state"], seen["status"], seen["finished_at"])
        assert INTERRUPTED == seen["result"]
        assert [*INTERRUPTED] == list(seen["result"])
        assert (60.0, EPOCH) == (seen["expires_in"], seen["started_at"])
        await trio.sleep(59.9)
        assert not await life.gone(job)
        await trio.sleep(0.1)
        assert await life.gone(job)


async def test_a_webhook_job_cut_off_gets_its_four_attempts_from_then(
    world: World, receiver: Receiver
) -> None:
    """A webhook one gets its four attempts from that start."""
    receiver.answers(500)
    async with live(world) as life:
        job = await life.start("work", seconds=3600)
        await life.stop()
    await trio.sleep(90)
    async with live(world) as life:
        await trio.sleep(700)
        assert await life.gone(job)
    assert [(100, 1), (160, 2), (400, 3), (700, 4)] == at(receiver, job)
    assert INTERRUPTED == receiver.posts[0].json["result"]
    assert ("interrupted", 503) == (receiver.posts[0].json["state"], receiver.posts[0].json["status"])


async def test_the_last_checkpoint_is_kept(world: World) -> None:
    """Plus the last `checkpoint` in `result.checkpoint` where there was one."""
    async with live(world) as life:
        job = await life.start("report", ttl=60, steps=100)
        await trio.sleep(2.5)
        after = world.image()
    async with live(after) as life:
        seen = await life.shown(job)
        assert {**INTERRUPTED, "checkpoint": {"step": 3, "text": "é😀"}} == seen["result"]
        assert 503 == seen["status"]


async def test_a_job_that_ended_has_no_checkpoint(life: Life) -> None:
    """A checkpoint is for the client of an interrupted job."""
    job = await life.start("report", ttl=60, steps=2)
    await trio.sleep(5)
    assert {"success": True, "page_id": "main", "steps": 2} == (await life.shown(job))["result"]


async def test_a_page_is_free_after_a_crash(world: World) -> None:
    """Kill with a job on `main`; start; start a job on `main` at once: `202`, no wait."""
    async with live(world) as life:
        await life.start("work", seconds=3600)
        await trio.sleep(1)
        after = world.image()
    async with live(after) as life:
        assert 202 == (await life.ask("echo")).status_code


async def test_an_accepted_job_survives_a_kill(world: World, receiver: Receiver) -> None:
    """`202` only after the job's row would survive `kill -9`: it has an end at the next start."""
    async with live(world) as life:
        job = await life.start("work", seconds=5)
        after = world.image()  # nothing ran since the 202
    async with live(after) as life:
        await trio.sleep(1)
    assert "interrupted" == receiver.of(job)[0].json["state"]


async def test_a_kill_between_the_commit_and_the_202(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill after the job's row is committed, before the `202` goes out: `interrupted` at the next start, page free."""
    images: list[World] = []
    insert = JobStore.insert

    async def insert_and_die(self: JobStore, job: Job, start: Start | None) -> None:
        await insert(self, job, start)
        images.append(world.image())

    async with live(world) as life:
        monkeypatch.setattr(JobStore, "insert", insert_and_die)
        job = await life.start("echo", ttl=60)
        await trio.sleep(1)
    async with live(images[0]) as life:
        assert "interrupted" == (await life.shown(job))["state"]
        assert 200 == (await life.call("echo")).status_code


@pytest.mark.parametrize("committed", [False, True])
async def test_a_kill_around_the_commit_of_a_result(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """Kill before the result's commit: `interrupted`. After it, before the first POST: attempt 1 within 1 s."""
    images: list[World] = []
    save = JobStore.save

    async def save_and_die(self: JobStore, job: Job, posts: Iterable[Entry] = ()) -> None:
        if committed:
            await save(self, job, posts)
        images.append(world.image())
        if not committed:
            await save(self, job, posts)

    async with live(world) as life:
        monkeypatch.setattr(JobStore, "save", save_and_die)
        job = await life.start("echo")
        await trio.sleep(0.1)
    receiver.posts.clear()
    await trio.sleep(100)
    began = trio.current_time()
    async with live(images[0]) as life:
        await trio.sleep(1)
        assert await life.gone(job)
    (post,) = receiver.of(job)
    assert ("done" if committed else "interrupted", 1) == (post.json["state"], post.attempt)
    assert began == post.at


async def test_a_kill_in_the_middle_of_a_post(world: World, receiver: Receiver) -> None:
    """R answers `200`, kill before the outcome is committed: the same attempt again, same number; then gone."""
    images: list[World] = []

    async def answer_and_die(_request: httpx.Request) -> httpx.Response:
        await trio.sleep(0.5)
        images.append(world.image())
        return httpx.Response(200)

    receiver.answers(500, answer_and_die, 200)
    async with live(world) as life:
        job = await life.start("echo")
        await trio.sleep(65)
    async with live(images[0]) as life:
        await trio.sleep(700)
        assert await life.gone(job)
    assert [(0, 1), (60, 2), (65, 2)] == at(receiver, job)


@pytest.mark.parametrize(("back_at", "again"), [(605, [(605, 4)]), (610, [(610, 4)]), (615, [])])
async def test_a_last_attempt_that_was_cut(
    world: World, receiver: Receiver, logged: list[Any], back_at: int, again: list[tuple[float, int]]
) -> None:
    """Kill inside attempt 4 at 600 s: start at 605, attempt 4 again; at 615, past the deadline: deleted, logged."""
    receiver.answers(500)
    async with live(world) as life:
        job = await life.start("echo")
        await trio.sleep(599)
        receiver.answers(slow(8, 500))
        await trio.sleep(2)
        assert [1, 2, 3, 4] == [post.attempt for post in receiver.of(job)]
        after = world.image()
    receiver.answers(500)
    await trio.sleep(back_at - trio.current_time())
    async with live(after) as life:
        await trio.sleep(1)
        assert await life.gone(job)
        assert any("given up" in line["event"] and line["job_id"] == job for line in logged)
    assert again == at(receiver, job)[4:]


@pytest.mark.parametrize(
    ("down", "up", "expected"),
    [
        (1, 30, [(0, 1), (60, 2), (300, 3), (600, 4)]),
        (100, 200, [(0, 1), (60, 2), (300, 3), (600, 4)]),
        (30, 400, [(0, 1), (400, 2), (600, 3)]),
        (30, 605, [(0, 1), (605, 2)]),
        (70, 608, [(0, 1), (60, 2), (608, 3)]),
        (400, 611, [(0, 1), (60, 2), (300, 3)]),
        (30, 5000, [(0, 1)]),
    ],
)
async def test_missed_attempts_collapse_into_one(
    world: World, receiver: Receiver, down: int, up: int, expected: list[tuple[float, int]]
) -> None:
    """A webhook job the stop caught between attempts resumes at its next attempt; missed ones collapse into one."""
    receiver.answers(500)
    async with live(world) as life:
        job = await life.start("echo")
        await trio.sleep(down)
        await life.stop()
    await trio.sleep(up - trio.current_time())
    async with live(world) as life:
        if not 600 < up < 610:  # in between, its last attempt is being made, and then it is gone
            assert (up > 610) == await life.gone(job)
        await trio.sleep(700)
        assert await life.gone(job)
    assert expected == at(receiver, job)


@pytest.mark.parametrize(("up", "gone"), [(59.9, False), (60, True), (5000, True)])
async def test_a_held_result_survives_within_its_ttl(world: World, up: float, gone: bool) -> None:
    """A worker restart keeps jobs within their deadlines; past `ttl` they are deleted."""
    async with live(world) as life:
        job = await life.start("echo", ttl=60, text="kept")
        await trio.sleep(1)
        await life.stop()
    await trio.sleep(up - trio.current_time())
    async with live(world) as life:
        assert gone == await life.gone(job)
        if not gone:
            seen = await life.shown(job)
            assert ("kept", 0.1) == (seen["result"]["text"], round(seen["expires_in"], 3))


async def test_a_restart_does_not_go_back_in_time(world: World, receiver: Receiver) -> None:
    """The wall goes back 2 h while the worker is down: no attempt is made twice, no result stays for hours."""
    receiver.answers(500)
    async with live(world) as life:
        job = await life.start("echo")
        held = await life.start("echo", ttl=600)
        await trio.sleep(70)
        await life.stop()
    world.skew = -7200
    await trio.sleep(30)
    async with live(world) as life:
        await trio.sleep(700)
        assert await life.gone(job)
        assert await life.gone(held)
    numbers = [number for _, number in at(receiver, job)]
    assert [1, 2, 3, 4] == numbers


async def test_cookies_survive(world: World) -> None:
    """Cookies, session cookies included, are kept in the store after each call and restored at the start."""
    jar = json.dumps([{"name": "session", "value": "s3cret"}])
    async with live(world) as life:
        assert "[]" == life.driver.jar
        life.driver.jar = jar
        await life.call("echo")
        after = world.image()
    async with live(after) as life:
        assert jar == life.driver.jar


async def test_leases_are_gone_with_the_worker(world: World) -> None:
    """Leases live in memory and are gone with the worker."""
    async with live(world) as life:
        assert 200 == (await life.http.post("/api/v1/main/lease", json={"ttl": 600})).status_code
        assert 423 == (await life.call("echo")).status_code
        await life.stop()
    async with live(world) as life:
        assert 200 == (await life.call("echo")).status_code


async def test_one_worker_per_store(world: World, life: Life) -> None:
    """A second one on the same store refuses to start and names the pid that has it."""
    with pytest.raises(StoreHeld, match=f"pid {os.getpid()}"):
        async with live(world):
            pass
    assert 200 == (await life.call("echo")).status_code


# A disk that is full, a store that is locked

LONG_URL = URL + "?" + "x" * 1800  # two such rows fill a page of the file, so that a third needs a new one


def fill_disk(life: Life) -> Callable[[], object]:
    """A real `SQLITE_FULL`: the file may not grow. Returns what frees the disk."""
    writer = life.database._writer
    (pages,) = writer.execute("PRAGMA page_count").fetchone()
    writer.execute(f"PRAGMA max_page_count = {pages}")
    return lambda: writer.execute(f"PRAGMA max_page_count = {2**30}")


async def test_a_start_on_a_full_disk(life: Life, receiver: Receiver) -> None:
    """A full disk: a start of a job answers `507` and nothing runs."""
    receiver.answers(500)
    headers = {"X-Callback-Url": LONG_URL}
    for _ in range(2):
        assert 202 == (await life.call("echo", headers=headers)).status_code
        await trio.sleep(0.1)
    free = fill_disk(life)
    answer = await life.call("work", headers=headers)
    assert 507 == answer.status_code, answer.text
    assert answer.json()["success"] is False
    assert 503 == (await life.http.get("/readyz")).status_code
    assert "disk" == (await life.http.get("/api/v1/activity")).json()["pressure"]["why"]
    await trio.sleep(5)
    assert [] == life.page.seen
    assert 200 == (await life.call("echo")).status_code  # the page is free, plain calls need no disk
    free()
    await trio.sleep(1.1)
    assert 200 == (await life.http.get("/readyz")).status_code
    assert 202 == (await life.call("work", headers=headers)).status_code


async def test_a_result_on_a_full_disk(
    life: Life, world: World, receiver: Receiver, logged: list[Any]
) -> None:
    """A result that cannot be written is kept in memory, polled, and stored once there is room; the log says so."""
    job = await life.start("late", ttl=600, seconds=5)
    free = fill_disk(life)
    await trio.sleep(6)
    seen = await life.shown(job)
    assert ("done", 200, 1_000_000) == (seen["state"], seen["status"], len(seen["result"]["a"]))
    ready = await life.http.get("/readyz")
    assert (503, True) == (ready.status_code, "store" in ready.json()["error"])
    await trio.sleep(120)
    said = [line for line in logged if line["event"].startswith("store refuses")]
    assert 2 <= len(said) <= 4  # a line a minute
    free()
    await trio.sleep(2)
    assert 200 == (await life.http.get("/readyz")).status_code
    async with live(world.image()) as other:
        assert seen["result"] == (await other.shown(job))["result"]


async def test_a_webhook_on_a_full_disk(life: Life, receiver: Receiver) -> None:
    """Retried and delivered all the same: at its times, at most four, and once delivered it stays delivered."""
    receiver.answers(500, 500, 200)
    job = await life.start("late", seconds=5)
    free = fill_disk(life)
    await trio.sleep(400)
    assert [(5, 1), (65, 2), (305, 3)] == at(receiver, job)
    assert 1_000_000 == len(receiver.posts[0].json["result"]["a"])
    assert await life.gone(job)
    free()
    await trio.sleep(700)
    assert 3 == len(receiver.of(job))
    assert 0 == (await life.http.get("/api/v1/activity")).json()["jobs_held"]


async def test_a_store_that_is_locked_from_outside(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program holds it: starts answer `503` in bounded time; results wait and are saved; the loop is free."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)  # real seconds, in SQLite itself
    async with live(world) as life:
        job = await life.start("work", ttl=600, seconds=5)
        other = sqlite3.connect(world.store / "penelope.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        await life.open("second")
        answer = await life.ask("work", "second", tag="refused")
        assert 503 == answer.status_code
        assert int(answer.headers["Retry-After"]) > 0
        await trio.sleep(6)
        assert [] == life.driver.tabs["second"].page.seen
        assert "done" == (await life.shown(job))["state"]
        other.execute("ROLLBACK")
        other.close()
        await trio.sleep(2)
        assert 202 == (await life.ask("echo", "second")).status_code
        async with live(world.image()) as next_one:
            assert "done" == (await next_one.shown(job))["state"]


async def test_a_call_that_cannot_be_ended(life: Life) -> None:
    """If even that does not help, `readyz` turns red and calls answer `503`."""
    life.driver.stick()
    assert 503 == (await life.http.get("/readyz")).status_code
    for answer in (await life.call("echo"), await life.ask("echo")):
        assert 503 == answer.status_code
        assert int(answer.headers["Retry-After"]) > 0
    assert 200 == (await life.http.get("/healthz")).status_code


async def test_an_outcome_that_is_known_outlives_the_stop(world: World) -> None:
    """Only what has no end yet is `interrupted`: a call whose page still heals when the grace is over has its own."""
    answers: list[int] = []
    async with live(world) as life:
        await life.open("second")
        for tab in life.driver.tabs.values():
            tab.heal_takes_s = 60.0
        job = await life.start("fail", ttl=600, how="word", status=418)

        async def call() -> None:
            answers.append((await life.call("fail", "second", how="word", status=418)).status_code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await trio.sleep(1)
            await life.stop()
        assert 11 == trio.current_time()
    assert [418] == answers
    async with live(world) as life:
        shown = await life.shown(job)
        assert ("done", 418) == (shown["state"], shown["status"])
