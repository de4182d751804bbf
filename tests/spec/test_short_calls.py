"""Calls that are answered before the server reads them are answered as the framework would, or not at all.

Contract, sections 1, 2, 3, 5 and 7.
"""

import itertools
import json
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx
import pytest
import trio
from structlog.testing import capture_logs

from penelope.http import noting
from penelope.http.app import create_app
from penelope.http.whole import Answer, AtOnce, Gone, Peer
from tests.spec.asgi import AppTransport
from tests.spec.world import KEY, Life

ECHO: Final = "/api/v1/main/plugin/test/echo"
FAIL: Final = "/api/v1/main/plugin/test/fail"
HOST: Final = ("Host", "127.0.0.1:5000")
BEARER: Final = ("Authorization", f"Bearer {KEY}")
JSON: Final = ("Content-Type", "application/json")
TTL: Final = ("X-Result-Ttl", "60")
TRACE: Final = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")


@dataclass(frozen=True)
class Asks:
    """A request as a client writes it; `own` headers beside, or instead of, the usual ones."""

    target: str = ECHO
    body: bytes | None = None
    own: tuple[tuple[str, str | None], ...] = ()
    method: str = ""

    @property
    def verb(self) -> str:
        return self.method or ("GET" if self.body is None else "POST")

    @property
    def headers(self) -> list[tuple[str, str]]:
        names = {name.lower() for name, _ in self.own}
        usual = [HOST, BEARER]
        if self.body is not None:
            usual += [JSON, ("Content-Length", str(len(self.body)))]
        given = [(name, value) for name, value in usual if name.lower() not in names]
        return given + [(name, value) for name, value in self.own if value is not None]

    @property
    def piece(self) -> bytes:
        lines = [f"{self.verb} {self.target} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + (self.body or b"")


def posts(target: str, body: object = None, *own: tuple[str, str | None]) -> Asks:
    return Asks(target, b"" if body is None else json.dumps(body).encode(), own)


TAKEN: Final = {
    "a plugin": Asks(),
    "with parameters": Asks(f"{ECHO}?text=%C3%A4+%F0%9D%84%9E&n=5"),
    "with an id": Asks(own=(("X-Request-Id", "mine"),)),
    "with a trace": Asks(own=(TRACE,)),
    "with a bad trace": Asks(own=(("traceparent", "00-no"),)),
    "with headers that nobody reads": Asks(own=(("Cookie", "a=b"), ("X-API-Key", "x"), ("Accept", "*/*"))),
    "posted": posts(ECHO, {"text": "ä 𝄞", "n": 5}),
    "posted without a body": Asks(ECHO, b"", (("Content-Type", None),)),
    "posted with a query that does not count": posts(f"{ECHO}?n=no", {"n": 1}),
    "a parameter that is none": Asks(f"{ECHO}?n=x&m=1"),
    "a parameter twice": Asks(f"{ECHO}?n=1&n=2"),
    "a parameter that is not UTF-8": Asks(f"{ECHO}?text=%ff"),
    "a bad parameter in a body": posts(ECHO, {"n": "x", "m": 1}),
    "a body that is no JSON": Asks(ECHO, b"{"),
    "a body that is no object": posts(ECHO, [1]),
    "a body that is not UTF-8": Asks(ECHO, b'{"text": "\xff"}'),
    "a body with half a surrogate pair": Asks(ECHO, b'{"text": "\\ud800"}'),
    "a lease that is none": Asks(own=(("X-Lease", ""),)),
    "two leases": Asks(own=(("X-Lease", "a"), ("X-Lease", "b"))),
    "a failure in the plugin's words": Asks(f"{FAIL}?how=word&status=409"),
    "a bug of the plugin's": Asks(f"{FAIL}?how=bug"),
    "a site that cannot be reached": posts(FAIL, {"how": "SiteFailed"}),
    "a result that is none": Asks("/api/v1/main/plugin/test/result?what=nan"),
    "a result of a megabyte": Asks("/api/v1/main/plugin/test/result?what=big"),
    "both ways at once": Asks(own=(TTL, ("X-Callback-Url", "http://a.example/"))),
    "a bad way": Asks(own=(("X-Result-Ttl", "nan"),)),
    "a preference of a plain call": Asks(own=(("Prefer", "wait=5"),)),
    "a preference of a primitive": posts("/api/v1/main/text", {}, ("Prefer", "wait=5")),
    "patience and a bad way": Asks(own=(("X-Result-Ttl", "nan"), ("Prefer", "wait=5"))),
    "a limit without a job": Asks(own=(("X-Job-Timeout", "5"),)),
    "a bad way before a bad body": Asks(ECHO, b"{", (("X-Result-Ttl", "0"),)),
    "a bad body before a page that is leased": Asks("/api/v1/leased/plugin/test/echo", b"{"),
    "a page that is leased": Asks("/api/v1/leased/plugin/test/echo"),
    "a primitive of a page that is leased": posts("/api/v1/leased/text"),
    "a page that is leased, a job": Asks("/api/v1/leased/plugin/test/echo", own=(TTL,)),
    "a page that works, a job": Asks("/api/v1/works/plugin/test/echo", own=(TTL,)),
    "a primitive": posts("/api/v1/main/evaluate", {"expression": "1"}),
    "a primitive with a bad option": posts("/api/v1/main/evaluate", {"expression": "", "no": 1}),
    "a primitive to where no page may be": posts("/api/v1/main/goto", {"url": "file:///etc/passwd"}),
}
LEFT: Final = {
    "no key": Asks(own=(("Authorization", None),)),
    "a wrong key": Asks(own=(("Authorization", "Bearer no"),)),
    "two keys": Asks(own=(BEARER, BEARER)),
    "somebody else's host": Asks(own=(("Host", "example.com"),)),
    "a bad id": Asks(own=(("X-Request-Id", "no spaces"),)),
    "a control character in the query": Asks(f"{ECHO}?text=%00"),
    "a page that is not there": Asks("/api/v1/none/plugin/test/echo"),
    "a plugin that is not there": Asks("/api/v1/main/plugin/test/none"),
    "a primitive that is not there": posts("/api/v1/main/none"),
    "a word that no page can have": posts("/api/v1/jobs/evaluate", {"expression": "1"}),
    "a slash at the end": Asks(f"{ECHO}/"),
    "a percent sign in the path": Asks("/api/v1/main/plugin/test/%65cho"),
    "a target with a host": Asks(f"http://127.0.0.1:5000{ECHO}"),
    "a look at a primitive": Asks("/api/v1/main/evaluate"),
    "a HEAD": Asks(method="HEAD"),
    "another method": Asks(ECHO, b"{}", method="PUT"),
    "a form": posts(ECHO, {}, ("Content-Type", "application/x-www-form-urlencoded")),
    "another charset": posts(ECHO, {}, ("Content-Type", "application/json; charset=latin-1")),
    "no content type": posts(ECHO, {}, ("Content-Type", None)),
    "a body of a GET": Asks(ECHO, b"{}", method="GET"),
    "a large body": posts(ECHO, {"text": "x" * 70_000}),
    "a key": Asks(own=(TTL, ("Idempotency-Key", "k"))),
}


class Ways:
    """One worker, asked both ways."""

    def __init__(self, short: AtOnce, long: httpx.AsyncClient) -> None:
        self._short, self._long = short, long

    async def short(self, asks: Asks, peer: Peer | None = None) -> Answer | None:
        return await self.piece(asks.piece, peer)

    async def piece(self, data: bytes, peer: Peer | None = None) -> Answer | None:
        answering = self._short(data, peer or Stays())
        return None if answering is None else await answering.make()

    async def long(self, asks: Asks) -> httpx.Response:
        url = asks.target if "://" in asks.target else f"http://127.0.0.1:5000{asks.target}"
        body = asks.body or b""
        return await self._long.request(asks.verb, url, headers=asks.headers, content=body)


class Stays(Peer):
    """A client that has said all and waits; or whose body comes in these pieces, each when it is asked for."""

    def __init__(self, *pieces: bytes, then_leaves: bool = False) -> None:
        self._pieces = list(pieces)
        self._leaves = then_leaves

    async def more(self) -> bytes:
        if self._pieces:
            await trio.lowlevel.checkpoint()
            return self._pieces.pop(0)
        await self.left()
        raise Gone

    async def left(self) -> None:
        if not self._leaves:
            await trio.sleep_forever()
        await trio.sleep(0.5)


@asynccontextmanager
async def both_ways(life: Life) -> AsyncGenerator[Ways]:
    front, plain = create_app(life.worker), create_app(life.worker)
    assert front.at_once is not None
    plain.short_way = None
    async with trio.open_nursery() as serving:
        transport = AppTransport(plain, serving)
        async with httpx.AsyncClient(transport=transport, timeout=None) as client:
            yield Ways(front.at_once, client)
        serving.cancel_scope.cancel()


async def readied(life: Life) -> None:
    """A page that is leased, one that works."""
    for page in ("leased", "works"):
        await life.open(page)
    assert 200 == (await life.http.post("/api/v1/leased/lease", json={"ttl": 600})).status_code
    await life.start("work", "works", ttl=600, seconds=500)
    await trio.sleep(1)


def told(answer: Answer, asks: Asks) -> object:
    pairs = [(name.decode(), value.decode()) for name, value in answer.headers]
    return answer.status, sorted(_known(pairs, asks)), answer.body


def said(answer: httpx.Response, asks: Asks) -> object:
    return answer.status_code, sorted(_known(answer.headers.multi_items(), asks)), answer.content


def _known(headers: list[tuple[str, str]], asks: Asks) -> list[tuple[str, str]]:
    """But for the request's id, where the worker made it."""
    is_named = any(name == "X-Request-Id" for name, _ in asks.own)
    return [(name, value) for name, value in headers if is_named or name != "x-request-id"]


DRAWN: Final = {"took_ms", "request_id", "timestamp"}


def lines(logged: list[Any]) -> list[Any]:
    return [{name: repr(value) for name, value in line.items() if name not in DRAWN} for line in logged]


async def rows(life: Life) -> list[Any]:
    """What the request log has, newest first, without times and drawn ids."""
    found = await life.worker.requests.newest(kind=None, page_id=None, since=0.0, limit=1000)
    drawn = {"at", "duration_s", "request_id", "job_id"}
    return [{name: value for name, value in row.items() if name not in drawn} for row in found]


@pytest.mark.parametrize("what", TAKEN)
async def test_what_it_takes_it_answers_as_the_framework(life: Life, what: str) -> None:
    """The answer to the byte, the lines in the log, the rows in the request log; twice, since it is known then."""
    asks = TAKEN[what]
    await readied(life)
    async with both_ways(life) as ways:
        for _ in range(2):
            before = len(await rows(life))
            with capture_logs() as logged:
                short = await ways.short(asks)
            assert life.now() == life.worker.last_client_activity
            middle = await rows(life)
            with capture_logs() as logged_long:
                long = await ways.long(asks)
            after = await rows(life)
            assert short is not None
            assert told(short, asks) == said(long, asks)
            assert lines(logged) == lines(logged_long)
            assert middle[: len(middle) - before] == after[: len(after) - len(middle)]
            assert 2 == len(middle) - before


@pytest.mark.parametrize("what", LEFT)
async def test_what_it_leaves_it_does_not_touch(life: Life, what: str) -> None:
    await readied(life)
    before, active = len(await rows(life)), life.worker.last_client_activity
    async with both_ways(life) as ways:
        with capture_logs() as logged:
            assert await ways.short(LEFT[what]) is None
    assert ([], before, active) == (logged, len(await rows(life)), life.worker.last_client_activity)


async def test_a_start(life: Life) -> None:
    """A poll of its job is a poll of one that was started the long way; ids and times differ."""
    life.world.receiver.answers(500)
    async with both_ways(life) as ways:
        asks = [Asks(own=(TTL, TRACE)), posts(ECHO, {"n": 1}, ("X-Callback-Url", "http://a.example/"), TRACE)]
        for one in asks:
            short = await ways.short(one)
            await trio.sleep(1)
            long = await ways.long(one)
            await trio.sleep(1)
            assert short is not None
            ids = json.loads(short.body)["job_id"], long.json()["job_id"]
            same = said(long, one)
            shown = told(short, one)
            assert json.dumps(str(shown)).replace(ids[0], "") == json.dumps(str(same)).replace(ids[1], "")
            assert 202 == short.status
            first, second = [await life.worker.supervisor.ends.get(job_id) for job_id in ids]
            assert first is not None
            assert second is not None
            assert (first.result, first.way, first.traceparent) == (
                second.result,
                second.way,
                second.traceparent,
            )


@pytest.mark.parametrize(("seconds", "wait"), [(2, "wait=5"), (9, "wait=5"), (2, "wait=0"), (2, "wait=x")])
async def test_a_start_that_waits_for_the_end(life: Life, seconds: int, wait: str) -> None:
    """The answer, and when it comes."""
    asks = Asks(f"/api/v1/main/plugin/test/work?seconds={seconds}", own=(TTL, ("Prefer", wait)))
    async with both_ways(life) as ways:
        began = life.now()
        short, took = await ways.short(asks), life.now() - began
        await trio.sleep(10)
        began = life.now()
        long, took_long = await ways.long(asks), life.now() - began
    assert short is not None
    assert took == pytest.approx(took_long, abs=0.01)
    location = dict(short.headers)[b"location"].decode()
    ids = location.rpartition("/")[2], long.headers["Location"].rpartition("/")[2]
    assert str(told(short, asks)).replace(ids[0], "") == str(said(long, asks)).replace(ids[1], "")


async def test_a_client_that_leaves_while_it_waits_for_the_end(life: Life) -> None:
    """The request log says so, and the job goes on."""
    asks = Asks("/api/v1/main/plugin/test/work?seconds=3", own=(TTL, ("Prefer", "wait=5")))
    async with both_ways(life) as ways:
        with trio.move_on_after(1):  # as the server does it
            await ways.short(asks)
        assert 499 == (await rows(life))[0]["status"]
        await trio.sleep(3)
        assert 1 == life.supervisor.ended["test/work", 200]


async def test_a_body_in_pieces_of_a_start_that_waits_is_the_servers(life: Life) -> None:
    data = posts(ECHO, {"n": 5}, TTL, ("Prefer", "wait=5")).piece
    async with both_ways(life) as ways:
        assert await ways.piece(data[:-1], Stays(data[-1:])) is None
        assert await ways.piece(data) is not None


async def test_a_worker_that_stops(life: Life) -> None:
    async with both_ways(life) as ways:
        await life.start("work", ttl=600, seconds=5)
        life.supervisor.stop()
        for asks in (Asks(), posts("/api/v1/main/text"), Asks(own=(TTL,))):
            short = await ways.short(asks)
            assert short is not None
            assert 503 == short.status
            assert told(short, asks) == said(await ways.long(asks), asks)


async def test_a_bug_of_the_workers_own(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(life.supervisor, "check_callback", broken)
    async with both_ways(life) as ways:
        with capture_logs() as logged:
            short = await ways.short(Asks())
        with capture_logs() as logged_long:
            long = await ways.long(Asks())
    assert short is not None
    assert told(short, Asks()) == said(long, Asks())
    assert 500 == short.status
    assert [line["event"] for line in logged] == [line["event"] for line in logged_long]


@pytest.mark.parametrize(
    "asks", [Asks(), Asks(own=(TTL,)), posts("/api/v1/main/evaluate", {"expression": "1"})]
)
@pytest.mark.parametrize("where", ["begins", "ends"])
async def test_a_bug_about_a_call_does_not_make_it_a_second_time(
    life: Life, monkeypatch: pytest.MonkeyPatch, asks: Asks, where: str
) -> None:
    """None would hand the request on to the framework, as an error would."""
    begun: list[str] = []

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    def noted(name: str) -> Any:
        begin = getattr(life.supervisor, name)

        def begins(*args: Any) -> Any:
            begun.append(name)
            return begin(*args)

        return begins

    for name in ("begin_plain", "begin_job"):
        monkeypatch.setattr(life.supervisor, name, noted(name))
    monkeypatch.setattr(noting, where, broken)
    async with both_ways(life) as ways:
        with capture_logs() as logged:
            answer = await ways.short(asks)
    assert answer is not None
    assert (500, "worker") == (answer.status, json.loads(answer.body)["kind"])
    assert "request failed" in [line["event"] for line in logged]
    assert len(begun) == (where == "ends")


async def test_a_client_that_leaves_the_line(life: Life) -> None:
    """It leaves it, and the request log says so; the call before goes on."""
    await life.start("work", ttl=600, seconds=5)
    async with both_ways(life) as ways:
        with pytest.raises(Gone):
            await ways.short(Asks(), Stays(then_leaves=True))
        await trio.sleep(0.1)
        assert [] == life.worker.pages.get("main").line.waiting
        assert 499 == (await rows(life))[0]["status"]
        assert 1 == len(life.supervisor.lives)
        await trio.sleep(5)
        assert 0 == len(life.supervisor.lives)


async def test_a_client_that_leaves_a_call_at_work(life: Life) -> None:
    """The plugin runs to its end."""
    async with both_ways(life) as ways:
        with pytest.raises(Gone):
            await ways.short(Asks("/api/v1/main/plugin/test/work?seconds=3"), Stays(then_leaves=True))
        assert (499, 1) == ((await rows(life))[0]["status"], len(life.supervisor.lives))
        await trio.sleep(3)
        assert 1 == life.supervisor.ended["test/work", 200]


async def test_a_server_that_is_cancelled_is_a_client_that_left(life: Life) -> None:
    async with both_ways(life) as ways:
        with trio.move_on_after(1):
            await ways.short(Asks("/api/v1/main/plugin/test/work?seconds=3"))
        assert 499 == (await rows(life))[0]["status"]
        await trio.sleep(3)
        assert 1 == life.supervisor.ended["test/work", 200]


async def test_a_body_in_pieces(life: Life) -> None:
    asks = posts(ECHO, {"text": "in pieces", "n": 5})
    data = asks.piece
    head = len(data) - len(asks.body or b"")
    async with both_ways(life) as ways:
        for cuts in ((head,), (head + 3,), (head, head + 1, head + 9)):
            edges = [0, *cuts, len(data)]
            first, *others = [data[start:end] for start, end in itertools.pairwise(edges)]
            answer = await ways.piece(first, Stays(*others))
            assert answer is not None
            assert 5 == json.loads(answer.body)["n"]


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_body_that_does_not_come_is_the_frameworks(life: Life, leaves: bool) -> None:
    """It has its limit for it, and its words."""
    before = len(await rows(life))
    data = posts(ECHO, {"n": 5}).piece
    async with both_ways(life) as ways:
        assert await ways.piece(data[:-3], Stays(data[-3:-1], then_leaves=leaves)) is None
    assert before == len(await rows(life))


async def test_more_than_one_request_is_the_servers(life: Life) -> None:
    async with both_ways(life) as ways:
        for asks in (Asks(), posts(ECHO, {"n": 5})):
            assert await ways.short(asks) is not None
            assert await ways.piece(asks.piece + asks.piece) is None
            assert await ways.piece(asks.piece[:-1], Stays(then_leaves=True)) is None


async def test_what_is_known_depends_on_all_of_its_bytes(life: Life) -> None:
    """Of many of them the last are known; a page that is gone is the framework's to say."""
    await life.open("second")
    asks = Asks("/api/v1/second/plugin/test/echo")
    async with both_ways(life) as ways:
        for n in range(300):
            answer = await ways.short(Asks(f"{asks.target}?n={n}"))
            assert answer is not None
            assert n == json.loads(answer.body)["n"]
            wrong = Asks(f"{asks.target}?n={n}", own=(("Authorization", f"Bearer {KEY}x"),))
            assert await ways.short(wrong) is None
        assert await ways.short(asks) is not None
        assert 200 == (await life.http.delete("/api/v1/second")).status_code
        assert await ways.short(asks) is None


ODD: Final = [
    "",
    "a",
    "&",
    "=",
    "%",
    "%41",
    "%C3",
    "%c3%a4",
    "+",
    "n",
    "text",
    "ä",
    "0",
    "-1",
    "1e3",
    ";",
    "%26",
    "?",
]


async def test_queries_and_bodies_of_every_kind(life: Life) -> None:
    """Drawn at random, the same ones each time."""
    draw = random.Random(7)
    async with both_ways(life) as ways:
        taken = 0
        for _ in range(300):
            parts = draw.choices(ODD, k=draw.randint(0, 8))
            text = "".join(parts)
            query = "".join(part for part in parts if part.isascii())
            for asks in (
                Asks(f"{ECHO}?{query}"),
                Asks(ECHO, f'{{"text": "{text}"}}'.encode()),
                Asks(ECHO, text.encode()),
            ):
                short = await ways.short(asks)
                long = await ways.long(asks)
                if short is not None:
                    taken += 1
                    assert told(short, asks) == said(long, asks), asks
        assert 800 < taken
