"""Odd structures, and what a call may leave: what a caller gets. That the next call works holds the fixture `desk`."""

import struct
import zlib

import pytest

from tests.browser.hostile_worker import Desk

OUTSIDE = "internal:control=enter-frame"  # from a frame's element to what it shows


def pixels(png: bytes) -> tuple[int, int, list[bytes]]:
    """Width, height, and the first pixel of every row of a PNG of 8 bits, by the filters of its specification."""
    width, height, depth, kind = struct.unpack_from(">IIBB", png, 16)
    assert depth == 8
    size = {2: 3, 6: 4}[kind]
    data, at = b"", 8
    while at < len(png):
        length = int.from_bytes(png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += 12 + length
    raw, stride = zlib.decompress(data), width * size + 1
    above, found = bytes(size), []
    for row in range(height):
        start = row * stride
        kind, pixel = raw[start], raw[start + 1 : start + 1 + size]
        # Left of the first pixel there is nothing: Sub leaves it, Up and Paeth add what is above, Average half of it.
        add = {0: 0, 1: 0, 2: 1, 3: 0.5, 4: 1}[kind]
        above = bytes((value + int(up * add)) % 256 for value, up in zip(pixel, above, strict=True))
        found.append(above[:3])
    return width, height, found


def test_a_page_of_20000_pixels_is_pictured_whole(desk: Desk) -> None:
    desk.goto("tall")
    answer = desk.call("screenshot", full_page=True, timeout_ms=30_000)
    assert 200 == answer.status
    _, height, first = pixels(desk.get(answer["media"]["url"]).content)
    assert 20_000 == height
    expected = [bytes((band * 12, 100, 200)) for band in range(20)]
    assert expected == [first[band * 1000 + 500] for band in range(20)]


def test_a_list_without_end_grows_as_it_is_scrolled(desk: Desk) -> None:
    desk.goto("endless")
    before = desk.evaluate("document.querySelectorAll('.row').length")
    answer = desk.call("scroll", delta_y=100_000, timeout_ms=10_000)
    assert 200 == answer.status
    assert 200 == desk.call("wait", function=f"document.querySelectorAll('.row').length > {before}").status


def test_a_virtual_list_shows_what_it_is_scrolled_to(desk: Desk) -> None:
    desk.goto("virtual")
    assert "row 0" in desk.call("text")["text"]
    desk.evaluate("document.getElementById('box').scrollTop = 30 * 4_000")
    assert 200 == desk.call("wait", selector="text=row 4005", timeout_ms=10_000).status
    assert "row 0\n" not in desk.call("text")["text"]


def test_an_open_shadow_root_is_read_and_clicked(desk: Desk) -> None:
    desk.goto("shadow")
    assert "in the open root" == desk.call("text", selector="#open .inside", timeout_ms=5_000)["text"]
    assert 200 == desk.call("click", selector="#open button", timeout_ms=5_000).status
    assert "open clicked" == desk.evaluate("document.title")


def test_a_closed_shadow_root_is_closed(desk: Desk) -> None:
    desk.goto("shadow")
    assert 408 == desk.call("text", selector="#closed .inside", timeout_ms=1_000).status


def test_a_frame_of_another_origin_is_read(desk: Desk) -> None:
    assert 200 == desk.goto("frames", timeout_ms=10_000).status
    assert "outside" == desk.call("text", selector="#text")["text"]
    answer = desk.call("text", selector=f"iframe >> nth=0 >> {OUTSIDE} >> #good", timeout_ms=5_000)
    assert "good" == answer["text"]


def test_a_busy_frame_of_another_origin_holds_its_page_up_not(desk: Desk) -> None:
    assert 200 == desk.goto("busy-frame", timeout_ms=10_000).status
    assert "outside" == desk.call("text", selector="#text", timeout_ms=5_000)["text"]


def test_what_a_page_redefines_is_its_own(desk: Desk) -> None:
    """A page that breaks its scripts' tools breaks what is read through them: answered, and over with the document."""
    answer = desk.goto("overridden", timeout_ms=10_000)
    assert (200, "overridden") == (answer.status, answer["title"])
    for name in ("text", "html", "web/read"):
        assert desk.call(name).status in (200, 400, 500)
    assert 200 == desk.goto("good", timeout_ms=10_000).status


@pytest.mark.parametrize(("end", "status"), [("well", 200), ("error", 500), ("timeout", 408)])
def test_a_call_leaves_nothing_however_it_ends(desk: Desk, end: str, status: int) -> None:
    """The next call finds no dialog, no pending navigation, no route, no listener, no time limit of the last."""
    assert status == desk.call("hostile/litter", site=desk.site, end=end).status
    answer = desk.goto("good", timeout_ms=10_000)  # its routes would abort it
    assert (200, "good") == (answer.status, answer["title"])
    assert "good" == desk.evaluate(
        "fetch('good?again').then(() => document.title)"
    )  # its listener would rename it
    assert "complete" == desk.evaluate("document.readyState")
    assert 200 == desk.call("hostile/slow", site=desk.site).status, "its time limit is still there"
