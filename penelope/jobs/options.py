"""Does a plugin call ask to be a job, which way, and how? Read from its headers alone.

Source: contract, sections 5 and 11; the owner's document, "Two ways, never both".
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from penelope.errors import BadOptions
from penelope.jobs.model import MAX_LIMIT_S, MAX_TTL_S, Polling, Way, Webhook

CALLBACK_HEADER: Final = "X-Callback-Url"
TTL_HEADER: Final = "X-Result-Ttl"
LIMIT_HEADER: Final = "X-Job-Timeout"
KEY_HEADER: Final = "Idempotency-Key"
MAX_URL_CHARS: Final = 2048
MAX_KEY_CHARS: Final = 255

_KNOWN: Final = {name.lower(): name for name in (CALLBACK_HEADER, TTL_HEADER, LIMIT_HEADER, KEY_HEADER)}
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,18})?", re.ASCII)
_VISIBLE = re.compile(r"[!-~]+", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_-]{1,63})*\.?", re.ASCII)
_BRACKETED = re.compile(r"\[([0-9A-Fa-f:.]+)\](:[0-9]*)?", re.ASCII)
# What the client that POSTs takes for an address, dots or not: `1-2-3-4` too.
_LIKE_IPV4 = re.compile(r"[0-9.]+|[0-9]+.[0-9]+.[0-9]+.[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What a call that is a job asks for besides its work.

    Attributes:
        way: how its result is to reach the client.
        limit_s: seconds of work past which it is to be ended; None: no limit.
        key: under which a repeated start is known as one; None: each start is a new one.
    """

    way: Way
    limit_s: float | None = None
    key: str | None = None


def parse(headers: Iterable[tuple[str, str]]) -> JobOptions | None:
    """What the job is to be like; None: the call is a plain one.

    Args:
        headers: all of the request's, repeated ones as often as they came; names in any case.

    Raises:
        BadOptions: both ways at once, a header twice, a bad value (an empty one is bad, not absent), or one that is for
            jobs on a call that is none.
    """
    found = _found(headers)
    way = _way(found)
    if way is None:
        if stray := found.keys() & {LIMIT_HEADER, KEY_HEADER}:
            raise BadOptions(
                f"{min(stray)} is for the start of a job: it needs {CALLBACK_HEADER} or {TTL_HEADER} beside it"
            )
        return None
    return JobOptions(
        way=way,
        limit_s=_seconds(found, LIMIT_HEADER, MAX_LIMIT_S),
        key=_key(found[KEY_HEADER]) if KEY_HEADER in found else None,
    )


def _found(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The headers that are read here, under their own names."""
    found: dict[str, str] = {}
    for name, value in headers:
        header = _KNOWN.get(name.lower())
        if header is None:
            continue
        if header in found:
            raise BadOptions(f"{header} is given more than once")
        found[header] = value
    return found


def _way(found: dict[str, str]) -> Way | None:
    if CALLBACK_HEADER in found and TTL_HEADER in found:
        raise BadOptions(f"{CALLBACK_HEADER} and {TTL_HEADER} are both given: a job has one way, never both")
    if CALLBACK_HEADER in found:
        return Webhook(checked_url(found[CALLBACK_HEADER], CALLBACK_HEADER))
    ttl = _seconds(found, TTL_HEADER, MAX_TTL_S)
    return None if ttl is None else Polling(ttl)


def _seconds(found: dict[str, str], header: str, most: float) -> float | None:
    """A header's number of seconds; None: it is not there."""
    value = found.get(header)
    if value is None:
        return None
    if not _DECIMAL.fullmatch(value):
        raise BadOptions(f"{header} is {_quoted(value)}: it must be a plain decimal number of seconds")
    seconds = float(value)
    if not 0 < seconds <= most:
        raise BadOptions(f"{header} is {_quoted(value)}: it must be above 0 and at most {most:.0f} seconds")
    return seconds


def _key(value: str) -> str:
    if not value:
        raise BadOptions(f"{KEY_HEADER} is empty")
    if len(value) > MAX_KEY_CHARS:
        raise BadOptions(f"{KEY_HEADER} has {len(value)} characters: at most {MAX_KEY_CHARS} are taken")
    if not _VISIBLE.fullmatch(value):
        raise BadOptions(f"{KEY_HEADER} is {_quoted(value)}: only visible ASCII characters are taken")
    return value


def checked_url(value: str, name: str) -> str:
    """An address that can be called.

    Args:
        name: of the header or field that it came in, for the message.

    Raises:
        BadOptions: it is none.
    """
    if reason := _fault(value):
        raise BadOptions(f"{name} {reason}")
    return value


def _fault(value: str) -> str | None:
    """What is wrong with a callback URL, to follow the header's name; None: nothing."""
    if not value:
        return "is empty"
    if len(value) > MAX_URL_CHARS:
        return f"has {len(value)} characters: at most {MAX_URL_CHARS} are taken"
    if not _VISIBLE.fullmatch(value) or "\\" in value:
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
