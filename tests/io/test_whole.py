"""A request that came in one piece is read, and its answer written, as the server itself would."""

from typing import Any

import h11
import trio
from hypercorn.events import Closed, RawData
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.worker_context import WorkerContext
from hypothesis import example, given
from hypothesis import strategies as st

from penelope.http import whole
from penelope.http.serving import server_config
from penelope.http.whole import Answer, Gone, Peer

BODY = b'{"success": true}'
ANSWER = Answer(200, [(b"content-type", b"application/json"), (b"content-length", b"17")], BODY)


class Server:
    """Hypercorn's protocol on one connection, and the app that it calls: what each was told, and told."""

    def __init__(self) -> None:
        self.scopes: list[Any] = []
        self.messages: list[Any] = []
        self.sent = b""
        self.closed = False
        self._app_send: Any = None
        self._config = server_config(1.0)
        made: Any = H11Protocol
        self._protocol = made(
            None, self._config, WorkerContext(None), self, {}, False, ("", 1), ("", 2), self._send
        )

    async def spawn_app(self, app: Any, config: Any, scope: Any, send: Any) -> Any:
        self.scopes.append(scope)
        self._app_send = send

        async def put(message: Any) -> None:
            self.messages.append(message)

        return put

    async def _send(self, event: Any) -> None:
        if isinstance(event, RawData):
            self.sent += event.data
        self.closed = self.closed or isinstance(event, Closed)

    async def hear(self, data: bytes) -> None:
        with trio.move_on_after(0):  # a second request at once waits for the end of the first
            await self._protocol.handle(RawData(data))

    async def answer(self, given: Answer) -> None:
        await self._app_send(
            {"type": "http.response.start", "status": given.status, "headers": given.headers}
        )
        await self._app_send({"type": "http.response.body", "body": given.body, "more_body": False})

    @property
    def own(self) -> list[tuple[bytes, bytes]]:
        """Its own headers, of this second."""
        return self._config.response_headers("h11")

    @property
    def at_rest(self) -> bool:
        reader = self._protocol.connection
        return reader.our_state is reader.their_state is h11.IDLE and not reader.trailing_data[0]


LINES = st.sampled_from(
    [
        b"GET /api/v1/jobs/0123456789abcdef HTTP/1.1",
        b"GET /api/v1/runs/run_0123456789ab?a=%20 HTTP/1.1",
        b"GET /api/v1/jobs/0123456789abcdef HTTP/1.0",
        b"GET /api/v1/jobs/0123456789abcdef",
        b"get /api/v1/jobs/x HTTP/1.1",
        b"GET  /api/v1/jobs/x HTTP/1.1",
        b"GET /api/v1/jobs/\xc3\xa4 HTTP/1.1",
        b"POST /api/v1/runs HTTP/1.1",
        b"PRI * HTTP/2.0",
    ]
)
HEADERS = st.sampled_from(
    [
        b"Host: 127.0.0.1:5000",
        b"host: a",
        b"Authorization: Bearer key",
        b"X-Request-Id:  spaced  ",
        b"X-Request-Id : a",
        b"Empty:",
        b" folded",
        b"\tfolded",
        b"no colon",
        b"Bad\x00: a",
        b"Bad: \x00",
        b"Latin: \xe4",
        b"Connection: keep-alive",
        b"Connection: Keep-Alive",
        b"Connection: close",
        b"Connection: keep-alive, close",
        b"Connection: upgrade",
        b"Upgrade: websocket",
        b"Upgrade: h2c",
        b"HTTP2-Settings: AAAA",
        b"Expect: 100-continue",
        b"Content-Length: 0",
        b"Content-Length: 5",
        b"Content-Length: +5",
        b"Content-Length: 5, 6",
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: gzip, chunked",
        b"A: b\nContent-Length: 5",
        b"Content-Length: 5\n",
        b"Content-Length: 50\n\nhello",
        b"Large: " + b"x" * 5000,
    ]
)
ENDINGS = st.sampled_from(
    [b"\r\n\r\n"] * 4 + [b"\n\n", b"\r\n", b"\r\n\r\nhello", b"\r\n\r\nGET / HTTP/1.1\r\n\r\n"]
)
BREAKS = st.sampled_from([b"\r\n"] * 8 + [b"\n", b"\r"])


@st.composite
def pieces(draw: st.DrawFn) -> bytes:
    """What may come in one piece: requests of every kind, and what is none."""
    data = draw(LINES)
    for header in draw(st.lists(HEADERS, max_size=5)):
        data += draw(BREAKS) + header
    return data + draw(ENDINGS)


@given(pieces())
@example(b"GET /a HTTP/1.1\r\nHost: b\r\n\r\n")
@example(b"GET /a HTTP/1.1\r\nHost: b\r\nConnection: keep-alive\r\n\r\n")
@example(b"POST /a HTTP/1.1\r\nHost: b\r\nContent-Length: 5\r\n\r\nhello")
@example(b"POST /a HTTP/1.1\nHost: b\nContent-Length: 50\n\nhello\r\n\r\n")
@example(b"POST /a HTTP/1.1\r\nHost: b\r\nContent-Length: 5, 5\r\n\r\nhello")
@example(b"get /a HTTP/1.1\r\nHost: b\r\n\r\n")
def test_what_is_read_is_what_the_server_reads(data: bytes) -> None:
    """One request, after which the connection is as it was; and the answer is the server's, to the byte."""
    head = whole.head_of(data)
    asked = None if head is None else whole.read(head)
    if head is not None and asked is not None:
        trio.run(_same, asked, head, b"x" * asked.length)


async def _same(asked: whole.Asked, head: bytes, body: bytes) -> None:
    server = Server()
    await server.hear(head + body)
    (scope,) = server.scopes
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    assert (asked.method.decode(), asked.headers) == (scope["method"], scope["headers"])
    assert asked.target == target
    assert ("http", "1.1") == (scope["type"], scope["http_version"])
    assert body == b"".join(message["body"] for message in server.messages)
    assert [False] == [message["more_body"] for message in server.messages[-1:]]
    assert {"http.request"} == {message["type"] for message in server.messages}
    assert b"" == server.sent
    before = server.own
    await server.answer(ANSWER)
    assert server.sent in (ANSWER.written(before), ANSWER.written(server.own))
    assert server.at_rest
    assert not server.closed


def test_what_is_plain_is_read() -> None:
    """Else the test above would hold of nothing."""
    head = b"POST /a?b HTTP/1.1\r\nHost: c\r\nX-A: d\r\nconnection: keep-alive\r\nContent-Length: 12\r\n\r\n"
    assert head == whole.head_of(head + b"GET / HTTP/1.1\r\n\r\n")
    asked = whole.read(head)
    assert asked is not None
    assert (b"POST", b"/a?b", 12) == (asked.method, asked.target, asked.length)
    assert {b"host": b"c", b"x-a": b"d", b"connection": b"keep-alive"}.items() <= dict(asked.headers).items()
    plain = whole.read(b"GET / HTTP/1.1\r\nHost: c\r\n\r\n")
    assert plain is not None
    assert 0 == plain.length


def test_what_is_not_plain_is_not() -> None:
    begin = b"GET / HTTP/1.1\r\nHost: a\r\n"
    for more in (
        b"Connection: close\r\n\r\n",
        b"Upgrade: h2c\r\n\r\n",
        b"Expect: 100-continue\r\n\r\n",
        b"Content-Length: 1, 2\r\n\r\n",
        b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
        b"Host: a\r\n\r\n",
        b"A: b\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"Content-Length: 9\n\nhello\r\n\r\n",
        b"Content-Length: 99\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ):
        assert whole.head_of(begin + more) == begin + more
        assert whole.read(begin + more) is None, more
    assert whole.head_of(begin) is None
    assert whole.head_of(begin + b"X: " + b"y" * whole.MAX_BYTES + b"\r\n\r\n") is None


class Sends(Peer):
    """A client that sends the rest so, and leaves; or that stays."""

    def __init__(self, *parts: bytes, stays: bool = False) -> None:
        self._parts = list(parts)
        self._stays = stays

    async def more(self) -> bytes:
        if not self._parts:
            if self._stays:
                await trio.sleep_forever()
            raise Gone
        return self._parts.pop(0)

    async def left(self) -> None:
        raise NotImplementedError


async def test_a_body_is_read_to_its_end_and_no_further() -> None:
    for at in range(6):
        rest = b"hello"[at:]
        for parts in ([rest], [rest[:1], rest[1:2], rest[2:]]):
            peer = Sends(*(part for part in parts if part))
            assert b"hello" == await whole.body_of(b"hello"[:at], 5, peer, 5.0)
    assert await whole.body_of(b"hell", 5, Sends(), 5.0) is None
    assert await whole.body_of(b"hell", 5, Sends(b"ox"), 5.0) is None
    assert await whole.body_of(b"hell", 5, Sends(stays=True), 0.05) is None
