"""What stands between Hypercorn and Quart, on real sockets: nothing of a connection stays when it is over."""

import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import psutil
import pytest
import trio
from quart import Response

from penelope.http.envelope import json_response
from penelope.http.front import Front
from penelope.http.server import serve
from penelope.http.serving import server_config
from tests.io.waiting import until

MIB = 2**20
LARGE = 20 * MIB  # more than the kernel takes for a client that does not read


@asynccontextmanager
async def served() -> AsyncGenerator[int]:
    """An app that answers without reading its body; its port."""
    app = Front("front", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MIB

    @app.route("/early", methods=["GET", "POST"])
    async def early() -> Response:
        return json_response(b'{"success": true}')

    @app.get("/large")
    async def large() -> Response:
        return json_response(b"1" * LARGE)

    port = socket.create_server(("127.0.0.1", 0))
    async with trio.open_nursery() as nursery:
        url = await nursery.start(partial(serve, app, port, server_config(3.0), until=trio.sleep_forever))
        yield int(url.rpartition(":")[2])
        nursery.cancel_scope.cancel()


async def exchange(port: int, head: str, body_bytes: int = 0) -> bytes:
    """Everything that comes back for a request with a body of so many spaces, until the server hangs up."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    got = bytearray()

    async def write() -> None:
        try:
            await stream.send_all(head.replace("\n", "\r\n").encode())
            for _ in range(body_bytes // 65536):
                await stream.send_all(b" " * 65536)
        except trio.BrokenResourceError:  # the server does not want the rest
            pass

    async with stream, trio.open_nursery() as nursery:
        nursery.start_soon(write)
        with trio.fail_after(10):
            try:
                while chunk := await stream.receive_some():
                    got += chunk
            except trio.BrokenResourceError:
                pass
        nursery.cancel_scope.cancel()
    return bytes(got)


def tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


@pytest.mark.parametrize(
    ("target", "body_mib", "status"), [("/early", 0.5, 200), ("/early", 40, 200), ("/nope", 40, 404)]
)
async def test_a_body_that_nobody_reads_does_not_keep_its_connection(
    target: str, body_mib: float, status: int
) -> None:
    """An answer that comes before the body has: it arrives, the connection ends, its tasks too."""
    size = int(body_mib * MIB)
    async with served() as port:
        await exchange(port, "GET /early HTTP/1.1\nHost: x\nConnection: close\n\n")
        before = tasks()
        for _ in range(20):
            head = f"POST {target} HTTP/1.1\nHost: x\nConnection: close\nContent-Length: {size}\n\n"
            answer = await exchange(port, head, size)
            assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        await until(lambda: tasks() <= before, within_s=5)


@pytest.mark.parametrize("target", ["?", "*", "early", "http://x/early", "?a=/", "%2"])
async def test_a_target_that_is_no_path_is_answered(target: str) -> None:
    async with served() as port:
        answer = await exchange(port, f"GET {target} HTTP/1.1\nHost: x\nConnection: close\n\n")
        assert answer[9:12] in {b"200", b"404"}


H2C = "Upgrade: h2c\nConnection: Upgrade, HTTP2-Settings\nHTTP2-Settings: AAMAAABkAAQAAP__\n"
LEFT = {
    "an answer": "GET /large HTTP/1.1\nHost: x\n\n",
    "an answer, and more that was asked": "GET /large HTTP/1.1\nHost: x\n\n" * 5,
    "an answer in HTTP/2": f"GET /large HTTP/1.1\nHost: x\n{H2C}\n",
    "an upgrade": f"GET /early HTTP/1.1\nHost: x\n{H2C}\n",
    "a body": "POST /early HTTP/1.1\nHost: x\nContent-Length: 1000000\n\n" + "x" * 300_000,
}


@pytest.mark.parametrize("abort", [True, False], ids=["reset", "closed"])
@pytest.mark.parametrize("what", LEFT)
async def test_a_client_that_leaves_keeps_nothing_open(what: str, abort: bool) -> None:
    """In the middle of whatever it was: its socket is closed, and the server can stop."""
    process = psutil.Process()
    with trio.fail_after(30):
        async with served() as port:
            await exchange(port, "GET /early HTTP/1.1\nHost: x\nConnection: close\n\n")
            before = process.num_fds()
            for _ in range(10):
                await _leave(port, LEFT[what].replace("\n", "\r\n").encode(), abort=abort)
            await until(lambda: process.num_fds() <= before, within_s=10)


async def _leave(port: int, request: bytes, *, abort: bool) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    with trio.move_on_after(0.1):
        await stream.send_all(request)
    with trio.move_on_after(0.1):
        await stream.receive_some(10)
    if abort:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await stream.aclose()


async def test_a_websocket_is_refused_in_the_envelope() -> None:
    """No traceback, no 500, and no handshake."""
    ask = "Upgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: eA==\n\n"
    async with served() as port:
        answer: Any = await exchange(port, f"GET /early HTTP/1.1\nHost: x\n{ask}")
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b'"success": false' in answer
