"""Bodies that are too large, too long, or more than they seem."""

import gzip
import struct
import zlib
from functools import lru_cache
from typing import Final

import trio

BOMB_PIECE: Final = b"<p>" * 350_000
BOMB_PIECES: Final = 200  # 210 MB


class Repeated:
    """One piece again and again. No generator: nothing is left to finalise when the client leaves."""

    def __init__(
        self, piece: bytes, *, total: int | None = None, every_s: float = 0.0, head: bytes = b""
    ) -> None:
        """
        Args:
            total: bytes; None: for ever.
            every_s: the pause before each piece, seconds.
            head: what comes before.
        """
        self._piece = piece
        self._left = total
        self._every_s = every_s
        self._head = head

    def __aiter__(self) -> "Repeated":
        return self

    async def __anext__(self) -> bytes:
        if self._head:
            head, self._head = self._head, b""
            return head
        if self._left == 0:
            raise StopAsyncIteration
        await trio.sleep(self._every_s)
        if self._left is None:
            return self._piece
        piece = self._piece[: self._left]
        self._left -= len(piece)
        return piece


@lru_cache(maxsize=1)
def bomb() -> bytes:
    """A gzip file of about 200 kB: a deflated piece, flushed so that it can stand again and again."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    first = deflate.compress(BOMB_PIECE) + deflate.flush(zlib.Z_FULL_FLUSH)
    last = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS).flush()
    check = 0
    for _ in range(BOMB_PIECES):
        check = zlib.crc32(BOMB_PIECE, check)
    head = gzip.compress(b"", mtime=0)[:10]
    size = len(BOMB_PIECE) * BOMB_PIECES
    return head + first * BOMB_PIECES + last + struct.pack("<II", check, size & 0xFFFFFFFF)
