"""A request that came whole, in one piece, and an answer to be written as one.

What is read here is read by h11, as the server reads it, on a connection of its own that ends with it: so nothing that
the server would refuse or take otherwise comes through, and what is not taken here the server still has to see.

Source: contract, section 1.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

import h11

END: Final = b"\r\n\r\n"
MAX_BYTES: Final = 4096  # of a head that is read here: others are the server's


@dataclass(frozen=True, slots=True)
class Asked:
    """A request without a body. `target` is as it came; header names are lower case."""

    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its whole body."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def written(self, more: list[tuple[bytes, bytes]]) -> bytes:
        """As HTTP/1.1 has it, and as h11 would write it. `more`: the server's own headers."""
        lines = [b"HTTP/1.1 %d \r\n" % self.status]
        lines += [b"%s: %s\r\n" % header for header in self.headers]
        lines += [b"%s: %s\r\n" % header for header in more]
        return b"".join((*lines, b"\r\n", self.body))


# Given what came in one piece; None, now or later: it is not one to be answered so.
AtOnce = Callable[[bytes], Awaitable[Answer | None] | None]


def read(data: bytes) -> Asked | None:
    """The one request that the data is; None: it is none, not a whole one, more than one, one with a body, or one that
    says what is to become of its connection.
    """
    if len(data) > MAX_BYTES or data.find(END) != len(data) - len(END):
        return None
    reader = h11.Connection(h11.SERVER)
    reader.receive_data(data)
    try:
        request, end = reader.next_event(), reader.next_event()
    except h11.RemoteProtocolError:
        return None
    if not isinstance(request, h11.Request) or not isinstance(end, h11.EndOfMessage):
        return None
    if request.http_version != b"1.1" or not _keeps(request.headers):
        return None
    return Asked(request.method, request.target, list(request.headers))


def _keeps(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Will the connection simply be kept? `keep-alive` is what many clients say, and what is so in any case."""
    for name, value in headers:
        if name in (b"upgrade", b"expect") or (name == b"connection" and value.lower() != b"keep-alive"):
            return False
    return True
