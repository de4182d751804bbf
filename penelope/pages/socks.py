"""SOCKS 5, the half that a server speaks: bytes to values and back. No IO.

Source: RFC 1928.
"""

import socket
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Final

GREETING_BYTES: Final = 2  # version, number of methods; as many bytes follow
HEAD_BYTES: Final = 5  # version, command, reserved, kind of address, and its first byte
NO_LOGIN: Final = b"\x05\x00"
NO_METHOD: Final = b"\x05\xff"

_VERSION: Final = 5
_CONNECT: Final = 1
_NO_LOGIN: Final = 0
_V4, _NAME, _V6 = 1, 3, 4


class Reply(IntEnum):
    """What became of a request."""

    DONE = 0
    FAILED = 1
    NOT_ALLOWED = 2
    UNREACHABLE = 4
    REFUSED = 5
    UNKNOWN_COMMAND = 7


class NotSocks(Exception):
    """The client speaks something else."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a client wants to go: a name, or an address as text."""

    host: str
    port: int


def methods_to_come(greeting: bytes) -> int:
    """How many bytes follow the first two.

    Raises:
        NotSocks: it is another protocol.
    """
    if len(greeting) != GREETING_BYTES or greeting[0] != _VERSION:
        raise NotSocks("not SOCKS 5")
    return greeting[1]


def takes_no_login(methods: bytes) -> bool:
    """Whether the client would go without a login."""
    return _NO_LOGIN in methods


def rest_to_come(head: bytes) -> int:
    """How many bytes follow a request's head.

    Raises:
        NotSocks: it is no request.
    """
    if len(head) != HEAD_BYTES or head[0] != _VERSION or head[3] not in (_V4, _NAME, _V6):
        raise NotSocks("no request of SOCKS 5")
    length = {_V4: 3, _NAME: head[4], _V6: 15}[head[3]]
    return length + 2


def target(head: bytes, rest: bytes) -> Target | None:
    """Where to; None when it asks for something else than a connection.

    Raises:
        NotSocks: the name is none.
    """
    if head[1] != _CONNECT:
        return None
    address, port = rest[:-2], int.from_bytes(rest[-2:], "big")
    if head[3] == _V4:
        return Target(str(IPv4Address(head[4:5] + address)), port)
    if head[3] == _V6:
        return Target(str(IPv6Address(head[4:5] + address)), port)
    try:
        return Target(address.decode("ascii").strip("[]").lower(), port)
    except UnicodeDecodeError:
        raise NotSocks("a name that is not ASCII") from None


def reply(what: Reply) -> bytes:
    """The answer to a request."""
    return bytes([_VERSION, what, 0, _V4]) + socket.inet_aton("0.0.0.0") + b"\0\0"  # noqa: S104
