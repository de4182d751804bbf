"""The gateway on real sockets: Hypercorn before it, a worker of a few lines behind it.

Source: contract, section 9 ("passes the request on (streams, SSE and media included)").
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from penelope.clock import Clock
from penelope.settings import Settings
from penelope.waker import asking, config
from penelope.waker.app import create_app
from penelope.waker.gateway import Gateway
from penelope.waker.house import open_house
from penelope.waker.keeper import Tools
from penelope.waker.model import Life, Order
from penelope.waker.records import Owed
from tests.io.waiting import until

KEY = "the-key-of-the-waker-0123456789"
MIB = 2**20
MANY_MIB = 128
SPARE_MIB = 48
HEAD = b"HTTP/1.1 200 OK\r\nX-Mine: 1\r\n"
Talk = Callable[[trio.SocketStream, bytes], Awaitable[None]]


class OneWorker:
    """A driver whose worker is a function of this test: it gets each connection, and what its client said first."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def start(self, order: Order) -> Life:
        await trio.lowlevel.checkpoint()
        return Life(pid=1, address=self._address, started_at=0.0, salt="", digest=order.digest(""))

    async def stop(self, name: str, kill_after_s: float) -> None:
        await trio.lowlevel.checkpoint()

    async def status(self) -> Mapping[str, Life]:
        await trio.lowlevel.checkpoint()
        return {}

    def address(self, name: str) -> str | None:
        return self._address

    async def ended(self, name: str) -> str:
        await trio.sleep_forever()
        raise AssertionError

    async def log(self, name: str, lines: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        return []

    def hurry(self) -> None:
        pass


@asynccontextmanager
async def waker_before(talk: Talk, folder: Path) -> AsyncGenerator[str]:
    """The base URL of a waker, before a worker that talks so."""
    (folder / "personas.toml").write_text("[personas.alice]\n")
    settings = Settings.model_validate({"key": KEY, "port": 5050})

    async def handle(stream: trio.SocketStream) -> None:
        async with stream:
            said = b""
            while b"\r\n\r\n" not in said:
                if not (chunk := await stream.receive_some()):
                    return
                said += chunk
            if b"GET /api/v1/activity" in said:
                body = json.dumps(
                    {"in_flight": 0, "idle_for_s": 0, "rss_mb": 1, "browser_rss_mb": 1}
                ).encode()
                await stream.send_all(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            else:
                await talk(stream, said)

    def read() -> list[Any]:
        return list(config.load(folder / "personas.toml", settings).by_name.values())

    async with trio.open_nursery() as nursery, asking.open_client() as client:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, handle, [listener])  # noqa: ASYNC113  # it listens already
        driver = OneWorker(f"http://127.0.0.1:{listener.socket.getsockname()[1]}")
        turns = trio.CapacityLimiter(2)
        tools = Tools(driver=driver, client=client, clock=Clock(), owed=Owed(folder), turns=turns)
        async with open_house(tools, read) as house:
            app = create_app(settings, house, Gateway(house, client, settings), driver)
            server = Config()
            server.bind = ["127.0.0.1:0"]
            server.errorlog = None
            server.include_date_header = False
            (url,) = await nursery.start(serve, app, server)
            yield str(url)
        nursery.cancel_scope.cancel()


def client_of(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=f"{url}/p/alice/api/v1",
        headers={"Authorization": f"Bearer {KEY}"},
        timeout=60,
        trust_env=False,
    )


async def test_what_comes_back_is_what_the_worker_said(tmp_path: Path) -> None:
    """Status, headers and bytes, compressed ones too; the target as it was written."""
    said: list[bytes] = []

    async def talk(stream: trio.SocketStream, head: bytes) -> None:
        said.append(head)
        await stream.send_all(
            b"HTTP/1.1 418 Short and stout\r\nX-A: 1\r\nX-A: 2\r\nContent-Encoding: gzip\r\nDate: then\r\n"
            b"Location: /api/v1/jobs/1\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n"
            b"Content-Length: 4\r\n\r\n\x1f\x8b??"
        )

    async with waker_before(talk, tmp_path) as url:
        stream = await trio.open_tcp_stream("127.0.0.1", int(url.rpartition(":")[2]))
        async with stream:
            await stream.send_all(
                f"GET /p/alice/api/v1/a%2Fb//c%3f?q=%20+&& HTTP/1.1\r\nHost: localhost\r\nX-Odd: \xe9\r\n"
                f"Authorization: Bearer {KEY}\r\nConnection: close\r\n\r\n".encode("latin-1")
            )
            answer = b""
            while chunk := await stream.receive_some():
                answer += chunk

    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert lines[0].startswith(b"http/1.1 418")
    assert b"\x1f\x8b??" == body
    assert [
        b"x-a: 1",
        b"x-a: 2",
        b"content-encoding: gzip",
        b"date: then",
        b"location: /api/v1/jobs/1",
    ] == lines[1:6]
    assert not {b"x-hop: 1", b"keep-alive: timeout=5"} & set(lines)
    assert said[0].startswith(b"GET /api/v1/a%2Fb//c%3f?q=%20+&& HTTP/1.1\r\n")
    assert b"X-Odd: \xe9\r\n" in said[0] or b"x-odd: \xe9\r\n" in said[0]


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("http://127.0.0.1:1/p/alice/api/v1/pages", 404),
        ("//127.0.0.1:1/p/alice/api/v1/pages", 404),
        ("/p/alice/api/v1/../../metrics", 400),
        ("/p/alice/api/v1/%2e%2e/metrics", 400),
        ("/p/alice:1/api/v1/pages", 404),
        ("/p/alice/api/v1\\..\\x", 404),
    ],
)
async def test_nothing_but_its_own_personas_is_reached(tmp_path: Path, target: str, status: int) -> None:
    """No absolute-form targets, no dot segments, no other host."""
    asked: list[bytes] = []

    async def talk(stream: trio.SocketStream, head: bytes) -> None:
        asked.append(head)

    async with waker_before(talk, tmp_path) as url:
        stream = await trio.open_tcp_stream("127.0.0.1", int(url.rpartition(":")[2]))
        async with stream:
            await stream.send_all(
                f"GET {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode()
            )
            assert f"HTTP/1.1 {status}".encode() == (await stream.receive_some())[:12]
    assert [] == asked


async def test_events_come_as_they_are_sent(tmp_path: Path) -> None:
    """SSE: each before the next was thought of."""
    more = trio.Event()

    async def talk(stream: trio.SocketStream, head: bytes) -> None:
        await stream.send_all(HEAD + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        await stream.send_all(b"9\r\ndata: 1\n\n\r\n")
        await more.wait()
        await stream.send_all(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")

    async with (
        waker_before(talk, tmp_path) as url,
        client_of(url) as client,
        client.stream("GET", "/jobs/1/events") as answer,
    ):
        chunks = answer.aiter_raw()
        with trio.fail_after(10):
            assert b"data: 1\n\n" == await anext(chunks)
            more.set()
            assert b"data: 2\n\n" == await anext(chunks)
            assert [] == [chunk async for chunk in chunks]


async def test_an_upload_goes_on_as_it_comes(tmp_path: Path) -> None:
    """The worker has its beginning before its end was sent."""
    begun = trio.Event()

    async def talk(stream: trio.SocketStream, head: bytes) -> None:
        while b"first" not in head:
            head += await stream.receive_some()
        begun.set()
        while b"0\r\n\r\n" not in head:
            head += await stream.receive_some()
        await stream.send_all(HEAD + b"Content-Length: 2\r\n\r\n{}")

    async def body() -> AsyncGenerator[bytes]:  # noqa: ASYNC900  # httpx reads it to its end
        yield b"first"
        with trio.fail_after(10):
            await begun.wait()
        yield b"second"

    async with waker_before(talk, tmp_path) as url, client_of(url) as client:
        answer = await client.post("/main/upload", content=body())
    assert (200, b"{}") == (answer.status_code, answer.content)


async def test_answers_that_have_no_body(tmp_path: Path) -> None:
    """What they say of one goes on, and the connection is good for the next."""

    async def talk(stream: trio.SocketStream, head: bytes) -> None:
        if head.startswith(b"HEAD"):
            await stream.send_all(HEAD + b"Content-Length: 1000\r\n\r\n")
        else:
            await stream.send_all(b"HTTP/1.1 204 No Content\r\nX-Mine: 1\r\n\r\n")

    async with waker_before(talk, tmp_path) as url, client_of(url) as client:
        with trio.fail_after(10):
            for _ in range(2):
                head = await client.head("/media/token")
                assert (200, "1000", b"") == (head.status_code, head.headers["Content-Length"], head.content)
                gone = await client.delete("/runs/1")
                assert (204, "1", b"") == (gone.status_code, gone.headers["X-Mine"], gone.content)


@pytest.mark.parametrize("way", ["down", "up"])
async def test_much_data_costs_no_memory(tmp_path: Path, way: str) -> None:
    """Streamed, both ways: a reader that is slow is waited for, and nothing is held."""
    size = MANY_MIB * MIB
    block = b"x" * MIB
    process = psutil.Process()
    seen = 0

    async def talk(stream: trio.SocketStream, head: bytes) -> None:
        nonlocal seen
        if way == "down":
            await stream.send_all(HEAD + b"Content-Length: %d\r\n\r\n" % size)
            for _ in range(MANY_MIB):
                await stream.send_all(block)
            return
        got = len(head.partition(b"\r\n\r\n")[2])
        while got < size:
            got += len(await stream.receive_some(MIB))
            seen = max(seen, process.memory_info().rss)
        await stream.send_all(HEAD + b"Content-Length: %d\r\n\r\n%d" % (len(str(got)), got))

    async def body() -> AsyncGenerator[bytes]:  # noqa: ASYNC900  # httpx reads it to its end
        for _ in range(MANY_MIB):
            yield block

    async with waker_before(talk, tmp_path) as url, client_of(url) as client:
        before = process.memory_info().rss
        got = 0
        if way == "down":
            async with client.stream("GET", "/media/token") as answer:
                async for chunk in answer.aiter_raw():
                    got += len(chunk)
                    seen = max(seen, process.memory_info().rss)
        else:
            headers = {"Content-Length": str(size)}
            got = int((await client.post("/main/upload", content=body(), headers=headers)).text)

    assert size == got
    assert (seen - before) / MIB < SPARE_MIB


async def test_a_client_that_leaves_ends_the_workers_request(tmp_path: Path) -> None:
    """Before the answer begins, and in the middle of it."""
    open_now = 0

    async def talk(stream: trio.SocketStream, head: bytes) -> None:
        nonlocal open_now
        open_now += 1
        try:
            if b"/events" in head:
                await stream.send_all(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
            if b"/flood" in head:  # a file, of which its client takes no more than the kernel does
                await stream.send_all(HEAD + b"Content-Disposition: attachment\r\n")
                await stream.send_all(b"Content-Length: %d\r\n\r\n" % (200 * MIB))
                await stream.send_all(b"x" * (200 * MIB))
            while await stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass
        finally:
            open_now -= 1

    async with waker_before(talk, tmp_path) as url:
        for path, body in (("main/plugin/x/y", b"{}"), ("jobs/1/events", b""), ("jobs/1/flood", b"")):
            stream = await trio.open_tcp_stream("127.0.0.1", int(url.rpartition(":")[2]))
            async with stream:
                head = f"POST /p/alice/api/v1/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
                await stream.send_all(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                await until(lambda: open_now == 1, within_s=5)
                if path.startswith("jobs"):
                    assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")
                await trio.sleep(0.2)
            await until(lambda: open_now == 0, within_s=5)


async def test_an_answer_that_breaks_off_looks_broken_off(tmp_path: Path) -> None:
    """And one that never began is a `502` in the envelope."""

    async def talk(stream: trio.SocketStream, head: bytes) -> None:
        if b"/cut" in head:
            await stream.send_all(HEAD + b"Content-Length: 100\r\n\r\nhalf")

    async with waker_before(talk, tmp_path) as url, client_of(url) as client:
        answer = await client.get("/none")
        assert (502, "worker") == (answer.status_code, answer.json()["kind"])
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get("/cut")


async def test_an_early_answer_to_a_long_body(tmp_path: Path) -> None:
    """A worker that refuses an upload is heard."""

    async def talk(stream: trio.SocketStream, head: bytes) -> None:
        await stream.send_all(b"HTTP/1.1 413 Too large\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        with trio.move_on_after(1):
            while await stream.receive_some(MIB):
                pass

    async with waker_before(talk, tmp_path) as url, client_of(url) as client:
        answer = await client.post("/main/upload", content=b"x" * (20 * MIB))
    assert 413 == answer.status_code
