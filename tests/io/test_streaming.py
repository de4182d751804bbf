"""Streams of events on real sockets: who reads, who does not, and who leaves."""

import socket
import struct
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest
import structlog
import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from quart import Response, request
from structlog.testing import LogCapture

from penelope.http import sse, streaming
from penelope.http.connection import SCOPE_KEY, Connection
from penelope.http.front import Front
from penelope.http.streaming import Source, stream
from tests.io.waiting import until

MIB = 2**20
STALL_S = 0.8


class Trickle(Source):
    """A small event each so often, so many times; then one that is larger."""

    def __init__(self, every_s: float, times: int, last: bytes = b"") -> None:
        self._every_s = every_s
        self._next_at = trio.current_time() + every_s
        self._times = times
        self._last: bytes | None = last

    async def next(self) -> Iterator[bytes] | None:
        if self._times:
            await trio.sleep_until(self._next_at)
            self._next_at += self._every_s
            self._times -= 1
            return sse.event("progress", b"x" * 100, str(self._times))
        await trio.lowlevel.checkpoint()
        last, self._last = self._last, None
        return None if last is None else sse.event("end", last, "end-1.0")


class Served:
    """A server with one stream of events, each request a viewer of its own.

    Attributes:
        sources: makes them.
        connections: of the viewers so far.
        over: how many streams have ended.
    """

    def __init__(self, sources: Callable[[], Source]) -> None:
        self.port = 0
        self.sources = sources
        self.connections: list[Connection] = []
        self.over = 0

    def count(self) -> None:
        self.over += 1

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        app = Front("events", static_folder=None)
        app.config["RESPONSE_TIMEOUT"] = None

        @app.get("/events")
        async def events() -> Response:
            self.connections.append(request.scope[SCOPE_KEY])  # type: ignore[typeddict-item]
            return stream(self.sources(), self.count, name="viewer")

        @app.get("/else")
        async def other() -> str:
            return "here"

        config = Config()
        config.bind = ["127.0.0.1:0"]
        config.errorlog = None
        async with trio.open_nursery() as nursery:
            (url,) = await nursery.start(serve, app, config)
            self.port = int(url.rpartition(":")[2])
            task_status.started()


@asynccontextmanager
async def served(sources: Callable[[], Source]) -> AsyncGenerator[Served]:
    server = Served(sources)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield server
        nursery.cancel_scope.cancel()


class Log(LogCapture):
    """What the server says of those whom it dropped."""

    @property
    def reasons(self) -> list[str]:
        return [line["reason"] for line in self.entries if line["event"] == "viewer dropped"]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """Of a server without much patience."""
    monkeypatch.setattr(streaming, "STALL_S", STALL_S)
    monkeypatch.setattr(streaming, "HEARTBEAT_S", 0.2)
    lines = Log()
    structlog.configure(processors=[lines])
    yield lines
    structlog.reset_defaults()


async def viewer(port: int, version: str = "1.1", receive_bytes: int | None = None) -> trio.SocketStream:
    """Someone who has asked for the stream and has not read a byte."""
    connection = trio.socket.socket()
    if receive_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    await connection.connect(("127.0.0.1", port))
    opened = trio.SocketStream(connection)
    await opened.send_all(f"GET /events HTTP/{version}\r\nHost: x\r\n\r\n".encode())
    return opened


async def everything(opened: trio.SocketStream, at_once: int = 65536, every_s: float = 0.0) -> bytes:
    """All that comes until the server hangs up, read in such steps."""
    got = bytearray()
    with trio.fail_after(30):
        while chunk := await opened.receive_some(at_once):
            got += chunk
            await trio.sleep(every_s)
    return bytes(got)


async def test_the_socket_below_an_answer_is_found() -> None:
    """Hypercorn hands none over: this is what notices when its way to it is another one."""
    async with served(lambda: Trickle(0.01, 100)) as server, await viewer(server.port):
        await until(lambda: bool(server.connections))
        (connection,) = server.connections
        assert connection.socket is not None
        assert connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 2 * streaming.BUFFER_BYTES
        await until(lambda: (connection.unread() or 0) == 0)


@pytest.mark.parametrize(
    "source",
    [
        lambda: Trickle(0.02, 10**6),
        lambda: Trickle(0.0, 1, b"x" * 20 * MIB),
        lambda: Trickle(0.0, 60, b"x" * 9000),
    ],
    ids=["in drops", "in one event", "in the last event"],
)
async def test_a_viewer_who_reads_nothing_is_dropped(source: Callable[[], Source], log: Log) -> None:
    """Whether a write waits for it, or the socket still takes more, or has taken all there was."""
    async with served(source) as server:
        before = trio.lowlevel.current_statistics().tasks_living
        async with await viewer(server.port, receive_bytes=2048):
            await until(lambda: bool(log.reasons), within_s=STALL_S * 4)
            await until(lambda: server.over == 1)
            await until(lambda: trio.lowlevel.current_statistics().tasks_living <= before)
    assert [f"it took nothing of what waited for it for {STALL_S:.0f} s"] == log.reasons


async def test_a_slow_viewer_gets_all(log: Log) -> None:
    """Who reads is never dropped, however slowly: here for several times what silence is allowed."""
    last = bytes(33 + n % 90 for n in range(300_000))
    async with (
        served(lambda: Trickle(0.0, 3, last)) as server,
        await viewer(server.port, version="1.0", receive_bytes=2048) as opened,
    ):
        began = trio.current_time()
        got = await everything(opened, at_once=12_000, every_s=0.02)
        assert trio.current_time() - began > STALL_S * 3
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"transfer-encoding" not in head.lower()  # nginx asks so, as HTTP/1.0 does it
    assert body.endswith(b"event: end\nid: end-1.0\ndata: " + last + b"\n\n")
    assert [] == log.reasons


async def test_a_viewer_who_has_read_all_is_let_go_at_once(log: Log) -> None:
    """The stream ends with a whole answer, and the connection with it."""
    async with served(lambda: Trickle(0.0, 3, b"{}")) as server, await viewer(server.port) as opened:
        began = trio.current_time()
        got = await everything(opened)
        assert trio.current_time() - began < STALL_S
        assert got.endswith(b"0\r\n\r\n")
        assert b"connection: close" in got.partition(b"\r\n\r\n")[0].lower()
    assert [] == log.reasons


async def test_a_silent_stream_has_heartbeats(log: Log) -> None:
    async with served(lambda: Trickle(1.0, 1)) as server, await viewer(server.port) as opened:
        got = await everything(opened)
    assert 4 <= got.count(b"\r\n:\n\n\r\n") <= 5
    assert [] == log.reasons


@pytest.mark.parametrize("abort", [True, False], ids=["reset", "closed"])
async def test_a_viewer_who_leaves_leaves_nothing(abort: bool, log: Log) -> None:
    """No task and no socket, and nobody is said to be dropped."""
    async with served(lambda: Trickle(0.05, 10**6)) as server:
        before = trio.lowlevel.current_statistics().tasks_living
        for _ in range(10):
            opened = await viewer(server.port)
            await opened.receive_some(10)
            if abort:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await opened.aclose()
        await until(lambda: server.over == 10)
        await until(lambda: trio.lowlevel.current_statistics().tasks_living <= before)
        assert all(
            (found := connection.socket) is None or found.fileno() == -1 for connection in server.connections
        )
    assert [] == log.reasons


async def test_over_http_2_a_viewer_is_dropped_and_its_neighbours_are_not(log: Log) -> None:
    """Its streams share a socket, which is not the one viewer's to be shut."""
    async with (
        served(lambda: Trickle(0.0, 1, b"x" * MIB)) as server,
        httpx.AsyncClient(http1=False, http2=True, base_url=f"http://127.0.0.1:{server.port}") as client,
        client.stream("GET", "/events") as response,
    ):
        assert "HTTP/2" == response.http_version
        await until(lambda: bool(log.reasons), within_s=STALL_S * 4)
        await until(lambda: server.over == 1)
        answer = await client.get("/else")
        assert ("here", "HTTP/2") == (answer.text, answer.http_version)
