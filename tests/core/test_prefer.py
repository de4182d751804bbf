"""`Prefer: wait=N`, as RFC 7240 has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penelope.http import prefer

NAMES = st.text("abcdefghijklmnopqrstuvwxyzABC0123456789!#$%&'*+.^_`|~-", min_size=1, max_size=12)
OTHERS = st.one_of(
    NAMES.filter(lambda name: name.lower() != "wait"),
    st.builds(lambda name, value: f'{name}-x="{value}, wait=3"', NAMES, st.text("ab ,;=", max_size=8)),
    st.sampled_from(["respond-async", "return=minimal", "", "=", ";;", "handling=lenient; wait=4"]),
)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ([], None),
        ([""], None),
        (["wait=5"], 5),
        (["wait=0"], 0),
        (["wait=60"], 60),
        (["wait=61"], 60),
        (["wait=000000000000000000007"], 7),
        (["wait=" + "9" * 5000], 60),
        (["WAIT=5"], 5),
        (["wait = 5"], 5),
        (['wait="5"'], 5),
        (["wait=5; because=reasons"], 5),
        (["respond-async, wait=5"], 5),
        (["respond-async", "wait=5"], 5),
        (["wait=5, wait=9"], 5),
        (["wait=5", "wait=9"], 5),
        (["wait=x, wait=9"], None),
        (["wait"], None),
        (["wait="], None),
        (["wait=-1"], None),
        (["wait=1.5"], None),
        (["wait=1e1"], None),
        (["wait=٣"], None),
        (["wait=5 9"], None),
        (['wait="5'], None),
        (["waits=5"], None),
        (["respond-async; wait=5"], None),
        (['note="a, wait=3", wait=7'], 7),
    ],
)
def test_what_counts(headers: list[str], seconds: int | None) -> None:
    """Malformed and unknown ones are ignored; the first of several is considered; larger is capped."""
    assert seconds == prefer.wait(headers)


@given(st.lists(OTHERS, max_size=4), st.integers(0, 10**12), st.lists(OTHERS, max_size=4))
def test_it_is_found_among_others(before: list[str], seconds: int, after: list[str]) -> None:
    """In one header or in several."""
    preferences = [*before, f"wait={seconds}", *after]

    assert min(seconds, prefer.MAX_WAIT_S) == prefer.wait(preferences)
    assert min(seconds, prefer.MAX_WAIT_S) == prefer.wait([", ".join(preferences)])


@given(st.lists(st.text(max_size=30), max_size=2))
def test_nothing_breaks_it(headers: list[str]) -> None:
    seconds = prefer.wait(headers)

    assert seconds is None or 0 <= seconds <= prefer.MAX_WAIT_S


def test_what_was_taken_is_said() -> None:
    assert {"Preference-Applied": "wait=60"} == prefer.applied(prefer.wait(["wait=3600"]))
    assert {} == prefer.applied(None)
