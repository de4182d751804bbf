"""Where a POST may go, judged by the address that is dialled. Functions of values.

What an address is, `pages.addresses` says: for pages and webhooks alike. Here stands which of it a policy refuses.

Source: contract, section 11 ("Where a POST may go").
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final, assert_never
from urllib.parse import urlsplit

from penelope.pages.addresses import LINK_LOCAL, METADATA, MULTICAST, Address, findings, unwrapped

ITSELF: Final = "the worker itself"
_NEVER_ON_A_LAN: Final = frozenset({LINK_LOCAL, METADATA, MULTICAST})


class Policy(Enum):
    """`ANY`: wherever the caller says. `LAN`: not to link-local, metadata and multicast addresses, nor to the worker
    itself. `PUBLIC`: to addresses of the public internet alone.
    """

    ANY = "any"
    LAN = "lan"
    PUBLIC = "public"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the operator says of where POSTs may go.

    Attributes:
        names: hosts whose addresses are let through, whatever they are; lower case, without the root's dot.
        networks: addresses that are let through, whoever's they are.
        bound: address and port that the worker itself listens on; None: on none.
        setting, allow_setting: the variables, for messages.
    """

    policy: Policy = Policy.ANY
    names: frozenset[str] = frozenset()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    bound: tuple[Address, int] | None = None
    setting: str = "WEBHOOK_POLICY"
    allow_setting: str = "WEBHOOK_ALLOW"

    def refusal(self, host: str, port: int, address: str, own: Collection[Address]) -> str | None:
        """Why a POST to this address may not be made, in words that name the rule and the settings; None: it may.

        Args:
            host: as the URL has it, a name or an address.
            address: one of the host's; a zone (`%eth0`) may follow.
            own: this machine's addresses.
        """
        what = self._refused(host, port, address, own)
        if what is None:
            return None
        return (
            f"{address} is {what}, which {self.setting}={self.policy.value} refuses "
            f"({self.allow_setting} lets single hosts and networks through)"
        )

    def refusal_at_start(self, url: str, own: Collection[Address]) -> str | None:
        """As `refusal`, for what a callback URL says by itself: an address, or `localhost`. Names are judged when they
        are dialled: what they stand for may change until then.

        Args:
            url: one that `options` took.
        """
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return next(filter(None, (self.refusal(host, port, it, own) for it in _literal(host))), None)

    def _refused(self, host: str, port: int, address: str, own: Collection[Address]) -> str | None:
        if self.policy is Policy.ANY or _plain(host) in self.names or self._lets_through(address):
            return None
        for part in unwrapped(ip_address(address.partition("%")[0])):
            if self._is_itself(part, port, own) and not self._lets_through(str(part)):
                return ITSELF
        for part, what in findings(address, own):
            if self._minds(what) and not self._lets_through(str(part)):
                return what
        return None

    def _minds(self, what: str) -> bool:
        match self.policy:
            case Policy.ANY:
                return False
            case Policy.LAN:
                return what in _NEVER_ON_A_LAN
            case Policy.PUBLIC:
                return True
            case _:
                assert_never(self.policy)

    def _lets_through(self, address: str) -> bool:
        given = ip_address(address.partition("%")[0])
        return any(given in network for network in self.networks)

    def _is_itself(self, address: Address, port: int, own: Collection[Address]) -> bool:
        if self.bound is None or port != self.bound[1]:
            return False
        at = self.bound[0]
        if at.is_unspecified:
            return address.is_unspecified or address.is_loopback or address in own
        # To dial 0.0.0.0 is to dial loopback.
        return address == at or (address.is_unspecified and at.is_loopback)


def rules(policy: str, allow: Iterable[str], bound: tuple[str, int] | None) -> Rules:
    """The rules of settings that were read.

    Args:
        allow: host names, addresses, networks.
        bound: the worker's own address, as its socket says it, and port.
    """
    names, networks = set[str](), list[IPv4Network | IPv6Network]()
    for entry in allow:
        try:
            networks.append(ip_network(entry.strip("[]")))
        except ValueError:
            names.add(_plain(entry))
    return Rules(
        policy=Policy(policy),
        names=frozenset(names),
        networks=tuple(networks),
        bound=None if bound is None else (ip_address(bound[0].partition("%")[0]), bound[1]),
    )


def _plain(host: str) -> str:
    return host.lower().removesuffix(".")


def _literal(host: str) -> tuple[str, ...]:
    """The addresses that a host is without a look-up."""
    if _plain(host) == "localhost" or _plain(host).endswith(".localhost"):
        return ("127.0.0.1", "::1")
    try:
        return (str(ip_address(host)),)
    except ValueError:
        return ()
