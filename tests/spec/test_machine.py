"""A machine over the whole worker: starts, cancels, limits, answers, hours, stops, kills, stores that refuse and clocks
that are moved, in any order, on the mock clock.

Hypothesis writes the script of a play, the play is run against the real store, supervisor and app, and what the clients
and the receiver saw is held against the contract.
"""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.spec.conftest import fit_for_mock_clock
from tests.spec.receiver import Reply, slow
from tests.spec.world import EPOCH, Life, World, live

MOMENTS = (0.0, 60.0, 300.0, 600.0)
HOURS = st.sampled_from([0.5, 5, 9, 30, 59, 61, 240, 300, 601, 611, 4000])
ANSWERS = st.sampled_from([200, 500, 429, 404, 302, "slow 500", "slow 200", "dead", "broken"])
WEBHOOK = st.tuples(
    st.just("webhook"), st.sampled_from(["main", "second"]), st.sampled_from([0.0, 3.0, 45.0])
)
STEP = st.one_of(
    WEBHOOK,
    WEBHOOK,
    st.tuples(st.just("polling"), st.sampled_from(["main", "second"]), st.sampled_from([1.0, 60.0, 600.0])),
    st.tuples(st.just("limited"), st.sampled_from(["main", "second"]), st.sampled_from([0.5, 20.0])),
    st.tuples(st.just("keyed"), st.sampled_from("ab"), st.sampled_from(["main", "second"])),
    st.tuples(st.just("keyed"), st.sampled_from("ab"), st.sampled_from(["main", "second"])),
    st.tuples(st.just("cancel"), st.integers(0, 3)),
    st.tuples(st.just("cancel"), st.integers(0, 3)),
    st.tuples(st.just("answer"), ANSWERS),
    st.tuples(st.just("wait"), HOURS),
    st.tuples(st.just("wait"), HOURS),
    st.tuples(st.just("restart"), st.sampled_from(["stop", "kill"]), HOURS),
    st.tuples(st.just("store"), st.sampled_from(["locked", "read only", "well", "well"])),
    st.tuples(st.just("clock"), st.sampled_from([-7200.0, -5.0, 5.0, 90.0, 700.0])),
)
REFUSED = {503, 507}
EXACT_S = 1e-5  # of two epochs' difference, as JSON has them


def reply(name: int | str) -> Reply:
    match name:
        case int():
            return name
        case "slow 500":
            return slow(9.5, 500)
        case "slow 200":
            return slow(9.5, 200)
        case "dead":
            return slow(3600)
        case _:
            return httpx.ReadError("reset")


@dataclass
class Play:
    """Attributes:
    jobs: what clients were promised: by id, `webhook` or the ttl.
    limits: of those that have one, seconds.
    cancelled: those whose cancel was answered.
    keys: the starts that were accepted under a key: the page, the whole answer, and when it came.
    kills: how often a worker was killed.
    down: the longest that there was none, seconds.
    ahead: by how many seconds the wall was moved forward, all steps together.
    stepped: whether it was ever moved.
    locker: holds the store's lock, from outside; None: nobody does.
    refuses: the store does not take writes.
    unsure: the jobs whose end, or whose POSTs, the store had refused when the worker was stopped or killed: nobody
        knows them any more, so the next life may end and POST them again.
    """

    world: World
    jobs: dict[str, str | float] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    keys: dict[str, tuple[str, str, float]] = field(default_factory=dict)
    kills: int = 0
    down: float = 0.0
    ahead: float = 0.0
    stepped: bool = False
    locker: sqlite3.Connection | None = None
    refuses: bool = False
    unsure: set[str] = field(default_factory=set)

    async def run(self, script: list[tuple[Any, ...]]) -> None:
        self.world.receiver.answers(
            500
        )  # until the script says otherwise: what is delivered at once has no story
        async with AsyncExitStack() as stack:
            life = await self._begin(stack)
            for step in script:
                life = await self._step(stack, life, step)
                await self._look(life)
            self._store(life, "well")
            await trio.sleep(1300)  # whatever is left comes to its end
            await self._at_rest(life)

    async def _step(self, stack: AsyncExitStack, life: Life, step: tuple[Any, ...]) -> Life:  # noqa: C901  # a table
        """Take one step; the life that goes on."""
        match step:
            case ("webhook", page_id, seconds):
                await self._start(life, page_id, None, seconds)
            case ("polling", page_id, ttl):
                await self._start(life, page_id, ttl, 2.0)
            case ("limited", page_id, limit):
                await self._start(life, page_id, None, 30.0, limit)
            case ("keyed", key, page_id):
                await self._start_once(life, key, page_id)
            case ("cancel", back):
                await self._cancel(life, back)
            case ("answer", name):
                self.world.receiver.answers(reply(name))
            case ("wait", seconds):
                await trio.sleep(seconds)
            case ("restart", how, seconds):
                return await self._again(stack, life, how, seconds)
            case ("store", how):
                self._store(life, how)
            case ("clock", seconds):
                self._move_clock(seconds)
        return life

    def _move_clock(self, seconds: float) -> None:
        self.world.skew += seconds
        self.ahead += max(0.0, seconds)
        self.stepped = True

    async def _begin(self, stack: AsyncExitStack) -> Life:
        life = await stack.enter_async_context(live(self.world))
        await life.open("second")
        return life

    async def _start(
        self, life: Life, page_id: str, ttl: float | None, seconds: float, limit: float | None = None
    ) -> None:
        headers = {"X-Callback-Url": "http://h.lan/"} if ttl is None else {"X-Result-Ttl": f"{ttl:g}"}
        if limit is not None:
            headers["X-Job-Timeout"] = f"{limit:g}"
        answer = await life.call("work", page_id, headers, seconds=seconds)
        assert answer.status_code in {202, 409} | (REFUSED if self.refuses else set())
        if answer.status_code == 202:
            self.jobs[answer.json()["job_id"]] = "webhook" if ttl is None else ttl
            if limit is not None:
                self.limits[answer.json()["job_id"]] = limit

    async def _start_once(self, life: Life, key: str, page_id: str) -> None:
        """The same start again gets the same answer, whatever became of its job and of the worker meanwhile."""
        headers = {"X-Callback-Url": "http://h.lan/", "Idempotency-Key": key}
        answer = await life.call("work", page_id, headers, seconds=3.0)
        earlier = self.keys.get(key)
        if earlier is not None and life.now() < earlier[2] + 24 * 3600:
            assert (202 if page_id == earlier[0] else 422) == answer.status_code
            assert answer.status_code == 422 or answer.text == earlier[1]
        elif answer.status_code == 202:
            assert "Idempotency-Replayed" not in answer.headers
            self.jobs[answer.json()["job_id"]] = "webhook"
            self.keys[key] = (page_id, answer.text, life.now())
        else:
            assert answer.status_code in {409} | (REFUSED if self.refuses else set())

    def _store(self, life: Life, how: str) -> None:
        """Really: another program that holds the lock, or a connection that may not write."""
        writer = life.database._writer
        writer.execute("PRAGMA busy_timeout = 0")  # it would be waited for on the real clock
        writer.execute(f"PRAGMA query_only = {'ON' if how == 'read only' else 'OFF'}")
        if self.locker is not None:
            self.locker.close()
            self.locker = None
        if how == "locked":
            self.locker = sqlite3.connect(self.world.store / "penelope.db", isolation_level=None)
            self.locker.execute("BEGIN EXCLUSIVE")
        self.refuses = how != "well"

    async def _cancel(self, life: Life, back: int) -> None:
        """Of one of the last jobs: it has ended by this, had ended before, or is gone."""
        for job_id in list(self.jobs)[-1 - back :][:1]:
            answer = await life.http.delete(f"/api/v1/jobs/{job_id}")
            assert answer.status_code in {200, 404, 409}
            if answer.status_code == 200:
                assert ("cancelled", 499) == (answer.json()["state"], answer.json()["status"])
                self.cancelled.add(job_id)

    async def _again(self, stack: AsyncExitStack, life: Life, how: str, seconds: float) -> Life:
        if self.refuses:
            await trio.testing.wait_all_tasks_blocked()
            self.unsure |= set(life.supervisor.ends._owed)
            if how == "stop":
                self.unsure |= {live.job_id for live in life.supervisor.lives if live.job_id is not None}
        if how == "kill":
            self.kills += 1
            after = self.world.image()
            after.receiver = self.world.receiver.next_life()
            self.world = after
            life.supervisor.hurry()
        else:
            await life.stop()
        await stack.aclose()
        self.refuses = False
        if self.locker is not None:
            self.locker.close()
            self.locker = None
        await trio.sleep(seconds)
        self.down = max(self.down, seconds)
        return await self._begin(stack)

    async def _look(self, life: Life) -> None:
        """Every job is shown whole, or is gone for one of the reasons there are."""
        for job_id, way in self.jobs.items():
            answer = await life.poll(job_id)
            assert answer.status_code in {200, 404}
            if answer.status_code == 404:
                assert way != "webhook" or self._may_be_gone(job_id), "a webhook job is gone without an end"
                continue
            seen = answer.json()
            if seen["state"] != "running":
                keep = 610 if way == "webhook" else float(way)
                late = 10 if way == "webhook" else 0  # the last POST's own ten seconds
                late += 60 if way == "webhook" and self.stepped else 0  # a step is followed within a minute
                assert seen["finished_at"] <= life.now() <= seen["finished_at"] + keep + late
                assert 0 <= seen["expires_in"] <= keep
                self._check_end(job_id, seen)

    def _check_end(self, job_id: str, seen: Any) -> None:
        """Who was told of a cancel finds it so; who was not finds none."""
        if job_id in self.unsure:
            return
        end = (seen["state"], seen["status"])
        if job_id in self.cancelled:
            assert ("cancelled", 499) == end
        else:
            assert end in {("done", 200), ("interrupted", 503), ("done", 408)}
        if end == ("done", 408) and not self.stepped:
            assert abs(seen["finished_at"] - seen["started_at"] - self.limits[job_id]) < 0.01

    def _may_be_gone(self, job_id: str) -> bool:
        """Delivered or given up after a POST, or found past its deadline at a start."""
        return bool(self.world.receiver.of(job_id)) or self.down + self.ahead > 600

    async def _at_rest(self, life: Life) -> None:
        activity = (await life.http.get("/api/v1/activity")).json()
        assert (0, 0, 0) == tuple(activity[n] for n in ("in_flight", "jobs_held", "deliveries_pending"))
        for job_id, way in self.jobs.items():
            assert await life.gone(job_id)
            self._check_posts(job_id, way)
            if job_id not in self.unsure:
                await self._check_ledger(life, job_id)
        assert 200 == (await life.call("echo")).status_code
        (kept,) = await life.database.read(lambda c: c.execute("SELECT count(*) FROM jobs").fetchone())
        (sound,) = await life.database.read(lambda c: c.execute("PRAGMA integrity_check").fetchone())
        assert (0, "ok") == (kept, sound)

    async def _check_ledger(self, life: Life, job_id: str) -> None:
        """A row for each attempt that was recorded, none twice; only a kill can leave a POST without one."""
        rows = (await life.http.get("/api/v1/deliveries", params={"job_id": job_id})).json()["deliveries"]
        noted = [row["attempt"] for row in reversed(rows)]
        made = {post.attempt for post in self.world.receiver.of(job_id)}
        assert sorted(set(noted)) == noted
        assert set(noted) <= made
        assert self.kills or set(noted) == made
        assert {"retry"} >= {row["verdict"] for row in rows[1:]}, "POSTed on after it was settled"

    def _check_posts(self, job_id: str, way: str | float) -> None:
        posts = self.world.receiver.of(job_id)
        if way != "webhook":
            assert not posts
            return
        assert posts or self.down + self.ahead > 600, "never POSTed"
        numbers = [post.attempt for post in posts]
        assert set(numbers) <= {1, 2, 3, 4}
        for post in posts:
            since = 610 - post.json["expires_in"]  # on the worker's clock, 610 at most
            assert MOMENTS[post.attempt - 1] - EXACT_S <= since, "early"
            passed = EPOCH + post.at - post.json["finished_at"]
            assert MOMENTS[post.attempt - 1] - self.ahead - EXACT_S <= passed, "early by more than the steps"
            assert self.stepped or passed <= 611, "past its deadline"
            self._check_end(job_id, post.json)
        if job_id in self.unsure:
            return
        assert len(posts) <= 4 + self.kills
        assert sorted(numbers) == numbers
        assert len(numbers) - len(set(numbers)) <= self.kills
        ends = {post.json["finished_at"]: post.json["state"] for post in posts}
        assert len(ends) <= 1, "one job, two ends"


@contextmanager
def in_place() -> Iterator[None]:
    """As the fixtures do it, for a test that runs many worlds."""
    with pytest.MonkeyPatch.context() as patch:
        fit_for_mock_clock(patch)
        structlog.configure(processors=[structlog.testing.LogCapture()])
        yield
        structlog.reset_defaults()


@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.lists(STEP, min_size=4, max_size=16))
def test_whatever_happens(script: list[tuple[Any, ...]]) -> None:
    """No accepted job without an end, none delivered never for want of a record, POSTs per job ≤ 4 + kills that cut an
    attempt, none early, nothing kept past its time.
    """
    with in_place(), tempfile.TemporaryDirectory() as folder:
        play = Play(World(Path(folder) / "store"))
        trio.run(play.run, script, clock=MockClock(autojump_threshold=0))
