"""Which addresses are of the public internet. Functions of values.

An IPv4 address inside an IPv6 one is what packets end up at, so that one is judged. `ipaddress.is_global` alone does
not do: it takes multicast and `fec0::/10` for global, and versions of Python differ about the rest.

Source: contract, section 3 ("`PENELOPE_PAGE_NETWORK=public`"); section 11 ("Where a POST may go") reads it too.
"""

from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

Address = IPv4Address | IPv6Address

METADATA: Final = "a cloud's metadata service"
LINK_LOCAL: Final = "a link-local address"
MULTICAST: Final = "a multicast address"
THIS_MACHINE: Final = "an address of this machine"

# The first that matches says what it is.
_V4: Final = tuple(
    (IPv4Network(network), what)
    for network, what in (
        ("169.254.169.254/32", METADATA),
        ("168.63.129.16/32", METADATA),
        ("100.100.100.200/32", METADATA),
        ("192.0.0.192/32", METADATA),
        ("127.0.0.0/8", "a loopback address"),
        ("0.0.0.0/8", THIS_MACHINE),
        ("10.0.0.0/8", "a private address"),
        ("172.16.0.0/12", "a private address"),
        ("192.168.0.0/16", "a private address"),
        ("169.254.0.0/16", LINK_LOCAL),
        ("100.64.0.0/10", "a carrier's shared address"),
        ("224.0.0.0/4", MULTICAST),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "a reserved address"),
        ("192.88.99.0/24", "a reserved address"),
        ("198.18.0.0/15", "a reserved address"),
        ("198.51.100.0/24", "a reserved address"),
        ("203.0.113.0/24", "a reserved address"),
        ("240.0.0.0/4", "a reserved address"),
    )
)
_V6: Final = tuple(
    (IPv6Network(network), what)
    for network, what in (
        ("fd00:ec2::254/128", METADATA),
        ("fd20:ce::254/128", METADATA),
        ("::1/128", "a loopback address"),
        ("::/128", THIS_MACHINE),
        ("fc00::/7", "a private address"),
        ("fec0::/10", "a private address"),
        ("64:ff9b:1::/48", "a private address"),
        ("fe80::/10", LINK_LOCAL),
        ("ff00::/8", MULTICAST),
        ("2001:db8::/32", "a reserved address"),
        ("3fff::/20", "a reserved address"),
        ("2001::/23", "a reserved address"),  # of protocols; Teredo among them is judged unwrapped
        ("5f00::/16", "a reserved address"),
    )
)
_GLOBAL_V6: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")
_COMPATIBLE: Final = IPv6Network("::/96")
_TRANSLATED: Final = IPv6Network("::ffff:0:0:0/96")
_ISATAP: Final = (0x00005EFE, 0x02005EFE)  # the upper half of the interface's id
_LOW_32: Final = 0xFFFFFFFF


def judge(address: str, own: Collection[Address] = ()) -> str | None:
    """What keeps pages off this address, e.g. `a private address`; None: nothing does, it is public.

    Args, Raises: as `findings`.
    """
    return next((what for _, what in findings(address, own)), None)


def findings(address: str, own: Collection[Address] = ()) -> Iterator[tuple[Address, str]]:
    """Everything that speaks against this address being public: which address inside of it is what.

    Args:
        address: as the resolver gives it; a zone (`%eth0`) may follow.
        own: this machine's addresses, public ones too: the worker itself may listen there.

    Raises:
        ValueError: it is no address.
    """
    given = ip_address(address.partition("%")[0])
    for part in unwrapped(given):
        if (what := _judge_v4(part) if isinstance(part, IPv4Address) else _judge_v6(part)) is not None:
            yield part, what
        elif part in own:
            yield part, THIS_MACHINE


def unwrapped(address: Address) -> list[Address]:
    """The addresses that packets to this one may end up at: the IPv4 ones inside of it, or itself."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.sixtofour is not None:
        return [address.sixtofour]
    if address.teredo is not None:
        return list(address.teredo)  # the server and the client
    inside = IPv4Address(int(address) & _LOW_32)
    if address in _NAT64:
        return [inside]
    if address in _COMPATIBLE or address in _TRANSLATED or address in _LOCAL_NAT64:
        return [address, inside]
    if (int(address) >> 32) & _LOW_32 in _ISATAP:
        return [address, inside]
    return [address]


def _judge_v4(address: IPv4Address) -> str | None:
    return next((what for network, what in _V4 if address in network), None)


def _judge_v6(address: IPv6Address) -> str | None:
    what = next((what for network, what in _V6 if address in network), None)
    return what or (None if address in _GLOBAL_V6 else "a reserved address")
