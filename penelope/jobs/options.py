"""Does a plugin call ask to be a job, and which way? Read from its headers alone.

Source: contract, section 5; the owner's document, "Two ways, never both".
"""

import ipaddress
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from penelope.errors import BadOptions
from penelope.jobs.model import MAX_TTL_S, Polling, Way, Webhook

CALLBACK_HEADER: Final = "X-Callback-Url"
TTL_HEADER: Final = "X-Result-Ttl"
MAX_URL_CHARS: Final = 2048

_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,18})?", re.ASCII)
_URL_CHARACTERS = re.compile(r"[!-~]+", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_-]{1,63})*\.?", re.ASCII)
_BRACKETED = re.compile(r"\[([0-9A-Fa-f:.]+)\](:[0-9]*)?", re.ASCII)
# What the client that POSTs takes for an address, dots or not: `1-2-3-4` too.
_LIKE_IPV4 = re.compile(r"[0-9.]+|[0-9]+.[0-9]+.[0-9]+.[0-9]+", re.ASCII)


def parse(headers: Iterable[tuple[str, str]]) -> Way | None:
    """How the job's result is to reach the client; None: the call is a plain one.

    Args:
        headers: all of the request's, repeated ones as often as they came; names in any case.

    Raises:
        BadOptions: both ways at once, a header twice, or a bad value (an empty one is bad, not absent).
    """
    found: dict[str, str] = {}
    known = {CALLBACK_HEADER.lower(): CALLBACK_HEADER, TTL_HEADER.lower(): TTL_HEADER}
    for name, value in headers:
        header = known.get(name.lower())
        if header is None:
            continue
        if header in found:
            raise BadOptions(f"{header} is given more than once")
        found[header] = value
    if len(found) == 2:
        raise BadOptions(f"{CALLBACK_HEADER} and {TTL_HEADER} are both given: a job has one way, never both")
    if CALLBACK_HEADER in found:
        return Webhook(_url(found[CALLBACK_HEADER]))
    if TTL_HEADER in found:
        return Polling(_ttl(found[TTL_HEADER]))
    return None


def _ttl(value: str) -> float:
    if not _DECIMAL.fullmatch(value):
        raise BadOptions(f"{TTL_HEADER} is {_quoted(value)}: it must be a plain decimal number of seconds")
    ttl = float(value)
    if not 0 < ttl <= MAX_TTL_S:
        raise BadOptions(
            f"{TTL_HEADER} is {_quoted(value)}: it must be above 0 and at most {MAX_TTL_S:.0f} seconds"
        )
    return ttl


def _url(value: str) -> str:
    if reason := _fault(value):
        raise BadOptions(f"{CALLBACK_HEADER} {reason}")
    return value


def _fault(value: str) -> str | None:
    """What is wrong with a callback URL, to follow the header's name; None: nothing."""
    if not value:
        return "is empty"
    if len(value) > MAX_URL_CHARS:
        return f"has {len(value)} characters: at most {MAX_URL_CHARS} are taken"
    if not _URL_CHARACTERS.fullmatch(value) or "\\" in value:
        return f"is {_quoted(value)}: it has a space, a backslash, or a control or non-ASCII character"
    if re.search(r"%(0[0-9A-Fa-f]|1[0-9A-Fa-f]|7[Ff])", value):
        return f"is {_quoted(value)}: it hides a control character behind a percent sign"
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError as exc:
        return f"is {_quoted(value)}: {exc}"
    if parts.scheme not in {"http", "https"}:
        return f"is {_quoted(value)}: it must be an absolute http or https URL"
    if not parts.hostname:
        return f"is {_quoted(value)}: it names no host"
    if not _is_host(parts.netloc.rpartition("@")[2], parts.hostname):
        return f"is {_quoted(value)}: its host is not a name or an address"
    if port == 0:
        return f"is {_quoted(value)}: port 0 cannot be called"
    return None


def _is_host(netloc: str, host: str) -> bool:
    if netloc.startswith("["):
        bracketed = _BRACKETED.fullmatch(netloc)
        try:
            ipaddress.IPv6Address(bracketed[1] if bracketed else "")
        except ValueError:
            return False
        return True
    if not _HOST.fullmatch(host) or len(host) > 253:
        return False
    if not _LIKE_IPV4.fullmatch(host):
        return True
    try:  # an address or nothing
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True


def _quoted(value: str) -> str:
    """The value for a message: printable ASCII, short."""
    text = ascii(value)
    return text if len(text) <= 100 else text[:97] + "..."
