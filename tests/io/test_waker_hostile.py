"""Odd requests and odd workers at the gateway, on real sockets.

Source: contract, section 9.
"""

from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import trio
from structlog.testing import capture_logs

from tests.io.test_waker_gateway import HEAD, KEY, client_of, waker_before

API = "/p/alice/api/v1"
MINE = f"Host: localhost\r\nAuthorization: Bearer {KEY}\r\nConnection: close\r\n"


async def told(url: str, request: str) -> bytes:
    """All that is answered to these bytes, until the connection ends."""
    answer = b""
    with trio.fail_after(10):
        async with await trio.open_tcp_stream("127.0.0.1", int(url.rpartition(":")[2])) as stream:
            await stream.send_all(request.encode("latin-1"))
            while chunk := await stream.receive_some():
                answer += chunk
    return answer


OK_X = b"Content-Length: 1\r\n\r\nx"
ODD = {
    "no-http": (b"\x00\xff what\r\n\r\n", 502, b"broke off"),
    "switching": (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc", 502, b"broke off"),
    "a-hint-first": (b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n" + OK_X, 200, b"x"),
    "304-with-a-length": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", 304, b""),
    "two-lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: 8\r\n\r\n1234567", 502, b"broke off"),
    "length-and-chunks": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        200,
        b"2\r\nab\r\n0\r\n\r\n",
    ),
    "a-huge-header": (b"HTTP/1.1 200 OK\r\nX-A: " + b"x" * 300_000 + b"\r\n" + OK_X, 502, b"broke off"),
    "no-status": (b"HTTP/1.1 099 Odd\r\n" + OK_X, 502, b"broke off"),
    "a-bad-header": (b"HTTP/1.1 200 OK\r\nX A: 1\r\n" + OK_X, 502, b"broke off"),
    "until-it-closes": (b"HTTP/1.1 200 OK\r\n\r\nabc", 200, b"3\r\nabc\r\n0\r\n\r\n"),
}  # fmt: skip


async def test_a_worker_that_answers_garbage(tmp_path: Path) -> None:
    """It is a `502` in the envelope, or as much of an answer as it is; never a fault of the waker's."""

    async def talk(stream: trio.SocketStream, head: bytes) -> None:
        with suppress(trio.BrokenResourceError):
            await stream.send_all(ODD[head.split(b" ")[1].rsplit(b"/", 1)[1].decode()][0])

    with capture_logs() as logged:
        async with waker_before(talk, tmp_path) as url:
            for name, (_, status, body) in ODD.items():
                head, _, rest = (await told(url, f"GET {API}/{name} HTTP/1.1\r\n{MINE}\r\n")).partition(
                    b"\r\n\r\n"
                )
                assert f"HTTP/1.1 {status}".encode() == head[:12], name
                assert rest == body or (status == 502 and body in rest), (name, rest)
    assert [] == [line for line in logged if line["event"] == "request failed"]


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (f"CONNECT {API}/pages", 405),
        ("CONNECT 127.0.0.1:1", 404),
        (f"TRACE {API}/pages", 405),  # it would tell the worker's key
        (f"GET {API}/..%2f..%2fmetrics", 400),
        (f"GET {API}/a%5c..%5cb", 400),
        ("GET /%70/alice/api/v1/pages", 404),
    ],
)
async def test_what_is_never_passed_on(tmp_path: Path, request_line: str, status: int) -> None:
    asked: list[bytes] = []

    async def talk(stream: trio.SocketStream, head: bytes) -> None:
        asked.append(head)

    async with waker_before(talk, tmp_path) as url:
        answer = await told(url, f"{request_line} HTTP/1.1\r\n{MINE}\r\n")
        sockets = MINE.replace("close", "Upgrade") + "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        refused = await told(
            url, f"GET {API}/x HTTP/1.1\r\n{sockets}Sec-WebSocket-Key: dGhlIHNhbXBsZQ==\r\n\r\n"
        )
    assert f"HTTP/1.1 {status}".encode() == answer[:12]
    assert answer.endswith(b"}")
    assert b"HTTP/1.1 4" == refused[:10]
    assert [] == asked


async def test_bodies_come_however_their_length_is_told(tmp_path: Path) -> None:
    """In chunks, with a word before it, with two words about it, over HTTP/2; the worker gets one word, and it all."""
    asked: list[bytes] = []

    async def talk(stream: trio.SocketStream, head: bytes) -> None:
        asked.append(head)
        while not asked[-1].endswith((b"\r\n\r\n{}", b"\r\n0\r\n\r\n")):
            asked[-1] += await stream.receive_some()
        await stream.send_all(HEAD + OK_X)

    chunks = "2\r\n{}\r\n0\r\n\r\n"
    bodies = {
        "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n{}": b"100",
        f"Transfer-Encoding: chunked\r\n\r\n{chunks}": b"200",
        f"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}": b"200",
        "Content-Length: 2\r\nConnection: content-length, x-request-id, x-hop\r\nX-Hop: 1\r\n\r\n{}": b"200",
    }

    async def body() -> AsyncGenerator[bytes]:  # noqa: ASYNC900  # httpx reads it to its end
        yield b"{}"

    async with waker_before(talk, tmp_path) as url:
        for said, status in bodies.items():
            answer = await told(url, f"POST {API}/x HTTP/1.1\r\n{MINE}{said}")
            assert (status, b"x") == (answer[9:12], answer[-1:]), said
        headers = {"Authorization": f"Bearer {KEY}"}
        async with httpx.AsyncClient(
            http1=False, http2=True, base_url=url, headers=headers, trust_env=False, timeout=20
        ) as client:
            assert 200 == (await client.post(f"{API}/x", content=body())).status_code
    for head in asked:
        lower = head.partition(b"\r\n\r\n")[0].lower()
        assert 1 == lower.count(b"content-length") + lower.count(b"transfer-encoding"), head
        assert not any(word in lower for word in (b"expect", b"\r\nconnection", b"x-hop")), head
        assert b"\r\nx-request-id: " in lower
        assert head.endswith((b"{}", b"{}\r\n0\r\n\r\n"))


async def test_a_files_link_carries_no_key_to_the_worker(tmp_path: Path) -> None:
    """And it is one to read a file by, nothing else."""
    asked: list[bytes] = []

    async def talk(stream: trio.SocketStream, head: bytes) -> None:
        asked.append(head)
        await stream.send_all(HEAD + OK_X)

    keyless = "Host: localhost\r\nConnection: close\r\n"
    async with waker_before(talk, tmp_path) as url, client_of(url) as client:
        assert 200 == (await client.get("/pages")).status_code  # it is up
        asked.clear()
        assert b"200" == (await told(url, f"GET {API}/media/t-0_k HTTP/1.1\r\n{keyless}\r\n"))[9:12]
        for line in (
            f"POST {API}/media/goto",
            f"GET {API}/media/plugin%2Fweb%2Fread",
            f"GET {API}/media/a/b",
            f"DELETE {API}/media/t",
            f"GET {API}/media/",
        ):
            assert b"401" == (await told(url, f"{line} HTTP/1.1\r\n{keyless}\r\n"))[9:12], line
    (head,) = asked
    assert KEY.encode() not in head
    assert b"authorization" not in head.lower()


async def test_a_slow_body_of_which_the_worker_wants_no_more(tmp_path: Path) -> None:
    """Its refusal comes while the client still sends, and the connection ends."""

    async def talk(stream: trio.SocketStream, head: bytes) -> None:
        await stream.send_all(b"HTTP/1.1 413 Too large\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

    async with (
        waker_before(talk, tmp_path) as url,
        await trio.open_tcp_stream("127.0.0.1", int(url.rpartition(":")[2])) as stream,
    ):
        await stream.send_all(f"POST {API}/x HTTP/1.1\r\n{MINE}Content-Length: 1000\r\n\r\n".encode())
        answer = b""
        with trio.fail_after(10):
            while not answer:
                await stream.send_all(b"x")
                with trio.move_on_after(0.05):
                    answer = await stream.receive_some()
    assert b"HTTP/1.1 413" == answer[:12]
