"""Webhook receivers on real sockets: good ones, and every bad one that a network has.

A receiver is a listening socket and a behaviour: what it does with a connection once the request is read (or before).
It keeps what it was sent, byte for byte.
"""

import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from socket import SO_LINGER, SO_RCVBUF, SOL_SOCKET
from typing import Any

import trio

from penelope import jsontext

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]
Behaviour = Callable[[Stream, "Received"], Awaitable[None]]

FEW_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came in. `at` is the moment its body was whole, in Trio's time."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes
    at: float

    def header(self, name: str) -> str:
        """The one header of that name."""
        (value,) = [value for given, value in self.headers if given.lower() == name.lower()]
        return value

    @property
    def job(self) -> dict[str, Any]:
        """The body as JSON."""
        value = jsontext.loads(self.body)
        assert isinstance(value, dict)
        return value


@dataclass(eq=False)
class Receiver:
    """A receiver that listens.

    Attributes:
        port, host: where it listens; a loopback address.
        received: whole requests, in order of arrival.
        connections: how many were accepted; `open_now` and `most_at_once` of them.
    """

    port: int
    behaviour: Behaviour | None
    scheme: str = "http"
    host: str = "127.0.0.1"
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    open_now: int = 0
    most_at_once: int = 0
    arrived: trio.Event = field(default_factory=trio.Event)

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}/hooks/42"

    def answers(self, behaviour: Behaviour | None) -> None:
        """Behave so from the next connection on; None: never read a byte."""
        self.behaviour = behaviour

    async def wait_for(self, count: int, within_s: float = 15.0) -> list[Received]:
        """The requests so far, once there are `count` of them.

        Raises:
            AssertionError: there were not, in time.
        """
        with trio.move_on_after(within_s):
            while len(self.received) < count:
                self.arrived = trio.Event()
                await self.arrived.wait()
        assert len(self.received) >= count, f"{len(self.received)} of {count} requests within {within_s} s"
        return list(self.received)

    async def _serve(self, stream: Stream) -> None:
        self.connections += 1
        self.open_now += 1
        self.most_at_once = max(self.most_at_once, self.open_now)
        try:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError):
                await self._answer(stream)
        finally:
            self.open_now -= 1
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 1), suppress(Exception):
                await stream.aclose()

    async def _answer(self, stream: Stream) -> None:
        behaviour = self.behaviour
        if behaviour is None:
            await trio.sleep_forever()
        else:
            received = await _read(stream)
            if received is not None:
                self.received.append(received)
                self.arrived.set()
                await behaviour(stream, received)


async def serve_receiver(
    behaviour: Behaviour | None,
    tls: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    task_status: "trio.TaskStatus[Receiver]" = trio.TASK_STATUS_IGNORED,
) -> None:
    """Receive until cancelled; started with the `Receiver`.

    Args:
        behaviour: None: accept, and never read; the buffer of what was not read is tiny.
        tls: for https.
    """
    (listener,) = await trio.open_tcp_listeners(port, host=host)
    if behaviour is None:
        listener.socket.setsockopt(SOL_SOCKET, SO_RCVBUF, FEW_BYTES)
    port = listener.socket.getsockname()[1]
    receiver = Receiver(port, behaviour, "http" if tls is None else "https", host)

    async def serve(stream: trio.SocketStream) -> None:
        await receiver._serve(stream if tls is None else trio.SSLStream(stream, tls, server_side=True))

    async with trio.open_nursery() as nursery:
        task_status.started(receiver)
        await trio.serve_listeners(serve, [listener], handler_nursery=nursery)


async def _read(stream: Stream) -> Received | None:
    """The request; None when the connection ended before it was whole."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = await stream.receive_some()
        if not chunk:
            return None
        data += chunk
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    headers = [(name, value.strip()) for name, _, value in (text.partition(":") for text in fields)]
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    parts, read = [body], len(body)
    while read < length:
        chunk = await stream.receive_some()
        if not chunk:
            return None
        parts.append(bytes(chunk))
        read += len(chunk)
    return Received(line, headers, b"".join(parts), trio.current_time())


def status(code: int, *more: str, body: bytes = b"") -> Behaviour:
    """Answer with a status, headers and a body, whole."""

    async def answer(stream: Stream, _: Received) -> None:
        head = "\r\n".join((f"HTTP/1.1 {code} Word", f"Content-Length: {len(body)}", *more, "", ""))
        await stream.send_all(head.encode() + body)

    return answer


def statuses(*codes: int) -> Behaviour:
    """Answer with each status in turn, then with the last for ever."""
    left = list(codes)

    async def answer(stream: Stream, received: Received) -> None:
        await status(left.pop(0) if len(left) > 1 else left[0])(stream, received)

    return answer


async def hang(stream: Stream, _: Received) -> None:
    """Never answer."""
    await trio.sleep_forever()


async def reset(stream: Stream, _: Received) -> None:
    """Having read everything, reset the connection."""
    assert isinstance(stream, trio.SocketStream)
    stream.socket.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


async def drip_headers(stream: Stream, _: Received) -> None:
    """A status line at once, then a byte of a header each half second, for ever."""
    await stream.send_all(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    await _drip(stream)


async def drip_body(stream: Stream, _: Received) -> None:
    """A status and headers at once, then a byte of the body each half second."""
    await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    await _drip(stream)


async def _drip(stream: Stream) -> None:
    while True:
        await stream.send_all(b"a")
        await trio.sleep(0.5)


def endless(code: int) -> Behaviour:
    """Answer in chunks, as fast as they are taken, without an end."""

    async def answer(stream: Stream, _: Received) -> None:
        await stream.send_all(f"HTTP/1.1 {code} Word\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        while True:
            await stream.send_all(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")

    return answer


def after(event: trio.Event, then: Behaviour) -> Behaviour:
    """Wait for a word of the test, then behave as `then`."""

    async def answer(stream: Stream, received: Received) -> None:
        await event.wait()
        await then(stream, received)

    return answer
