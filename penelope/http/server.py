"""Hypercorn on connections of our own: its protocols as they are, at little more than half of the cost of an answer.

For each request Hypercorn starts a task, in a nursery of its own, that watches for the connection to fall idle, and it
writes head and body apart: together as dear as all the rest of a small answer (`python -m bench --only polls` has both
servers). The class that owns a connection is the place of both, so here is one that has a single watch and writes once;
docs/performance.md has the same as a patch for Hypercorn.

Source: contract, section 1; section 8 ("Stops and starts").
"""

import math
import os
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import h11
import structlog
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.trio.lifespan import Lifespan
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import TrioSingleTask, WorkerContext
from hypercorn.typing import ConnectionState, TaskGroup
from hypercorn.utils import repr_socket_addr
from quart_trio import QuartTrio

from penelope.http.whole import Answer, Answering, AtOnce, Gone, Peer

JOINED_BYTES: Final = 64 * 1024  # a larger body is not copied to save a write
REST_S: Final = 1.0
RECEIVED_BYTES: Final = 64 * 1024

log = structlog.get_logger("penelope.http")


async def serve(
    app: QuartTrio,
    port: socket.socket,
    config: Config,
    *,
    until: Callable[[], Awaitable[object]],
    at_once: AtOnce | None = None,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve on a bound port, which is the server's own from now on, until `until` returns; requests that are under way
    then have `config.graceful_timeout` to end.

    Starts with the URL that it serves, once clients can connect.

    Args:
        at_once: answers a request that came in one piece before the server reads it; None, now or later: it is not
            one to be answered so, and nothing of it was.
    """
    wrapped = ASGIWrapper(app)
    lifespan = Lifespan(wrapped, config, {})
    context = WorkerContext(None)
    own_headers = _OwnHeaders(config)
    async with trio.open_nursery() as living:
        await living.start(lifespan.handle_lifespan)
        await lifespan.wait_for_startup()
        async with trio.open_nursery() as connections:
            url = f"http://{repr_socket_addr(port.family, port.getsockname())}"
            port.listen(config.backlog)
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(port))

            async def connected(stream: trio.SocketStream) -> None:
                await _Connection(wrapped, config, context, stream, at_once, own_headers)

            accept = partial(trio.serve_listeners, connected, [listener], handler_nursery=connections)
            async with trio.open_nursery() as accepting:
                await accepting.start(accept)
                task_status.started(url)
                await until()
                accepting.cancel_scope.cancel(reason="the server takes no more connections")
            await context.terminated.set()
            connections.cancel_scope.deadline = trio.current_time() + config.graceful_timeout
        await lifespan.wait_for_shutdown()
        living.cancel_scope.cancel(reason="the server is down")


class _OwnHeaders:
    """The server's own headers of an answer. The date is the only one that changes, once a second."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._second = 0
        self._headers: list[tuple[bytes, bytes]] = []

    def now(self) -> list[tuple[bytes, bytes]]:
        second = int(time.time())
        if second != self._second:
            self._second, self._headers = second, self._config.response_headers("h11")
        return self._headers


@dataclass(eq=False, slots=True)
class _Apart:
    """An answer that is made while its connection is read on."""

    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    over: trio.Event = field(default_factory=trio.Event)

    async def ends(self, *, client_has_left: bool) -> None:
        """Return once it is over; of a client that has left that is now."""
        if client_has_left:
            self.scope.cancel(reason="the client has left")
        await self.over.wait()


class _Connection(TCPServer):
    """One connection. What it has of Hypercorn's own, and replaces, is `idle_task`, `_read_data`, `protocol_send`."""

    def __init__(
        self,
        app: ASGIWrapper,
        config: Config,
        context: WorkerContext,
        stream: trio.SocketStream,
        at_once: AtOnce | None,
        own_headers: _OwnHeaders,
    ) -> None:
        super().__init__(app, config, context, ConnectionState({}), stream)  # type: ignore[arg-type]  # it takes both
        self._at_once = at_once
        self._own_headers = own_headers
        self._apart: _Apart | None = None  # at most one
        self._peer = _Peer(stream)
        self._watch = _IdleWatch(context)
        self.idle_task = self._watch
        self._head = b""

    async def _read_data(self) -> None:
        data = b"-"
        try:
            while data:
                data = await self._peer.next()
                if self._apart is not None:
                    await self._apart.ends(client_has_left=not data)
                if not data or not await self._answered(data):
                    await self.protocol.handle(RawData(self._peer.read_of(data)))
        except Gone:
            pass
        await self.protocol.handle(Closed())
        self._watch.end()

    def _at_rest(self) -> bool:
        """Would what comes now begin a request, which may be answered without an end of the connection?"""
        protocol = self.protocol.protocol
        reader = protocol.connection
        return (
            isinstance(reader, h11.Connection)
            and reader.our_state is reader.their_state is h11.IDLE
            and not reader.trailing_data[0]
            and protocol.keep_alive_requests + 1 < self.config.keep_alive_max_requests
            and not self.context.terminated.is_set()
        )

    async def _answered(self, data: bytes) -> bool:
        """Answer a request before the server reads it. False: it is not one to be answered so.

        Raises:
            Gone: its client has left.
        """
        if self._at_once is None or not self._at_rest():
            return False
        try:
            answering = self._at_once(data, self._peer)
        except Exception:  # this connection is one of many in a nursery
            log.exception("request failed before the server read it")
            return False
        if answering is None:
            return False
        if not answering.waits:
            return await self._answer(answering)
        self._apart = _Apart()
        self._task_group.spawn(self._answer_apart, answering, data, self._apart)
        return True

    async def _answer_apart(self, answering: Answering, data: bytes, apart: _Apart) -> None:
        """In a task beside the one that reads, which hears meanwhile whether the client leaves."""
        with apart.scope:
            if not await self._answer(answering):
                await self.protocol.handle(RawData(data))
        self._apart = None
        apart.over.set()

    async def _answer(self, answering: Answering) -> bool:
        """False: nothing came of it."""
        await self._watch.stop()
        try:
            answer = await answering.make()
        except Gone:
            raise
        except Exception:  # as above; what has an effect sees itself to it that it is not asked for twice
            log.exception("request failed before the server read it")
            answer = None
        if answer is not None:
            self.protocol.protocol.keep_alive_requests += 1
            await self._write(answer)
        await self._watch.restart(self._task_group, self._idle_timeout)
        return answer is not None

    async def _write(self, answer: Answer) -> None:
        head = answer.head(self._own_headers.now())
        if len(answer.body) <= JOINED_BYTES:
            data = head + answer.body
            if (written := self._written_now(data)) < len(data):
                await super().protocol_send(RawData(data[written:]))
        else:
            await super().protocol_send(RawData(head))
            await super().protocol_send(RawData(answer.body))

    def _written_now(self, data: bytes) -> int:
        """How much of it the socket takes at once, which is all but for a client that does not read: past the stream's
        locks and its turn of the loop, a fifth of what a poll costs. Nobody else writes while a connection is at rest.
        """
        try:
            return os.write(self.stream.socket.fileno(), data)
        except OSError:  # it is full, or gone, which the stream knows how to tell
            return 0

    async def protocol_send(self, event: Event) -> None:
        """A head that a body follows is written with its beginning."""
        if isinstance(event, RawData):
            if not self._head and _is_head_of_body(event.data):
                self._head = event.data
                return
            if len(event.data) <= JOINED_BYTES:
                event = RawData(self._head + event.data)
                self._head = b""
                if not event.data:  # the end of a body whose length was said
                    return
        if self._head:
            head, self._head = self._head, b""
            await super().protocol_send(RawData(head))
        await super().protocol_send(event)


class _Peer(Peer):
    """The other end of a connection, for a request that is answered before the server reads it."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._taken = b""  # more of the request that is looked at
        self._kept = b""  # what came after it
        self._gone = False

    async def next(self) -> bytes:
        """The next request, as far as it comes in one piece; b"": nothing comes any more."""
        self._taken = b""
        return await self._next()

    def read_of(self, data: bytes) -> bytes:
        """That request as far as it has come; immediate."""
        return data + self._taken

    async def more(self) -> bytes:
        data = await self._next()
        if not data:
            raise Gone
        self._taken += data
        return data

    async def left(self) -> None:
        while len(self._kept) < RECEIVED_BYTES:
            data = await self._receive()
            if not data:
                return
            self._kept += data
        await trio.sleep_forever()  # a client that sends on and on is heard no more until its turn

    async def _next(self) -> bytes:
        if self._kept:
            kept, self._kept = self._kept, b""
            return kept
        return b"" if self._gone else await self._receive()

    async def _receive(self) -> bytes:
        try:
            data = bytes(await self._stream.receive_some(RECEIVED_BYTES))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            data = b""
        self._gone = not data
        return data


class _IdleWatch(TrioSingleTask):
    """Runs what Hypercorn wants done on an idle connection, in one task as long as there is the connection.

    Hypercorn's action has a time of its own, which begins when the connection has been idle for `REST_S` already.
    """

    def __init__(self, context: WorkerContext) -> None:
        super().__init__()
        self._terminated = context.terminated
        self._rests_until = math.inf
        self._resting = trio.CancelScope()
        self._acting = trio.CancelScope()
        self._all = trio.CancelScope()
        self._begun = False

    async def restart(self, task_group: TaskGroup, action: Callable[..., Awaitable[Any]]) -> None:
        """The connection is idle."""
        over = self._terminated.is_set()
        self._rest_until(-math.inf if over else trio.current_time() + REST_S)
        if not self._begun:
            self._begun = True
            task_group.spawn(self._run, action)

    async def stop(self) -> None:
        """It is not idle any more."""
        self._rest_until(math.inf)
        self._acting.cancel(reason="a request came")

    def end(self) -> None:
        """There is no connection any more. Immediate."""
        self._all.cancel(reason="the connection is gone")

    def _rest_until(self, deadline: float) -> None:
        self._rests_until = self._resting.deadline = deadline

    async def _run(self, action: Callable[..., Awaitable[Any]]) -> None:
        with self._all:
            while True:
                with trio.CancelScope(deadline=self._rests_until) as self._resting:
                    await self._terminated.wait()
                    if self._rests_until == math.inf:
                        await trio.sleep_forever()  # until the request is answered
                if self._rests_until == math.inf:
                    continue  # a request came with the deadline
                with trio.CancelScope() as self._acting:
                    await action()
                    return


def _is_head_of_body(data: bytes) -> bool:
    """Is it the head of a whole answer? One whose body comes piece by piece does not wait for the first."""
    is_head = data.startswith((b"HTTP/1.1 2", b"HTTP/1.1 4", b"HTTP/1.1 5")) and data.endswith(b"\r\n\r\n")
    return is_head and b"\r\ncontent-length: " in data.lower()
