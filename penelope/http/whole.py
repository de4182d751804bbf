"""A request that came whole, in one piece, and an answer to be written as one.

What is read here is read by h11, as the server reads it, on a connection of its own that ends with it: so nothing that
the server would refuse or take otherwise comes through, and what is not taken here the server still has to see.

Source: contract, section 1.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import h11
import trio

END: Final = b"\r\n\r\n"
MAX_BYTES: Final = 4096  # of a head that is read here: others are the server's
MOST_KNOWN: Final = 256
_NOT_PLAIN: Final = frozenset({b"upgrade", b"expect", b"transfer-encoding"})

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Asked:
    """The head of a request. `target` is as it came; header names are lower case; `length`: of its body, bytes."""

    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]
    length: int


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its whole body."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def written(self, more: list[tuple[bytes, bytes]]) -> bytes:
        """As HTTP/1.1 has it, and as h11 would write it. `more`: the server's own headers."""
        return self.head(more) + self.body

    def head(self, more: list[tuple[bytes, bytes]]) -> bytes:
        """What comes before the body."""
        lines = [b"HTTP/1.1 %d \r\n" % self.status]
        lines += [b"%s: %s\r\n" % header for header in self.headers]
        lines += [b"%s: %s\r\n" % header for header in more]
        return b"".join((*lines, b"\r\n"))


def json_answer(status: int, body: bytes, more: Mapping[str, str], request_id: str) -> Answer:
    """An answer of JSON, with the headers that every one has, in the order in which the framework has them.

    Args:
        more: its own headers.
    """
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        *((name.lower().encode(), value.encode("latin-1")) for name, value in more.items()),
        (b"x-request-id", request_id.encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    return Answer(status, headers, body)


@dataclass(frozen=True, slots=True)
class Answering:
    """An answer that is to be made.

    Attributes:
        make: None comes of it where the request is not one to be answered so after all, and nothing of it was.
        waits: it may take long: a client that leaves ends it. One that hears its peer itself does not say so; it raises
            `Gone`, and what was asked for goes on, or not.
    """

    make: Callable[[], Awaitable[Answer | None]]
    waits: bool = False


class Gone(Exception):
    """The client left before it was answered."""


class Peer(Protocol):
    """The client of a request, while that is answered."""

    async def more(self) -> bytes:
        """More of the request, as it comes.

        Raises:
            Gone: no more will.
        """

    async def left(self) -> None:
        """Return once the client is gone; what it sends meanwhile is kept for later."""


class AtOnce(Protocol):
    """Given what came in one piece; None: it is not one to be answered so."""

    def __call__(self, data: bytes, peer: Peer | None = None, /) -> Answering | None: ...


def head_of(data: bytes) -> bytes | None:
    """The head that the data begins with, its end included; None: there is no end, or one that is not read here."""
    end = data.find(END, 0, MAX_BYTES)
    return None if end < 0 else data[: end + len(END)]


def read(head: bytes) -> Asked | None:
    """The head of the one request that begins with it, as `head_of` has it. None: h11 does not take it, its body comes
    in chunks, or it says what is to become of its connection.
    """
    reader = h11.Connection(h11.SERVER)
    reader.receive_data(head)
    try:
        request, then = reader.next_event(), reader.next_event()
    except h11.RemoteProtocolError:
        return None
    if not isinstance(request, h11.Request) or request.http_version != b"1.1" or reader.trailing_data[0]:
        return None
    if not request.method.isupper():  # the server reads `get` as `GET`
        return None
    headers = list(request.headers)
    length = _length(headers)
    if length is None or not _is_all_there_is(then, length):
        return None
    return Asked(request.method, request.target, headers, length)


def _is_all_there_is(then: object, length: int) -> bool:
    """Is it a head to its last byte? h11 lets one end with bare line feeds: what we took for more of it is its body."""
    return isinstance(then, h11.EndOfMessage) if length == 0 else then is h11.NEED_DATA


def _length(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """The body's length; None: it is not said, or the connection is not simply kept. `keep-alive` is what many clients
    say, and what is so in any case.
    """
    length = 0
    for name, value in headers:
        if name in _NOT_PLAIN or (name == b"connection" and value.lower() != b"keep-alive"):
            return None
        if name == b"content-length":
            length = int(value)  # h11 takes digits only, and one value
    return length


async def body_of(begun: bytes, length: int, peer: Peer, within_s: float) -> bytes | None:
    """A body of that length, of which the beginning is there; None: it comes too late, or more than that does."""
    with trio.move_on_after(within_s):
        try:
            while len(begun) < length:
                begun += await peer.more()
        except Gone:
            return None
    return begun if len(begun) == length else None


class Known(Generic[_Found]):
    """What was found of heads, by their bytes: `MOST_KNOWN` of them at most."""

    def __init__(self) -> None:
        self._found: dict[bytes, _Found] = {}

    def __len__(self) -> int:
        return len(self._found)

    def get(self, head: bytes) -> _Found | None:
        return self._found.get(head)

    def add(self, head: bytes, found: _Found) -> None:
        if len(self._found) >= MOST_KNOWN:
            self._found.clear()
        self._found[head] = found
