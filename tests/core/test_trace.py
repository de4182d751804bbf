"""`traceparent`, strictly as the W3C has it."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penelope.jobs import trace

HEX = "0123456789abcdef"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def digits(count: int) -> st.SearchStrategy[str]:
    return st.text(HEX, min_size=count, max_size=count)


@given(digits(32), digits(16), st.integers(0, 255))
def test_a_good_one_is_taken_and_sent_on_with_another_span(name: str, parent: str, flags: int) -> None:
    """Same trace id and flags, a new span id; flags that nobody has given a meaning are sent on as 0."""
    assume(int(name, 16) and int(parent, 16))
    taken = trace.parse([f" 00-{name}-{parent}-{flags:02x}\t"])

    assert f"00-{name}-{parent}-{flags & 3:02x}" == taken
    assert f"00-{name}-{'b' * 16}-{flags & 3:02x}" == trace.sent_on(str(taken), "b" * 16)
    assert name == trace.trace_id(taken)


@pytest.mark.parametrize("more", ["", "-", "-what-comes-next"])
@pytest.mark.parametrize("version", ["01", "cc", "fe"])
def test_a_version_to_come_is_read_as_far_as_it_is_known(version: str, more: str) -> None:
    """And sent on as version 00."""
    assert f"00-{TRACE}-{PARENT}-01" == trace.parse([f"{version}-{TRACE}-{PARENT}-01{more}"])


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "00",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"0A-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT.upper()}-01",
        f"00-{TRACE}-{PARENT}-0A",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE}-{PARENT}-01-",
        f"01-{TRACE}-{PARENT}-01more",
        f"00-{TRACE}-{PARENT}-1",
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE}-{PARENT}-",
        f"00-{TRACE[1:]}-{PARENT}-01",
        f"00-{TRACE}0-{PARENT}-01",
        f"00_{TRACE}_{PARENT}_01",
        f"00-{TRACE}-{PARENT}-01\n",
        f"00-{TRACE}-{PARENT}-0\uff11",
        f"00-{TRACE[:-1]}g-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01,00-{TRACE}-{PARENT}-01",
    ],
)
def test_a_bad_one_is_ignored(bad: str) -> None:
    assert trace.parse([bad]) is None


def test_none_and_two_are_no_trace() -> None:
    good = f"00-{TRACE}-{PARENT}-01"
    assert trace.parse([]) is None
    assert trace.parse([good, good]) is None
    assert trace.trace_id(None) is None


@given(st.text())
def test_nothing_makes_it_fail(text: str) -> None:
    taken = trace.parse([text])
    assert taken is None or re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[0-3]", taken)
