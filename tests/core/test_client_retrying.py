"""When a client asks again: `Retry-After` in all its forms, and pauses that are bounded whatever is asked.

Source: RFC 9110, 10.2.3 and 5.6.7.
"""

from datetime import UTC, datetime
from email.utils import formatdate

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penelope.client.retrying import Retries, http_date, retry_after

NOW = 1_795_967_610.0
SECONDS = st.floats(0, 1e5)
ANY_RETRIES = st.builds(
    Retries,
    attempts=st.integers(1, 20),
    within_s=SECONDS,
    first_s=SECONDS,
    longest_s=SECONDS,
)


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("value", "seconds"),
        [
            ("0", 0.0), ("120", 120.0), (" 7 ", 7.0), ("1.5", 1.5),  # the last is no HTTP, but some say it
            ("", None), ("soon", None), ("-1", None), ("+1", None), ("1e3", None), ("nan", None), ("inf", None),
            ("٣", None), ("1, 2", None), ("9999999999", None), ("0x10", None),
        ],
    )  # fmt: skip
    def test_seconds(self, value: str, seconds: float | None) -> None:
        assert seconds == retry_after({"retry-after": value}, NOW)

    def test_none_is_none(self) -> None:
        assert retry_after({}, NOW) is None

    @pytest.mark.parametrize(
        "date",
        [
            "Sun, 06 Nov 1994 08:49:37 GMT",  # as it is written today
            "Sunday, 06-Nov-94 08:49:37 GMT",  # RFC 850
            "Sun Nov  6 08:49:37 1994",  # C's asctime
        ],
    )
    def test_the_three_forms_of_a_date(self, date: str) -> None:
        """RFC 9110, 5.6.7: a recipient takes all three."""
        moment = datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC).timestamp()

        assert moment == http_date(date)
        assert 37.0 == retry_after({"retry-after": date}, moment - 37)

    @given(st.integers(0, 4_000_000_000), st.integers(-1000, 1000))
    def test_a_date_is_so_far_away_and_never_behind(self, at: int, ahead: int) -> None:
        until = max(0, at + ahead)
        headers = {"retry-after": formatdate(until, usegmt=True)}

        assert max(0.0, until - at) == retry_after(headers, at)

    @given(st.integers(1_000_000, 4_000_000_000), st.integers(0, 10_000), st.floats(-1e6, 1e6))
    def test_the_servers_own_clock_counts(self, sent: int, ahead: int, wrong_by: float) -> None:
        """A client whose clock is wrong does not wait for years: the distance is taken from the answer's own `Date`."""
        headers = {
            "retry-after": formatdate(sent + ahead, usegmt=True),
            "date": formatdate(sent, usegmt=True),
        }

        assert float(ahead) == retry_after(headers, sent + wrong_by)

    @given(st.text(st.characters(codec="latin-1"), max_size=60))
    def test_nothing_that_a_header_may_hold_makes_it_raise(self, value: str) -> None:
        found = retry_after({"retry-after": value, "date": value}, NOW)

        assert found is None or found >= 0

    @pytest.mark.parametrize(
        "value",
        [
            "Sun, 99 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 99999999999999 08:49:37 GMT",
            "Mon, 12",
            "Sun, 06 Foo 1994 0:0:0",
        ],
    )
    def test_what_only_looks_like_a_date_is_none(self, value: str) -> None:
        assert http_date(value) is None


class TestPauses:
    @given(ANY_RETRIES, st.lists(st.one_of(st.none(), SECONDS), max_size=30), st.floats(0, 1))
    def test_it_ends(self, retries: Retries, asked: list[float | None], chance: float) -> None:
        """Whatever is asked: no more attempts than allowed, and none that begins later than allowed."""
        elapsed, tried = 0.0, 1
        for seconds in asked:
            wait = retries.pause(tried, elapsed=elapsed, asked=seconds, chance=chance)
            if wait is None:
                break
            assert wait >= (seconds or 0.0)
            elapsed += wait
            tried += 1
            assert elapsed <= retries.within_s * (1 + 1e-9)
        assert tried <= retries.attempts

    @given(ANY_RETRIES, st.floats(0, 1))
    def test_our_own_pauses_grow_to_their_bound(self, retries: Retries, chance: float) -> None:
        assume(retries.within_s > 0)
        waits = [retries.pause(tried, elapsed=0.0, chance=chance) for tried in range(1, retries.attempts)]
        given_ones = [wait for wait in waits if wait is not None]

        assert given_ones == sorted(given_ones)
        assert all(wait <= retries.longest_s for wait in given_ones)

    def test_many_clients_do_not_come_back_at_once(self) -> None:
        pauses = {Retries().pause(3, elapsed=0.0, chance=chance / 10) for chance in range(11)}

        assert 11 == len(pauses)
        assert (0.5, 1.0) == (min(filter(None, pauses)), max(filter(None, pauses)))

    def test_what_was_asked_for_is_waited_or_not_begun(self) -> None:
        """A `Retry-After` past the bound ends it at once: to come earlier would be no use."""
        retries = Retries(within_s=60)

        assert 50.0 == retries.pause(1, elapsed=5.0, asked=50.0)
        assert retries.pause(1, elapsed=15.0, asked=50.0) is None

    def test_one_attempt_is_one(self) -> None:
        assert Retries(attempts=1).pause(1, elapsed=0.0, asked=0.0) is None

    @pytest.mark.parametrize(
        "wrong", [{"attempts": 0}, {"within_s": -1.0}, {"first_s": -0.1}, {"longest_s": -1.0}]
    )
    def test_what_makes_no_sense_is_refused(self, wrong: dict[str, float]) -> None:
        with pytest.raises(ValueError):
            Retries(**wrong)  # type: ignore[arg-type]
