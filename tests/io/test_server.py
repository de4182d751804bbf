"""The server on real sockets: one watch a connection, one write an answer, an end to each."""

import contextlib
import os
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

import pytest
import trio
from quart import Response, request

from penelope.http import server, whole
from penelope.http.envelope import json_response
from penelope.http.front import Front
from penelope.http.serving import server_config
from penelope.http.whole import Answer, Answering, Peer
from tests.io.waiting import until

GET = "GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = 300_000
TALKING = (b"/body", b"/works", b"/large-body")
POST = "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n"
QUICK = (b"/quick", b"/waits", b"/left", b"/fails")
AT_ONCE = Answer(200, [(b"content-type", b"application/json"), (b"content-length", b"7")], b'"quick"')


@dataclass
class Served:
    """A server; `stop` ends it."""

    port: int
    stop: trio.Event
    go_on: trio.Event
    asked: int = 0
    at_once: int = 0
    cut_off: int = 0
    ended: trio.Event = field(default_factory=trio.Event)

    def answer_at_once(self, data: bytes, peer: Peer | None = None) -> Answering | None:
        if data.startswith(b"GET /breaks "):
            raise RuntimeError("a bug")
        head = whole.head_of(data)
        talking = None if head is None else whole.read(head)
        if peer is not None and head is not None and talking is not None and talking.target in TALKING:
            return Answering(partial(self._talk, talking, data[len(head) :], peer))
        asked = whole.read(data) if whole.head_of(data) == data else None
        if asked is None or asked.target not in QUICK:
            return None
        return Answering(partial(self._quick, asked.target), waits=asked.target != b"/quick")

    async def _talk(self, asked: whole.Asked, begun: bytes, peer: Peer) -> Answer | None:
        """Give back the body; or wait until the test says so, or the client leaves."""
        self.at_once += 1
        body = await whole.body_of(begun, asked.length, peer, 0.5)
        if body is None:
            return None
        if asked.target == b"/large-body":
            body = body * 100_000
        if asked.target == b"/works":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._told, nursery.cancel_scope)
                await peer.left()
                nursery.cancel_scope.cancel()
            if not self.go_on.is_set():
                raise whole.Gone
        return Answer(200, [(b"content-length", b"%d" % len(body))], body)

    async def _told(self, listening: trio.CancelScope) -> None:
        await self.go_on.wait()
        listening.cancel()

    async def _quick(self, path: bytes) -> Answer | None:
        self.at_once += 1
        if path == b"/waits":
            try:
                await self.go_on.wait()
            except trio.Cancelled:
                self.cut_off += 1
                raise
        if path == b"/fails":
            raise RuntimeError("a bug")
        return None if path == b"/left" else AT_ONCE


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What this process writes on sockets, a piece for each call of the system."""
    seen: list[bytes] = []
    send_all = trio.SocketStream.send_all

    async def noted(stream: trio.SocketStream, data: Any) -> None:
        if not data.startswith(b"GET"):
            seen.append(bytes(data))
        await send_all(stream, data)

    def written(where: int, data: bytes) -> int:
        if data.startswith(b"HTTP"):
            seen.append(data)
        return write(where, data)

    write = os.write
    monkeypatch.setattr(os, "write", written)
    monkeypatch.setattr(trio.SocketStream, "send_all", noted)
    return seen


@asynccontextmanager
async def served(*, idle_s: float = 20.0, grace_s: float = 3.0, kept: int = 1000) -> AsyncGenerator[Served]:
    """`kept`: how many requests a connection may have."""
    app = Front("served", static_folder=None)

    @app.get("/small")
    async def small() -> Response:
        return json_response(b'{"success": true}')

    @app.get("/large")
    async def large() -> Response:
        return json_response(b"1" * LARGE)

    @app.get("/nothing")
    async def nothing() -> Response:
        return Response(b"", 204)

    @app.post("/body")
    async def body() -> Response:
        data: Any = await request.get_data()
        return json_response(data)

    @app.get("/slow")
    async def slow() -> Response:
        there.asked += 1
        await there.go_on.wait()
        return json_response(b'"slow"')

    @app.get("/pieces")
    async def pieces() -> Response:
        async def body() -> AsyncGenerator[bytes]:  # noqa: ASYNC900  # Quart iterates it
            there.asked += 1
            await there.go_on.wait()
            yield b"a"
            yield b"b"

        response = Response(body())
        response.timeout = None
        return response

    config = server_config(grace_s)
    config.keep_alive_timeout = idle_s
    config.keep_alive_max_requests = kept
    port = socket.create_server(("127.0.0.1", 0))
    stop = trio.Event()

    async def run(*, task_status: trio.TaskStatus[str]) -> None:  # noqa: ASYNC128  # the server calls it
        await server.serve(
            app, port, config, until=stop.wait, at_once=there.answer_at_once, task_status=task_status
        )
        there.ended.set()

    async with trio.open_nursery() as nursery:
        there = Served(port.getsockname()[1], stop, trio.Event())
        await nursery.start(run)
        yield there
        nursery.cancel_scope.cancel()


async def connect(there: Served) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", there.port)


async def ask(stream: trio.SocketStream, path: str) -> bytes:
    """One answer, on a connection that is kept."""
    await stream.send_all(GET.format(path).encode())
    return await answer(stream)


async def answer(stream: trio.SocketStream) -> bytes:
    return (await head_and_body(stream))[1]


async def head_and_body(stream: trio.SocketStream) -> tuple[bytes, bytes]:
    got = b""
    with trio.fail_after(10):
        while b"\r\n\r\n" not in got:
            got += await received(stream)
        head, _, body = got.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0] or 0)
        while len(body) < length:
            body += await received(stream)
    return head.lower(), body


async def received(stream: trio.SocketStream) -> bytes:
    data = bytes(await stream.receive_some())
    assert data, "the connection is closed"
    return data


async def settled() -> None:
    """An answer has been written whole before the server is ready for the next request; what comes in between is not
    answered at once.
    """
    await trio.sleep(0.02)


async def is_closed(stream: trio.SocketStream) -> bool:
    """Does the server hang up, in a second?"""
    with trio.move_on_after(1), contextlib.suppress(trio.BrokenResourceError):
        while await stream.receive_some():
            pass
        return True
    return False


class TestWrites:
    async def test_a_small_answer_is_one_write(self, writes: list[bytes]) -> None:
        async with served() as there, await connect(there) as stream:
            for _ in range(3):
                writes.clear()
                assert b'{"success": true}' == await ask(stream, "/small")
                await trio.sleep(0.02)
                assert [b"HTTP/1.1 200"] == [data[:12] for data in writes]

    async def test_an_answer_without_a_body_is_one_write(self, writes: list[bytes]) -> None:
        async with served() as there, await connect(there) as stream:
            await ask(stream, "/nothing")
            assert b"" != await ask(stream, "/small")  # the connection is in order
            assert [b"HTTP/1.1 204", b"HTTP/1.1 200"] == [data[:12] for data in writes]

    async def test_a_large_body_is_not_copied(self, writes: list[bytes]) -> None:
        async with served() as there, await connect(there) as stream:
            assert LARGE == len(await ask(stream, "/large"))
            await trio.sleep(0.02)
            assert [b"HTTP/1.1 200", b"1" * 12] == [data[:12] for data in writes]

    async def test_a_body_in_pieces_does_not_hold_its_head_back(self, writes: list[bytes]) -> None:
        async with served() as there, await connect(there) as stream:
            await stream.send_all(GET.format("/pieces").encode())
            with trio.fail_after(5):
                assert (await received(stream)).endswith(b"\r\n\r\n")
                there.go_on.set()
                got = b""
                while not got.endswith(b"0\r\n\r\n"):
                    got += await received(stream)
            assert b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n" == got

    async def test_answers_to_requests_that_come_at_once_are_whole_and_in_order(
        self, writes: list[bytes]
    ) -> None:
        async with served() as there, await connect(there) as stream:
            paths = ["/small", "/nothing", "/large", "/small", "/none"] * 3
            await stream.send_all("".join(map(GET.format, paths)).encode())
            statuses: list[int] = []
            sizes: list[int] = []
            got = bytearray()
            with trio.fail_after(10):
                while len(statuses) < len(paths):
                    head, found, rest = bytes(got).partition(b"\r\n\r\n")
                    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0] or 0)
                    if not found or len(rest) < length:
                        got += await received(stream)
                        continue
                    statuses.append(int(head[9:12]))
                    sizes.append(length)
                    got = bytearray(rest[length:])
            assert [200, 204, 200, 200, 404] * 3 == statuses
            assert LARGE == sizes[2]


class TestAtOnce:
    """What is answered before the server reads it."""

    async def test_its_date_is_the_seconds(self) -> None:
        async with served() as there, await connect(there) as stream:
            for _ in range(2):
                await stream.send_all(GET.format("/quick").encode())
                before = int(time.time())
                head, _ = await head_and_body(stream)
                date = parsedate_to_datetime(head.partition(b"date: ")[2].partition(b"\r")[0].decode())
                assert before - 1 <= date.timestamp() <= time.time()
                await trio.sleep(1.1)

    @pytest.mark.parametrize("most", [0, 1, 100])
    async def test_what_the_socket_does_not_take_at_once_follows(
        self, monkeypatch: pytest.MonkeyPatch, most: int
    ) -> None:
        write = os.write

        def some(where: int, data: bytes) -> int:
            if not data.startswith(b"HTTP"):
                return write(where, data)
            if not most:
                raise BlockingIOError
            return write(where, data[:most])

        monkeypatch.setattr(os, "write", some)
        async with served() as there, await connect(there) as stream:
            for _ in range(3):
                await stream.send_all(GET.format("/quick").encode())
                head, body = await head_and_body(stream)
                assert (b"http/1.1 200 ", b'"quick"') == (head[:13], body)
            assert 3 == there.at_once

    async def test_it_is_one_write_and_no_task(self, writes: list[bytes]) -> None:
        async with served() as there, await connect(there) as stream:
            tasks = Spawned()
            trio.lowlevel.add_instrument(tasks)
            for _ in range(3):
                assert b'"quick"' == await ask(stream, "/quick")
            trio.lowlevel.remove_instrument(tasks)
            assert [b"HTTP/1.1 200"] * 3 == [data[:12] for data in writes]
            assert [] == [name for name in tasks.names if "_IdleWatch" not in name]
            assert 3 == there.at_once

    async def test_it_comes_among_others_in_order(self) -> None:
        async with served() as there, await connect(there) as stream:
            for _ in range(3):
                assert b'"quick"' == await ask(stream, "/quick")
                assert b'{"success": true}' == await ask(stream, "/small")
                assert LARGE == len(await ask(stream, "/large"))
                await settled()
            assert 3 == there.at_once

    async def test_what_it_leaves_is_the_apps(self) -> None:
        async with served() as there, await connect(there) as stream:
            await stream.send_all(GET.format("/left").encode())
            assert b"404" in (await head_and_body(stream))[0]
            await settled()
            assert b'"quick"' == await ask(stream, "/quick")
            assert 2 == there.at_once

    async def test_what_does_not_come_alone_is_the_apps(self) -> None:
        """In two pieces, or behind another."""
        async with served() as there, await connect(there) as stream:
            data = GET.format("/quick").encode()
            await stream.send_all(data[:20])
            await trio.sleep(0.05)
            await stream.send_all(data[20:])
            assert b"404" in (await head_and_body(stream))[0]
            await stream.send_all(GET.format("/slow").encode())
            await until(lambda: there.asked == 1)
            await stream.send_all(data)
            await trio.sleep(0.05)
            there.go_on.set()
            assert b'"slow"' == await answer(stream)
            assert b"404" in (await head_and_body(stream))[0]
            assert 0 == there.at_once

    async def test_it_counts_among_the_requests_that_a_connection_may_have(self) -> None:
        async with served(kept=5) as there, await connect(there) as stream:
            for _ in range(2):
                await ask(stream, "/quick")
                await ask(stream, "/small")
            await stream.send_all(GET.format("/quick").encode())
            assert b"\r\nconnection: close" in (await head_and_body(stream))[0]
            assert await is_closed(stream)

    async def test_one_that_fails_is_the_apps(self) -> None:
        """And the connection, and the others, go on."""
        async with served() as there, await connect(there) as stream, await connect(there) as other:
            for path in ("/fails", "/fails", "/breaks"):
                await stream.send_all(GET.format(path).encode())
                assert b"404" in (await head_and_body(stream))[0]
                await settled()
            assert b'"quick"' == await ask(stream, "/quick")
            assert b'"quick"' == await ask(other, "/quick")

    async def test_what_comes_meanwhile_is_answered_after_it(self) -> None:
        async with served() as there, await connect(there) as stream:
            await stream.send_all(GET.format("/waits").encode())
            await until(lambda: there.at_once == 1)
            await stream.send_all((GET.format("/small") + GET.format("/quick")).encode())
            await trio.sleep(0.05)
            there.go_on.set()
            assert b'"quick"' == await answer(stream)
            assert b'{"success": true}' == await answer(stream)
            assert b"404" in (await head_and_body(stream))[0]

    async def test_a_client_that_leaves_ends_what_waits_and_leaves_nothing(self) -> None:
        async with served() as there:
            before = trio.lowlevel.current_statistics().tasks_living
            for number in range(3):
                stream = await connect(there)
                await stream.send_all(GET.format("/waits").encode())
                await until(lambda number=number: there.at_once == number + 1)  # type: ignore[misc]
                await stream.aclose()
            await until(lambda: there.cut_off == 3)
            await until(lambda: trio.lowlevel.current_statistics().tasks_living == before)
            assert 0 == there.asked


class TestPeers:
    """What an answer at once hears of its client meanwhile."""

    async def test_a_body_that_comes_after_its_head(self) -> None:
        async with served() as there, await connect(there) as stream:
            for sent in ([b"12345"], [b"1", b"23", b"45"], [b""]):
                await stream.send_all(POST.format("/body", sum(map(len, sent))).encode())
                for part in sent:
                    await trio.sleep(0.02)
                    await stream.send_all(part)
                assert b"".join(sent) == await answer(stream)
            await stream.send_all(POST.format("/body", 5).encode() + b"12345")
            assert b"12345" == await answer(stream)
            assert 4 == there.at_once

    async def test_a_body_that_does_not_come_is_the_servers_to_wait_for(self) -> None:
        """All that came of it is the server's then."""
        async with served() as there, await connect(there) as stream:
            await stream.send_all(POST.format("/body", 5).encode() + b"1")
            await trio.sleep(0.1)
            await stream.send_all(b"23")
            await trio.sleep(0.6)
            await stream.send_all(b"45")
            assert b"12345" == await answer(stream)
            await settled()
            assert b'"quick"' == await ask(stream, "/quick")

    async def test_a_large_answer_is_not_copied(self, writes: list[bytes]) -> None:
        async with served() as there, await connect(there) as stream:
            await stream.send_all(POST.format("/large-body", 1).encode() + b"1")
            assert 100_000 == len(await answer(stream))
            assert [b"HTTP/1.1 200", b"1" * 12] == [data[:12] for data in writes if data[:4] != b"POST"]

    async def test_what_it_sends_meanwhile_is_answered_afterwards(self) -> None:
        async with served() as there, await connect(there) as stream:
            await stream.send_all(GET.format("/works").encode())
            await until(lambda: there.at_once == 1)
            for path in ("/quick", "/small"):
                await stream.send_all(GET.format(path).encode())
                await trio.sleep(0.02)
            there.go_on.set()
            assert b"" == await answer(stream)
            assert (
                {"quick": 404, "small": 200}
                == {  # both in one piece: the server's
                    "quick": int((await head_and_body(stream))[0][9:12]),
                    "small": int((await head_and_body(stream))[0][9:12]),
                }
            )

    async def test_one_that_sends_on_and_on_is_not_read_for_ever(self) -> None:
        async with served() as there, await connect(there) as stream:
            await stream.send_all(GET.format("/works").encode())
            await until(lambda: there.at_once == 1)
            with trio.move_on_after(1) as sending:
                while True:
                    await stream.send_all(b"GET /x HTTP/1.1\r\n" * 1000)
            assert sending.cancelled_caught

    async def test_one_that_leaves_ends_its_connection(self) -> None:
        async with served() as there:
            before = trio.lowlevel.current_statistics().tasks_living
            for _ in range(3):
                stream = await connect(there)
                await stream.send_all(GET.format("/works").encode())
                await until(lambda: there.at_once > 0)
                there.at_once = 0
                await stream.aclose()
            await until(lambda: trio.lowlevel.current_statistics().tasks_living == before)

    async def test_one_that_sends_no_more_is_one_that_left(self) -> None:
        """As the server itself has it."""
        async with served() as there, await connect(there) as stream:
            await stream.send_all(GET.format("/works").encode())
            await stream.send_eof()
            assert await is_closed(stream)


class Spawned(trio.abc.Instrument):
    def __init__(self) -> None:
        self.names: list[str] = []

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        self.names.append(task.name)


class TestIdle:
    @pytest.fixture(autouse=True)
    def soon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server, "REST_S", 0.05)

    async def test_one_that_is_idle_is_closed(self) -> None:
        async with served(idle_s=0.1) as there, await connect(there) as stream:
            await ask(stream, "/small")
            assert await is_closed(stream)

    async def test_one_that_never_asks_is_closed(self) -> None:
        async with served(idle_s=0.1) as there, await connect(there) as stream:
            assert await is_closed(stream)

    async def test_one_with_a_request_is_not(self) -> None:
        async with served(idle_s=0.1) as there, await connect(there) as stream:
            await stream.send_all(GET.format("/slow").encode())
            await trio.sleep(0.5)
            there.go_on.set()
            assert b'"slow"' == await answer(stream)
            assert await is_closed(stream)

    async def test_requests_at_every_moment_of_its_rest(self) -> None:
        """Before the watch sees that it is idle, as it does, and after: answered on the same connection."""
        async with served(idle_s=2.0) as there, await connect(there) as stream:
            for number in range(40):
                assert b'{"success": true}' == await ask(stream, "/small")
                await trio.sleep(0.04 + 0.001 * number)

    async def test_one_that_is_answered_at_once_is_not_and_then_it_is(self) -> None:
        async with served(idle_s=0.1) as there, await connect(there) as stream:
            await stream.send_all(GET.format("/waits").encode())
            await trio.sleep(0.5)
            there.go_on.set()
            assert b'"quick"' == await answer(stream)
            assert await is_closed(stream)

    async def test_half_a_head_does_not_keep_it(self) -> None:
        async with served(idle_s=0.1) as there, await connect(there) as stream:
            await ask(stream, "/quick")
            await stream.send_all(GET.format("/quick").encode()[:-2])
            assert await is_closed(stream)

    async def test_it_has_one_task(self) -> None:
        async with served() as there, await connect(there) as stream:
            await ask(stream, "/small")
            spawned = Spawned()
            trio.lowlevel.add_instrument(spawned)
            for _ in range(10):
                await ask(stream, "/small")
            trio.lowlevel.remove_instrument(spawned)
        assert 10 * 3 == len(spawned.names), spawned.names  # the request, and Quart's two in it

    async def test_nothing_stays_of_one_that_is_gone(self) -> None:
        async with served() as there:
            before = trio.lowlevel.current_statistics().tasks_living
            for _ in range(5):
                stream = await connect(there)
                await ask(stream, "/small")
                await stream.aclose()
            await until(lambda: trio.lowlevel.current_statistics().tasks_living == before)


class TestStop:
    async def test_idle_connections_do_not_hold_it_up(self) -> None:
        async with served(grace_s=30.0) as there:
            streams = [await connect(there) for _ in range(3)]
            await ask(streams[0], "/small")
            await ask(streams[1], "/small")
            await trio.sleep(server.REST_S + 0.2)  # one is in each state of its watch
            await ask(streams[0], "/small")
            there.stop.set()
            with trio.fail_after(3):
                await there.ended.wait()
            for stream in streams:
                assert await is_closed(stream)
                await stream.aclose()

    async def test_a_request_under_way_is_answered(self) -> None:
        async with served(grace_s=30.0) as there, await connect(there) as stream:
            await stream.send_all(GET.format("/slow").encode())
            await until(lambda: there.asked == 1)
            there.stop.set()
            await trio.sleep(0.1)
            there.go_on.set()
            assert b'"slow"' == await answer(stream)
            with trio.fail_after(3):
                await there.ended.wait()

    async def test_one_that_is_answered_at_once_is_too(self) -> None:
        async with served(grace_s=30.0) as there, await connect(there) as stream:
            await stream.send_all(GET.format("/waits").encode())
            await until(lambda: there.at_once == 1)
            there.stop.set()
            await trio.sleep(0.1)
            there.go_on.set()
            assert b'"quick"' == await answer(stream)
            with trio.fail_after(3):
                await there.ended.wait()

    async def test_one_that_does_not_end_is_cut_off(self) -> None:
        async with served(grace_s=0.3) as there, await connect(there) as stream:
            await stream.send_all(GET.format("/slow").encode())
            await until(lambda: there.asked == 1)
            there.stop.set()
            with trio.fail_after(3):
                await there.ended.wait()

    async def test_nobody_can_connect_afterwards(self) -> None:
        async with served() as there:
            there.stop.set()
            await there.ended.wait()
            with pytest.raises(OSError, match="attempts to connect"):
                await connect(there)
