"""What a client asks, how often, and what it makes of the answers: flows against a worker and a clock of values.

Source: contract, sections 5 and 11.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from penelope.client import errors, flows
from penelope.client.asking import Answer, Ask, Flow, How, Pause, said
from penelope.client.flows import Call, Start
from penelope.client.models import typed
from penelope.client.retrying import Retries

T = TypeVar("T")
URL = "http://worker:5000"
CALL = Call(page_id="main", plugin="a/b", params={"n": 1})
JOB_ID = "5b1d82d4dc257267"

REFUSED = httpx.ConnectError("refused")
LOST = httpx.ReadError("reset")


@dataclass
class World:
    """A clock, and a worker that is a function of the request."""

    serve: Callable[[Ask], Answer]
    now: float = 1000.0
    asks: list[Ask] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    retries: Retries = field(default_factory=Retries)

    @property
    def how(self) -> How:
        return How(url=URL, retries=self.retries, clock=lambda: self.now, chance=lambda: 0.5)

    def play(self, flow: Flow[T]) -> T:
        try:
            step = next(flow)
            while True:
                try:
                    answer = self.do(step)
                except httpx.TransportError as exc:
                    step = flow.throw(exc)
                else:
                    step = flow.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result

    def do(self, step: Ask | Pause) -> Answer | None:
        if isinstance(step, Pause):
            assert step.seconds >= 0
            self.pauses.append(step.seconds)
            self.now += step.seconds
            return None
        self.asks.append(step)
        return self.serve(step)


def answer(status: int, body: object, **headers: str) -> Answer:
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(url=URL, status=status, headers=names, content=content, at=0.0)


def ok(**fields: Any) -> Answer:
    return answer(200, {"success": True, "page_id": "main", **fields})


def no(status: int, error: str = "no", **headers: str) -> Answer:
    return answer(status, {"success": False, "error": error, "page_id": "main"}, **headers)


def shown(state: str, **more: Any) -> dict[str, Any]:
    return {
        "success": True, "page_id": "main", "job_id": JOB_ID, "state": state, "plugin": "a/b", "started_at": 1.0,
        "finished_at": None, "expires_in": None, "status": None, "result": None, "callback": None, "delivery": None,
        **more,
    }  # fmt: skip


DONE = shown("done", status=200, result={"success": True, "page_id": "main", "value": 7}, finished_at=2.0)
ACCEPTED = answer(202, {"success": True, "page_id": "main", "job_id": JOB_ID, "status_url": "/x"})


def script(*steps: Answer | Exception) -> Callable[[Ask], Answer]:
    """A worker that does these, one after the other."""
    left: Iterator[Answer | Exception] = iter(steps)

    def serve(_ask: Ask) -> Answer:
        step = next(left)
        if isinstance(step, Exception):
            raise step
        return step

    return serve


class TestPlainCall:
    def test_is_a_post_with_its_parameters(self) -> None:
        world = World(script(ok(value=1)))
        wanted = Call(page_id="a b", plugin="a/b", params={"n": "é"}, lease="t", request_id="r")

        assert {"success": True, "page_id": "main", "value": 1} == world.play(flows.call(world.how, wanted))
        (ask,) = world.asks
        assert ("POST", "/api/v1/a%20b/plugin/a/b") == (ask.method, ask.path)
        assert {"n": "é"} == json.loads(ask.content or b"")
        assert {"Content-Type": "application/json", "X-Lease": "t", "X-Request-Id": "r"} == ask.headers
        assert ask.answer_s is None

    @given(
        st.lists(st.sampled_from(["refused", "busy", "lost", "plugin says 503", "proxy", "done"]), max_size=8)
    )
    def test_never_runs_twice(self, fates: list[str]) -> None:
        """It is made again only when it is sure that nothing ran: no connection, or the worker's own refusal."""
        steps: dict[str, tuple[Answer | Exception, bool]] = {
            "refused": (REFUSED, False),
            "busy": (no(503, retry_after="1"), False),
            "lost": (LOST, True),
            "plugin says 503": (no(503), True),
            "proxy": (answer(502, "<html>"), True),
            "done": (ok(), True),
        }
        world = World(script(*(steps[fate][0] for fate in fates), ok()))
        with suppress(errors.PenelopeClientError):
            world.play(flows.call(world.how, CALL))

        may_have_run = [steps[fate][1] for fate in fates[: len(world.asks)]]
        assert sum(may_have_run) <= 1
        assert True not in may_have_run[:-1]

    def test_whoever_does_not_know_is_told_so(self) -> None:
        for error, maybe in ((REFUSED, False), (LOST, True), (httpx.ReadTimeout(""), True)):
            world = World(script(*[error] * 9))
            with pytest.raises(errors.Unreachable) as caught:
                world.play(flows.call(world.how, CALL))
            assert maybe == caught.value.maybe_done
            assert (1 if maybe else Retries().attempts) == len(world.asks)

    def test_waits_as_long_as_it_is_asked_to(self) -> None:
        world = World(script(no(503, retry_after="7"), no(429, retry_after="3"), ok()))
        world.play(flows.call(world.how, CALL))

        first, second = world.pauses
        assert 7 <= first < 8
        assert 3 <= second < 4

    def test_longer_than_it_may_it_does_not_wait(self) -> None:
        world = World(script(no(503, "stopping", retry_after="3600")))
        with pytest.raises(errors.Unavailable, match="stopping") as caught:
            world.play(flows.call(world.how, CALL))

        assert (503, 3600.0, []) == (caught.value.status, caught.value.retry_after, world.pauses)


@dataclass
class Starts:
    """A worker that starts jobs, idempotently; `fates` decides which of its answers arrive."""

    fates: list[str]
    started: dict[str, str] = field(default_factory=dict)

    def __call__(self, ask: Ask) -> Answer:
        fate = self.fates.pop(0) if self.fates else "arrives"
        if fate == "refused":
            raise REFUSED
        if fate == "never there":
            raise httpx.WriteError("reset")
        if fate == "full":
            return no(503, retry_after="1")
        job_id = self.started.setdefault(ask.headers["Idempotency-Key"], f"{len(self.started):016x}")
        if fate == "lost":
            raise LOST
        if fate == "slow":
            raise httpx.ReadTimeout("")
        if fate == "proxy":
            return answer(504, "<html>")
        return answer(202, {"success": True, "page_id": "main", "job_id": job_id})


class TestStart:
    @given(
        st.lists(
            st.sampled_from(["refused", "never there", "full", "lost", "slow", "proxy", "arrives"]),
            max_size=9,
        )
    )
    def test_one_start_is_at_most_one_job(self, fates: list[str]) -> None:
        """Whatever the network loses: the start is repeated under its key, and the answer is that job's."""
        worker = Starts([*fates])
        world = World(worker)
        try:
            job_id = world.play(flows.start(world.how, CALL, Start()))
        except errors.PenelopeClientError:
            assert len(worker.started) <= 1
            assert len(world.asks) == world.retries.attempts
        else:
            assert [job_id] == list(worker.started.values())
        assert 1 == len({(ask.content, tuple(ask.headers.items())) for ask in world.asks})

    def test_two_starts_are_two_jobs(self) -> None:
        worker = Starts([])
        world = World(worker)

        assert 2 == len({world.play(flows.start(world.how, CALL, Start())) for _ in range(2)})

    def test_under_a_key_of_ones_own_they_are_one(self) -> None:
        world = World(Starts([]))
        mine = Start(idempotency_key="mine")

        assert 1 == len({world.play(flows.start(world.how, CALL, mine)) for _ in range(2)})

    @pytest.mark.parametrize(
        ("wanted", "headers"),
        [
            (Start(), {"X-Result-Ttl": "600.000000"}),
            (Start(ttl=0.5), {"X-Result-Ttl": "0.500000"}),
            (Start(callback="https://x/1"), {"X-Callback-Url": "https://x/1"}),
            (Start(ttl=1, timeout_s=90), {"X-Result-Ttl": "1.000000", "X-Job-Timeout": "90.000000"}),
        ],
    )  # fmt: skip
    def test_says_which_way_and_how_long(self, wanted: Start, headers: dict[str, str]) -> None:
        """One way, never both; seconds as plain decimals."""
        sent = dict(wanted.ask(CALL).headers)
        assert 32 == len(sent.pop("Idempotency-Key"))
        del sent["Content-Type"]

        assert headers == sent

    def test_a_refusal_is_the_workers_word(self) -> None:
        world = World(script(no(409, "Page main already runs job 5b1d")))
        with pytest.raises(errors.Conflict, match="already runs job"):
            world.play(flows.start(world.how, CALL, Start()))

    def test_a_plain_answer_is_no_start(self) -> None:
        """An old server before a new client, or something else altogether."""
        world = World(script(ok(job_id="x")))
        with pytest.raises(errors.UnexpectedAnswer):
            world.play(flows.start(world.how, CALL, Start()))


@dataclass
class Working:
    """A worker with one job that ends at `ends_at`; it knows `Prefer: wait`, or does not."""

    ends_at: float
    knows_wait: bool
    world: World | None = None
    down: tuple[float, float] = (0.0, 0.0)

    def __call__(self, ask: Ask) -> Answer:
        world = self.world
        assert world is not None
        world.now += 0.01
        if self.down[0] <= world.now < self.down[1]:
            raise REFUSED
        prefer = ask.headers.get("Prefer", "")
        if self.knows_wait and prefer:
            wait_s = float(prefer.removeprefix("wait="))
            assert ask.answer_s is not None
            assert wait_s < ask.answer_s
            world.now = max(world.now, min(self.ends_at, world.now + wait_s))
        return answer(200, DONE if world.now >= self.ends_at else shown("running"))


def working(seconds: float, *, knows_wait: bool) -> tuple[World, Working]:
    worker = Working(1000.0 + seconds, knows_wait)
    worker.world = World(worker)
    return worker.world, worker


class TestWait:
    @given(st.floats(0, 2000))
    def test_a_worker_that_waits_is_asked_seldom_and_answers_at_once(self, seconds: float) -> None:
        world, worker = working(seconds, knows_wait=True)
        job = world.play(flows.wait(world.how, JOB_ID, None))

        assert ("done", True) == (job.state, job.succeeded)
        assert world.now - worker.ends_at <= 0.3
        assert len(world.asks) <= seconds / flows.LONGEST_WAIT_S + 3

    @given(st.floats(0, 2000))
    def test_one_that_does_not_know_how_is_polled_ever_more_slowly(self, seconds: float) -> None:
        world, worker = working(seconds, knows_wait=False)
        world.play(flows.wait(world.how, JOB_ID, None))

        assert world.now - worker.ends_at <= flows.LONGEST_LOOK_S + 0.1
        assert len(world.asks) <= seconds / flows.LONGEST_LOOK_S + 12
        assert world.pauses == sorted(world.pauses)

    @given(st.floats(0, 100), st.floats(0, 100), st.booleans())
    def test_the_time_given_is_kept(self, seconds: float, timeout_s: float, knows_wait: bool) -> None:
        world, _ = working(seconds, knows_wait=knows_wait)
        late: TimeoutError | None = None
        try:
            job = world.play(flows.wait(world.how, JOB_ID, timeout_s))
        except TimeoutError as exc:
            late = exc
        else:
            assert "done" == job.state
        if late is not None:
            assert isinstance(late, errors.StillRunning)
            assert late.job is not None
            assert "running" == late.job.state
            assert world.now - 1000.0 >= timeout_s
        assert world.now - 1000.0 <= timeout_s + 0.1

    @given(st.floats(0.5, 50), st.floats(0, 40))
    def test_a_restart_of_the_worker_is_waited_for(self, begins: float, lasts: float) -> None:
        """A worker that is away for less than the retries' minute is missed by nobody."""
        world, worker = working(60.0, knows_wait=True)
        world.retries = Retries(attempts=30)
        worker.down = (1000.0 + begins, 1000.0 + begins + lasts)

        assert "done" == world.play(flows.wait(world.how, JOB_ID, None)).state

    def test_a_job_that_is_gone_is_not_waited_for(self) -> None:
        world = World(script(no(404, "there is no job")))
        with pytest.raises(errors.NotFound, match="there is no job"):
            world.play(flows.wait(world.how, JOB_ID, None))


class TestRun:
    def test_what_ends_in_time_is_answered_plainly(self) -> None:
        world = World(script(ok(value=7)))

        assert 7 == world.play(flows.run(world.how, CALL, Start(), 10.0))["value"]
        (ask,) = world.asks
        assert "wait=10" == ask.headers["Prefer"]

    def test_what_takes_longer_is_waited_for(self) -> None:
        world = World(script(ACCEPTED, answer(200, shown("running")), answer(200, DONE)))

        assert 7 == world.play(flows.run(world.how, CALL, Start(), None))["value"]
        assert ["POST", "GET", "GET"] == [ask.method for ask in world.asks]

    def test_a_start_that_is_lost_on_the_way_is_made_again(self) -> None:
        world = World(script(LOST, ACCEPTED, answer(200, DONE)))

        assert 7 == world.play(flows.run(world.how, CALL, Start(), None))["value"]
        assert 1 == len({ask.headers["Idempotency-Key"] for ask in world.asks if ask.method == "POST"})

    @pytest.mark.parametrize(
        ("job", "said"),
        [
            (shown("done", status=502, result={"error": "gone", "kind": "site"}), ("gone", 502, "site")),
            (shown("interrupted", status=503, result={"error": "stopped"}), ("stopped", 503, None)),
            (shown("cancelled", status=499), ("the job is cancelled, with status 499", 499, None)),
        ],
    )  # fmt: skip
    def test_a_job_that_ended_badly_is_an_error(self, job: dict[str, Any], said: tuple[Any, ...]) -> None:
        world = World(script(ACCEPTED, answer(200, job)))
        with pytest.raises(errors.JobFailed) as caught:
            world.play(flows.run(world.how, CALL, Start(), None))

        assert said == (caught.value.message, caught.value.status, caught.value.kind)
        assert job["state"] == caught.value.job.state

    def test_past_its_time_it_is_still_running(self) -> None:
        world, worker = working(1e6, knows_wait=True)
        starts = script(ACCEPTED)
        world.serve = lambda ask: starts(ask) if ask.method == "POST" else worker(ask)
        with pytest.raises(errors.StillRunning):
            world.play(flows.run(world.how, CALL, Start(), 90.0))

        assert 1090.0 == pytest.approx(world.now, abs=0.5)


class TestCancel:
    CANCELLED = shown("cancelled", status=499)

    def test_answers_the_job(self) -> None:
        world = World(script(answer(200, self.CANCELLED)))

        assert "cancelled" == world.play(flows.cancel(world.how, JOB_ID)).state
        assert ("DELETE", f"/api/v1/jobs/{JOB_ID}") == (world.asks[0].method, world.asks[0].path)

    def test_an_answer_that_is_lost_is_no_failure(self) -> None:
        """The second DELETE finds it cancelled: as was wanted."""
        world = World(script(LOST, no(409, "has ended"), answer(200, self.CANCELLED)))

        assert "cancelled" == world.play(flows.cancel(world.how, JOB_ID)).state

    def test_a_job_that_had_ended_is_not_cancelled(self) -> None:
        world = World(script(no(409, "has ended"), answer(200, DONE)))
        with pytest.raises(errors.Conflict, match="has ended"):
            world.play(flows.cancel(world.how, JOB_ID))


class TestLists:
    @given(st.integers(0, 30), st.integers(1, 10))
    def test_all_pages_of_jobs_are_read(self, count: int, page: int) -> None:
        def serve(ask: Ask) -> Answer:
            query = parse_qs(urlsplit(ask.path).query)
            assert ["running"] == query["state"]
            begin = int(query.get("cursor", ["0"])[0])
            jobs = [shown("running", job_id=f"{at:016x}") for at in range(begin, min(begin + page, count))]
            more = str(begin + page) if begin + page < count else None
            return answer(200, {"success": True, "jobs": jobs, "next_cursor": more})

        world = World(serve)
        found = world.play(flows.jobs(world.how, state="running", page_id=None))
        assert [f"{at:016x}" for at in range(count)] == [job.job_id for job in found]

    def test_deliveries(self) -> None:
        row = {
            "at": 1.0, "job_id": JOB_ID, "attempt": 2, "receiver": "x:443", "address": None, "status": None,
            "error_class": "dns", "error": "no such host", "verdict": "retry", "took_s": 0.1, "new": "later",
        }  # fmt: skip
        world = World(script(answer(200, {"success": True, "deliveries": [row]})))
        (posted,) = world.play(flows.deliveries(world.how, limit=5, job_id=None))

        assert ("dns", 2) == (posted.error_class, posted.attempt)
        assert "/api/v1/deliveries?limit=5" == world.asks[0].path


class TestAnswers:
    @pytest.mark.parametrize(
        ("status", "error"),
        [
            (400, errors.Failure), (401, errors.Unauthorized), (404, errors.NotFound), (409, errors.Conflict),
            (423, errors.Conflict), (422, errors.Failure), (429, errors.Unavailable), (500, errors.Failure),
            (502, errors.Failure), (503, errors.Unavailable), (507, errors.Unavailable), (418, errors.Failure),
        ],
    )  # fmt: skip
    def test_each_status_has_its_error(self, status: int, error: type[errors.Failure]) -> None:
        with pytest.raises(errors.Failure, match="the words") as caught:
            said(no(status, "the words"))
        assert error is type(caught.value)
        assert status == caught.value.status

    @pytest.mark.parametrize("status", [429, 502, 503, 504])
    def test_a_proxys_page_is_no_workers_failure(self, status: int) -> None:
        with pytest.raises(
            errors.Unavailable, match=f"what stands before the worker at {URL} answered {status}"
        ):
            said(answer(status, "<html>"))

    @pytest.mark.parametrize("body", ["", "<html>", "[]", "{}", '{"success": 1}', '{"success": true', "NaN"])
    def test_what_is_no_worker_is_named(self, body: str) -> None:
        with pytest.raises(
            errors.UnexpectedAnswer, match=f"what answers at {URL} is no Penelope worker: it said 200"
        ):
            said(answer(200, body))

    def test_results_are_typed(self) -> None:
        class Value(BaseModel):
            value: int

        envelope = {"success": True, "page_id": "main", "value": 7}
        assert 7 == typed(envelope, Value).value
        assert {"value": 7} == typed(envelope, None)
        with pytest.raises(errors.UnexpectedAnswer, match="the result is no Value: value: Input should be"):
            typed({**envelope, "value": "x"}, Value)

    def test_parameters_may_be_a_model(self) -> None:
        class Params(BaseModel):
            handle: str
            limit: int = 200

        ask = Call(page_id="main", plugin="a/b", params=Params(handle="alice")).ask()
        assert {"handle": "alice"} == json.loads(ask.content or b"")
