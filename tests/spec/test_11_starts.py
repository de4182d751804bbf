"""Section 11: idempotent starts, and the list of jobs."""

import sqlite3
from typing import Any

import httpx
import pytest
import trio

from penelope.jobs.store import JobStore
from penelope.store import database
from tests.spec.receiver import URL
from tests.spec.test_08_owed import fill_disk, free_disk
from tests.spec.world import EPOCH, Life, World, live

DAY = 24 * 3600


async def begin(
    life: Life,
    name: str = "work",
    key: str = "k",
    page_id: str = "main",
    headers: dict[str, str] | None = None,
    **body: Any,
) -> httpx.Response:
    given = {"X-Result-Ttl": "60", "Idempotency-Key": key, **(headers or {})}
    return await life.call(name, page_id, given, **body)


async def starts(life: Life) -> int:
    """How many the store has."""

    def count(connection: Any) -> int:
        (number,) = connection.execute("SELECT count(*) FROM starts").fetchone()
        return int(number)

    return await life.database.read(count)


async def later(life: Life, seconds: float) -> None:
    """So much later: most of it a step of the wall's clock, which the worker follows within a minute."""
    until = life.now() + seconds
    life.world.skew += seconds - 100
    await trio.sleep(61)
    await trio.sleep(until - life.now())


def same(first: httpx.Response, again: httpx.Response) -> bool:
    assert (202, 202) == (first.status_code, again.status_code), again.text
    assert ("true", None) == (
        again.headers.get("Idempotency-Replayed"),
        first.headers.get("Idempotency-Replayed"),
    )
    return (first.text, first.headers["Location"]) == (again.text, again.headers["Location"])


# Idempotent starts


async def test_the_same_start_again_starts_nothing(life: Life) -> None:
    """Same key and same request → the same `202` body with `Idempotency-Replayed: true`."""
    first = await begin(life, seconds=5)
    await trio.sleep(1)
    again = await begin(life, seconds=5)  # its page is busy with that very job
    assert same(first, again)
    assert again.headers["X-Request-Id"] != first.headers["X-Request-Id"]
    await trio.sleep(10)
    assert ["work began", "work ended"] == life.page.seen


async def test_without_a_key_each_start_is_a_new_one(life: Life) -> None:
    """Without these headers a job behaves exactly as in section 5."""
    first = await life.start("echo", ttl=60)
    await trio.sleep(1)
    assert first != await life.start("echo", ttl=60)
    assert 0 == await starts(life)


async def test_for_a_day_and_past_the_jobs_own_end(life: Life) -> None:
    """For 24 h, without keeping any data past the job's own end."""
    first = await begin(life, "echo", text="a secret")
    await trio.sleep(70)
    assert await life.gone(first.json()["job_id"])
    assert same(first, await begin(life, "echo", text="a secret"))
    await later(life, DAY - 71)
    assert same(first, await begin(life, "echo", text="a secret"))
    dump = await life.database.read(
        lambda c: "\n".join(map(str, map(tuple, c.execute("SELECT * FROM starts"))))
    )
    assert "secret" not in dump
    await trio.sleep(1.001)  # not swept yet
    new = await begin(life, "echo", text="a secret")
    assert new.json()["job_id"] != first.json()["job_id"]
    assert "Idempotency-Replayed" not in new.headers
    assert 1 == await starts(life)


async def test_what_is_over_is_swept(life: Life) -> None:
    """Swept after 24 h."""
    await begin(life, "echo")
    await later(life, DAY - 10)
    assert 1 == await starts(life)
    await trio.sleep(120)
    assert 0 == await starts(life)


async def test_twenty_at_once(life: Life) -> None:
    """J19: exactly one job, 20 equal bodies."""
    answers: list[httpx.Response] = []

    async def ask() -> None:
        answers.append(await begin(life, seconds=1))

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(ask)
    assert [202] * 20 == [answer.status_code for answer in answers]
    assert 1 == len({answer.text for answer in answers})
    assert 19 == sum("Idempotency-Replayed" in answer.headers for answer in answers)
    await trio.sleep(5)
    assert ["work began", "work ended"] == life.page.seen
    assert [] == list(life.supervisor.starts._busy)


@pytest.mark.parametrize(
    ("change", "headers"),
    [
        ({"tag": "other"}, {}),
        ({"name": "echo"}, {}),
        ({"page_id": "second"}, {}),
        ({"page_id": "nope"}, {}),
        ({}, {"X-Result-Ttl": "61"}),
        ({}, {"X-Job-Timeout": "5"}),
    ],
)
async def test_another_request_under_the_key(
    life: Life, change: dict[str, str], headers: dict[str, str]
) -> None:
    """J20: same key, other body, plugin, page, way or limit: `422`, nothing runs; before the page is looked at."""
    await life.open("second")
    first = await begin(life, seconds=1, tag="first")
    body = {} if "name" in change else {"seconds": 1, "tag": "first"}
    answer = await begin(life, headers=headers, **{**body, **change})  # type: ignore[arg-type]
    assert 422 == answer.status_code
    assert "Idempotency-Key" in answer.json()["error"]
    assert first.json()["job_id"] in answer.json()["error"]
    await trio.sleep(5)
    assert ["first began", "first ended"] == life.page.seen
    assert [] == life.driver.tabs["second"].page.seen


async def test_another_callback_under_the_key(life: Life) -> None:
    """J20: nor may the callback be another."""
    headers = {"X-Callback-Url": URL, "Idempotency-Key": "k"}
    assert 202 == (await life.call("echo", headers=headers)).status_code
    await trio.sleep(1)
    other = await life.call("echo", headers={**headers, "X-Callback-Url": URL + "3"})
    assert 422 == other.status_code
    assert (await life.call("echo", headers=headers)).headers["Idempotency-Replayed"]


async def test_by_get_and_by_post_it_is_the_same(life: Life) -> None:
    """What was asked is what the plugin gets: defaults filled in, whatever the method and the order."""
    first = await begin(life, "echo", text="a", n=0)
    headers = {"X-Result-Ttl": "60.0", "Idempotency-Key": "k"}
    again = await life.http.get("/api/v1/main/plugin/test/echo?text=a", headers=headers)
    assert same(first, again)


async def test_a_refusal_frees_the_key(life: Life) -> None:
    """J21: start → `409`, `404`, `423`; the same key again when free: it runs."""
    await life.start("work", ttl=60, seconds=5)
    assert 409 == (await begin(life, "echo")).status_code
    assert 404 == (await begin(life, "echo", page_id="nope")).status_code
    assert 0 == await starts(life)
    await trio.sleep(6)
    lease = (await life.http.post("/api/v1/main/lease", json={"ttl": 5})).json()["lease"]
    assert 423 == (await begin(life, "echo")).status_code
    first = await begin(life, "echo", headers={"X-Lease": lease})
    assert (202, False) == (first.status_code, "Idempotency-Replayed" in first.headers)
    assert same(first, await begin(life, "echo"))  # leased, and answered all the same


async def test_a_full_store_and_a_full_house_free_the_key(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J21: start → `503` or `507`; the same key again: it runs."""
    monkeypatch.setattr("penelope.jobs.store.MAX_JOBS", 0)
    assert 503 == (await begin(life, "echo")).status_code
    monkeypatch.undo()
    fill_disk(life)
    text = "x" * 100_000
    answers = [await life.call("result", headers={"X-Result-Ttl": "60"}, what="big")]
    await trio.sleep(1)
    refused = await begin(life, "echo", text=text)
    assert (202, 507) == (answers[0].status_code, refused.status_code)
    free_disk(life)
    assert 0 == await starts(life)
    first = await begin(life, "echo", text=text)
    assert (202, False) == (first.status_code, "Idempotency-Replayed" in first.headers)


@pytest.mark.parametrize("key", ["", "a" * 256, "a b"])
async def test_a_bad_key(life: Life, key: str) -> None:
    """Empty, too long: `400`."""
    answer = await begin(life, key=key)
    assert (400, []) == (answer.status_code, life.page.seen)
    assert "Idempotency-Key" in answer.json()["error"]


async def test_a_key_on_a_plain_call(life: Life) -> None:
    """On a plain plugin call: `400`."""
    answer = await life.call("work", headers={"Idempotency-Key": "k"})
    assert (400, []) == (answer.status_code, life.page.seen)
    assert "is for the start of a job" in answer.json()["error"]


async def test_checks_that_come_before(life: Life) -> None:
    """The key (401), the plugin (404), headers and parameters (400, 422) come before the replay."""
    await begin(life, "echo")
    assert 404 == (await begin(life, "none")).status_code
    assert 400 == (await begin(life, "echo", n="x")).status_code
    assert 400 == (await begin(life, "echo", headers={"X-Result-Ttl": "601"})).status_code
    assert 401 == (await begin(life, "echo", headers={"Authorization": "Bearer x"})).status_code


async def test_a_closed_page_is_no_matter(life: Life) -> None:
    """The replay comes before page, lease and claim."""
    await life.open("second")
    first = await begin(life, "echo", page_id="second")
    await trio.sleep(1)
    assert 200 == (await life.http.delete("/api/v1/second")).status_code
    assert same(first, await begin(life, "echo", page_id="second"))


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_it_survives_a_restart(world: World, how: str) -> None:
    """Also after a stop or a crash the start is known."""
    async with live(world) as life:
        first = await begin(life, seconds=500)
        if how == "kill":
            world = world.image()
            life.supervisor.hurry()
        else:
            await life.stop()
    async with live(world) as life:
        assert same(first, await begin(life, seconds=500))
        assert "interrupted" == (await life.shown(first.json()["job_id"]))["state"]


async def test_a_client_that_leaves_lets_no_second_start_in(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start in flight with that key is waited for, also when its client has left."""
    insert = JobStore.insert

    async def slowly(self: JobStore, *given: Any) -> None:
        await trio.sleep(2)
        await insert(self, *given)

    monkeypatch.setattr(JobStore, "insert", slowly)
    with trio.move_on_after(1):
        await begin(life, seconds=5)
    assert 1 == trio.current_time()
    answer = await begin(life, seconds=5)
    assert (2, "true") == (trio.current_time(), answer.headers.get("Idempotency-Replayed"))
    await trio.sleep(10)
    assert ["work began", "work ended"] == life.page.seen


async def test_a_client_that_leaves_while_it_waits(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that goes away while it waits undoes nothing, and starts nothing."""
    insert = JobStore.insert

    async def slowly(self: JobStore, *given: Any) -> None:
        await trio.sleep(2)
        await insert(self, *given)

    monkeypatch.setattr(JobStore, "insert", slowly)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: begin(life, seconds=1))
        await trio.sleep(1)
        with trio.move_on_after(0.5):
            await begin(life, seconds=1)
    assert [] == list(life.supervisor.starts._busy)
    await trio.sleep(5)
    assert ["work began", "work ended"] == life.page.seen


async def test_a_client_that_leaves_at_any_step(life: Life) -> None:
    """The job exists under its key, or the key is free; and the next start under it is answered."""
    begun = 0
    for steps in range(60):
        life.page.seen.clear()
        with trio.CancelScope() as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda key: begin(life, key=key), f"k{steps}")
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                client.cancel()
        await trio.sleep(2)
        ran = life.page.seen.count("work began")
        answer = await begin(life, key=f"k{steps}")
        assert 202 == answer.status_code
        assert (ran == 1) == ("Idempotency-Replayed" in answer.headers)
        await trio.sleep(2)
        assert 1 == life.page.seen.count("work ended")
        begun += ran
    assert 0 < begun < 60
    assert [] == list(life.supervisor.starts._busy)


async def test_a_stop_while_starts_wait(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that is under way when the stop comes is decided, and whoever waits for it is answered."""
    insert = JobStore.insert

    async def slowly(self: JobStore, *given: Any) -> None:
        await trio.sleep(2)
        await insert(self, *given)

    monkeypatch.setattr(JobStore, "insert", slowly)
    answers: list[httpx.Response] = []
    async with live(world) as life:

        async def ask() -> None:
            answers.append(await begin(life, seconds=1))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
            await trio.sleep(1)
            nursery.start_soon(life.stop)
        assert [202] * 3 == [answer.status_code for answer in answers]
        assert 1 == len({answer.text for answer in answers})
        refused = await begin(life, seconds=1)
        assert 503 == refused.status_code
    assert 3 == trio.current_time()


@pytest.mark.parametrize(("wait", "status", "took"), [("1", 202, 1), ("10", 200, 5)])
async def test_again_with_patience(life: Life, wait: str, status: int, took: float) -> None:
    """`Prefer: wait=N`: answer plainly if it ends within N s, else `202`; of the job that is there."""
    first = await begin(life, seconds=5)
    again = await begin(life, seconds=5, headers={"Prefer": f"wait={wait}"})
    assert (status, took, "true") == (
        again.status_code,
        trio.current_time(),
        again.headers["Idempotency-Replayed"],
    )
    assert first.headers["Location"] == again.headers["Location"]


async def test_again_with_patience_after_its_end(life: Life) -> None:
    """The result that is held is the answer; once it is not, the `202` again."""
    first = await begin(life, "fail", how="word", status=418)
    await trio.sleep(5)
    patient = {"Prefer": "wait=10"}
    again = await begin(life, "fail", how="word", status=418, headers=patient)
    assert (418, "true") == (again.status_code, again.headers["Idempotency-Replayed"])
    await trio.sleep(60)
    assert same(first, await begin(life, "fail", how="word", status=418, headers=patient))


# List


async def test_the_list_is_newest_first_without_results(life: Life) -> None:
    """Newest first, each entry like a poll's without `success` and `result`."""
    await life.open("second")
    first = await life.start("echo", ttl=60)
    await trio.sleep(1)
    second = await life.start("work", "second", seconds=500)
    await trio.sleep(1)
    answer = await life.http.get("/api/v1/jobs")
    assert ["success", "jobs", "next_cursor"] == list(answer.json())
    newest, oldest = answer.json()["jobs"]
    for entry, job in ((newest, second), (oldest, first)):
        shown = await life.shown(job)
        assert {name: value for name, value in shown.items() if name not in {"success", "result"}} == entry
        assert [name for name in shown if name not in {"success", "result"}] == list(entry)
    assert None is answer.json()["next_cursor"]


async def listed(life: Life, query: str) -> list[str]:
    answer = await life.http.get(f"/api/v1/jobs?{query}")
    assert 200 == answer.status_code, answer.text
    return [entry["job_id"] for entry in answer.json()["jobs"]]


async def test_filters(life: Life) -> None:
    """`state`, `page_id`, `plugin`."""
    await life.open("second")
    done = await life.start("echo", ttl=60)
    await trio.sleep(1)
    cut = await life.start("work", ttl=60, seconds=500)
    await life.http.delete(f"/api/v1/jobs/{cut}")
    await trio.sleep(1)
    running = await life.start("work", "second", ttl=60, seconds=500)
    for query, jobs in {
        "": [running, cut, done],
        "state=running": [running],
        "state=cancelled": [cut],
        "state=done": [done],
        "state=interrupted": [],
        "page_id=main": [cut, done],
        "plugin=test/work": [running, cut],
        "plugin=test/work&page_id=main&state=cancelled": [cut],
        "plugin=test/none": [],
        "limit=2": [running, cut],
    }.items():
        assert jobs == await listed(life, query), query


async def test_the_cursor_joins_the_parts(life: Life) -> None:
    """Jobs that come or go meanwhile neither shift the list nor show a job twice."""
    jobs = []
    for _ in range(7):
        jobs.append(await life.start("echo", ttl=60))
        await trio.sleep(1)
    first = (await life.http.get("/api/v1/jobs?limit=3&state=done")).json()
    assert jobs[:3:-1] == [entry["job_id"] for entry in first["jobs"]]
    new = await life.start("echo", ttl=60)
    await life.database.write(lambda c: c.execute("DELETE FROM jobs WHERE job_id = ?", (jobs[4],)))
    second = (await life.http.get(f"/api/v1/jobs?limit=3&state=done&cursor={first['next_cursor']}")).json()
    assert jobs[3:0:-1] == [entry["job_id"] for entry in second["jobs"]]
    third = (await life.http.get(f"/api/v1/jobs?limit=3&cursor={second['next_cursor']}")).json()
    assert ([jobs[0]], None) == ([entry["job_id"] for entry in third["jobs"]], third["next_cursor"])
    assert new == (await listed(life, "limit=1"))[0]


@pytest.mark.parametrize(
    "query",
    [
        "state=nope",
        "state=",
        "limit=0",
        "limit=1001",
        "limit=x",
        "cursor=nope",
        "cursor=",
        "page_id=a/b",
        "page_id=",
        "plugin=echo",
        "colour=red",
        "limit=1&limit=2",
    ],
)
async def test_a_bad_query(life: Life, query: str) -> None:
    """Bad values are `400`, and named."""
    answer = await life.http.get(f"/api/v1/jobs?{query}")
    assert 400 == answer.status_code
    assert query.partition("=")[0] in answer.json()["error"]


async def test_what_has_expired_is_not_shown(life: Life) -> None:
    """Jobs past their deadline that are not swept yet are not shown."""
    await trio.sleep(61)  # swept at 60 and 120
    short, long = await life.start("echo", ttl=5), None
    await trio.sleep(1)
    long = await life.start("echo", ttl=50)
    assert [long, short] == await listed(life, "")
    await trio.sleep(5)
    assert [long] == await listed(life, "")


async def test_what_the_store_refused_is_shown_as_it_is(life: Life) -> None:
    """Jobs whose end the store has not taken yet are shown with it."""
    job = await life.start("late", ttl=60, seconds=2)
    fill_disk(life)
    await trio.sleep(3)
    assert 1 == life.supervisor.ends.owed
    assert ([], [job]) == (await listed(life, "state=running"), await listed(life, "state=done"))
    (entry,) = (await life.http.get("/api/v1/jobs")).json()["jobs"]
    assert (200, EPOCH + 2) == (entry["status"], entry["finished_at"])


async def test_a_settled_job_that_the_store_refused_is_gone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delivered, it is over, whatever the store has of it."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)  # real seconds, in SQLite itself
    async with live(world) as life:
        await life.start("late", seconds=2)
        other = sqlite3.connect(world.store / "penelope.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        await trio.sleep(5)
        assert (1, 1) == (life.supervisor.ends.owed, len(world.receiver.posts))
        assert [] == await listed(life, "")
        other.execute("ROLLBACK")
        other.close()


async def test_a_list_is_no_work(life: Life) -> None:
    """Like polls, it is not in the request log."""
    await listed(life, "")
    assert [] == (await life.http.get("/api/v1/requests")).json()["requests"]


# Trace


async def test_the_trace_is_kept(life: Life) -> None:
    """`traceparent` is taken and stored; a bad one is ignored."""
    good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for given, kept in ((good, good), ("nonsense", None)):
        answer = await life.call("echo", headers={"X-Result-Ttl": "60", "traceparent": given})
        job = await JobStore(life.database).get(answer.json()["job_id"])
        assert job is not None
        assert kept == job.traceparent
        await trio.sleep(1)
