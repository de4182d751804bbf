"""When to ask again, and after how long: pure, bounded, and as the other side asks.

Source: RFC 9110, 10.2.3 (`Retry-After`: seconds or an HTTP date) and 5.6.7 (its three forms).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
_DATE: Final = re.compile(  # else `email.utils` takes much that is none
    r"(Mon|Tues?|Wed(nes)?|Thu(rs)?|Fri|Sat(ur)?|Sun)(day)?,? [ -~]{10,30}", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How long to keep trying. The first of the two bounds that is reached ends it.

    Attributes:
        attempts: of one request, the first included; 1: never again.
        within_s: no attempt begins later than this after the first. A `Retry-After` that leads past it is not waited
            for: the error says how long it would have been.
        first_s: before the second attempt; each further pause is twice as long.
        longest_s: of a pause that nobody asked for.
    """

    attempts: int = 6
    within_s: float = 60.0
    first_s: float = 0.25
    longest_s: float = 10.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or min(self.within_s, self.first_s, self.longest_s) < 0:
            raise ValueError(f"{self}: at least one attempt, and no time below 0")

    def at_most(self, seconds: float) -> "Retries":
        """The same, in no more time than that."""
        return replace(self, within_s=min(self.within_s, seconds))

    def pause(
        self, tried: int, *, elapsed: float, asked: float | None = None, chance: float = 0.0
    ) -> float | None:
        """Seconds to wait before the next attempt; None: there is none.

        Args:
            tried: attempts so far, at least 1.
            elapsed: seconds since the first began.
            asked: what `Retry-After` said; it is a floor.
            chance: 0 to 1, to take up to half of our own pause off, so that many clients do not come back at once.
        """
        if tried >= self.attempts:
            return None
        own = min(self.longest_s, self.first_s * 2.0 ** min(tried - 1, 60)) * (1 - chance / 2)
        wait = own if asked is None else max(asked, 0.0) + own * chance / 4
        return wait if elapsed + wait <= self.within_s else None


NEVER: Final = Retries(attempts=1)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds that an answer asks to wait, at least 0; None: it does not, or in no form that there is.

    Args:
        headers: of the answer, looked up in lower case.
        now: epoch seconds, for a date where the answer has no `Date` of its own to reckon from.
    """
    value = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    until = http_date(value)
    if until is None:
        return None
    sent = http_date(headers.get("date", "").strip())
    return max(0.0, until - (now if sent is None else sent))


def http_date(value: str) -> float | None:
    """Epoch seconds of a date in one of HTTP's three forms; None: it is none."""
    if not _DATE.fullmatch(value):
        return None
    try:
        date = parsedate_to_datetime(value)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
