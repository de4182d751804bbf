"""The load client: a process of its own, standard library only, so that it costs the worker's core little.

    python -m bench.client

reads one JSON order a line from stdin and answers each with one JSON line. All connections are driven by one selector;
what a connection says is a generator that is sent each answer. An order of one connection and a count uses a connection
that is kept from order to order.
"""

import heapq
import json
import select
import selectors
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.scripts import Ends, Tally, asks, repeated, runs, starts
from bench.wire import Answer, Incoming, Request, Script, request

RESTED = (0, b"")

ANSWER_S = 60.0  # an answer that takes longer ends the run


@dataclass(slots=True)
class Connection:
    """One kept connection; `times` are milliseconds from a request to its whole answer, `last` the last answer."""

    socket: socket.socket
    script: Script
    incoming: Incoming = field(default_factory=Incoming)
    sent_at: float = 0.0
    times: list[float] = field(default_factory=list)
    last: bytes = b""
    closing: bool = False

    def say(self, request: Request) -> None:
        self.sent_at = time.perf_counter()
        self.socket.sendall(request)

    def renew(self) -> None:
        """Connect again, after an answer that said it was the connection's last; servers do so now and then."""
        port = self.socket.getpeername()[1]
        self.socket.close()
        self.socket, self.closing = connect(port), False

    def hear(self) -> Answer | None:
        """The next answer when it is whole, status and body."""
        received = self.socket.recv(262_144)
        if not received:
            raise ConnectionError("the server closed a kept connection")
        answer = self.incoming.feed(received)
        if answer is not None:
            self.times.append((time.perf_counter() - self.sent_at) * 1000)
            self.last, self.closing = answer[1], self.incoming.closing
        return answer


def connect(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def drive(connections: list[Connection], until: Callable[[], bool]) -> None:
    """Run the connections' scripts until they end or `until` says so."""
    Driving(connections).run(until)


class Driving:
    """Many connections, by one selector."""

    def __init__(self, connections: list[Connection]) -> None:
        self._selector = selectors.DefaultSelector()
        self._resting: list[tuple[float, int, Connection]] = []  # until when, a number of its own, who
        self._left = len(connections)
        for connection in connections:
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)
            self._go_on(connection, None)

    def run(self, until: Callable[[], bool]) -> None:
        while self._left and not until():
            ready = self._selector.select(self._patience())
            if not ready and not self._resting:
                raise TimeoutError(f"no answer within {ANSWER_S:g} s")
            for key, _ in ready:
                self._hear(key.data)
            while self._resting and self._patience() == 0.0:
                self._go_on(heapq.heappop(self._resting)[2], RESTED)
        self._selector.close()

    def _patience(self) -> float:
        return max(0.0, self._resting[0][0] - time.perf_counter()) if self._resting else ANSWER_S

    def _hear(self, connection: Connection) -> None:
        answer = connection.hear()
        if answer is None:
            return
        if connection.closing:
            self._selector.unregister(connection.socket)
            connection.renew()
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)
        self._go_on(connection, answer)

    def _go_on(self, connection: Connection, answer: tuple[int, bytes] | None) -> None:
        try:
            wanted = next(connection.script) if answer is None else connection.script.send(answer)
        except StopIteration:
            self._selector.unregister(connection.socket)
            self._left -= 1
            return
        if isinstance(wanted, float):
            heapq.heappush(self._resting, (time.perf_counter() + wanted, id(connection), connection))
        else:
            connection.say(wanted)


class Client:
    """Attributes:
    kept: the connection that is kept to each port.
    """

    def __init__(self) -> None:
        self.kept: dict[int, socket.socket] = {}

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carry out one order: `seconds` of load on `connections`, a `count` of requests, `starts` of jobs,
        `runs`, or `asks` of callers that have a page each.
        """
        port, key = order["port"], order["key"]
        ends, tally = Ends(), Tally()
        deadline = time.perf_counter() + order.get("seconds", 3600.0)
        if "asks" in order:
            callers = order["asks"]["callers"]
            scripts = [asks(port, key, order["asks"], caller, deadline, tally) for caller in callers]
        elif "runs" in order:
            scripts = [runs(port, key, order["runs"], ends) for _ in range(order["connections"])]
        elif "starts" in order:
            asked = order["starts"]
            scripts = [starts(port, key, at, asked, tally) for at in range(len(asked["pages"]))]
        else:
            raw = request(port, key, order)
            scripts = [repeated(raw, order.get("count")) for _ in range(order.get("connections", 1))]
        keeps = "count" in order and len(scripts) == 1
        sockets = [self._kept(port)] if keeps else [connect(port) for _ in scripts]
        connections = [Connection(sock, script) for sock, script in zip(sockets, scripts, strict=True)]
        began = time.perf_counter()
        drive(connections, lambda: "asks" not in order and time.perf_counter() >= deadline)
        took = time.perf_counter() - began
        if keeps:
            self.kept[port] = connections[0].socket
        else:
            for connection in connections:
                connection.socket.close()
        times = [taken for connection in connections for taken in connection.times]
        counted = {"asks": tally.ms, "runs": ends.ms, "starts": tally.ms}
        count = len(next((found for name, found in counted.items() if name in order), times))
        return {
            "seconds": took,
            "count": count,
            "ms": times,
            "ends_ms": ends.ms,
            "asked_ms": tally.ms,
            "job_id": tally.last,
            "errors": tally.errors,
            "mixed": tally.mixed,
            "first_error": tally.first_error,
            "run_id": ends.run_id,
            "last": connections[0].last.decode("utf-8", "replace"),
        }

    def _kept(self, port: int) -> socket.socket:
        sock = self.kept.get(port)
        if sock is not None and not select.select([sock], [], [], 0)[0]:
            return sock
        if sock is not None:  # readable between answers: the server has closed it
            sock.close()
        self.kept[port] = connect(port)
        return self.kept[port]


def main() -> None:
    client = Client()
    for line in sys.stdin:
        print(json.dumps(client.obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
