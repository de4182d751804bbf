"""Which addresses are public: IPv4 inside of IPv6 is judged unwrapped."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penelope.pages.addresses import judge, unwrapped

PUBLIC = (
    "8.8.8.8 1.1.1.1 93.184.216.34 172.15.0.1 172.32.0.1 100.63.255.255 100.128.0.1 223.255.255.255".split()
)
INNER = (
    "127.0.0.1 127.255.255.254 0.0.0.0 0.1.2.3 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.1.1 "
    "169.254.169.254 100.64.0.1 100.127.255.255 100.100.100.200 168.63.129.16 224.0.0.1 239.255.255.250 "
    "255.255.255.255 240.0.0.1 198.18.0.1 192.0.2.1 203.0.113.9 192.0.0.192"
).split()
INNER_V6 = (
    "::1 :: fc00::1 fd00:ec2::254 fe80::1 fe80::1%eth0 fec0::1 ff02::1 ff0e::1 2001:db8::1 64:ff9b:1::808:808 "
    "100::1 3fff::1 4000::1 8000::1 ::127.0.0.1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:0:7f00:1"
).split()
V4 = st.ip_addresses(v=4)


def wrapped(v4: IPv4Address) -> dict[str, IPv6Address]:
    """Every form that holds an IPv4 address."""
    bits = int(v4)
    return {
        "mapped": IPv6Address((0xFFFF << 32) | bits),
        "nat64": IPv6Address((0x0064FF9B << 96) | bits),
        "6to4": IPv6Address((0x2002 << 112) | (bits << 80) | 1),
        "teredo": IPv6Address((0x20010000 << 96) | (0x08080808 << 64) | (bits ^ 0xFFFFFFFF)),
        "isatap": IPv6Address((0x2600 << 112) | (0x00005EFE << 32) | bits),
    }


@pytest.mark.parametrize("address", [*PUBLIC, "2606:4700::1111", "2a00:1450:4001::1", "2001:4860:4860::8888"])
def test_public_addresses_are_let_through(address: str) -> None:
    assert judge(address) is None


@pytest.mark.parametrize("address", [*INNER, *INNER_V6])
def test_inner_addresses_are_not(address: str) -> None:
    """J64, J66: loopback, private, link-local, metadata, carrier's shared, multicast, `fec0::/10`."""
    assert judge(address) is not None


@given(V4)
def test_an_ipv4_address_inside_of_an_ipv6_one_is_judged_as_itself(v4: IPv4Address) -> None:
    """J64, J65: `64:ff9b::7f00:1` and `2002:7f00:1::` are refused, `64:ff9b::` with a public one is not."""
    for form, v6 in wrapped(v4).items():
        assert v4 in unwrapped(v6), form
        assert (judge(str(v4)) is None) == (judge(str(v6)) is None), form


@given(st.ip_addresses())
def test_nothing_is_public_that_python_holds_for_inner(address: IPv4Address | IPv6Address) -> None:
    """Our list leaves out nothing that the standard library knows, in whatever version."""
    if judge(str(address)) is None:
        for part in unwrapped(address):
            assert part.is_global
            assert not any((part.is_private, part.is_multicast, part.is_link_local, part.is_reserved))


@given(st.ip_addresses())
def test_this_machines_addresses_are_inner_whatever_they_are(address: IPv4Address | IPv6Address) -> None:
    """And the worker itself, if it listens on a public one; also wrapped."""
    assert judge(str(address), set(unwrapped(address))) is not None
    if isinstance(address, IPv4Address):
        assert {"an address of this machine"} >= {
            what
            for v6 in wrapped(address).values()
            if (what := judge(str(v6), {address})) and judge(str(v6)) is None
        }


@pytest.mark.parametrize("text", ["", "localhost", "1.2.3", "0x7f.1", "1.2.3.4.5", "::g"])
def test_what_is_no_address_is_not_judged(text: str) -> None:
    with pytest.raises(ValueError):
        judge(text)


def test_a_reason_is_given() -> None:
    """The client is told why."""
    asked = ("127.0.0.1", "10.1.2.3", "169.254.169.254", "100.64.0.1", "ff02::1")
    assert [
        "a loopback address",
        "a private address",
        "a cloud's metadata service",
        "a carrier's shared address",
        "a multicast address",
    ] == [judge(address) for address in asked]
    assert "an address of this machine" == judge("8.8.8.8", {ip_address("8.8.8.8")})
