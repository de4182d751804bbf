"""Leases: a page reserved for one client between its calls. Functions of values and of `now`.

`now` and `expires_at` are seconds of one clock that never goes back; which one is the caller's choice.

Source: contract, section 4.
"""

import hmac
import math
from dataclasses import dataclass, replace
from typing import Final

from penelope.errors import BadParameter, LeaseHeld

MAX_LEASE_TTL_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Attributes:
    token: what `X-Lease` has to carry; never shown again.
    ttl: seconds that each use starts again.
    expires_at: when it runs out; infinite while a call or a job works the page under it.
    """

    token: str
    ttl: float
    expires_at: float

    def expires_in(self, now: float) -> float:
        """Seconds left; the whole ttl while it is in use."""
        return self.ttl if math.isinf(self.expires_at) else max(0.0, self.expires_at - now)


def take(current: Lease | None, token: str, ttl: float, now: float) -> Lease:
    """A new lease, where no other holds.

    Raises:
        BadParameter: a ttl that is not `0 < ttl <= 600`.
        LeaseHeld: another holds the page.
    """
    if not 0 < ttl <= MAX_LEASE_TTL_S:
        raise BadParameter(f"ttl is {ttl!r}: it must be above 0 and at most {MAX_LEASE_TTL_S:.0f} seconds")
    if (holder := live(current, now)) is not None:
        raise LeaseHeld("the page is leased", expires_in=holder.expires_in(now))
    return Lease(token=token, ttl=ttl, expires_at=now + ttl)


def live(lease: Lease | None, now: float) -> Lease | None:
    """The lease, or None once it has run out."""
    return lease if lease is not None and now < lease.expires_at else None


def check(lease: Lease | None, token: str | None, now: float) -> None:
    """May a call with this `X-Lease` (None: without one) work the page?

    Raises:
        LeaseHeld: the page is leased and the token is not its, or the token is of no lease that holds.
    """
    holder = live(lease, now)
    if holder is None:
        if token is not None:
            raise LeaseHeld("X-Lease is not the token of a lease that holds: it is wrong or has expired")
        return
    if token is None:
        raise LeaseHeld("the page is leased: X-Lease is missing", expires_in=holder.expires_in(now))
    if not hmac.compare_digest(holder.token.encode(), token.encode("utf-8", "replace")):
        raise LeaseHeld("the page is leased: X-Lease is not its token", expires_in=holder.expires_in(now))


def begin(lease: Lease | None, now: float) -> Lease | None:
    """The lease while a call works under it: it does not run out."""
    holder = live(lease, now)
    return None if holder is None else replace(holder, expires_at=math.inf)


def end(lease: Lease | None, now: float) -> Lease | None:
    """The lease after the call: its ttl starts again."""
    return None if lease is None else replace(lease, expires_at=now + lease.ttl)
