"""Who may ask: the key, the Host, and what a browser that the worker steers must not be able to send.

Source: contract, section 1.
"""

import hmac
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final
from urllib.parse import unquote_plus

from penelope.errors import BadHeader, BadParameter, Unauthorized, WrongContentType, WrongHost
from penelope.settings import is_loopback

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:+/=@-]{1,128}", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_NAME: Final = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*", re.ASCII)
_IPV6: Final = re.compile(r"(?=.*:)[0-9a-f:.]+", re.ASCII)
_BROWSERS: Final = ("origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest", "sec-fetch-user")
FOR_RUNS: Final = ("authorization", "x-api-key", *_BROWSERS)
_CHALLENGE: Final = {"WWW-Authenticate": "Bearer"}


def check_key(given: list[str], keys: Sequence[str], header: str = "Authorization") -> None:
    """Is the `Authorization` header (all of them) one of our keys as a bearer token? Compared in constant time.

    Args:
        keys: the current one, and during a rotation the previous one: else all clients would have to change at once.
        header: that it came in, for the message.

    Raises:
        Unauthorized: no, or there is none.
    """
    if not given:
        raise Unauthorized("the Authorization header is missing: send Bearer and the key", headers=_CHALLENGE)
    scheme, _, token = given[0].partition(" ")
    sent = token.strip().encode("utf-8", "surrogateescape")
    same = sum(hmac.compare_digest(sent, key.encode()) for key in keys)  # all of them, whichever matches
    if len(given) > 1 or scheme.lower() != "bearer" or not same:
        raise Unauthorized(f"the {header} header does not carry the key", headers=_CHALLENGE)


def check_key_for_runs(headers: Mapping[str, Sequence[str]], keys: Sequence[str], *, open_here: bool) -> None:
    """As `check_key`, for runs: the key may come as `X-API-Key` too, and not at all where the worker lets callers of
    this machine in without one.

    Args:
        headers: all values of the ones that are asked for, by lower-case name.
        open_here: PENELOPE_RUNS_AUTH=loopback, a worker that binds to loopback.

    Raises:
        Unauthorized: no key, a wrong one, or a browser's request without one: a page that it shows can reach this port.
    """
    given, header = list(headers["authorization"]), "Authorization"
    if not given and (as_key := headers["x-api-key"]):
        given, header = [f"Bearer {key}" for key in as_key], "X-API-Key"
    if given or not open_here:
        check_key(given, keys, header)
    elif any(headers[name] for name in _BROWSERS):
        raise Unauthorized("a browser's request needs the key", headers=_CHALLENGE)


def check_host(given: str | None, *, on_loopback: bool, hosts: Collection[str]) -> None:
    """Is the request meant for this worker? A name that someone else's DNS points at loopback is not.

    Args:
        on_loopback: the worker binds to loopback: then loopback names are good, and those of `hosts`.
        hosts: PENELOPE_HOSTS; empty: beyond loopback, any.

    Raises:
        WrongHost: no.
    """
    name = _host_name(given or "").lower()
    if not _NAME.fullmatch(name) and not _IPV6.fullmatch(name):
        raise WrongHost(f"Host {ascii(given or '')[:100]} is not a name or an address")
    if name in {host.lower() for host in hosts}:
        return
    if on_loopback and (is_loopback(name) or name.endswith(".localhost")):
        return
    if not on_loopback and not hosts:
        return
    raise WrongHost(f"Host {ascii(given or '')[:100]} is not answered here (PENELOPE_HOSTS)")


def check_content_type(given: str | None, *, has_body: bool) -> None:
    """Is the body declared as JSON? A page in the browser cannot send that here without being asked first.

    Raises:
        WrongContentType: no.
    """
    if given is None and not has_body:
        return
    kind, _, parameters = (given or "").partition(";")
    charset = re.search(r"charset\s*=\s*\"?([^\s\";]+)", parameters, re.IGNORECASE)
    if kind.strip().lower() != "application/json":
        raise WrongContentType("Content-Type must be application/json")
    if charset and charset[1].lower() not in {"utf-8", "utf8", "us-ascii"}:
        raise WrongContentType("Content-Type must be application/json in UTF-8")


def check_target(path: str, raw_query: bytes) -> None:
    """Are path and query free of control characters, written plainly or behind percent signs?

    Raises:
        BadParameter: no.
    """
    if _CONTROL.search(path):
        raise BadParameter("the path has a control character")
    if _CONTROL.search(unquote_plus(raw_query.decode("latin-1"), "latin-1")):
        raise BadParameter("the query string has a control character: send such values in a JSON body")


def checked_request_id(given: list[str]) -> str | None:
    """The client's `X-Request-Id`; None: it sent none.

    Raises:
        BadHeader: it is given twice, or is more than a short token.
    """
    if not given:
        return None
    if len(given) > 1 or not _REQUEST_ID.fullmatch(given[0]):
        raise BadHeader("X-Request-Id must be given once: 1 to 128 letters, digits and . _ : + / = @ -")
    return given[0]


def checked_lease(given: list[str]) -> str | None:
    """The token of `X-Lease`; None: there is none.

    Raises:
        BadHeader: it is given twice, or is empty.
    """
    if not given:
        return None
    if len(given) > 1 or not given[0]:
        raise BadHeader("X-Lease must be given once, with the token of a lease")
    return given[0]


def _host_name(host: str) -> str:
    """The name in a `Host` header, without its port and the root's dot."""
    if bracketed := re.fullmatch(r"\[([0-9A-Fa-f:.]+)\](:[0-9]*)?", host):
        return bracketed[1]
    return re.sub(r":[0-9]*$", "", host).removesuffix(".")
