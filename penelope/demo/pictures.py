"""The pictures of the stand-in site, drawn from a name alone: a landscape as PNG, an avatar as SVG.

A PNG needs a signature, a header chunk, zlib-packed rows and an end chunk; that is little enough to write here, and
spares the package an imaging library. Source: the PNG specification (W3C), sections 5 and 11.
"""

import struct
import zlib
from colorsys import hls_to_rgb
from functools import lru_cache
from math import isqrt
from random import Random

FULL_PX = 640
THUMB_PX = 240

Colour = bytes  # three bytes: red, green, blue


@lru_cache(maxsize=256)
def landscape(name: str, side: int) -> bytes:
    """A square PNG of `side` pixels: a sky, a sun and three ridges."""
    dice = Random(f"picture:{name}")
    turn = dice.random()
    sun = (dice.uniform(0.2, 0.8), dice.uniform(0.2, 0.45), dice.uniform(0.06, 0.13))
    ridges = [
        ([(dice.uniform(0, 1), dice.uniform(0.35, 0.6) + 0.13 * depth, dice.uniform(0.5, 1.4)) for _ in range(3)],
         _colour(turn + 0.55, 0.52 - 0.14 * depth, 0.35))
        for depth in range(3)
    ]  # fmt: skip
    rows = bytearray()
    for y in range(side):
        height = y / side
        row = bytearray(_colour(turn + 0.08 * height, 0.55 + 0.33 * height, 0.75) * side)
        _paint_sun(row, side, height, sun, _colour(turn + 0.1, 0.93, 0.9))
        for peaks, colour in ridges:
            for middle, top, slope in peaks:
                half = (height - top) / slope
                _paint(row, side, middle - half, middle + half, colour)
        rows += b"\0" + row  # filter 0: the row as it is
    return _png(side, bytes(rows))


def hue(handle: str) -> int:
    """The colour of an account's face, in degrees."""
    return Random(f"avatar:{handle}").randrange(360)


def avatar(handle: str) -> str:
    """A round SVG with the first letter of the handle."""
    colour = hue(handle)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 96 96"><defs><linearGradient id="g" x2="1" y2="1">'
        f'<stop stop-color="hsl({colour} 62% 66%)"/><stop offset="1" stop-color="hsl({colour + 50} 58% 46%)"/>'
        '</linearGradient></defs><circle cx="48" cy="48" r="48" fill="url(#g)"/><text x="48" y="64" fill="#fff"'
        f' font-family="Georgia,serif" font-size="46" text-anchor="middle">{handle[0].upper()}</text></svg>'
    )


def _paint_sun(
    row: bytearray, side: int, height: float, sun: tuple[float, float, float], colour: Colour
) -> None:
    x, y, radius = sun
    inside = radius**2 - (height - y) ** 2
    if inside > 0:
        half = isqrt(int(inside * 10**8)) / 10**4
        _paint(row, side, x - half, x + half, colour)


def _paint(row: bytearray, side: int, left: float, right: float, colour: Colour) -> None:
    """Colour one stretch of a row; the ends are fractions of it."""
    start, stop = max(0, round(left * side)), min(side, round(right * side))
    if start < stop:
        row[3 * start : 3 * stop] = colour * (stop - start)


def _colour(turn: float, lightness: float, saturation: float) -> Colour:
    return bytes(round(255 * part) for part in hls_to_rgb(turn % 1.0, lightness, saturation))


def _png(side: int, rows: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)  # 8 bits a channel, RGB
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(rows, 6))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
