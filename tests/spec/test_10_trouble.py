"""Section 10, when something is wrong: pages, plugins, the store, stops."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import trio

from penelope.errors import CallFailed, StoreFull
from tests.spec.receiver import URL, Receiver
from tests.spec.test_08_owed import fill_disk, free_disk
from tests.spec.test_10_runs import RUNS, ended, result, status, submit, submitted
from tests.spec.world import EPOCH, Life, World, live


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "store", settings={"runs_webhook_policy": "any"})


async def stubborn(life: Life, **more: Any) -> str:
    """A run whose plugin works on for three seconds after its cancel, and then swallows it."""
    with_ = {"plugin": "test/stubborn", "with": {"seconds": 3}}
    return await submitted(life, "steps", given=with_, **more)


class TestPages:
    async def test_a_page_that_crashed_while_idle_is_worked_all_the_same(self, world: World) -> None:
        """As by a plain call: whoever works it next opens it afresh."""
        world.settings["max_pages"] = 1
        async with live(world) as life:
            life.tab.crashed_now = True
            assert "succeeded" == (await ended(life, await submitted(life)))["status"]

    async def test_one_that_is_well_comes_first(self, life: Life) -> None:
        await life.open("second")
        life.tab.crashed_now = True
        assert "second" == (await result(life, await submitted(life)))["result"]["page_id"]

    async def test_a_page_that_crashes_under_it_fails_the_run_and_is_healed(self, life: Life) -> None:
        run_id = await submitted(
            life, "steps", given={"plugin": "test/fail", "with": {"how": "PageLost"}, "page": "main"}
        )
        seen = await result(life, run_id)
        assert ("failed", "PageLost, said the driver") == (seen["status"], seen["error"])
        assert 1 == life.tab.healed
        assert 200 == (await life.call("echo")).status_code

    async def test_while_the_browser_is_down_they_wait(self, life: Life) -> None:
        life.driver.up = False
        run_id = await submitted(life)
        await trio.sleep(30)
        assert "queued" == (await status(life, run_id))["status"]
        life.driver.up = True
        assert "succeeded" == (await ended(life, run_id, 3))["status"]

    async def test_a_page_that_no_page_can_be_fails_the_run(self, life: Life) -> None:
        for name in ("docs", "a page", "x" * 65):
            seen = await ended(life, await submitted(life, given={"page": name}), 3)
            assert ("failed", True) == (seen["status"], "page_id" in seen["error"])

    async def test_a_page_that_cannot_be_opened_is_tried_again_in_a_second(self, life: Life) -> None:
        tried = 0
        real = life.driver.open_tab

        async def open_tab(page_id: str, url: str | None = None) -> Any:
            nonlocal tried
            tried += 1
            return await real(page_id, url)

        life.driver.open_tab = open_tab  # type: ignore[method-assign]
        life.driver.refuse_tab = CallFailed("not now")
        run_id = await submitted(life, given={"page": "another"})
        await trio.sleep(10)
        assert 9 <= tried <= 12
        life.driver.refuse_tab = None
        assert "succeeded" == (await ended(life, run_id, 3))["status"]

    async def test_one_whose_page_somebody_else_had_first_gets_another_at_once(
        self, life: Life, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nor do those behind it wait: calls that keep one page busy must not hold up the queue."""
        real, tried = life.worker.runs._places.open, 0

        async def open_(name: str) -> Any:
            nonlocal tried
            tried += 1
            if tried == 1:
                await life.start("work", page_id=name, ttl=60, seconds=20)
            return await real(name)

        monkeypatch.setattr(life.worker.runs._places, "open", open_)
        run_ids = [await submitted(life) for _ in range(3)]
        began = trio.current_time()
        for run_id in run_ids:
            assert "main" != (await result(life, run_id))["result"]["page_id"]
        assert trio.current_time() - began < 0.5

    async def test_a_cancel_while_its_page_is_opened(self, life: Life) -> None:
        life.driver.open_takes_s = 2
        life.driver.refuse_tab = CallFailed("not now")
        run_id = await submitted(life, given={"page": "another"})
        await trio.sleep(1)
        answer = await life.http.post(f"{RUNS}/{run_id}/cancel")
        assert (200, "cancelled") == (answer.status_code, answer.json()["status"])
        assert None is (await result(life, run_id))["started_at"]

    async def test_whoever_sees_its_end_may_start_a_job_on_its_page(self, life: Life) -> None:
        for _ in range(20):
            await ended(life, await submitted(life, "work", given={"seconds": 1, "page": "main"}))
            job = await life.start("echo", ttl=60)
            await trio.sleep(1)
            assert "done" == (await life.shown(job))["state"]


class TestCutOff:
    async def test_a_cancel_waits_for_a_plugin_that_will_not_end_and_so_does_its_slot(
        self, world: World
    ) -> None:
        """Cancel: the plugin's effect stops, the slot is held until it does."""
        world.settings["runs_max_concurrent"] = 1
        async with live(world) as life:
            run_id = await stubborn(life)
            behind = await submitted(life)
            await trio.sleep(1)
            began = trio.current_time()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(life.http.post, f"{RUNS}/{run_id}/cancel")
                await trio.sleep(2)
                assert ["running", "queued"] == [
                    (await status(life, one))["status"] for one in (run_id, behind)
                ]
            assert 3.0 == pytest.approx(trio.current_time() - began, abs=0.2)
            seen = await result(life, run_id)
            assert ("cancelled", None) == (seen["status"], seen["result"])
            assert "succeeded" == (await ended(life, behind))["status"]

    async def test_what_a_plugin_says_after_its_time_counts_no_more(self, life: Life) -> None:
        run_id = await stubborn(life, timeout=2)
        seen = await result(life, run_id)
        assert ("failed", "Job timed out after 2s", None) == (seen["status"], seen["error"], seen["result"])
        assert 5.0 == pytest.approx(seen["duration_seconds"], abs=0.2)

    async def test_a_cancel_that_a_stop_overtakes_is_kept(self, world: World) -> None:
        world.settings["stop_grace_s"] = 1
        async with live(world) as life:
            run_id = await stubborn(life, webhook_url=URL)
            await trio.sleep(1)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(life.http.post, f"{RUNS}/{run_id}/cancel")
                await trio.sleep(0.5)
                await life.stop()
        async with live(world) as life:
            assert "cancelled" == (await status(life, run_id))["status"]
            await trio.sleep(5)
        assert ["cancelled"] == [post.json["status"] for post in world.receiver.posts]

    async def test_at_a_second_signal_nothing_is_waited_for(self, world: World) -> None:
        """Nothing turns `cancelled` by itself: those at work were interrupted, those in the queue go on."""
        async with live(world) as life:
            running = await submitted(life, "work", given={"seconds": 60, "page": "main"})
            queued = await submitted(life, given={"page": "main"})
            await trio.sleep(1)
            began = trio.current_time()
            life.supervisor.stop()
            life.supervisor.hurry()
            await life.supervisor.drained.wait()
            assert trio.current_time() - began < 1
        async with live(world) as life:
            assert "Interrupted by service restart" == (await status(life, running))["error"]
            assert "succeeded" == (await ended(life, queued))["status"]
            rows = (await life.http.get("/api/v1/requests", params={"kind": "run"})).json()["requests"]
        seen = [(row["phase"], row["status"]) for row in rows if row["job_id"] == running]
        assert [("end", 503), ("begin", None)] == seen


class TestStore:
    async def test_a_full_disk_refuses_a_submit_and_keeps_nothing(self, life: Life) -> None:
        fill_disk(life)
        answer = await submit(life, headers={"Idempotency-Key": "k"}, given={"say": "x" * 100_000})
        assert 507 == answer.status_code
        assert ["detail"] == list(answer.json())
        free_disk(life)
        assert 0 == (await life.http.get(RUNS)).json()["total"]
        run_id = await submitted(life, headers={"Idempotency-Key": "k"})
        assert "succeeded" == (await ended(life, run_id))["status"]

    async def test_an_end_that_the_disk_refuses_is_kept_shown_and_delivered(
        self, life: Life, receiver: Receiver
    ) -> None:
        run_id = await submitted(life, "huge", given={"times": 100_000}, webhook_url=URL)
        fill_disk(life)
        seen = await result(life, run_id)
        assert ("succeeded", 500_000) == (seen["status"], len(seen["result"]))
        assert "disk" == (await life.http.get("/api/v1/activity")).json()["pressure"]["why"]
        await trio.sleep(2)
        assert 500_000 == len(receiver.posts[0].json["result"])
        answer = await life.http.delete(f"{RUNS}/{run_id}")
        assert (503, ["detail"]) == (answer.status_code, list(answer.json()))
        answer = await life.http.post(f"{RUNS}/{run_id}/cancel")
        assert 409 == answer.status_code
        free_disk(life)
        await trio.sleep(5)
        assert "ok" == (await life.http.get("/api/v1/activity")).json()["pressure"]["why"]
        assert 500_000 == len((await result(life, run_id))["result"])
        assert 204 == (await life.http.delete(f"{RUNS}/{run_id}")).status_code
        assert 404 == (await life.http.get(f"{RUNS}/{run_id}")).status_code
        await trio.sleep(1000)
        assert 1 == len(receiver.posts)

    async def test_a_cancel_that_the_store_refuses_is_stored_once_it_can_be(
        self, life: Life, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also where nothing happens afterwards that would wake the queue."""
        await life.http.post("/api/v1/main/lease", json={"ttl": 600})
        run_id = await submitted(life, given={"page": "main"})
        real = life.worker.runs._store.end

        async def end(*_: Any) -> bool:
            await trio.sleep(3)
            raise StoreFull("the disk is full")

        monkeypatch.setattr(life.worker.runs._store, "end", end)
        answer = await life.http.post(f"{RUNS}/{run_id}/cancel")
        assert (200, "cancelled") == (answer.status_code, answer.json()["status"])
        assert 1 == life.worker.runs.owed
        monkeypatch.setattr(life.worker.runs._store, "end", real)
        await trio.sleep(10)
        assert 0 == life.worker.runs.owed

    async def test_it_is_over_only_once_that_is_stored(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Who was told of an end is told the same after a crash."""
        async with live(world) as life:
            real = life.worker.runs._store.end
            images: list[World] = []

            async def end(*arguments: Any) -> bool:
                seen = await status(life, run_id)
                assert "running" == seen["status"]
                images.append(world.image())
                return await real(*arguments)

            monkeypatch.setattr(life.worker.runs._store, "end", end)
            run_id = await submitted(life, "work", given={"seconds": 2})
            assert "succeeded" == (await ended(life, run_id))["status"]
        async with live(images[0]) as life:
            assert "failed" == (await status(life, run_id))["status"]

    async def test_a_result_that_the_store_can_never_take_fails_the_run(
        self, life: Life, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = life.worker.runs._store.end

        async def end(run: Any, parcel: Any) -> bool:
            if run.result is not None:
                raise sqlite3.DataError("string or blob too big")
            return await real(run, parcel)

        monkeypatch.setattr(life.worker.runs._store, "end", end)
        run_id = await submitted(life, webhook_url=URL)
        seen = await result(life, run_id)
        assert ("failed", None) == (seen["status"], seen["result"])
        assert "could not be stored" in seen["error"]
        await trio.sleep(2)
        assert ["failed"] == [post.json["status"] for post in receiver.posts]
        assert 0 == (await life.http.get("/api/v1/activity")).json()["in_flight"]

    async def test_a_beginning_that_the_disk_refuses_puts_it_back(
        self, life: Life, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real, refused = life.worker.runs._store.begin, 0

        async def begin(run: Any) -> bool:
            nonlocal refused
            refused += 1
            if refused <= 3:
                raise StoreFull("the disk is full")
            return await real(run)

        monkeypatch.setattr(life.worker.runs._store, "begin", begin)
        first = await submitted(life, given={"page": "main"})
        second = await submitted(life, given={"page": "main"})
        await trio.sleep(0.5)
        assert {"queued"} == {(await status(life, run_id))["status"] for run_id in (first, second)}
        starts = [(await ended(life, run_id, 5))["started_at"] for run_id in (first, second)]
        assert sorted(starts) == starts

    async def test_an_end_on_its_way_into_the_store_is_not_told_it_twice(
        self, life: Life, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is owed is paid at each move of the queue; what is being written is not owed."""
        real, writes = life.worker.runs._store.end, 0

        async def end(run: Any, parcel: Any) -> bool:
            nonlocal writes
            writes += 1
            if writes == 1:
                await trio.sleep(2)
            return await real(run, parcel)

        monkeypatch.setattr(life.worker.runs._store, "end", end)
        run_id = await submitted(life, webhook_url=URL)
        await trio.sleep(1)
        life.worker.runs.wake()
        assert "succeeded" == (await ended(life, run_id))["status"]
        assert 1 == writes
        await trio.sleep(2)
        assert ["succeeded"] == [post.json["status"] for post in receiver.posts]

    async def test_an_end_that_the_store_takes_long_to_take_is_delivered(
        self, life: Life, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = life.worker.runs._store.end

        async def end(run: Any, parcel: Any) -> bool:
            await trio.sleep(40)
            return await real(run, parcel)

        monkeypatch.setattr(life.worker.runs._store, "end", end)
        run_id = await submitted(life, webhook_url=URL)
        assert "succeeded" == (await ended(life, run_id, 60))["status"]
        await trio.sleep(2)
        assert ["succeeded"] == [post.json["status"] for post in receiver.posts]

    @pytest.mark.parametrize(
        "body",
        [
            rb'{"prompt": "\ud800", "recipe_name": "echo"}',
            rb'{"prompt": "", "recipe_name": "echo", "session_id": "\ud800"}',
            rb'{"prompt": "", "recipe_name": "echo", "idempotency_key": "\ud800"}',
            rb'{"prompt": "", "recipe_name": "echo", "config": {"\udfff": 1}}',
        ],
    )
    async def test_half_a_surrogate_pair_is_no_text(self, life: Life, body: bytes) -> None:
        answer = await life.http.post(RUNS, content=body, headers={"Content-Type": "application/json"})
        assert 422 == answer.status_code
        assert "surrogate" in answer.json()["detail"]

    async def test_half_a_surrogate_pair_from_inside_is_replaced(self, life: Life) -> None:
        """An input is JSON in a text of JSON's: there it is an escape of an escape."""
        answer = await submit(life, given={"say": "\ud800"})
        assert "\ufffd" == (await result(life, answer.json()["job_id"]))["result"]["said"]
        run_id = await submitted(life, "fail", given={"words": "no \ud800"})
        assert "no \ufffd" == (await result(life, run_id))["error"]

    async def test_a_plugin_that_says_half_a_surrogate_pair_fails_alone(self, life: Life) -> None:
        other = await submitted(life, "work", given={"seconds": 5})
        seen = await result(life, await submitted(life, "steps", given={"plugin": "test/mumble"}))
        assert ("failed", "the rest of it \ufffd") == (seen["status"], seen["error"])
        assert "succeeded" == (await ended(life, other))["status"]

    @pytest.mark.parametrize("name", ["config", "recipe_config"])
    async def test_a_configuration_that_is_nested_without_end_is_no_500(self, life: Life, name: str) -> None:
        deep: Any = 1
        for _ in range(100):
            deep = {"a": deep} if name == "config" else [deep]
        answer = await submit(life, "echo", None, **{name: {"deep": deep}})
        assert (422, True) == (answer.status_code, answer.json()["detail"].startswith(f"{name}: "))
        deep = deep["a"] if name == "config" else deep[0]
        assert 202 == (await submit(life, "echo", None, **{name: {"deep": deep}})).status_code

    async def test_one_that_cannot_be_read_again_does_not_keep_the_worker_from_its_start(
        self, world: World
    ) -> None:
        async with live(world) as life:
            await submitted(life, "work", given={"seconds": 60, "page": "main"})
            bad = await submitted(life, given={"page": "main"})
            good = await submitted(life, given={"page": "main"})

            def spoil(connection: sqlite3.Connection) -> None:
                connection.execute("UPDATE runs SET request = 'no JSON' WHERE run_id = ?", (bad,))

            await life.database.write(spoil)
        async with live(world) as life:
            assert "succeeded" == (await ended(life, good))["status"]
            seen = await status(life, bad)
            assert ("failed", True) == (seen["status"], "read this run again" in seen["error"])


class TestTold:
    async def test_a_run_is_a_pair_of_rows(self, life: Life) -> None:
        run_id = await submitted(life, "work", {"X-Request-Id": "r-1"}, given={"seconds": 5, "page": "main"})
        await ended(life, run_id)
        rows = (await life.http.get("/api/v1/requests", params={"kind": "run"})).json()["requests"]
        common = {
            "kind": "run",
            "method": "POST",
            "route": RUNS,
            "page_id": "main",
            "job_id": run_id,
            "request_id": "r-1",
        }
        assert {**common, "at": EPOCH, "phase": "begin", "status": None, "duration_s": None} == rows[1]
        assert {**common, "at": EPOCH + 5, "phase": "end", "status": 200, "duration_s": 5.0} == rows[0]

    async def test_activity_and_the_tree_show_it(self, life: Life) -> None:
        run_id = await submitted(life, "work", given={"seconds": 4, "page": "main"})
        await submitted(life, given={"page": "main"})
        await trio.sleep(1.5)
        activity = (await life.http.get("/api/v1/activity")).json()
        assert (1, 1, 2) == tuple(activity[name] for name in ("runs_running", "runs_queued", "in_flight"))
        (call,) = activity["calls"]
        assert ("recipe:work", "main", run_id, "running", 0.25, "second 2") == tuple(
            call[name] for name in ("what", "page_id", "job_id", "state", "progress", "note")
        )
        tree = (await life.http.get("/api/v1/tree")).json()
        (page,) = tree["pages"]
        assert (run_id, 0.25, "second 2") == tuple(
            page["holder"][name] for name in ("job_id", "progress", "note")
        )
        assert f"run {run_id} of recipe:work" in json.dumps(tree["tree"])

    async def test_a_worker_is_idle_from_its_end_on(self, life: Life) -> None:
        """Else the waker would stop it as soon as a long run ended, before anybody could read it."""
        await submitted(life, "work", given={"seconds": 3000})
        await trio.sleep(2000)
        assert 0 == (await life.http.get("/api/v1/activity")).json()["idle_for_s"]
        await trio.sleep(1010)
        assert 10 == pytest.approx((await life.http.get("/api/v1/activity")).json()["idle_for_s"], abs=1)

    async def test_urls_have_the_scheme_that_a_proxy_says(self, life: Life) -> None:
        for said, scheme in (("https", "https"), ("https, http", "https"), ("gopher", "http")):
            answer = await submit(life, headers={"X-Forwarded-Proto": said})
            for url in (answer.headers["Location"], answer.json()["poll_url"], answer.json()["stream_url"]):
                assert url.startswith(f"{scheme}://127.0.0.1:5000{RUNS}/run_")

    @pytest.mark.parametrize(
        ("host", "prefix", "base"),
        [
            ("waker.example:5050", "/p/alice", "http://waker.example:5050/p/alice"),
            ("[::1]:5050", "/a/p/alice", "http://[::1]:5050/a/p/alice"),
            ("evil/x", "no-slash", "http://127.0.0.1:5000"),
            ("a b", "/p/../x", "http://127.0.0.1:5000"),
            ("", "//evil", "http://127.0.0.1:5000"),
        ],
    )
    async def test_urls_have_the_host_and_the_prefix_that_a_proxy_says(
        self, life: Life, host: str, prefix: str, base: str
    ) -> None:
        """As the waker's gateway does; what is no host and no prefix is not believed."""
        answer = await submit(life, headers={"X-Forwarded-Host": host, "X-Forwarded-Prefix": prefix})
        for url in (answer.headers["Location"], answer.json()["poll_url"], answer.json()["stream_url"]):
            assert url.startswith(f"{base}{RUNS}/run_")

    async def test_the_clock_never_goes_back_behind_a_run(self, world: World) -> None:
        async with live(world) as life:
            first = await submitted(life)
            await ended(life, first)
        world.skew = -3600
        async with live(world) as life:
            second = await submitted(life)
            await ended(life, second)
            listed = (await life.http.get(RUNS)).json()["jobs"]
        assert [second, first] == [run["job_id"] for run in listed]
        assert listed[0]["created_at"] >= listed[1]["completed_at"]

    async def test_a_repeated_submit_asks_no_name_server(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its run is there: a name that cannot be looked up now is no matter of it."""
        async with live(world) as life:
            asked: list[str] = []

            async def screen(url: str) -> str | None:
                await trio.lowlevel.checkpoint()
                asked.append(url)
                return None if len(asked) == 1 else "it could not be looked up"

            life.worker.screen = screen
            first = await submitted(life, webhook_url=URL, idempotency_key="k")
            assert first == await submitted(life, webhook_url=URL, idempotency_key="k")
            refused = await submit(life, webhook_url=URL, idempotency_key="other")
            assert (422, {"detail": "webhook_url: it could not be looked up"}) == (
                refused.status_code,
                refused.json(),
            )
            assert 1 == (await life.http.get(RUNS)).json()["total"]
