"""In which order the addresses of a receiver are tried."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penelope.jobs.dialling import spread


@given(st.lists(st.ip_addresses().map(str), unique=True))
def test_families_take_turns(addresses: list[str]) -> None:
    """Each address once, each family in its own order, the first one first, and none waits behind two of the other."""
    tried = spread(addresses)

    assert sorted(addresses) == sorted(tried)
    assert addresses[:1] == tried[:1]
    for v6 in (True, False):
        assert [it for it in addresses if (":" in it) is v6] == [it for it in tried if (":" in it) is v6]
    fewer = min(sum(":" in it for it in addresses), sum(":" not in it for it in addresses))
    pairs = list(pairwise(tried))[: max(2 * fewer - 1, 0)]
    assert all((":" in one) is not (":" in other) for one, other in pairs)
