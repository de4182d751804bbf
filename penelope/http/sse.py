"""Server-sent events as they are written on the wire, in pieces that are small whatever they carry.

Source: the HTML standard, "Server-sent events"; contract, section 11 ("Watch").
"""

import re
from collections.abc import Iterator
from typing import Final

PIECE_BYTES: Final = 64 * 1024
HEARTBEAT: Final = b":\n\n"  # a comment: it keeps proxies from taking the connection for dead

_LINE_END = re.compile(rb"\r\n|\r|\n")


def event(name: str, data: bytes, event_id: str | None = None) -> Iterator[bytes]:
    """One event, in pieces of 64 KiB at most: the result of a job in it may have 50 MB.

    Args:
        name: without a line end.
        data: UTF-8; a line end in it begins a new `data` line, so that it arrives as a line feed.
        event_id: what a viewer that comes back says it has seen last; None leaves that as it was.
    """
    identity = "" if event_id is None else f"id: {event_id}\n"
    head = f"event: {name}\n{identity}data: ".encode()
    if b"\n" in data or b"\r" in data:
        data = _LINE_END.sub(b"\ndata: ", data)
    if len(head) + len(data) + 2 <= PIECE_BYTES:
        yield b"".join((head, data, b"\n\n"))
        return
    yield head
    view = memoryview(data)
    for start in range(0, len(view), PIECE_BYTES):
        yield bytes(view[start : start + PIECE_BYTES])
    yield b"\n\n"


def retry(milliseconds: int) -> bytes:
    """How long a viewer waits before it comes back."""
    return f"retry: {milliseconds}\n\n".encode()
