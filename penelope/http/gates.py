"""What comes before every route, in the contract's order: the request's name, its Host, the key, its target.

Source: contract, section 1.
"""

import random
from typing import Final

import structlog

from penelope.errors import BadHeader
from penelope.http import auth
from penelope.http.asked import Asked
from penelope.http.envelope import is_of_runs
from penelope.settings import Settings

API: Final = "/api/v1"
OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", "/openapi.json", "/docs"})
# Not in the request log, and no client's activity either: questions about the worker itself.
QUESTIONS: Final = frozenset(
    {"/healthz", "/readyz", "/metrics", f"{API}/activity", f"{API}/tree", "/openapi.json", "/docs"}
)

# No secrets, and no call of the system each. Its own: a plugin that seeds the interpreter's would have ids repeated.
_ids: Final = random.Random()  # noqa: S311


def checked_id(asked: Asked) -> tuple[str | None, BadHeader | None]:
    """The client's `X-Request-Id`, None: it has none that can be taken; and what is wrong with it, None: nothing."""
    try:
        return auth.checked_request_id(asked.all("x-request-id")), None
    except BadHeader as exc:
        return None, exc


def named(request_id: str | None) -> str:
    """The id of a request, one that is made where its client gave none; every log line has it from here on."""
    known = request_id or f"{_ids.getrandbits(64):016x}"
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(request_id=known)
    return known


def check(asked: Asked, settings: Settings, bad_id: BadHeader | None) -> None:
    """
    Args:
        bad_id: what is wrong with the request's id: a header like others, after the key.

    Raises:
        WrongHost, Unauthorized, BadHeader, BadParameter: the request is refused.
    """
    auth.check_host(asked.first("host"), on_loopback=settings.on_loopback, hosts=settings.hosts)
    if is_of_runs(asked.path):
        open_here = settings.runs_auth == "loopback" and settings.on_loopback
        given = {name: asked.all(name) for name in auth.FOR_RUNS}
        auth.check_key_for_runs(given, settings.keys, open_here=open_here)
    elif needs_key(asked.path):
        auth.check_key(asked.all("authorization"), settings.keys)
    if bad_id is not None:
        raise bad_id
    auth.check_target(asked.path, asked.query)


def check_content_type(asked: Asked) -> None:
    """
    Raises:
        WrongContentType: the request is one that has a body, and it is not declared as JSON.
    """
    if asked.method not in {"GET", "HEAD"}:
        auth.check_content_type(asked.first("content-type"), has_body=asked.has_body)


def needs_key(path: str) -> bool:
    """A file's link is open to whoever has it, as are a few questions about the worker."""
    return not path.startswith(f"{API}/media/") and path not in OPEN_PATHS
