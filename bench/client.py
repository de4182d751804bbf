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
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

Request = bytes
# It yields requests, and is sent the answer's status and body; or seconds to rest.
Script = Generator[Request | float, tuple[int, bytes], None]
RESTED = (0, b"")
POLL_S = 0.1

ANSWER_S = 60.0  # an answer that takes longer ends the run


@dataclass(slots=True)
class Connection:
    """One kept connection; `times` are milliseconds from a request to its whole answer, `last` the last answer."""

    socket: socket.socket
    script: Script
    buffer: bytearray = field(default_factory=bytearray)
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

    def hear(self) -> tuple[int, bytes] | None:
        """The next answer when it is whole, status and body."""
        received = self.socket.recv(262_144)
        if not received:
            raise ConnectionError("the server closed a kept connection")
        self.buffer += received
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = bytes(self.buffer[:end]).lower()
        at = head.index(b"\r\ncontent-length:") + len(b"\r\ncontent-length:")
        length = int(head[at:].split(b"\r\n", 1)[0])
        if len(self.buffer) < end + 4 + length:
            return None
        body = bytes(self.buffer[end + 4 : end + 4 + length])
        del self.buffer[: end + 4 + length]
        self.times.append((time.perf_counter() - self.sent_at) * 1000)
        self.last, self.closing = body, b"\r\nconnection: close" in head
        return int(head[9:12]), body


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


def request(port: int, key: str, order: dict[str, Any]) -> Request:
    """One HTTP/1.1 request as bytes; `order` has `method`, `path`, and maybe `json` and `headers`."""
    body = json.dumps(order["json"]).encode() if "json" in order else b""
    headers = {"Host": f"127.0.0.1:{port}", "Authorization": f"Bearer {key}", **order.get("headers", {})}
    if body:
        headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    lines = [f"{order['method']} {order['path']} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def repeated(raw: Request, count: int | None) -> Script:
    """The same request again and again; each has to be answered with a 2xx."""
    done = 0
    while count is None or done < count:
        status, body = yield raw
        if not 200 <= status < 300:
            raise RuntimeError(f"answered {status}: {body[:300]!r}")
        done += 1


def jobs(port: int, key: str, page: str, started: list[float], ttl: str) -> Script:
    """Start a job on a page, poll it until it has ended, start the next."""
    path = f"/api/v1/{page}/plugin/bench/nothing"
    start = request(port, key, {"method": "GET", "path": path, "headers": {"X-Result-Ttl": ttl}})
    while True:
        status, body = yield start
        if status != 202:
            raise RuntimeError(f"a start was answered {status}: {body[:300]!r}")
        started.append(time.perf_counter())
        poll = request(port, key, {"method": "GET", "path": json.loads(body)["status_url"]})
        while True:
            status, body = yield poll
            if status == 404 or json.loads(body)["state"] != "running":
                break


@dataclass(slots=True)
class Ends:
    """What runs came to: milliseconds from submit to end, each; the last one's id."""

    ms: list[float] = field(default_factory=list)
    run_id: str = ""


def runs(port: int, key: str, order: dict[str, Any], ends: Ends) -> Script:
    """Submit a run, learn of its end by waiting or by polling ten times a second, submit the next."""
    headers = {"Prefer": "wait=60"} if order["waits"] else {}
    body = {"prompt": "", "recipe_name": order["recipe"]}
    if not order["waits"]:  # the public server has no such recipe: what its jobs do is decided there
        body = {"prompt": "{}"} if not key else body
    asked = {"method": "POST", "path": "/api/v1/runs", "json": body, "headers": headers}
    submit = request(port, key, asked)
    while order.get("count") is None or len(ends.ms) < order["count"]:
        began = time.perf_counter()
        status, answer = yield submit
        if status == 503:  # as many are admitted as may be
            yield POLL_S
            continue
        if status != 202:
            raise RuntimeError(f"a submit was answered {status}: {answer[:300]!r}")
        run = json.loads(answer)
        ends.run_id = run["job_id"]
        poll = request(
            port, key, {"method": "GET", "path": f"/api/v1/runs/{ends.run_id}", "headers": headers}
        )
        while run["status"] in ("queued", "running"):
            if not order["waits"]:
                yield POLL_S
            status, answer = yield poll
            run = json.loads(answer)
        if run["status"] != "succeeded":
            raise RuntimeError(f"a run ended so: {answer[:300]!r}")
        ends.ms.append((time.perf_counter() - began) * 1000)


class Client:
    """Attributes:
    kept: the connection that is kept to each port.
    """

    def __init__(self) -> None:
        self.kept: dict[int, socket.socket] = {}

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carry out one order: `seconds` of load on `connections`, a `count` of requests, jobs on `pages`,
        or `runs`.
        """
        port, key = order["port"], order["key"]
        started: list[float] = []
        ends = Ends()
        if "runs" in order:
            scripts = [runs(port, key, order["runs"], ends) for _ in range(order["connections"])]
        elif "pages" in order:
            ttl = order.get("ttl", "1")
            scripts = [jobs(port, key, page, started, ttl) for page in order["pages"]]
        else:
            raw = request(port, key, order)
            scripts = [repeated(raw, order.get("count")) for _ in range(order.get("connections", 1))]
        keeps = "count" in order and len(scripts) == 1
        sockets = [self._kept(port)] if keeps else [connect(port) for _ in scripts]
        connections = [Connection(sock, script) for sock, script in zip(sockets, scripts, strict=True)]
        began = time.perf_counter()
        deadline = began + order.get("seconds", 3600.0)
        drive(connections, lambda: time.perf_counter() >= deadline)
        took = time.perf_counter() - began
        if keeps:
            self.kept[port] = connections[0].socket
        else:
            for connection in connections:
                connection.socket.close()
        times = [taken for connection in connections for taken in connection.times]
        count = len(ends.ms) if "runs" in order else len(started) if "pages" in order else len(times)
        return {
            "seconds": took,
            "count": count,
            "ms": times,
            "ends_ms": ends.ms,
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
