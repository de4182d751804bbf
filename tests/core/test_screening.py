"""Where a POST may go: the policies, what is let through all the same, and how a refusal is told."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penelope.jobs.screening import Rules, rules
from penelope.pages.addresses import Address, judge
from tests.core.test_addresses import wrapped

WORKER = ("127.0.0.1", 5000)
OWN: frozenset[Address] = frozenset(
    map(ip_address, ("127.0.0.1", "::1", "192.168.1.5", "198.41.0.4", "2606:4700::5"))
)
ADDRESSES = st.ip_addresses().map(str)
PORTS = st.integers(1, 65535)


def lets(rule: Rules, address: str, port: int = 80, host: str = "receiver.lan") -> bool:
    return rule.refusal(host, port, address, OWN) is None


@given(ADDRESSES, PORTS)
def test_any_refuses_nothing(address: str, port: int) -> None:
    """As in the seed: wherever the caller says, the worker itself too."""
    rule = rules("any", (), WORKER)
    assert lets(rule, address, port)
    assert lets(rule, *WORKER)


@given(ADDRESSES)
def test_public_takes_what_is_public_for_pages(address: str) -> None:
    """One judge for both."""
    assert lets(rules("public", (), None), address) == (judge(address, OWN) is None)


NEVER_ON_A_LAN = (
    "169.254.169.254 169.254.1.1 224.0.0.1 239.255.255.250 100.100.100.200 168.63.129.16 fe80::1 fe80::1%eth0 ff02::1 "
    "fd00:ec2::254 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::1 ::169.254.169.254 "
    "64:ff9b:1::a9fe:a9fe ::ffff:0:a9fe:a9fe ::ffff:224.0.0.1"
).split()
ON_A_LAN = (
    "192.168.1.9 10.0.0.1 172.16.0.1 127.0.0.1 ::1 fc00::1 fd12::1 8.8.8.8 2606:4700::1111 100.64.0.1 192.168.1.5 "
    "::ffff:10.0.0.1 64:ff9b::a00:1"
).split()


@pytest.mark.parametrize("address", NEVER_ON_A_LAN)
def test_lan_refuses_what_is_nobodys_receiver(address: str) -> None:
    """Link-local, metadata and multicast addresses, also inside of IPv6 ones (J64)."""
    assert not lets(rules("lan", (), WORKER), address)


@pytest.mark.parametrize("address", ON_A_LAN)
def test_lan_takes_the_rest(address: str) -> None:
    """Loopback and this machine's own too, but for the worker's port."""
    assert lets(rules("lan", (), WORKER), address)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_inside_of_an_ipv6_one_is_judged_as_itself(v4: IPv4Address) -> None:
    """J64, J65, J66: under each policy."""
    for policy in ("lan", "public"):
        rule = rules(policy, (), None)
        for form, v6 in wrapped(v4).items():
            assert lets(rule, str(v4)) == lets(rule, str(v6)), (policy, form)


@pytest.mark.parametrize(
    ("bound", "address", "itself"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("127.0.0.1", "::", True),  # has 0.0.0.0 inside: where it leads is the system's matter
        ("127.0.0.1", "127.0.0.2", False),
        ("127.0.0.1", "192.168.1.5", False),
        ("::1", "::1", True),
        ("192.168.1.5", "192.168.1.5", True),
        ("192.168.1.5", "127.0.0.1", False),
        ("192.168.1.5", "0.0.0.0", False),
        ("0.0.0.0", "127.0.0.1", True),
        ("0.0.0.0", "127.9.9.9", True),
        ("0.0.0.0", "192.168.1.5", True),
        ("0.0.0.0", "192.168.1.6", False),
        ("::", "192.168.1.5", True),
        ("::", "2606:4700::5", True),
    ],
)
def test_lan_refuses_the_worker_itself(bound: str, address: str, itself: bool) -> None:
    """Its own address and port, however they are written; other ports of it are neighbours."""
    rule = rules("lan", (), (bound, 5000))
    refusal = rule.refusal("worker.lan", 5000, address, OWN)

    assert itself == (refusal is not None and "the worker itself" in refusal)
    assert lets(rule, address, 5001)


@given(st.ip_addresses(), PORTS)
def test_what_is_allowed_is_let_through_under_any_policy(
    address: IPv4Address | IPv6Address, port: int
) -> None:
    """By its host's name, by its address, by its network."""
    network = str(ip_network(f"{address}/{address.max_prefixlen - 4}", strict=False))
    for policy in ("any", "lan", "public"):
        for entry in (str(address), network):
            assert lets(rules(policy, (entry,), (str(address), port)), str(address), port)
        for entry, host in (("Receiver.LAN", "receiver.lan."), ("receiver.lan.", "RECEIVER.lan")):
            assert lets(rules(policy, (entry,), (str(address), port)), str(address), port, host)


def test_networks_are_of_addresses_and_names_of_names() -> None:
    rule = rules("public", ("10.1.0.0/16", "[fd00::]", "nas.lan"), None)
    assert [lets(rule, "10.1.2.3"), lets(rule, "::ffff:10.1.2.3"), lets(rule, "fd00::")] == [True] * 3
    assert [lets(rule, "10.2.0.1"), lets(rule, "fd00::1"), lets(rule, "192.168.1.9")] == [False] * 3
    assert lets(rule, "192.168.1.9", host="nas.lan")
    assert not lets(rule, "192.168.1.9", host="x.nas.lan")


def test_an_address_with_two_inside_needs_both_let_through() -> None:
    """Teredo's names a server and a client; each may be where a packet ends up."""
    teredo = "2001:0:a00:1:0:0:f5ff:fffe"  # 10.0.0.1, and 10.0.0.1 the other way round
    assert not lets(rules("public", (), None), teredo)
    assert lets(rules("public", ("10.0.0.0/8",), None), teredo)
    mixed = "2001:0:a00:1:0:0:3f57:fefa"  # 10.0.0.1, 192.168.1.5
    assert not lets(rules("public", ("10.0.0.0/8",), None), mixed)


def test_a_refusal_names_the_address_the_rule_and_the_settings() -> None:
    refusal = rules("public", (), None).refusal("db.lan", 80, "10.0.0.7", OWN)

    assert (
        "10.0.0.7 is a private address, which WEBHOOK_POLICY=public refuses "
        "(WEBHOOK_ALLOW lets single hosts and networks through)" == refusal
    )


@pytest.mark.parametrize(
    ("policy", "url", "refused"),
    [
        ("public", "http://127.0.0.1/x", True),
        ("public", "http://[::1]:8080/x", True),
        ("public", "http://[::ffff:10.0.0.1]/", True),
        ("public", "http://localhost:8080/x", True),
        ("public", "http://LOCALHOST./x", True),
        ("public", "http://a.localhost/x", True),
        ("public", "http://8.8.8.8/", False),
        ("public", "http://receiver.lan/", False),  # judged when it is dialled
        ("public", "http://user:password@10.0.0.1/", True),
        ("lan", "http://127.0.0.1:5000/api/v1/pages", True),
        ("lan", "http://localhost:5000/", True),
        ("lan", "http://localhost:5001/", False),
        ("lan", "https://127.0.0.1/", False),
        ("lan", "http://169.254.169.254/latest/meta-data", True),
        ("any", "http://127.0.0.1:5000/", False),
    ],
)
def test_at_a_start_the_url_is_judged_as_far_as_it_tells(policy: str, url: str, refused: bool) -> None:
    """A literal address, or localhost."""
    assert refused == (rules(policy, (), WORKER).refusal_at_start(url, OWN) is not None)


def test_the_port_of_a_scheme_counts() -> None:
    rule = rules("lan", (), ("127.0.0.1", 443))
    assert rule.refusal_at_start("https://127.0.0.1/", OWN) is not None
    assert rule.refusal_at_start("http://127.0.0.1/", OWN) is None
