"""Submits that come whole are answered as the framework would, or not at all. Contract, section 10; what is said of
runs there holds of them too.
"""

import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import httpx
import pytest
import trio
from structlog.testing import capture_logs

from penelope.http import submits
from penelope.http.app import create_app
from penelope.http.short_runs import ShortRuns
from penelope.http.whole import MOST_KNOWN, Gone
from penelope.runs import service
from tests.spec.asgi import AppTransport
from tests.spec.test_10_runs import (  # noqa: F401  # collected here once more, with this page's `life`
    RUNS,
    TestCancel,
    TestSubmit,
    TestWork,
    ended,
)
from tests.spec.world import KEY, Life, World, live

Headers = dict[str, str]

ECHO: Final[dict[str, Any]] = {"recipe_name": "echo", "prompt": '{"say": "ü"}'}
TAKEN: Final[dict[str, tuple[Headers, dict[str, Any]]]] = {
    "the key alone": ({}, ECHO),
    "patience": ({"Prefer": "wait=5"}, ECHO),
    "none": ({"Prefer": "wait=0"}, ECHO),
    "more than may be": ({"Prefer": "respond-async, wait=500"}, ECHO),
    "a preference that is none": ({"Prefer": "return=minimal"}, ECHO),
    "patience that ends": ({"Prefer": "wait=2"}, {"recipe_name": "work", "prompt": '{"seconds": 5}'}),
    "one that fails": ({"Prefer": "wait=2"}, {"recipe_name": "fail", "prompt": "{}"}),
    "a request id": ({"X-Request-Id": "mine"}, ECHO),
    "all that a body may have": (
        {"Content-Type": "application/json; charset=utf-8"},
        {**ECHO, "session_id": "s", "timeout": 5, "framework": "f", "config": {"a": [1]}, "other": 1},
    ),
    "a page of its own": ({"Prefer": "wait=5"}, {"recipe_name": "echo", "prompt": '{"page": "own"}'}),
    "a key without a scope": ({}, {**ECHO, "idempotency_scope": "session"}),
}
LEFT: Final[dict[str, tuple[Headers, Any]]] = {
    "a wrong key": ({"Authorization": "Bearer no"}, ECHO),
    "a key beside": ({"X-API-Key": KEY}, ECHO),
    "somebody else's host": ({"Host": "example.com"}, ECHO),
    "a bad request id": ({"X-Request-Id": "no spaces"}, ECHO),
    "another content type": ({"Content-Type": "text/plain"}, ECHO),
    "another charset": ({"Content-Type": "application/json; charset=latin-1"}, ECHO),
    "a key to repeat it": ({"Idempotency-Key": "k"}, ECHO),
    "a key in the body": ({}, {**ECHO, "idempotency_key": "k"}),
    "a webhook": ({}, {**ECHO, "webhook_url": "http://93.184.215.14/"}),
    "a webhook that may not be": ({}, {**ECHO, "webhook_url": "http://127.0.0.1/"}),
    "a trace": ({"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}, ECHO),
    "a proxy's word": ({"X-Forwarded-Host": "example.com"}, ECHO),
    "no such recipe": ({}, {"recipe_name": "none", "prompt": "{}"}),
    "a value that is bad": ({}, {**ECHO, "timeout": -1}),
    "no object": ({}, [1]),
    "a connection that ends": ({"Connection": "close"}, ECHO),
}


@pytest.fixture
async def life(world: World) -> AsyncGenerator[Life]:
    async with live(world) as made, trio.open_nursery() as serving:
        made.http = _client(made, serving, at_once=True)
        yield made
        serving.cancel_scope.cancel()


def _client(life: Life, serving: trio.Nursery, *, at_once: bool) -> httpx.AsyncClient:
    app = create_app(life.worker)
    return httpx.AsyncClient(
        transport=AppTransport(app, serving, app.at_once if at_once else None),
        base_url="http://127.0.0.1:5000",
        headers={"Authorization": f"Bearer {KEY}"},
        timeout=None,
    )


def at_once(life: Life) -> int:
    """How many requests were answered so."""
    transport = life.http._transport
    assert isinstance(transport, AppTransport)
    return transport.answered_at_once


@dataclass
class Seen:
    """What came of a submit, but for the run's id."""

    answer: Any
    lines: Any
    noted: Any
    run: Any


@asynccontextmanager
async def one_way(world: World, *, whole: bool) -> AsyncGenerator[Life]:
    async with live(world) as made, trio.open_nursery() as serving:
        made.http = _client(made, serving, at_once=whole)
        yield made
        serving.cancel_scope.cancel()


async def seen(life: Life, headers: Headers, body: Any) -> Seen:
    """All that a submit leaves, in a life of its own, so that times are the same."""
    with capture_logs() as logged:
        answer = await life.http.post(RUNS, json=body, headers=headers)
    await trio.sleep(20)
    listed = (await life.http.get(RUNS)).json()
    noted = (await life.http.get("/api/v1/requests")).json()["requests"]
    named = headers.get("X-Request-Id") == "mine"
    hidden = set() if named else {"request_id", "x-request-id"}
    return Seen(
        (
            answer.status_code,
            [pair for pair in answer.headers.multi_items() if pair[0] not in hidden],
            answer.content,
        ),
        [_without(line, hidden) for line in logged if line["event"] == "request"],
        [_without(row, hidden | {"id"}) for row in noted],
        listed,
    )


def _without(row: Mapping[str, Any], hidden: set[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in hidden}


@pytest.mark.parametrize("what", [*TAKEN, *LEFT])
async def test_both_ways_are_one(what: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to the byte and in the order of its headers, the log's line, the request log, the run."""
    headers, body = {**TAKEN, **LEFT}[what]
    ways: list[Seen] = []
    answered: list[int] = []
    for whole in (True, False):
        numbers = count(1)
        monkeypatch.setattr(service, "new_id", lambda numbers=numbers: f"run_{next(numbers):012x}")
        began = trio.current_time()
        world = World(tmp_path / str(whole), skew=-began)
        async with one_way(world, whole=whole) as life:
            ways.append(await seen(life, headers, body))
            answered.append(at_once(life))
    assert ways[0] == ways[1]
    assert [what in TAKEN, False] == answered


async def test_a_queue_that_is_full_says_so_both_ways(world: World) -> None:
    world.settings |= {"runs_max_concurrent": 1, "runs_max_queued": 1}
    async with live(world) as life, trio.open_nursery() as serving:
        said = []
        work = {"recipe_name": "work", "prompt": '{"seconds": 5}'}
        assert 202 == (await life.http.post(RUNS, json=work)).status_code
        for whole in (True, False):
            life.http = _client(life, serving, at_once=whole)
            answer = await life.http.post(RUNS, json=ECHO, headers={"X-Request-Id": "mine"})
            said.append((answer.status_code, answer.headers.multi_items(), answer.content))
            assert whole == at_once(life)
        assert said[0] == said[1]
        assert 503 == said[0][0]
        rows = (await life.http.get("/api/v1/requests")).json()["requests"]
        mine = [(row["phase"], row["status"]) for row in reversed(rows) if row["request_id"] == "mine"]
        assert [("begin", None), ("end", 503)] * 2 == mine
        serving.cancel_scope.cancel()


async def test_a_client_that_leaves_leaves_its_run(life: Life) -> None:
    """The run goes on; the request log says that nobody was there to be answered."""
    work = {"recipe_name": "work", "prompt": '{"seconds": 5}'}
    with trio.move_on_after(2):
        await life.http.post(RUNS, json=work, headers={"Prefer": "wait=30", "X-Request-Id": "mine"})
    (run,) = (await life.http.get(RUNS)).json()["jobs"]
    assert "succeeded" == (await ended(life, run["job_id"]))["status"]
    rows = (await life.http.get("/api/v1/requests", params={"kind": "op"})).json()["requests"]
    assert [("end", 499), ("begin", None)] == [
        (row["phase"], row["status"]) for row in rows if row["request_id"] == "mine"
    ]


async def test_a_bug_is_a_500_and_no_second_run(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def broken(run: Any, _: Any) -> Any:
        asked.append(run.run_id)
        raise LookupError("a bug")

    monkeypatch.setattr(life.worker.runs, "submit", broken)
    with capture_logs() as logged:
        answer = await life.http.post(RUNS, json=ECHO)
    assert (500, ["detail"]) == (answer.status_code, list(answer.json()))
    assert 1 == len(asked) == at_once(life)
    assert ["request failed", "request"] == [line["event"] for line in logged]


@pytest.mark.parametrize("where", ["accepted", "entry", "add"])
async def test_a_bug_behind_a_run_does_not_submit_it_a_second_time(
    life: Life, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    rows = life.worker.requests.add

    def broken(*args: Any) -> None:
        if where != "add" or args[0].phase == "end":
            raise LookupError("a bug")
        rows(*args)

    whose = {"accepted": submits, "entry": life.worker.runs, "add": life.worker.requests}[where]
    with monkeypatch.context() as patch:
        patch.setattr(whose, where, broken)
        answer = await life.http.post(RUNS, json=ECHO)
    assert (500, ["detail"]) == (answer.status_code, list(answer.json()))
    assert 1 == at_once(life)
    assert 1 == (await life.http.get(RUNS)).json()["total"]


@dataclass
class Dawdler:
    """A client that sends its body in pieces, a second apart; then it waits, or leaves."""

    pieces: list[bytes]
    leaves_after: float = math.inf

    async def more(self) -> bytes:
        await trio.sleep(0.3)
        if not self.pieces:
            raise Gone
        return self.pieces.pop(0)

    async def left(self) -> None:
        await trio.sleep(self.leaves_after)


def begun(body: bytes, **headers: str) -> bytes:
    """The head of a submit."""
    given = {
        "Host": "localhost",
        "Authorization": f"Bearer {KEY}",
        "Content-Type": "application/json",
        **headers,
    }
    lines = [f"POST {RUNS} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode()


async def test_a_body_may_come_in_pieces(life: Life) -> None:
    way, body = ShortRuns(life.worker), b'{"recipe_name": "echo", "prompt": "{}"}'
    head = begun(body, Prefer="wait=5")
    for pieces in ([body], [body[:10], body[10:20], body[20:]]):
        for first in (b"", body[:5]):
            rest = list(pieces)
            rest[0] = rest[0][len(first) :]
            answering = way.at_once(head + first, Dawdler(rest))
            assert answering is not None
            answer = await answering.make()
            assert answer is not None
            assert (202, True) == (answer.status, b'"status": "succeeded"' in answer.body)
    assert 4 == (await life.http.get(RUNS)).json()["total"]


async def test_a_body_that_does_not_come_is_the_servers(life: Life) -> None:
    """Nothing is begun of one that comes too late, or is followed by more than it."""
    way, body = ShortRuns(life.worker), b'{"recipe_name": "echo", "prompt": "{}"}'
    for pieces in ([body[:5]], [bytes([one]) for one in body], [body + b"x"]):
        answering = way.at_once(begun(body), Dawdler(list(pieces)))
        assert answering is not None
        assert await answering.make() is None
    assert way.at_once(begun(b"x" * 100_000), Dawdler([])) is None
    assert 0 == (await life.http.get(RUNS)).json()["total"]
    assert [] == (await life.http.get("/api/v1/requests")).json()["requests"]


async def test_one_that_leaves_after_its_body_leaves_its_run(life: Life) -> None:
    way, body = ShortRuns(life.worker), b'{"recipe_name": "work", "prompt": "{\\"seconds\\": 5}"}'
    answering = way.at_once(begun(body, Prefer="wait=30"), Dawdler([body], leaves_after=2))
    assert answering is not None
    with pytest.raises(Gone):
        await answering.make()
    (run,) = (await life.http.get(RUNS)).json()["jobs"]
    assert "succeeded" == (await ended(life, run["job_id"]))["status"]
    rows = (await life.http.get("/api/v1/requests", params={"kind": "op"})).json()["requests"]
    assert [499, None] == [row["status"] for row in rows]


async def test_a_body_that_is_not_all_there_is_the_servers(life: Life) -> None:
    way = ShortRuns(life.worker)
    head = (
        f"POST {RUNS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
        "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n"
    ).encode()
    assert way.at_once(head) is None
    assert way.at_once(head + b"{") is None
    assert way.at_once(head + b"{} ") is None
    assert way.at_once(head.replace(b"2\r\n", b"0\r\n")) is None
    assert way.at_once(head + b"{}") is not None
    for number in range(MOST_KNOWN + 10):
        assert way.at_once(head[:-2] + b"X-A: %d\r\n\r\n{}" % number) is not None
        assert way.at_once(head[:-2].replace(b"Bearer ", b"Bearer n") + b"X-A: %d\r\n\r\n{}" % number) is None
    assert len(way._known) <= MOST_KNOWN
