"""Section 10: `GET /runs/{id}/stream`."""

import json
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import httpx
import pytest
import trio

from penelope.runs import events
from penelope.runs.model import Run
from tests.spec.stream import Events, viewing
from tests.spec.test_10_runs import RUNS, ended, submitted
from tests.spec.world import Life, World, live


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "store", settings={"runs_webhook_policy": "any"})


def of(life: Life, run_id: str, last_id: str | None = None) -> AbstractAsyncContextManager[Events]:
    """A viewer of a run."""
    return viewing(life.http, run_id, last_id, path=f"{RUNS}/{run_id}/stream")


async def test_states_progress_and_the_whole_result(life: Life) -> None:
    """SSE events `status`, `progress`, `result` …, each valid JSON and whole, ids on the lasting ones."""
    await submitted(life, "work", given={"seconds": 2, "page": "main"})
    run_id = await submitted(life, "work", given={"seconds": 3, "page": "main"})
    async with of(life, run_id) as seen:
        await ended(life, run_id)
        await trio.sleep(1)
    assert seen.over
    assert [
        *("status", "progress"),  # in the queue
        *("status", "progress", "progress", "progress"),
        *("status", "progress", "result"),
    ] == seen.names
    data = [json.loads(event.data) for event in seen.events]
    assert ["queued", "running", "succeeded"] == [one["status"] for one in data if "status" in one]
    assert ["1", "2", "3", "4"] == list(dict.fromkeys(event.id for event in seen.events))
    assert (0.0, "second 1") == (data[3]["percentage"], data[3]["step"])
    assert ("progress", {"percentage": 33.33, "current_step": "second 2"}) == (
        data[4]["event"],
        data[4]["data"],
    )
    assert {"worked": 3} == data[-1]["result"]
    assert ("complete", {"status": "succeeded"}) == (data[-1]["event"], data[-1]["data"])
    assert "text/event-stream; charset=utf-8" == seen.response.headers["content-type"]
    assert "no" == seen.response.headers["x-accel-buffering"]


async def test_a_result_is_never_cut(life: Life) -> None:
    run_id = await submitted(life, "huge", given={"times": 100_000})
    await ended(life, run_id)
    async with of(life, run_id) as seen:
        await trio.sleep(1)
    assert "x\n\"\\'" * 100_000 == json.loads(seen.events[-1].data)["result"]


@pytest.mark.parametrize(("how", "name"), [("fail", "error"), ("cancel", "cancelled")])
async def test_other_ends(life: Life, how: str, name: str) -> None:
    run_id = await submitted(life, "fail" if how == "fail" else "work", given={"words": 'a "word"\nand \\'})
    async with of(life, run_id) as seen:
        if how == "cancel":
            await life.http.post(f"{RUNS}/{run_id}/cancel")
        await trio.sleep(1)
    assert name == seen.names[-1]
    said = json.loads(seen.events[-1].data)
    if how == "fail":
        assert 'a "word"\nand \\' == said["error"] == said["data"]["error"]
    else:
        assert ("Job was cancelled", {"status": "cancelled"}) == (said["message"], said["data"])


async def test_a_heartbeat_every_five_seconds(life: Life) -> None:
    await submitted(life, "work", given={"seconds": 17, "page": "main"})
    run_id = await submitted(life, given={"page": "main"})
    async with of(life, run_id) as seen:
        await trio.sleep(16)
    assert ["status", "progress", "heartbeat", "heartbeat", "heartbeat"] == seen.names
    assert [5.0, 5.0] == [
        round(b.at - a.at, 1) for a, b in zip(seen.events[2:], seen.events[3:], strict=False)
    ]
    assert json.loads(seen.events[2].data)["timestamp"].endswith("Z")


async def test_a_viewer_that_comes_again_gets_what_it_has_not_seen(life: Life) -> None:
    """`Last-Event-ID` resumes"""
    run_id = await submitted(life, "work", given={"seconds": 3})
    await ended(life, run_id)
    async with of(life, run_id, "2") as seen:
        await trio.sleep(1)
    assert ["status", "progress", "result"] == seen.names
    assert 100.0 == json.loads(seen.events[1].data)["percentage"]
    async with of(life, run_id, "3") as seen:
        await trio.sleep(1)
    assert ["progress", "result"] == seen.names
    answer = await life.http.get(f"{RUNS}/{run_id}/stream", headers={"Last-Event-ID": "4"})
    assert 204 == answer.status_code
    async with of(life, run_id, "nonsense") as seen:
        await trio.sleep(1)
    assert ["status", "progress", "result"] == seen.names


async def test_any_number_of_viewers_and_one_that_leaves_disturbs_nobody(life: Life) -> None:
    run_id = await submitted(life, "work", given={"seconds": 4})
    async with of(life, run_id) as first:
        async with of(life, run_id) as second:
            await trio.sleep(1.5)
        await ended(life, run_id)
        await trio.sleep(1)
    assert "result" == first.names[-1]
    assert "result" not in second.names
    assert "progress" in second.names


async def test_who_saw_it_run_is_told_its_end_out_of_one_piece_of_memory(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result may have 50 MB: neither is it made anew for each viewer, nor read again for each who waits."""
    real, made = events.end, 0

    def end(run: Run) -> tuple[str, bytes]:
        nonlocal made
        made += 1
        return real(run)

    run_id = await submitted(life, "work", given={"seconds": 3})
    monkeypatch.setattr(events, "end", end)
    monkeypatch.setattr(life.worker.runs._store, "get", None)
    async with AsyncExitStack() as stack:
        viewers = [await stack.enter_async_context(of(life, run_id)) for _ in range(5)]
        await ended(life, run_id)
        await trio.sleep(1)
    assert ["result"] * 5 == [seen.names[-1] for seen in viewers]
    assert 1 == made


@pytest.mark.parametrize("path", ["", "/result"])
async def test_who_waited_for_a_run_that_is_deleted_at_its_end_is_told_it(life: Life, path: str) -> None:
    run_id = await submitted(life, "work", given={"seconds": 3})
    answers: list[httpx.Response] = []

    async def wait() -> None:
        answers.append(await life.http.get(f"{RUNS}/{run_id}{path}", headers={"Prefer": "wait=10"}))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(wait)
        await trio.sleep(2)
        entry = life.worker.runs.entry(run_id)
        assert entry is not None
        await entry.over.wait()
        await life.worker.runs.delete(run_id)
    assert ["succeeded"] * 5 == [answer.json()["status"] for answer in answers]
    assert 404 == (await life.http.get(f"{RUNS}/{run_id}")).status_code


async def test_a_stop_ends_the_streams_and_the_next_life_goes_on(world: World) -> None:
    async with live(world) as life:
        await submitted(life, "work", given={"seconds": 60, "page": "main"})
        run_id = await submitted(life, given={"page": "main"})
        async with of(life, run_id) as seen:
            await trio.sleep(1)
            life.supervisor.stop()
            await trio.sleep(2)
            assert seen.over
        await life.supervisor.drained.wait()
    async with live(world) as life, of(life, run_id, seen.last_id) as again:
        await ended(life, run_id)
        await trio.sleep(1)
    assert "result" == again.names[-1]
