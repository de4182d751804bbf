"""Section 11, Watch: `GET /api/v1/jobs/{job_id}/events`."""

import json
import random
from typing import Any

import pytest
import trio
import trio.testing

from penelope.errors import StoreFull
from penelope.http.streaming import HEARTBEAT_S, STALL_S
from tests.spec.receiver import Receiver, slow
from tests.spec.stream import Event, Events, viewing, watched
from tests.spec.world import EPOCH, Life, World, live


def data(events: Events) -> list[Any]:
    return [json.loads(event.data) for event in events.events]


def told(events: Events) -> list[tuple[str, str, float]]:
    return [(event.name, event.id, event.at) for event in events.events]


# What is told


async def test_a_viewer_is_told_state_progress_and_end(life: Life) -> None:
    """The first event at once; the end is the whole job, as a poll shows it; then the stream ends."""
    job = await life.start("report", ttl=60, steps=3)
    events = await watched(life.http, job)
    end = f"end-{EPOCH + 3!r}"
    assert [("state", "0", 0), ("progress", "1", 0), ("progress", "2", 1), ("progress", "3", 2)] == told(
        events
    )[:4]
    assert [("end", end, 3)] == told(events)[4:]
    state, first, *_, last = data(events)
    assert {
        "job_id": job,
        "page_id": "main",
        "plugin": "test/report",
        "state": "running",
        "started_at": EPOCH,
        "stopping": False,
    } == state
    assert {"progress": 1 / 3, "note": "step 1", "at": EPOCH} == first
    assert last == (await life.poll(job)).json()
    assert events.events[-1].data.encode() == (await life.poll(job)).content


async def test_the_head_is_that_of_a_stream(life: Life) -> None:
    """`X-Accel-Buffering: no`, `Cache-Control: no-store`, and when to come back."""
    job = await life.start("work", ttl=60, seconds=5)
    events = await watched(life.http, job)
    headers = events.response.headers
    assert "text/event-stream; charset=utf-8" == headers["Content-Type"]
    assert ("no", "no-store") == (headers["X-Accel-Buffering"], headers["Cache-Control"])
    assert "Content-Length" not in headers
    assert 2000 == events.retry


async def test_a_head_alone_does_not_wait(life: Life) -> None:
    """`HEAD` is answered wherever `GET` is."""
    job = await life.start("work", ttl=60, seconds=5)
    answer = await life.http.head(f"/api/v1/jobs/{job}/events")
    assert (200, 0.0, b"") == (answer.status_code, trio.current_time(), answer.content)
    assert answer.headers["Content-Type"].startswith("text/event-stream")


async def test_it_needs_the_key(life: Life) -> None:
    job = await life.start("work", ttl=60, seconds=5)
    answer = await life.http.get(f"/api/v1/jobs/{job}/events", headers={"Authorization": "Bearer no"})
    assert 401 == answer.status_code


async def test_a_silent_job_has_heartbeats(life: Life) -> None:
    """At most 15 s apart, as comments."""
    job = await life.start("work", ttl=60, seconds=65)
    events = await watched(life.http, job)
    assert ["state", "end"] == events.names
    assert HEARTBEAT_S <= 15
    assert [10, 20, 30, 40, 50, 60] == [round(at, 6) for at in events.heard]


async def test_a_large_result_is_whole(life: Life) -> None:
    """No cut results."""
    job = await life.start("late", ttl=60, seconds=5)
    events = await watched(life.http, job)
    assert events.events[-1].data.encode() == (await life.poll(job)).content
    assert len(events.events[-1].data) > 1_000_000


async def test_of_many_calls_a_viewer_gets_the_latest(life: Life) -> None:
    """Progress is coalesced, and the last one before a pause is never left out."""
    job = await life.start("chatter", ttl=60, calls=5000, then_s=5)
    events = await watched(life.http, job)
    progress = [event for event in events.events if event.name == "progress"]
    assert 1 <= len(progress) <= 3
    assert "5000" == progress[-1].id
    assert {"progress": 1.0, "note": "call 5000", "at": EPOCH} == json.loads(progress[-1].data)


async def test_an_end_does_not_wait_for_progress(life: Life) -> None:
    """Nor does what came just before it need to be told."""
    job = await life.start("chatter", ttl=60, calls=3, then_s=0.05)
    events = await watched(life.http, job)
    assert "end" == events.names[-1]
    assert 0.05 == events.events[-1].at


# Before and after


async def test_a_viewer_who_comes_late_gets_the_end(life: Life) -> None:
    """As long as the job is held."""
    job = await life.start("work", ttl=60, seconds=5)
    await trio.sleep(30)
    events = await watched(life.http, job)
    assert [("end", f"end-{EPOCH + 5!r}", 30)] == told(events)
    assert 35.0 == data(events)[0]["expires_in"]
    await trio.sleep(60)
    assert 404 == (await life.http.get(f"/api/v1/jobs/{job}/events")).status_code


@pytest.mark.parametrize("job", ["0" * 16, "nonsense", "0" * 17])
async def test_an_unknown_job(life: Life, job: str) -> None:
    """`404`, in the envelope."""
    answer = await life.http.get(f"/api/v1/jobs/{job}/events")
    assert 404 == answer.status_code
    assert answer.json()["success"] is False


async def test_a_viewer_outlives_the_delivery(life: Life, receiver: Receiver) -> None:
    """A webhook job that is delivered and gone after the viewer came: it has got its `end`."""
    job = await life.start("work", seconds=5)
    events = await watched(life.http, job)
    assert ["state", "end"] == events.names
    assert ("done", 0) == (data(events)[-1]["state"], data(events)[-1]["delivery"]["attempts"])
    await trio.sleep(1)
    assert 1 == len(receiver.posts)
    assert 404 == (await life.http.get(f"/api/v1/jobs/{job}/events")).status_code


async def test_between_attempts_there_is_the_end(life: Life, receiver: Receiver) -> None:
    """With the delivery so far, as a poll shows it."""
    receiver.answers(500)
    job = await life.start("echo")
    await trio.sleep(30)
    (end,) = data(await watched(life.http, job))
    assert end == (await life.poll(job)).json()
    assert 1 == end["delivery"]["attempts"]


async def test_a_cancel_is_an_end(life: Life) -> None:
    """A viewer sees it as any other."""
    job = await life.start("work", ttl=60, seconds=60)
    async with viewing(life.http, job) as events:
        await trio.sleep(5)
        await life.http.delete(f"/api/v1/jobs/{job}")
        await trio.testing.wait_all_tasks_blocked()
        assert events.over
    assert ["state", "end"] == events.names
    assert ("cancelled", 499) == (data(events)[-1]["state"], data(events)[-1]["status"])


async def test_an_end_that_the_disk_refuses_is_told(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is owed to the store, not to the viewers."""

    async def refuse(*_: Any) -> None:
        await trio.lowlevel.checkpoint()
        raise StoreFull("the disk is full")

    monkeypatch.setattr(life.worker.jobs, "save", refuse)
    job = await life.start("work", ttl=60, seconds=5)
    assert ["state", "end"] == (await watched(life.http, job)).names
    assert ["end"] == (await watched(life.http, job)).names


async def test_an_end_that_the_disk_takes_too_long_for_is_told(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the 15 s that its write gets, it is owed like one that was refused; a poll that waits is answered, too."""

    async def hang(*_: Any) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(life.worker.jobs, "save", hang)
    job = await life.start("work", ttl=60, seconds=5)
    async with viewing(life.http, job) as events:
        answer = await life.http.get(f"/api/v1/jobs/{job}", headers={"Prefer": "wait=60"})
        assert (20.0, "done") == (trio.current_time(), answer.json()["state"])
        await trio.testing.wait_all_tasks_blocked()
        assert events.over
    assert [("state", 0.0), ("end", 20.0)] == [(event.name, event.at) for event in events.events]


# Coming back


async def test_a_viewer_who_comes_back_is_given_nothing_twice(life: Life) -> None:
    """`Last-Event-ID`: what it has seen, it is not told again; what lasts, it is told."""
    job = await life.start("report", ttl=60, steps=5)
    async with viewing(life.http, job) as first:
        await trio.sleep(1.5)
    assert ["state", "progress", "progress"] == first.names
    again = await watched(life.http, job, first.last_id)
    assert ["3", "4", "5"] == [event.id for event in again.events[:-1]]
    assert "end" == again.names[-1]


@pytest.mark.parametrize("seed", range(8))
async def test_a_viewer_whose_connection_breaks_again_and_again(life: Life, seed: int) -> None:
    """Whenever it breaks: put together, its streams have each thing once and in order, and the end."""
    chance = random.Random(seed)
    job = await life.start("report", ttl=60, steps=20)
    seen: list[Event] = []
    last_id: str | None = None
    while not seen or seen[-1].name != "end":
        async with viewing(life.http, job, last_id) as events:
            await trio.sleep(chance.choice([0.0, 0.1, 1.0, chance.uniform(0, 4)]))
        seen += events.events
        last_id = events.last_id or last_id
        await trio.sleep(chance.choice([0.0, 1.0, chance.uniform(0, 6)]))
    assert ("state", "end") == (seen[0].name, seen[-1].name)
    numbers = [int(event.id) for event in seen[1:-1]]
    assert numbers == sorted(set(numbers))
    assert all(event.name == "progress" for event in seen[1:-1])
    answer = await life.http.get(f"/api/v1/jobs/{job}/events", headers={"Last-Event-ID": str(last_id)})
    assert 204 == answer.status_code


async def test_a_viewer_who_has_seen_it_all_waits_for_more(life: Life) -> None:
    """The latest progress is not given again, and a first sign comes at once."""
    job = await life.start("chatter", ttl=60, calls=3, then_s=8)
    await trio.sleep(1)
    async with viewing(life.http, job, "3") as events:
        await trio.sleep(1)
        assert ([], 2000) == (events.events, events.retry)
        await trio.sleep(8)
    assert ["end"] == events.names


@pytest.mark.parametrize("last_id", ["7", "nonsense", "", "end-1.0"])
async def test_an_id_that_was_never_given_is_ignored(life: Life, last_id: str) -> None:
    """An EventSource would take a `400` for the end: such a viewer gets what is so now."""
    job = await life.start("chatter", ttl=60, calls=3, then_s=8)
    await trio.sleep(1)
    events = await watched(life.http, job, last_id)
    assert ["state", "progress", "end"] == events.names


async def test_a_viewer_who_has_seen_the_end_is_sent_away(life: Life, receiver: Receiver) -> None:
    """`204`, at which an EventSource stops; also where the job is gone meanwhile."""
    held = await life.start("work", ttl=60, seconds=5)
    last_id = (await watched(life.http, held)).last_id
    answer = await life.http.get(f"/api/v1/jobs/{held}/events", headers={"Last-Event-ID": last_id})
    assert (204, b"") == (answer.status_code, answer.content)
    assert "Content-Type" not in answer.headers

    delivered = await life.start("work", seconds=5)
    last_id = (await watched(life.http, delivered)).last_id
    await trio.sleep(1)
    assert await life.gone(delivered)
    answer = await life.http.get(f"/api/v1/jobs/{delivered}/events", headers={"Last-Event-ID": last_id})
    assert 204 == answer.status_code


@pytest.mark.parametrize("last_id", [None, "0", "2"])
async def test_ids_outlast_the_worker(world: World, last_id: str | None) -> None:
    """A viewer of a job that a stop cut off: at the next start it is told the end, and then nothing more."""
    async with live(world) as life:
        job = await life.start("report", ttl=60, steps=60)
        await trio.sleep(1.5)
        await life.stop()
    async with live(world) as life:
        events = await watched(life.http, job, last_id)
        assert ["end"] == events.names
        assert ("interrupted", {"step": 12, "text": "é😀"}) == (
            data(events)[0]["state"],
            data(events)[0]["result"]["checkpoint"],
        )
        await life.stop()
    async with live(world) as life:
        answer = await life.http.get(f"/api/v1/jobs/{job}/events", headers={"Last-Event-ID": events.last_id})
        assert 204 == answer.status_code


async def test_another_end_is_told_to_who_has_seen_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk refused an end that was told, and a kill lost it: then the job was interrupted, and that is told too."""

    async def refuse(*_: Any) -> None:
        await trio.lowlevel.checkpoint()
        raise StoreFull("the disk is full")

    async with live(world) as life:
        monkeypatch.setattr(life.worker.jobs, "save", refuse)
        job = await life.start("work", ttl=60, seconds=5)
        before = await watched(life.http, job)
        killed = world.image()
    await trio.sleep(1)
    async with live(killed) as life:
        after = await watched(life.http, job, before.last_id)
    assert ["done", "interrupted"] == [data(before)[-1]["state"], data(after)[-1]["state"]]


# Many viewers, slow ones, leaving ones


async def test_a_hundred_viewers_see_the_same(life: Life) -> None:
    """Any number of viewers."""
    job = await life.start("report", ttl=60, steps=5)
    seen: list[list[tuple[str, str, float]]] = []

    async def view() -> None:
        seen.append(told(await watched(life.http, job)))

    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(view)
    assert 100 == len(seen)
    assert all(one == seen[0] for one in seen)
    assert 7 == len(seen[0])


async def test_a_viewer_who_leaves_takes_everything_along(life: Life) -> None:
    """Its tasks are gone; the job is not."""
    job = await life.start("report", ttl=60, steps=20)
    await trio.sleep(2)
    before = trio.lowlevel.current_statistics().tasks_living
    for _ in range(10):
        async with viewing(life.http, job):
            await trio.sleep(0.5)
    await trio.sleep(2)
    assert before == trio.lowlevel.current_statistics().tasks_living
    assert "end" == (await watched(life.http, job)).names[-1]


async def test_a_viewer_who_never_reads_is_dropped(life: Life, logged: list[Any]) -> None:
    """With a reason in the log; until then one event waits for it, and the plugin waits for nobody."""
    job = await life.start("report", ttl=60, steps=30)
    async with life.http.stream("GET", f"/api/v1/jobs/{job}/events"):
        before = trio.lowlevel.current_statistics().tasks_living
        await trio.sleep(STALL_S - 1)
        assert [] == [line for line in logged if line["event"] == "viewer dropped"]
        await trio.sleep(2)
        (line,) = [line for line in logged if line["event"] == "viewer dropped"]
        assert ("warning", f"viewer of job {job}") == (line["log_level"], line["viewer"])
        assert f"{STALL_S:.0f} s" in line["reason"]
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living < before
        await trio.sleep(15)
    assert "done" == (await life.shown(job))["state"]
    assert 31 == trio.current_time()
    assert not [line for line in logged if line["log_level"] == "error"]


async def test_watching_is_a_clients_activity_and_no_request(life: Life) -> None:
    """It counts when it begins and when it ends, is no call in flight, and is not in the request log."""
    job = await life.start("work", ttl=60, seconds=20)
    async with viewing(life.http, job):
        await trio.sleep(5)
        activity = (await life.http.get("/api/v1/activity")).json()
        assert (EPOCH, 1) == (activity["last_client_activity"], activity["in_flight"])
        await trio.sleep(20)
    activity = (await life.http.get("/api/v1/activity")).json()
    assert (EPOCH + 20, 0) == (activity["last_client_activity"], activity["in_flight"])
    rows = (await life.http.get("/api/v1/requests")).json()["requests"]
    assert {"plugin", "job"} == {row["kind"] for row in rows}


# When the worker stops


async def test_a_stop_ends_streams_with_a_last_event(world: World, receiver: Receiver) -> None:
    """The end of a job that ends in its grace; of one that is cut off, that the worker goes."""
    receiver.answers(slow(1))
    async with live(world) as life:
        await life.open("second")
        short = await life.start("work", ttl=60, seconds=8)
        long = await life.start("report", "second", ttl=60, steps=60)
        async with viewing(life.http, short) as ends, viewing(life.http, long) as goes:
            await trio.sleep(1.5)
            await life.stop()
            assert 11.5 == trio.current_time()
            await trio.testing.wait_all_tasks_blocked()
            assert ends.over
            assert goes.over
    assert ("end", 8.0) == told(ends)[-1][::2]
    assert ("state", "12", 11.5) == (goes.names[-1], goes.events[-1].id, goes.events[-1].at)
    assert ("running", True) == (data(goes)[-1]["state"], data(goes)[-1]["stopping"])
    async with live(world) as life:
        events = await watched(life.http, long, goes.last_id)
        assert ["end"] == events.names
        assert "interrupted" == data(events)[0]["state"]
