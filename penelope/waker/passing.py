"""What of a request goes to a worker, and what of its answer comes back. Pure.

Source: contract, section 9 ("passes headers and status unchanged, drops hop-by-hop headers").
"""

import re
import secrets
from typing import Final

from penelope.errors import BadHeader, BadParameter, MethodNotAllowed, NotFound
from penelope.http import auth

_TARGET: Final = re.compile(rb"/p/([A-Za-z0-9_-]{1,64})(/api/v1(?:/.*)?)", re.DOTALL)
_SLASH: Final = rb"(?:[/\\]|%2f|%5c)"
_DOTS: Final = re.compile(_SLASH + rb"(?:\.|%2e){1,2}(?:" + _SLASH + rb"|$)", re.IGNORECASE)
_MEDIA: Final = re.compile(rb"/api/v1/media/[A-Za-z0-9_-]+")  # nothing that its worker could read as more
# Of one connection, not of the message (RFC 9110, 7.6.1); a header that Connection names is one too.
HOP_BY_HOP: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer"
    b" transfer-encoding upgrade http2-settings".split()
)
# What the waker says itself; `Expect` was answered by its server.
OWN: Final = frozenset({b"host", b"authorization", b"x-api-key", b"expect"})
# `CONNECT` asks for a tunnel; `TRACE` for what came to the worker, its key with it.
REFUSED: Final = frozenset({"CONNECT", "TRACE"})
ALLOWED: Final = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

Headers = list[tuple[bytes, bytes]]


def split(raw: bytes) -> tuple[str, bytes]:
    """The persona's name, and what its worker is asked for, as it was written.

    Raises:
        NotFound: the target is not `/p/{name}/api/v1…`.
    """
    match = _TARGET.fullmatch(raw)
    if match is None:
        raise NotFound("there is no such route: a persona's API is at /p/{name}/api/v1/")
    return match[1].decode("ascii"), match[2]


def check_dots(target: bytes) -> None:
    """Raises BadParameter where a segment is `.` or `..`, written plainly or behind percent signs."""
    if _DOTS.search(target):
        raise BadParameter("the path has a dot segment")


def check_method(method: str) -> None:
    """Raises MethodNotAllowed for what is not to be passed on."""
    if method in REFUSED:
        raise MethodNotAllowed(f"{method} is not passed on", headers={"Allow": ALLOWED})


def with_query(target: bytes, query: bytes) -> bytes:
    return target + b"?" + query if query else target


def is_media(method: str, target: bytes) -> bool:
    """Is a file asked for by its link, which is all that its worker asks for?"""
    return method in {"GET", "HEAD"} and _MEDIA.fullmatch(target) is not None


def logged(target: bytes) -> str:
    """The path without what must not be in a log: a media token is as good as the file."""
    return "/api/v1/media/…" if target.startswith(b"/api/v1/media/") else target.decode("ascii", "replace")


def host(headers: Headers) -> str | None:
    return next(iter(_values(headers, b"host")), None)


def request_id(headers: Headers) -> str:
    """The client's own, if it is one; else a new one."""
    try:
        return auth.checked_request_id(_values(headers, b"x-request-id")) or secrets.token_hex(8)
    except BadHeader:  # the worker's to refuse
        return secrets.token_hex(8)


def credentials(headers: Headers) -> list[str]:
    """All of them, as `Authorization` headers; the clients of runs may send `X-API-Key` instead."""
    bearer = _values(headers, b"authorization")
    return bearer or [f"Bearer {key}" for key in _values(headers, b"x-api-key")]


def framed(headers: Headers, http_version: str) -> Headers:
    """The headers, with how the length of the body is told: in HTTP/2 nothing has to say that."""
    told = http_version.startswith("1") or _values(headers, b"content-length")
    return headers if told else [*headers, (b"transfer-encoding", b"chunked")]


def to_worker(headers: Headers, address: str, key: str | None, own_request_id: str, name: str) -> Headers:
    """The headers that the worker gets: the client's, with the worker's own key and host, and with how its clients see
    it: absolute URLs in its answers are then ones that they can reach.

    Args:
        key: None for who has sent none.
    """
    kept = _without(headers, HOP_BY_HOP | OWN | {b"x-forwarded-prefix"})
    names = {name.lower() for name, _ in kept}
    more = [(b"host", address.partition("://")[2].encode("ascii"))]
    if key is not None:
        more.append((b"authorization", b"Bearer " + key.encode("ascii")))
    if b"x-forwarded-host" not in names and (asked := host(headers)):
        more.append((b"x-forwarded-host", asked.encode("latin-1")))
    before = next(iter(_values(headers, b"x-forwarded-prefix")), "")
    more.append((b"x-forwarded-prefix", f"{before}/p/{name}".encode("latin-1")))
    if _values(headers, b"transfer-encoding"):
        more.append((b"transfer-encoding", b"chunked"))
    if b"x-request-id" not in names:
        more.append((b"x-request-id", own_request_id.encode("ascii")))
    return more + kept


def to_client(headers: Headers) -> Headers:
    """The headers of the worker's answer that its client gets."""
    return [(name.lower(), value) for name, value in _without(headers, HOP_BY_HOP)]


def _values(headers: Headers, wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in headers if name.lower() == wanted]


def _without(headers: Headers, dropped: frozenset[bytes]) -> Headers:
    named = {
        word.strip().lower()
        for value in _values(headers, b"connection")
        for word in value.encode("latin-1").split(b",")
    }
    named.discard(b"content-length")  # the message's own, whoever says what
    if _values(headers, b"transfer-encoding"):
        named.add(b"content-length")  # two words about one length (RFC 9112, 6.3)
    return [(name, value) for name, value in headers if name.lower() not in dropped | named]
