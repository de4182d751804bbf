"""The socket below an answer that may last for hours: how much waits in it, and how to be rid of it.

The server hands its app no socket. It is found along the way that `send` goes: the request's stream, the protocol and
the connection each keep the next one. Where that way is another one (the tests' transport, HTTP/2, whose streams share
one socket) there is nothing below. A test on real sockets holds that it is found.

Source: contract, section 11 ("Watch").
"""

import fcntl
import socket
import struct
import termios
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import trio

SCOPE_KEY: Final = "penelope.connection"
_STEPS: Final = 4


class Connection:
    """What one request came on."""

    def __init__(self, send: Callable[[Any], Awaitable[None]], http_version: str) -> None:
        self.is_own = http_version.startswith("1")
        self._send = send

    @property
    def socket(self) -> trio.socket.SocketType | None:
        """None: there is none that is this request's alone."""
        at: object = self._send if self.is_own else None
        for _ in range(_STEPS):
            owner = getattr(at, "__self__", None)
            stream = getattr(owner, "stream", None)
            if isinstance(stream, trio.SocketStream):
                return stream.socket
            at = getattr(owner, "send", None)
        return None

    def bound(self, buffer_bytes: int) -> None:
        """Let no more than so much wait in the socket. It stays so, and the connection should end with this answer."""
        if (found := self.socket) is not None:
            with suppress(OSError):  # it is gone
                found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)

    def unread(self) -> int | None:
        """How many bytes wait for the client's side to take them; None: that cannot be known."""
        if (found := self.socket) is None:
            return None
        try:
            (waiting,) = struct.unpack("i", fcntl.ioctl(found.fileno(), termios.TIOCOUTQ, bytes(4)))
        except OSError:
            return None
        return int(waiting)

    def drop(self) -> None:
        """Hang up: a write that waits for the client fails. Nothing else ends one, it is shielded."""
        if (found := self.socket) is not None:
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)
