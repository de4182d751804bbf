"""The gate of the pages' network: real sockets, names through a resolver of the test's."""

import errno
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
import trio

from penelope.errors import BadSettings, NetworkRefused, SiteFailed
from penelope.pages.gate import Gate, check_proxy, connect, open_gate, open_network, own_addresses, resolve

PUBLIC = "93.184.216.34"


class Net:
    """Attributes:
    names: the addresses of each, or what to raise; a list of lists changes with each look-up.
    dialled: which addresses were.
    port: of the site behind every public address.
    """

    def __init__(self, port: int) -> None:
        self.names: dict[str, Any] = {"outside.test": [PUBLIC]}
        self.dialled: list[str] = []
        self.dead: set[str] = set()
        self.port = port

    async def resolve(self, host: str, _: int) -> list[str]:
        await trio.lowlevel.checkpoint()
        found = self.names.get(host, [host])
        if isinstance(found, Exception):
            raise found
        return list(found)

    async def connect(self, address: str, _: int) -> trio.SocketStream:
        self.dialled.append(address)
        if address in self.dead:
            raise OSError(errno.ECONNREFUSED, "refused")
        return await connect("127.0.0.1", self.port)


async def echo(stream: trio.SocketStream) -> None:
    """A site: what comes goes back, with its end."""
    async with stream:
        async for data in stream:
            await stream.send_all(data)


@asynccontextmanager
async def gated() -> AsyncGenerator[tuple[Gate, Net]]:
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, echo, 0, host="127.0.0.1"))
        net = Net(listener.socket.getsockname()[1])
        async with open_gate(Gate(resolve=net.resolve, connect=net.connect)) as gate:
            yield gate, net
        nursery.cancel_scope.cancel()


def request(host: str | bytes, port: int = 80, *, command: int = 1) -> bytes:
    """A client's whole handshake, at once."""
    if isinstance(host, bytes):
        where = bytes([1 if len(host) == 4 else 4]) + host
    else:
        where = bytes([3, len(host)]) + host.encode()
    return b"\x05\x01\x00" + bytes([5, command, 0]) + where + port.to_bytes(2, "big")


async def ask(gate: Gate, sent: bytes) -> tuple[trio.SocketStream, bytes]:
    """The connection, and what the gate answered: two bytes, then ten."""
    stream = await trio.open_tcp_stream("127.0.0.1", gate.port)
    await stream.send_all(sent)
    got = b""
    with trio.move_on_after(5):
        while len(got) < 12 and (more := await stream.receive_some(12 - len(got))):
            got += more
    return stream, got


def code(answer: bytes) -> int | None:
    return answer[3] if len(answer) == 12 else None


async def test_a_public_site_is_relayed() -> None:
    """Bytes both ways, and each side's end."""
    async with gated() as (gate, net):
        stream, answer = await ask(gate, request("outside.test"))
        assert b"\x05\x00" + b"\x05\x00\x00\x01" + bytes(6) == answer
        sent = bytes(range(256)) * 4000
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, sent)
            got = b""
            while len(got) < len(sent):
                got += await stream.receive_some(65536)
        assert sent == got
        await stream.send_eof()
        assert b"" == await stream.receive_some(1)
        await stream.aclose()
        assert [PUBLIC] == net.dialled


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("inside.test", ["10.0.0.5"]),
        ("mixed.test", [PUBLIC, "::1"]),
        ("ten.test", [f"8.8.8.{n}" for n in range(9)] + ["192.168.0.1"]),
        ("wrapped.test", ["64:ff9b::7f00:1"]),
        ("cloud.test", ["169.254.169.254"]),
        ("127.0.0.1", ["127.0.0.1"]),
        ("localhost", ["127.0.0.1"]),
    ],
)
async def test_an_address_that_is_not_public_refuses_the_name(host: str, addresses: list[str]) -> None:
    """J63, J64, J66: any bad address refuses; nothing is dialled, and the message names the setting."""
    async with gated() as (gate, net):
        net.names[host] = addresses
        stream, answer = await ask(gate, request(host, 8080))
        await stream.aclose()
        assert 2 == code(answer)
        assert [] == net.dialled
        failure = gate.failure(host, 8080)
        assert isinstance(failure, NetworkRefused)
        assert f"{host}:8080" in str(failure)
        assert str(failure).endswith("PENELOPE_PAGE_NETWORK is public")


@pytest.mark.parametrize("address", [socket.inet_aton("127.0.0.1"), socket.inet_pton(socket.AF_INET6, "::1")])
async def test_addresses_are_judged_like_names(address: bytes) -> None:
    """A client may send one as bytes."""
    async with gated() as (gate, net):
        stream, answer = await ask(gate, request(address))
        await stream.aclose()
        assert (2, []) == (code(answer), net.dialled)


async def test_the_address_that_was_judged_is_the_one_dialled() -> None:
    """J62: a name that is public when it is judged, and loopback at the next look-up."""
    async with gated() as (gate, net):
        looked_up: list[str] = []

        async def rebinding(host: str, _: int) -> list[str]:
            await trio.lowlevel.checkpoint()
            looked_up.append(host)
            return [PUBLIC] if len(looked_up) == 1 else ["127.0.0.1"]

        gate._resolve = rebinding
        answers = []
        for _ in range(2):
            stream, answer = await ask(gate, request("rebind.test"))
            await stream.aclose()
            answers.append(code(answer))
        assert [0, 2] == answers
        assert [PUBLIC] == net.dialled


async def test_the_next_address_is_tried_and_failures_say_why() -> None:
    """As without the gate: no such host, refused, no answer."""
    async with gated() as (gate, net):
        net.names |= {
            "two.test": ["8.8.8.8", PUBLIC],
            "dead.test": ["8.8.8.8"],
            "none.test": socket.gaierror("no"),
            "long.test": UnicodeError("label too long"),
        }
        net.dead = {"8.8.8.8"}
        codes = {}
        for host in ("two.test", "dead.test", "none.test", "long.test"):
            stream, answer = await ask(gate, request(host))
            await stream.aclose()
            codes[host] = code(answer)
        assert {"two.test": 0, "dead.test": 1, "none.test": 1, "long.test": 1} == codes
        assert gate.failure("two.test", 80) is None
        said = {host: gate.failure(host, 80) for host in ("dead.test", "none.test")}
        assert all(isinstance(failure, SiteFailed) for failure in said.values())
        assert "site cannot be reached: dead.test refused the connection" == str(said["dead.test"])
        assert "site cannot be reached: no such host none.test" == str(said["none.test"])


@pytest.mark.parametrize(
    "sent",
    [b"GET / HTTP/1.1\r\n\r\n", b"\x04\x01", b"\x05\x01\x02", b"\x05\x01\x00\x05\x01\x00\x09", b"", b"\x05"],
)
async def test_what_is_no_socks_is_dropped(sent: bytes) -> None:
    """And the gate goes on."""
    async with gated() as (gate, _):
        got = b""
        async with await trio.open_tcp_stream("127.0.0.1", gate.port) as stream:
            # It may reset what it did not read.
            with trio.move_on_after(5), suppress(trio.BrokenResourceError):
                await stream.send_all(sent)
                await stream.send_eof()
                while more := await stream.receive_some(100):
                    got += more
        assert got in (b"", b"\x05\x00", b"\x05\xff")
        stream, answer = await ask(gate, request("outside.test"))
        await stream.aclose()
        assert 0 == code(answer)


async def test_other_commands_are_refused() -> None:
    """BIND and UDP would go around the judging."""
    async with gated() as (gate, net):
        for command in (2, 3):
            stream, answer = await ask(gate, request("outside.test", command=command))
            await stream.aclose()
            assert 7 == code(answer)
        assert [] == net.dialled


async def test_many_connections_at_once_leave_nothing() -> None:
    """Clients that break off in the middle included."""
    async with gated() as (gate, _):

        async def one(n: int) -> None:
            stream, _ = await ask(gate, request("outside.test"))
            await stream.send_all(b"x" * 100_000)
            if n % 2:
                await trio.aclose_forcefully(stream)
            else:
                await stream.receive_some(10)
                await stream.aclose()

        async with trio.open_nursery() as nursery:
            for n in range(60):
                nursery.start_soon(one, n)
        stream, answer = await ask(gate, request("outside.test"))
        await stream.aclose()
        assert 0 == code(answer)


async def test_the_real_resolver_and_this_machines_addresses() -> None:
    """The seams' real halves."""
    assert "127.0.0.1" in await resolve("localhost", 80) or "::1" in await resolve("localhost", 80)
    assert "127.0.0.1" in {str(address) for address in own_addresses()}


async def test_a_proxy_that_stands_inside_is_refused() -> None:
    """Its pages would reach what it reaches."""

    def answering(*addresses: str) -> Callable[[str, int], Any]:
        async def answer(_: str, __: int) -> list[str]:
            await trio.lowlevel.checkpoint()
            return list(addresses)

        return answer

    await check_proxy("proxy.test", resolve=answering(PUBLIC))
    for address, what in (("127.0.0.1", "loopback"), ("10.0.0.1", "private")):
        with pytest.raises(BadSettings, match=f"the proxy proxy.test is at {address}, a {what} address"):
            await check_proxy("proxy.test", resolve=answering(PUBLIC, address))
    with pytest.raises(BadSettings, match=r"PENELOPE_PROXY is at nowhere\.invalid"):
        await check_proxy("nowhere.invalid", resolve=resolve)
    with pytest.raises(BadSettings, match=r"127\.0\.0\.1"):
        async with open_network(public=True, proxy="http://me:hush@127.0.0.1:3128"):
            raise AssertionError("started")
    async with open_network(public=False, proxy="http://127.0.0.1:3128") as gate:
        assert gate is None
