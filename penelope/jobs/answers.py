"""What came of a POST, as a class of a few words that programs tell apart, and as a sentence for people.

Source: contract, section 11 ("Ledger"), section 5 (`delivery.error`); scenario J57.
"""

import errno
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import httpx

MAX_WORDS_CHARS: Final = 300

# Each class with what it means; the docs have the same table.
CLASSES: Final = {
    "dns": "the name has no address, or nobody could be asked",
    "policy": "an address that WEBHOOK_POLICY refuses; nothing was sent",
    "refused": "nobody listens there",
    "unreachable": "there is no way to the address",
    "reset": "the connection broke",
    "tls": "the certificate or the handshake is no good",
    "timeout": "no answer within 10 s",
    "broken": "what came back is not HTTP",
    "redirect": "answered 3xx; not followed",
    "http_4xx": "answered 4xx",
    "http_5xx": "answered 5xx",
    "other": "something else; the log has more",
}


class Barred(Exception):
    """The operator does not let POSTs go there; nothing was dialled."""


class NoSuchHost(Exception):
    """A name that could not be looked up."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver did.

    Attributes:
        status: None when it gave none.
        error: why the POST did not deliver; None when it did.
        error_class: the same, one of `CLASSES`; None when it did.
    """

    status: int | None
    error: str | None = None
    error_class: str | None = None


def of_status(status: int, location: str = "") -> Answer:
    """What a receiver's status comes to; `location` is where it sent us, which we did not follow."""
    if 200 <= status <= 299:
        return Answer(status)
    if 300 <= status <= 399:
        return Answer(status, f"answered {status} to {location[:200]!a}, not followed", "redirect")
    hundreds = f"http_{status // 100}xx"
    return Answer(status, f"answered {status}", hundreds if hundreds in CLASSES else "other")


def too_late(limit_s: float) -> Answer:
    """No status within the POST's time."""
    return Answer(None, f"no answer within {limit_s:.0f} s", "timeout")


def of_error(error: BaseException) -> Answer:
    """What a failure of the network, of a certificate or of a broken server comes to."""
    word, words = next(filter(None, map(_told, _causes(error))), None) or _by_httpx(error)
    return Answer(None, " ".join(words.split())[:MAX_WORDS_CHARS], word)


def _told(cause: BaseException) -> tuple[str, str] | None:
    """Class and words of a cause that tells by itself; None: look further."""
    match cause:
        case Barred():
            return "policy", str(cause)
        case NoSuchHost():
            return "dns", f"no such host: {cause}"
        case ssl.SSLCertVerificationError():
            return "tls", f"TLS: {cause.verify_message}"
        case ssl.SSLError():
            return "tls", f"TLS: {getattr(cause, 'reason', None) or 'handshake failed'}"
        case socket.gaierror():
            return "dns", f"no such host: {cause.strerror}"
        case ConnectionRefusedError():
            return "refused", "connection refused"
        case ConnectionResetError() | BrokenPipeError():
            return "reset", "connection reset"
        case OSError() if cause.errno in _NO_WAY:
            return "unreachable", f"cannot be reached: {cause.strerror}"
        case OSError() if (
            cause.errno == errno.ETIMEDOUT
        ):  # the system's own patience, should it be the shorter one
            return "timeout", "no answer to the connection"
        case _:
            return None


_NO_WAY: Final = frozenset(
    {
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.EHOSTDOWN,
        errno.ENETDOWN,
        errno.EADDRNOTAVAIL,
        errno.EAFNOSUPPORT,
        errno.EACCES,  # of a broadcast address, or a firewall of this machine's
        errno.EPERM,
        errno.EINVAL,  # e.g. a link-local address without its zone
    }
)


def _by_httpx(error: BaseException) -> tuple[str, str]:
    if isinstance(error, httpx.RemoteProtocolError):
        return "broken", f"broken answer: {error}"
    if isinstance(error, httpx.ReadError | httpx.WriteError | httpx.CloseError):
        return "reset", "connection reset"
    if isinstance(error, httpx.TimeoutException):
        return "timeout", "no answer in time"
    return "other", f"{type(error).__name__}: {error}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what caused it, and the parts of groups, outermost first."""
    seen: list[BaseException] = [error]
    for cause in seen:
        yield cause
        parts = cause.exceptions if isinstance(cause, BaseExceptionGroup) else ()
        for next_one in (*parts, cause.__cause__, cause.__context__):
            if next_one is not None and next_one not in seen:
                seen.append(next_one)
