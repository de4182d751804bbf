"""Names and ranges of files: what is safe to write, and which bytes are meant."""

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penelope.http.routes.media import _disposition, _span
from penelope.store.media import _merged, safe_name
from tests.core import values

NAMELIKE = st.text('a./\\ \x00\n":*?<>|é😀\u202e\ud800', max_size=20) | values.ANY_TEXT


@given(
    NAMELIKE
    | st.integers(190, 400).flatmap(lambda n: st.sampled_from(["é" * n, "a" * n + " .txt", "a. " * n]))
)
@example("../../etc/passwd")
@example("..")
@example("")
@example("a" * 199 + " b")
@example("é" * 300 + ".csv")
def test_a_name_is_safe(filename: str) -> None:
    """`Content-Disposition: attachment` with a safe UTF-8 name."""
    name = safe_name(filename)
    assert name
    assert name.strip(" .") == name
    assert not re.search(r'[\x00-\x1f\x7f/\\"<>:|?*]', name)
    assert name.isprintable()
    assert len(name.encode("utf-8")) <= 200
    assert name == safe_name(name)
    header = _disposition(name)
    header.encode("latin-1")
    assert re.fullmatch(r'attachment; filename="[ -!#-~]*"; filename\*=UTF-8\'\'[A-Za-z0-9%._~-]+', header)


@pytest.mark.parametrize("name", ["following.csv", "Übersicht 2026.tar.gz", "no-ending", "日本.png"])
def test_a_safe_name_is_kept(name: str) -> None:
    """The name that the client's download gets; only what is unsafe in it is replaced."""
    assert name == safe_name(name)
    assert name == safe_name(f"/tmp/x/{name}")


FILE = bytes(range(40))
NUMBERS = st.integers(0, 60)


@given(st.integers(0, 40), NUMBERS, NUMBERS)
def test_a_range_is_a_slice(size: int, first: int, last: int) -> None:
    """`Range` works: `bytes=first-last` counts from 0 and includes the last."""
    content = FILE[:size]
    span = _span(f"bytes={first}-{last}", size)
    if last < first:  # not a range: ignored
        assert (0, size) == span
    elif first >= size:
        assert span is None
    else:
        assert span is not None
        assert content[first : last + 1] == content[slice(*span)]
        assert 0 <= span[0] < span[1] <= size
    tail = _span(f"bytes={first}-", size)
    assert (None if first >= size else (first, size)) == tail


@given(st.integers(0, 40), NUMBERS)
def test_a_suffix_range_is_the_end(size: int, suffix: int) -> None:
    """`bytes=-n` is the last n bytes."""
    span = _span(f"bytes=-{suffix}", size)
    if suffix == 0 or size == 0:
        assert span is None
    else:
        assert span is not None
        assert FILE[:size][-suffix:] == FILE[:size][slice(*span)]


@given(st.none() | st.text("bytes=0123-, ", max_size=12) | st.text(), st.integers(0, 40))
def test_any_other_range_is_the_whole_file(header: str | None, size: int) -> None:
    """A header that is no single range is ignored, as HTTP says; nothing outside the file is ever meant."""
    span = _span(header, size)
    if header is None or not re.fullmatch(r"bytes=([0-9]+-[0-9]*|-[0-9]+)", header):
        assert (0, size) == span
    elif span is not None:
        assert 0 <= span[0] <= span[1] <= size


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)).map(lambda t: (t[0], t[0] + t[1])), max_size=8)
)
def test_spans_add_up(spans: list[tuple[int, int]]) -> None:
    """A file is downloaded once all of its bytes have gone out, in whatever pieces."""
    merged = _merged(spans)
    assert {n for span in spans for n in range(*span)} == {n for span in merged for n in range(*span)}
    assert all(one[1] < two[0] for one, two in pairwise(merged))
