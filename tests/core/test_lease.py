"""Leases: a machine that plays clients and hours against a model of who holds the page."""

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penelope.errors import BadParameter, LeaseHeld
from penelope.pages import lease as leases
from penelope.pages.lease import Lease

# Few values, so that time passes to the very moment of an end.
TTLS = st.sampled_from([1.0, 5.0, 60.0, 600.0])


class Leases(RuleBasedStateMachine):
    """The model knows one thing: until when which token holds; `working` while a call works under it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.lease: Lease | None = None
        self.token: str | None = None  # of the lease that holds, by the model
        self.until = 0.0
        self.working = False
        self.count = 0
        self.old: list[str] = []

    @property
    def holds(self) -> bool:
        return self.token is not None and (self.working or self.now < self.until)

    @rule(seconds=st.sampled_from([1, 4, 5, 55, 60, 595, 600]))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        if not self.holds and self.token is not None:
            self.old.append(self.token)
            self.token = None

    @rule(ttl=TTLS)
    def take(self, ttl: float) -> None:
        self.count += 1
        token = f"token-{self.count}"
        if self.holds:
            with pytest.raises(LeaseHeld) as refused:
                leases.take(self.lease, token, ttl, self.now)
            assert refused.value.expires_in is not None
            assert refused.value.expires_in > 0
        else:
            self.lease = leases.take(self.lease, token, ttl, self.now)
            self.token, self.until = token, self.now + ttl
            assert ttl == self.lease.expires_in(self.now)

    @rule()
    def without_a_token(self) -> None:
        if self.holds:
            with pytest.raises(LeaseHeld) as refused:
                leases.check(self.lease, None, self.now)
            assert refused.value.expires_in is not None
        else:
            leases.check(self.lease, None, self.now)

    @rule(token=st.sampled_from(["", "é", "\ud800", "nobody's"]))
    def with_a_wrong_token(self, token: str) -> None:
        with pytest.raises(LeaseHeld):
            leases.check(self.lease, token, self.now)

    @rule(data=st.data())
    @precondition(lambda self: self.old)
    def with_an_expired_token(self, data: st.DataObject) -> None:
        with pytest.raises(LeaseHeld):
            leases.check(self.lease, data.draw(st.sampled_from(self.old)), self.now)

    @rule()
    @precondition(lambda self: self.holds and not self.working)
    def a_call_begins(self) -> None:
        leases.check(self.lease, self.token, self.now)
        self.lease = leases.begin(self.lease, self.now)
        self.working = True

    @rule()
    @precondition(lambda self: self.working)
    def the_call_ends(self) -> None:
        assert self.lease is not None
        self.lease = leases.end(self.lease, self.now)
        assert self.lease is not None
        self.working, self.until = False, self.now + self.lease.ttl

    @rule()
    @precondition(lambda self: not self.holds)
    def a_call_begins_without_a_lease(self) -> None:
        self.lease = leases.begin(self.lease, self.now)
        assert self.lease is None

    @invariant()
    def the_model_is_right(self) -> None:
        live = leases.live(self.lease, self.now)
        assert self.holds == (live is not None)
        if live is not None:
            assert self.token == live.token
            assert 0 < live.expires_in(self.now) <= live.ttl
            assert self.working == math.isinf(live.expires_at)


TestLeases = Leases.TestCase
TestLeases.settings = settings(max_examples=40, stateful_step_count=30)


@pytest.mark.parametrize("ttl", [0.0, -1.0, -0.0, 600.0001, math.nan, math.inf, -math.inf, 1e308])
def test_a_ttl_out_of_range_is_refused(ttl: float) -> None:
    """`0 < ttl ≤ 600`."""
    with pytest.raises(BadParameter, match="ttl"):
        leases.take(None, "t", ttl, 0.0)
