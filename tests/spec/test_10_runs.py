"""Section 10: runs, queued and worked over the same engine, in the public server's own shapes."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from penelope import signing
from penelope.errors import BrowserLost
from tests.spec.receiver import URL, Receiver, slow
from tests.spec.world import KEY, Life, World, live

RUNS = "/api/v1/runs"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "store", settings={"runs_webhook_policy": "any"})


async def submit(life: Life, recipe: str = "echo", headers: Any = None, **more: Any) -> httpx.Response:
    body = {"prompt": json.dumps(more.pop("given", {})), "recipe_name": recipe, **more}
    return await life.http.post(RUNS, json=body, headers=headers)


async def submitted(life: Life, recipe: str = "echo", headers: Any = None, **more: Any) -> str:
    answer = await submit(life, recipe, headers, **more)
    assert 202 == answer.status_code, answer.text
    return str(answer.json()["job_id"])


async def status(life: Life, run_id: str) -> Any:
    answer = await life.http.get(f"{RUNS}/{run_id}")
    assert 200 == answer.status_code, answer.text
    return answer.json()


async def ended(life: Life, run_id: str, within_s: float = 30) -> Any:
    """The status of a run, once it is over."""
    answer = await life.http.get(f"{RUNS}/{run_id}", headers={"Prefer": f"wait={within_s:g}"})
    assert answer.json()["completed_at"], answer.text
    return answer.json()


async def result(life: Life, run_id: str) -> Any:
    await ended(life, run_id)
    answer = await life.http.get(f"{RUNS}/{run_id}/result")
    assert 200 == answer.status_code, answer.text
    return answer.json()


class TestSubmit:
    async def test_a_run_is_accepted_and_worked(self, life: Life) -> None:
        """`POST /api/v1/runs` → `202`, `Location`, `Retry-After: 2`."""
        answer = await submit(life, given={"say": "hi"})
        assert 202 == answer.status_code
        assert ["job_id", "status", "created_at", "poll_url", "stream_url"] == list(answer.json())
        run_id = answer.json()["job_id"]
        assert ("run_", 16) == (run_id[:4], len(run_id))
        assert (
            f"http://127.0.0.1:5000{RUNS}/{run_id}" == answer.json()["poll_url"] == answer.headers["Location"]
        )
        assert f"http://127.0.0.1:5000{RUNS}/{run_id}/stream" == answer.json()["stream_url"]
        assert "2" == answer.headers["Retry-After"]
        assert {"said": "hi", "page_id": "main"} == (await result(life, run_id))["result"]

    async def test_status_has_every_key(self, life: Life) -> None:
        run_id = await submitted(life, "work", given={"seconds": 4}, session_id="s1")
        await trio.sleep(1.5)
        seen = await status(life, run_id)
        assert [
            *(
                "job_id",
                "status",
                "progress",
                "created_at",
                "started_at",
                "completed_at",
                "agent_id",
                "run_id",
            ),
            *("session_id", "error", "retry_after"),
        ] == list(seen)
        assert ("running", "recipe:work", "s1", None, 1) == tuple(
            seen[name] for name in ("status", "agent_id", "session_id", "error", "retry_after")
        )
        assert {
            "percentage": 25.0,
            "current_step": "second 2",
            "steps_completed": 1,
            "steps_total": 4,
        } == seen["progress"]
        assert seen["created_at"].endswith("Z")
        over = await ended(life, run_id)
        assert ("succeeded", None, 100.0) == (
            over["status"],
            over["retry_after"],
            over["progress"]["percentage"],
        )

    async def test_a_result_has_every_key(self, life: Life) -> None:
        run_id = await submitted(life, "work", given={"seconds": 2})
        seen = await result(life, run_id)
        assert [
            *(
                "job_id",
                "status",
                "result",
                "result_url",
                "metrics",
                "created_at",
                "started_at",
                "completed_at",
            ),
            *("duration_seconds", "error"),
        ] == list(seen)
        assert ({"worked": 2}, 2.0, None) == (seen["result"], seen["duration_seconds"], seen["error"])

    async def test_a_result_is_not_there_before_the_end(self, life: Life) -> None:
        """`409` until it ended."""
        run_id = await submitted(life, "work")
        await trio.sleep(1)
        answer = await life.http.get(f"{RUNS}/{run_id}/result")
        assert (409, {"detail": "Job is not complete. Current status: running"}) == (
            answer.status_code,
            answer.json(),
        )

    async def test_one_that_is_unknown_is_a_404_with_a_detail(self, life: Life) -> None:
        for path in ("run_0123456789ab", "run_0123456789ab/result", "run_0123456789ab/stream", "x"):
            answer = await life.http.get(f"{RUNS}/{path}")
            assert 404 == answer.status_code
            assert f"Job not found: {path.split('/')[0]}" == answer.json()["detail"]

    @pytest.mark.parametrize(
        ("body", "word"),
        [
            ({}, "prompt"),
            ([], "object"),
            ({"prompt": 7}, "prompt"),
            ({"prompt": "x", "timeout": -1}, "timeout"),
            ({"prompt": "x", "timeout": 7.5}, "timeout"),
            ({"prompt": "x", "timeout": True}, "timeout"),
            ({"prompt": "x", "recipe_name": "nothing"}, "nothing"),
            ({"prompt": "x", "recipe_name": "echo", "webhook_url": "ftp://a/"}, "webhook_url"),
            ({"prompt": "x", "recipe_name": "echo", "idempotency_key": "k\n"}, "idempotency_key"),
            ({"prompt": "x", "recipe_name": "echo", "idempotency_scope": "moon"}, "moon"),
            (
                {
                    "prompt": "x",
                    "recipe_name": "echo",
                    "idempotency_key": "k",
                    "idempotency_scope": "session",
                },
                "session_id",
            ),
        ],
    )
    async def test_what_cannot_be_run_is_a_422_that_names_it(self, life: Life, body: Any, word: str) -> None:
        answer = await life.http.post(RUNS, json=body)
        assert 422 == answer.status_code
        assert word in answer.json()["detail"]
        assert 0 == (await life.http.get(RUNS)).json()["total"]

    async def test_a_body_that_is_no_json_is_a_422(self, life: Life) -> None:
        answer = await life.http.post(RUNS, content=b"{", headers={"Content-Type": "application/json"})
        assert 422 == answer.status_code
        assert "JSON" in answer.json()["detail"]

    async def test_a_body_that_is_too_large_is_a_413(self, life: Life) -> None:
        answer = await submit(life, say="x" * (17 * 2**20))
        assert (413, ["detail"]) == (answer.status_code, list(answer.json()))

    async def test_it_can_be_waited_for(self, life: Life) -> None:
        """`Prefer: wait=N` works on `POST /runs`, `GET /runs/{id}` and its `result` too."""
        answer = await submit(life, "work", {"Prefer": "wait=10"}, given={"seconds": 2})
        assert ("succeeded", "wait=10") == (answer.json()["status"], answer.headers["Preference-Applied"])
        run_id = await submitted(life, "work", given={"seconds": 5})
        with trio.fail_after(7):
            answer = await life.http.get(f"{RUNS}/{run_id}/result", headers={"Prefer": "wait=60"})
        assert {"worked": 5} == answer.json()["result"]
        run_id = await submitted(life, "work", given={"seconds": 50})
        answer = await life.http.get(f"{RUNS}/{run_id}", headers={"Prefer": "wait=3"})
        assert "running" == answer.json()["status"]


class TestWork:
    async def test_a_step_is_a_plugin_call_on_the_same_engine(self, life: Life) -> None:
        run_id = await submitted(life, "steps", given={"plugin": "test/echo", "with": {"text": "hello"}})
        assert "hello" in json.dumps((await result(life, run_id))["result"])

    async def test_what_fails_says_why(self, life: Life) -> None:
        run_id = await submitted(life, "fail", given={"words": "no luck"})
        seen = await result(life, run_id)
        assert ("failed", "no luck", None) == (seen["status"], seen["error"], seen["result"])

    async def test_an_unknown_plugin_fails_the_run(self, life: Life) -> None:
        run_id = await submitted(life, "steps", given={"plugin": "no/such"})
        assert "there is no plugin 'no/such'" == (await result(life, run_id))["error"]

    async def test_a_bug_of_its_work_ends_the_run_alone(self, life: Life) -> None:
        run_id = await submitted(life, "fail", given={"bug": True})
        seen = await result(life, run_id)
        assert "failed" == seen["status"]
        assert "LookupError" in seen["error"]
        assert "a bug" not in seen["error"]
        assert {"said": None, "page_id": "main"} == (await result(life, await submitted(life)))["result"]

    async def test_its_limit_ends_it(self, life: Life) -> None:
        """`RUNS_TIMEOUT_S` and the body's `timeout` are cancel scopes: past it `failed`."""
        run_id = await submitted(life, "work", given={"seconds": 100}, timeout=5)
        began = trio.current_time()
        seen = await result(life, run_id)
        assert ("failed", "Job timed out after 5s") == (seen["status"], seen["error"])
        assert 5.0 == pytest.approx(trio.current_time() - began, abs=0.5)
        assert 200 == (await life.call("echo")).status_code

    async def test_files_stay_as_long_as_the_run(self, life: Life) -> None:
        run_id = await submitted(life, "filed", given={"text": "words"})
        link = (await result(life, run_id))["result"]
        await trio.sleep(2000)
        assert "words" == (await life.http.get(link["url"])).text
        run_id = await submitted(life, "filed", given={"text": "words"})
        link = (await result(life, run_id))["result"]
        assert 204 == (await life.http.delete(f"{RUNS}/{run_id}")).status_code
        assert 404 == (await life.http.get(link["url"])).status_code

    async def test_a_plain_caller_waits_for_it_as_for_a_job(self, life: Life) -> None:
        await submitted(life, "work", given={"seconds": 3, "page": "main"})
        await trio.sleep(0.5)
        assert "job" == (await life.http.get("/api/v1/main")).json()["state"]
        began = trio.current_time()
        assert 200 == (await life.call("echo")).status_code
        assert 2.5 == pytest.approx(trio.current_time() - began, abs=0.2)


class TestQueue:
    async def test_they_begin_in_the_order_of_their_arrival(self, life: Life) -> None:
        ids = [await submitted(life, "work", given={"seconds": 3, "page": "main"}) for _ in range(4)]
        starts = [(await ended(life, run_id))["started_at"] for run_id in ids]
        assert sorted(starts) == starts
        assert 4 == len(set(starts))

    async def test_each_finds_a_page_of_its_own_while_there_is_room(self, world: World) -> None:
        """the recipe's `page`, else any idle page, opening one while `MAX_PAGES` allows"""
        world.settings["max_pages"] = 3
        async with live(world) as life:
            ids = [await submitted(life, "work", given={"seconds": 10}) for _ in range(4)]
            await trio.sleep(1)
            states = [(await status(life, run_id))["status"] for run_id in ids]
            assert ["running", "running", "running", "queued"] == states
            pages = (await life.http.get("/api/v1/pages")).json()["pages"]
            assert 3 == len(pages)
            await ended(life, ids[3])
            await trio.sleep(130)
            pages = (await life.http.get("/api/v1/pages")).json()["pages"]
            assert ["main"] == [page["page_id"] for page in pages]

    async def test_one_whose_page_is_busy_does_not_hold_up_the_others(self, life: Life) -> None:
        await life.start("work", ttl=60, seconds=20)
        first = await submitted(life, given={"page": "main"})
        second = await submitted(life)
        assert "succeeded" == (await ended(life, second, 5))["status"]
        assert "queued" == (await status(life, first))["status"]
        assert "succeeded" == (await ended(life, first))["status"]

    async def test_a_page_that_was_opened_for_runs_makes_way_for_one_that_a_recipe_names(
        self, world: World
    ) -> None:
        """Else the queue would wait for room that only an empty queue makes."""
        world.settings["max_pages"] = 2
        async with live(world) as life:
            first = [await submitted(life, "work", given={"seconds": 5}) for _ in range(2)]
            await trio.sleep(1)
            named = [await submitted(life, given={"page": page}) for page in ("shop", "other", "shop")]
            behind = [await submitted(life, "work", given={"seconds": 5}) for _ in range(4)]
            seen = [await ended(life, run_id, 60) for run_id in (*first, *named, *behind)]
            assert {"succeeded"} == {run["status"] for run in seen}
            starts = [run["started_at"] for run in seen]
            assert max(starts[2:5]) <= min(starts[6:])  # of those behind the first may have the other page
            pages = (await life.http.get("/api/v1/pages")).json()["pages"]
            assert 2 == len(pages)

    async def test_a_page_of_a_clients_own_makes_way_for_none(self, world: World) -> None:
        world.settings["max_pages"] = 2
        async with live(world) as life:
            await life.open("mine")
            run_id = await submitted(life, given={"page": "shop"})
            await trio.sleep(100)
            assert "queued" == (await status(life, run_id))["status"]
            assert 200 == (await life.http.delete("/api/v1/mine")).status_code
            assert "succeeded" == (await ended(life, run_id, 5))["status"]

    async def test_a_leased_page_is_not_taken(self, world: World) -> None:
        world.settings["max_pages"] = 1
        async with live(world) as life:
            await life.http.post("/api/v1/main/lease", json={"ttl": 20})
            run_id = await submitted(life)
            await trio.sleep(15)
            assert "queued" == (await status(life, run_id))["status"]
            assert "succeeded" == (await ended(life, run_id))["status"]

    async def test_a_page_that_cannot_be_is_the_runs_failure(self, life: Life) -> None:
        run_id = await submitted(life, given={"page": "jobs"})
        seen = await result(life, run_id)
        assert ("failed", "page_id jobs is a reserved name") == (seen["status"], seen["error"])

    async def test_a_page_that_does_not_open_is_tried_again_in_a_while(self, life: Life, logged: Any) -> None:
        life.driver.refuse_tab = BrowserLost("the browser does not open pages")
        run_id = await submitted(life, given={"page": "other"})
        cancelled = await submitted(life, given={"page": "third"})
        await trio.sleep(10)
        assert "queued" == (await status(life, run_id))["status"]
        assert 8 <= sum(line["event"] == "run put back" and line["run_id"] == run_id for line in logged) <= 11
        assert 200 == (await life.http.post(f"{RUNS}/{cancelled}/cancel")).status_code
        life.driver.refuse_tab = None
        assert "other" == (await result(life, run_id))["result"]["page_id"]
        assert "cancelled" == (await status(life, cancelled))["status"]

    async def test_past_the_ceiling_nothing_is_kept(self, world: World) -> None:
        """past it `503`, `Retry-After: 1`, `{"detail": "Job queue is full; retry later."}`, nothing kept"""
        world.settings |= {"runs_max_concurrent": 1, "runs_max_queued": 3}
        async with live(world) as life:
            for _ in range(3):
                await submitted(life, "work", given={"seconds": 5})
            answer = await submit(life, headers={"Idempotency-Key": "k"})
            assert (503, "1") == (answer.status_code, answer.headers["Retry-After"])
            assert {"detail": "Job queue is full; retry later."} == answer.json()
            assert 3 == (await life.http.get(RUNS)).json()["total"]
            await trio.sleep(6)
            run_id = await submitted(life, headers={"Idempotency-Key": "k"})  # a refused start frees the key
            assert "succeeded" == (await ended(life, run_id))["status"]

    async def test_a_flood_is_admitted_or_refused_and_what_is_admitted_ends(self, world: World) -> None:
        world.settings["runs_max_queued"] = 100
        async with live(world) as life:
            answers: list[httpx.Response] = []

            async def one() -> None:
                answers.append(await submit(life))

            async with trio.open_nursery() as nursery:
                for _ in range(400):
                    nursery.start_soon(one)
            assert {202, 503} == {answer.status_code for answer in answers}
            accepted = [answer.json()["job_id"] for answer in answers if answer.status_code == 202]
            assert 100 <= len(accepted)
            for run_id in accepted:
                assert "succeeded" == (await ended(life, run_id))["status"]

    async def test_those_that_came_at_once_begin_in_the_order_in_which_they_are_stored(
        self, life: Life
    ) -> None:
        """Many rows share one commit, and who waits for it wakes up in any order."""
        run_ids: list[str] = []

        async def one() -> None:
            run_ids.append(await submitted(life, "work", given={"seconds": 1, "page": "main"}))

        async with trio.open_nursery() as nursery:
            for _ in range(40):
                nursery.start_soon(one)
        for run_id in run_ids:
            await ended(life, run_id, 60)
        listed = (await life.http.get(RUNS, params={"page_size": 100})).json()["jobs"]
        starts = [run["started_at"] for run in reversed(listed)]
        assert sorted(starts) == starts

    async def test_a_full_queue_refuses_without_the_store(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.settings |= {"runs_max_concurrent": 1, "runs_max_queued": 2}
        async with live(world) as life:
            first = await submitted(life, "work", headers={"Idempotency-Key": "k"}, given={"seconds": 5})
            await submitted(life)
            monkeypatch.setattr(life.worker.runs._store, "insert", None)
            assert 503 == (await submit(life)).status_code
            assert first == await submitted(life, headers={"Idempotency-Key": "k"})
            monkeypatch.undo()
            assert 503 == (await submit(life, headers={"Idempotency-Key": "other"})).status_code
            await ended(life, first)
            await submitted(life, headers={"Idempotency-Key": "other"})

    async def test_they_are_in_flight(self, life: Life) -> None:
        await submitted(life, "work", given={"seconds": 5, "page": "main"})
        await submitted(life, "work", given={"seconds": 5, "page": "main"})
        activity = (await life.http.get("/api/v1/activity")).json()
        assert 2 == activity["in_flight"]
        await trio.sleep(11)
        assert 0 == (await life.http.get("/api/v1/activity")).json()["in_flight"]


class TestKeys:
    async def test_the_same_key_is_the_same_run(self, life: Life) -> None:
        """`Idempotency-Key` (or the body's field; the header wins): same key, other body: the first run."""
        first = await submitted(life, idempotency_key="order-123")
        assert first == await submitted(
            life, headers={"Idempotency-Key": "order-123"}, given={"say": "other"}
        )
        assert first == await submitted(life, headers={"Idempotency-Key": "order-123"}, idempotency_key="x")
        assert first != await submitted(life, idempotency_key="x")

    async def test_fifty_at_once_are_one(self, life: Life) -> None:
        ids: list[str] = []

        async def one() -> None:
            ids.append(await submitted(life, idempotency_key="k"))

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(one)
        assert 1 == len(set(ids))
        assert 1 == (await life.http.get(RUNS)).json()["total"]

    async def test_a_session_has_keys_of_its_own(self, life: Life) -> None:
        """scope as named (`session` needs a `session_id`)"""
        scope = {"idempotency_key": "k", "idempotency_scope": "session"}
        a = await submitted(life, session_id="a", **scope)
        assert a == await submitted(life, session_id="a", **scope)
        assert a != await submitted(life, session_id="b", **scope)
        assert a != await submitted(life, idempotency_key="k", idempotency_scope="global")

    async def test_a_deleted_run_frees_its_key(self, life: Life) -> None:
        first = await submitted(life, idempotency_key="k")
        await ended(life, first)
        assert 204 == (await life.http.delete(f"{RUNS}/{first}")).status_code
        assert first != await submitted(life, idempotency_key="k")


class TestCancel:
    async def test_a_running_one(self, life: Life) -> None:
        run_id = await submitted(life, "work", given={"seconds": 60})
        await trio.sleep(2)
        answer = await life.http.post(f"{RUNS}/{run_id}/cancel")
        assert (200, "cancelled") == (answer.status_code, answer.json()["status"])
        assert "cancelled" == (await result(life, run_id))["status"]
        answer = await life.http.post(f"{RUNS}/{run_id}/cancel")
        assert (409, "Job is already complete. Status: cancelled") == (
            answer.status_code,
            answer.json()["detail"],
        )
        assert 200 == (await life.call("echo")).status_code

    async def test_a_queued_one_never_runs(self, life: Life) -> None:
        await submitted(life, "work", given={"seconds": 5, "page": "main"})
        run_id = await submitted(life, "work", given={"page": "main"})
        assert 200 == (await life.http.post(f"{RUNS}/{run_id}/cancel")).status_code
        seen = await result(life, run_id)
        assert ("cancelled", None) == (seen["status"], seen["started_at"])

    async def test_at_the_moment_of_its_end_there_is_one_end(self, life: Life) -> None:
        for number in range(60):
            run_id = await submitted(life, "work", given={"seconds": 1})
            await trio.sleep(0.98 + number % 5 / 100)
            answer = await life.http.post(f"{RUNS}/{run_id}/cancel")
            seen = (await result(life, run_id))["status"]
            assert (200 if seen == "cancelled" else 409) == answer.status_code

    async def test_delete_in_every_state(self, life: Life) -> None:
        """`DELETE /runs/{id}` → `204` (`409` while it runs)."""
        running = await submitted(life, "work", given={"seconds": 5, "page": "main"})
        queued = await submitted(life, given={"page": "main"})
        await trio.sleep(1)
        for run_id in (running, queued):
            answer = await life.http.delete(f"{RUNS}/{run_id}")
            assert (409, "Cannot delete a running job. Cancel it first.") == (
                answer.status_code,
                answer.json()["detail"],
            )
        await ended(life, queued)
        answer = await life.http.delete(f"{RUNS}/{running}")
        assert (204, b"") == (answer.status_code, answer.content)
        assert 404 == (await life.http.delete(f"{RUNS}/{running}")).status_code


class TestList:
    async def test_newest_first_in_pages(self, life: Life) -> None:
        ids = [await submitted(life, session_id="a" if n % 2 else "b") for n in range(5)]
        seen = (await life.http.get(RUNS, params={"page_size": 2, "page": 2})).json()
        assert ["jobs", "total", "page", "page_size"] == list(seen)
        assert (5, 2, 2) == (seen["total"], seen["page"], seen["page_size"])
        assert [ids[2], ids[1]] == [run["job_id"] for run in seen["jobs"]]
        seen = (await life.http.get(RUNS, params={"session_id": "a"})).json()
        assert [ids[3], ids[1]] == [run["job_id"] for run in seen["jobs"]]
        seen = (await life.http.get(RUNS, params={"page": 10**15})).json()
        assert ([], 5) == (seen["jobs"], seen["total"])

    async def test_by_status(self, life: Life) -> None:
        run_id = await submitted(life, "fail")
        await ended(life, run_id)
        assert 1 == (await life.http.get(RUNS, params={"status": "failed"})).json()["total"]
        assert 0 == (await life.http.get(RUNS, params={"status": "queued"})).json()["total"]

    @pytest.mark.parametrize(
        ("params", "code"),
        [
            ({"page": "0"}, 422),
            ({"page_size": "101"}, 422),
            ({"page": "1_0"}, 422),
            ({"status": "lost"}, 400),
        ],
    )
    async def test_bad_values_are_named(self, life: Life, params: dict[str, str], code: int) -> None:
        answer = await life.http.get(RUNS, params=params)
        assert code == answer.status_code
        assert next(iter(params)) in answer.json()["detail"]


class TestWebhook:
    async def test_its_end_is_posted_signed_and_retried_like_a_jobs(
        self, life: Life, receiver: Receiver
    ) -> None:
        receiver.answers(500, 503, 200)
        run_id = await submitted(life, given={"say": "hi"}, webhook_url=URL)
        await trio.sleep(400)
        first, second, third = receiver.posts
        assert ["job_id", "status", "result", "error", "completed_at", "duration_seconds"] == list(first.json)
        assert (run_id, "succeeded", "hi") == (
            first.json["job_id"],
            first.json["status"],
            first.json["result"]["said"],
        )
        assert first.body == second.body == third.body
        assert ["1", "2", "3"] == [post.headers["X-Penelope-Attempt"] for post in receiver.posts]
        assert {run_id} == {post.headers["webhook-id"] for post in receiver.posts}
        assert signing.sign(first.body, KEY) == first.headers["X-Penelope-Signature"]
        assert [0, 60, 300] == [round(post.at - first.at) for post in receiver.posts]
        assert 200 == (await life.http.get(f"{RUNS}/{run_id}/result")).status_code  # still there
        assert 404 == (await life.poll(run_id)).status_code  # and no job

    @pytest.mark.parametrize("how", ["fail", "cancel", "timeout"])
    async def test_every_end_is_told(self, life: Life, receiver: Receiver, how: str) -> None:
        if how == "fail":
            await submitted(life, "fail", webhook_url=URL)
        else:
            limit = {"timeout": 2} if how == "timeout" else {}
            run_id = await submitted(life, "work", given={"seconds": 50}, webhook_url=URL, **limit)
            await trio.sleep(1)
            if how == "cancel":
                await life.http.post(f"{RUNS}/{run_id}/cancel")
        await trio.sleep(5)
        (post,) = receiver.posts
        assert ("cancelled" if how == "cancel" else "failed") == post.json["status"]

    async def test_a_recipe_names_the_ends_that_are_told(self, life: Life, receiver: Receiver) -> None:
        await submitted(life, given={"events": ["failed"], "webhook": URL})
        await submitted(life, "fail", given={"events": ["failed"], "webhook": URL})
        await trio.sleep(5)
        assert ["failed"] == [post.json["status"] for post in receiver.posts]

    async def test_a_slow_receiver_holds_no_run_up(self, world: World) -> None:
        world.settings["runs_max_concurrent"] = 1
        async with live(world) as life:
            world.receiver.answers(slow(9.0))
            for _ in range(3):
                await submitted(life, webhook_url=URL)
            with trio.fail_after(3):
                assert "succeeded" == (await ended(life, await submitted(life)))["status"]

    async def test_runs_take_no_room_from_the_held_jobs(self, life: Life, receiver: Receiver) -> None:
        receiver.answers(500)
        for _ in range(3):
            await ended(life, await submitted(life, webhook_url=URL))
        activity = (await life.http.get("/api/v1/activity")).json()
        assert (0, 3) == (activity["jobs_held"], activity["deliveries_pending"])


class TestRestarts:
    async def test_the_running_fail_and_the_queued_go_on(self, world: World) -> None:
        """At a start, `running` becomes `failed` …; `queued` ones, of which nothing ran, stay in the queue and run."""
        async with live(world) as life:
            running = await submitted(
                life, "work", given={"seconds": 60, "page": "main"}, webhook_url=URL, idempotency_key="k"
            )
            queued = [await submitted(life, given={"page": "main", "say": n}) for n in range(3)]
            await trio.sleep(1)
        async with live(world) as life:
            seen = await status(life, running)
            assert ("failed", "Interrupted by service restart") == (seen["status"], seen["error"])
            for number, run_id in enumerate(queued):
                assert number == (await result(life, run_id))["result"]["said"]
            starts = [(await status(life, run_id))["started_at"] for run_id in queued]
            assert sorted(starts) == starts
            assert running != await submitted(life, idempotency_key="k")  # the key is free again
        (post,) = world.receiver.posts
        assert ("failed", running) == (post.json["status"], post.json["job_id"])

    async def test_a_setting_lets_the_queued_fail(self, world: World) -> None:
        """(`RUNS_RESUME_QUEUED=0`: they fail as in the seed)"""
        async with live(world) as life:
            await submitted(life, "work", given={"seconds": 60, "page": "main"})
            queued = await submitted(life, given={"page": "main"})
        world.settings["runs_resume_queued"] = False
        async with live(world) as life:
            assert "Interrupted by service restart" == (await status(life, queued))["error"]

    async def test_a_webhook_goes_on_where_it_was(self, world: World) -> None:
        world.receiver.answers(500)
        async with live(world) as life:
            await ended(life, await submitted(life, webhook_url=URL))
            await trio.sleep(10)
        world.receiver.answers(200)
        async with live(world):
            await trio.sleep(60)
        assert ["1", "2"] == [post.headers["X-Penelope-Attempt"] for post in world.receiver.posts]

    async def test_a_stop_lets_a_run_end_within_its_grace(self, world: World) -> None:
        async with live(world) as life:
            run_id = await submitted(life, "work", given={"seconds": 5})
            await trio.sleep(1)
            assert 503 == (await self._refused(life)).status_code
        async with live(world) as life:
            assert "succeeded" == (await status(life, run_id))["status"]

    async def _refused(self, life: Life) -> httpx.Response:
        """A submit while the worker stops."""
        life.supervisor.stop()
        answer = await submit(life)
        await life.supervisor.drained.wait()
        return answer

    async def test_they_are_kept_a_day(self, world: World) -> None:
        async with live(world) as life:
            run_id = await submitted(life)
            await ended(life, run_id)
        await trio.sleep(24 * 3600 - 120)
        async with live(world) as life:
            assert "succeeded" == (await status(life, run_id))["status"]
            await trio.sleep(300)
            assert 404 == (await life.http.get(f"{RUNS}/{run_id}")).status_code


class TestAuth:
    @pytest.fixture
    async def stranger(self, life: Life) -> AsyncGenerator[httpx.AsyncClient]:
        """A client that has no key."""
        async with httpx.AsyncClient(
            transport=life.http._transport, base_url="http://127.0.0.1:5000", timeout=None
        ) as client:
            yield client

    async def test_the_key_comes_either_way(self, life: Life, stranger: httpx.AsyncClient) -> None:
        """the key, as Bearer or `X-API-Key`"""
        assert 200 == (await stranger.get(RUNS, headers={"X-API-Key": KEY})).status_code
        answer = await stranger.get(RUNS)
        assert (401, "Bearer") == (answer.status_code, answer.headers["WWW-Authenticate"])
        assert ["detail"] == list(answer.json())
        for headers in ({"X-API-Key": "wrong"}, {"X-API-Key": "ü".encode("latin-1")}):
            answer = await stranger.get(RUNS, headers=headers)  # type: ignore[arg-type]
            assert (401, True) == (answer.status_code, "X-API-Key" in answer.json()["detail"])

    async def test_loopback_may_need_none(self, world: World) -> None:
        """`PENELOPE_RUNS_AUTH=loopback` lets callers on loopback in without one …; browser requests are refused."""
        world.settings["runs_auth"] = "loopback"
        async with (
            live(world) as life,
            httpx.AsyncClient(transport=life.http._transport, base_url="http://127.0.0.1:5000") as stranger,
        ):
            assert 200 == (await stranger.get(RUNS)).status_code
            assert 401 == (await stranger.get("/api/v1/pages")).status_code
            assert 401 == (await stranger.get(RUNS, headers={"Authorization": "Bearer wrong"})).status_code
            for name in ("Origin", "Sec-Fetch-Site"):
                assert 401 == (await stranger.get(RUNS, headers={name: "null"})).status_code

    async def test_other_failures_have_the_form_too(self, life: Life) -> None:
        answer = await life.http.put(RUNS)
        assert 405 == answer.status_code
        assert "PUT" in answer.json()["detail"]
        assert "Allow" in answer.headers
        answer = await life.http.post(RUNS, content=b"x=1", headers={"Content-Type": "text/plain"})
        assert (415, ["detail"]) == (answer.status_code, list(answer.json()))
