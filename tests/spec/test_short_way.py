"""Polls by the short way are answered as the framework would, or not at all. Contract, sections 1, 5 and 10."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import pytest
import trio
from quart_trio import QuartTrio
from structlog.testing import capture_logs

from penelope.errors import StoreBusy
from penelope.http.app import create_app
from penelope.http.front import Front
from penelope.http.short import ShortWay
from penelope.http.whole import MOST_KNOWN, Answer, Answering, AtOnce
from tests.spec.asgi import AppTransport
from tests.spec.world import KEY, Life

Headers = list[tuple[str, str | None]]

RUNS: Final = "/api/v1/runs"
ID: Final[tuple[str, str | None]] = ("X-Request-Id", "mine")

# What is plain and in order; a run's status, a job's poll.
TAKEN: Final[dict[str, Headers]] = {
    "the key alone": [],
    "a request id": [ID],
    "a scheme in other letters": [("Authorization", f"bEARER {KEY}")],
    "this machine by name": [("Host", "localhost:5000")],
    "headers that nobody reads": [("Accept", "text/html"), ("Cookie", "a=b"), ("X-Lease", "t")],
}
LEFT: Final[dict[str, Headers]] = {
    "no key": [("Authorization", None)],
    "a wrong key": [("Authorization", "Bearer no")],
    "two keys": [("Authorization", f"Bearer {KEY}"), ("Authorization", f"Bearer {KEY}")],
    "a key of another kind": [("Authorization", f"Basic {KEY}")],
    "a key for runs beside": [("X-API-Key", KEY)],
    "a bad request id": [("X-Request-Id", "no spaces")],
    "two request ids": [ID, ID],
    "somebody else's host": [("Host", "example.com")],
    "a host that is none": [("Host", "a b")],
    "patience": [("Prefer", "wait=0")],
    "a preference of another kind": [("Prefer", "return=minimal")],
    "preferences in two headers": [("Prefer", "return=minimal"), ("Prefer", "wait=3; a=b")],
    "a body": [("Content-Length", "0")],
}
# What at once is taken too, of a job.
WAITS: Final = {"patience", "a preference of another kind", "preferences in two headers"}


@dataclass
class Ways:
    """One worker, asked all ways: by the framework, below it, and before the server reads what came in one piece.

    Attributes:
        short: what the short way said of each request.
    """

    ask_short: Callable[..., Awaitable[httpx.Response]]
    ask_long: Callable[..., Awaitable[httpx.Response]]
    at_once: AtOnce
    short: list[bool] = field(default_factory=list)


@asynccontextmanager
async def both_ways(life: Life) -> AsyncGenerator[Ways]:
    front, plain = create_app(life.worker), create_app(life.worker)
    assert isinstance(front, Front)
    assert isinstance(plain, Front)
    plain.short_way = None
    way = front.short_way
    assert way is not None

    async def watched(scope: Any, send: Any) -> bool:
        found.short.append(await way(scope, send))
        return found.short[-1]

    front.short_way = watched
    async with trio.open_nursery() as serving:
        assert front.at_once is not None
        found = Ways(_asking(front, serving), _asking(plain, serving), front.at_once)
        yield found
        serving.cancel_scope.cancel()


def _asking(app: QuartTrio, serving: trio.Nursery) -> Callable[..., Awaitable[httpx.Response]]:
    client = httpx.AsyncClient(
        transport=AppTransport(app, serving), base_url="http://127.0.0.1:5000", timeout=None
    )

    async def ask(path: str, more: Any = (), method: str = "GET") -> httpx.Response:
        names = {name.lower() for name, _ in more}
        key = [] if "authorization" in names else [("Authorization", f"Bearer {KEY}")]
        headers = [*key, *((name, value) for name, value in more if value is not None)]
        return await client.request(method, path, headers=headers)

    return ask


async def ask_at_once(ways: Ways, path: str, more: Headers, method: str = "GET") -> Answer | None:
    return await at_once(ways, piece(path, more, method))


async def at_once(ways: Ways, data: bytes) -> Answer | None:
    return await _by(ways.at_once, data)


async def _by(way: Callable[[bytes], Answering | None], data: bytes) -> Answer | None:
    answering = way(data)
    return None if answering is None else await answering.make()


def piece(path: str, more: Headers, method: str = "GET") -> bytes:
    """The request as a client writes it."""
    names = {name.lower() for name, _ in more}
    usual = [("Host", "127.0.0.1:5000"), ("Authorization", f"Bearer {KEY}")]
    headers = [(name, value) for name, value in usual if name.lower() not in names]
    headers += [(name, value) for name, value in more if value is not None]
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode()


def told(answer: Answer, *, named: bool) -> object:
    """As `said`."""
    hidden = set() if named else {"x-request-id"}
    pairs = [(name.decode(), value.decode()) for name, value in answer.headers]
    return answer.status, sorted(pair for pair in pairs if pair[0] not in hidden), answer.body


def said(answer: httpx.Response, *, named: bool) -> object:
    """All of an answer; but for the request's id, where the worker made it."""
    hidden = set() if named else {"x-request-id"}
    headers = [(name, value) for name, value in answer.headers.multi_items() if name not in hidden]
    return answer.status_code, sorted(headers), answer.content


async def states(life: Life) -> dict[str, str]:
    """The paths of jobs and runs in every state, by what they are."""
    ended = await life.start("echo", ttl=600, text="ü € 𝄞")
    failed = await life.start("fail", ttl=600, how="refused")
    await trio.sleep(1)
    waits = await life.start("echo")
    await trio.sleep(0.1)
    await life.open("second")
    runs_ = await life.start("work", "second", ttl=600, seconds=30)
    jobs = {"ended": ended, "failed": failed, "waits for its receiver": waits, "runs": runs_}
    paths = {f"a job that {what}": f"/api/v1/jobs/{job_id}" for what, job_id in jobs.items()}
    for what, recipe, given in (
        ("is over", "echo", "{}"),
        ("failed", "fail", "{}"),
        ("works", "work", '{"seconds": 20}'),
        ("waits", "work", "{}"),
    ):
        answer = await life.http.post(RUNS, json={"recipe_name": recipe, "prompt": given})
        paths[f"a run that {what}"] = f"{RUNS}/{answer.json()['job_id']}"
        await trio.sleep(2)
    return paths


async def test_jobs_and_runs_in_every_state(life: Life) -> None:
    life.world.receiver.answers(500)
    paths = await states(life)
    async with both_ways(life) as ways:
        for what, path in paths.items():
            await trio.sleep(0.1)
            short = await ways.ask_short(path, [ID])
            assert life.now() == life.worker.last_client_activity, what
            assert said(short, named=True) == said(await ways.ask_long(path, [ID]), named=True), what
            assert 200 == short.status_code, what
            for _ in range(2):  # read, and known again
                answer = await ask_at_once(ways, path, [ID])
                assert answer is not None
                assert told(answer, named=True) == said(short, named=True), what
                assert life.now() == life.worker.last_client_activity, what
    assert ways.short == [True] * len(paths)


@pytest.mark.parametrize("what", [*TAKEN, *LEFT])
async def test_headers_of_every_kind(life: Life, what: str) -> None:
    """What it takes it answers as the framework; what it leaves is refused, or answered, by the framework."""
    job = f"/api/v1/jobs/{await life.start('echo', ttl=600)}"
    submitted = await life.http.post(RUNS, json={"recipe_name": "echo", "prompt": "{}"})
    run = f"{RUNS}/{submitted.json()['job_id']}"
    await trio.sleep(1)
    headers = {**TAKEN, **LEFT}[what]
    named = ID in headers and "two" not in what
    async with both_ways(life) as ways:
        for path in (job, run):
            with capture_logs() as logged:
                short = await ways.ask_short(path, headers)
            with capture_logs() as logged_long:
                long = await ways.ask_long(path, headers)
            assert said(short, named=named) == said(long, named=named)
            assert _lines(logged) == _lines(logged_long)
            for _ in range(2):
                with capture_logs() as logged:
                    answer = await ask_at_once(ways, path, headers)
                assert (answer is not None) == (what in TAKEN or (what in WAITS and path == job))
                if answer is not None:
                    assert told(answer, named=named) == said(long, named=named)
                    assert _lines(logged) == _lines(logged_long)
    assert ways.short == [what in TAKEN] * 2


async def test_a_poll_that_waits(life: Life) -> None:
    """At the moment the job ends; for as long as it was to; and of one that is gone by then the framework tells."""
    patient: Headers = [("Prefer", "wait=5"), ID]
    async with both_ways(life) as ways:
        for seconds in (2.0, 7.0):
            job = f"/api/v1/jobs/{await life.start('work', ttl=600, seconds=seconds)}"
            began = life.now()
            answer = await ask_at_once(ways, job, patient)
            assert min(seconds, 5.0) == pytest.approx(life.now() - began, abs=0.01)
            assert answer is not None
            assert (b"preference-applied", b"wait=5") in answer.headers
            state = json.loads(answer.body)["state"]
            assert ("done" if seconds < 5 else "running") == state
            await trio.sleep(10)
            found, long = await ask_at_once(ways, job, patient), await ways.ask_long(job, patient)
            assert found is not None
            assert told(found, named=True) == said(long, named=True)
        assert await ask_at_once(ways, "/api/v1/jobs/0123456789abcdef", patient) is None


def _lines(logged: list[Any]) -> list[Any]:
    return [{name: value for name, value in line.items() if name != "took_ms"} for line in logged]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/jobs/0123456789abcdef"),
        ("GET", "/api/v1/jobs/0123456789ABCDEF"),
        ("GET", f"{RUNS}/run_0123456789ab"),
        ("GET", f"{RUNS}/run_0123456789ab/"),
        ("GET", "{job}?a=1"),
        ("GET", "{job}/"),
        ("GET", "{job}%0A"),
        ("HEAD", "{job}"),
        ("POST", "{job}"),
        ("GET", "/api/v1/jobs"),
        ("GET", RUNS),
    ],
)
async def test_what_is_no_plain_poll_is_left_alone(life: Life, method: str, path: str) -> None:
    job = f"/api/v1/jobs/{await life.start('echo', ttl=600)}"
    await trio.sleep(1)
    async with both_ways(life) as ways:
        asked = path.format(job=job)
        short = await ways.ask_short(asked, [ID], method)
        assert said(short, named=True) == said(await ways.ask_long(asked, [ID], method), named=True)
        assert await ask_at_once(ways, asked, [ID], method) is None
    assert ways.short == [False]


async def test_a_poll_is_known_by_all_of_its_bytes(life: Life) -> None:
    """One that differs in any is what it is where nothing is known."""
    path = f"/api/v1/jobs/{await life.start('echo', ttl=600)}"
    await trio.sleep(1)
    data = piece(path, [ID])
    taken = 0
    async with both_ways(life) as ways:
        assert await at_once(ways, data) is not None
        for at in range(len(data)):
            other = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            fresh, answer = await _by(ShortWay(life.worker).at_once, other), await at_once(ways, other)
            assert (fresh is None) == (answer is None), other
            taken += answer is not None
        assert 0 < taken < len(data) / 4  # an id of another letter is good, a key is not
        assert await at_once(ways, data[:-1]) is None
        assert await at_once(ways, data + data) is None
        assert await at_once(ways, data + b"x") is None
        assert await at_once(ways, data) is not None
        await trio.sleep(700)
        assert await at_once(ways, data) is None  # the job is gone, and it is the framework's to say so


async def test_what_is_known_is_bounded_and_none_of_it_without_the_key(life: Life) -> None:
    path = f"/api/v1/jobs/{await life.start('echo', ttl=600)}"
    await trio.sleep(1)
    way = ShortWay(life.worker)
    for number in range(MOST_KNOWN + 10):
        wrong = way.at_once(piece(path, [("Authorization", f"Bearer no{number}")]))
        assert wrong is None
        right = way.at_once(piece(path, [("X-Request-Id", f"n{number}")]))
        assert right is not None
        assert await right.make() is not None
    assert 10 == len(way._known)


async def test_a_store_that_cannot_be_read_is_the_frameworks_to_tell(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = f"/api/v1/jobs/{await life.start('echo', ttl=600)}"
    await trio.sleep(1)

    async def busy(_: str) -> None:
        raise StoreBusy("the store is locked", headers={"Retry-After": "5"})

    monkeypatch.setattr(life.worker.jobs, "get", busy)
    async with both_ways(life) as ways:
        short = await ways.ask_short(job, [ID])
        assert said(short, named=True) == said(await ways.ask_long(job, [ID]), named=True)
        assert await ask_at_once(ways, job, [ID]) is None
    assert 503 == short.status_code
    assert ways.short == [False]
