"""The polls of jobs and runs, which are most of what clients ask: answered without the framework, in half the time.

The short way answers only a request that is plain and in order, and as the route would, to the byte (a test holds the
two against each other). Any other (a header that it does not know what to do with, a wrong key, a job that is not
there) is the framework's, from the beginning: here is no refusal.

Source: contract, section 1, section 5 ("Polling"), section 10 (`GET /api/v1/runs/{run_id}`).
"""

import re
import secrets
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import structlog
import trio

from penelope import jsontext
from penelope.errors import PenelopeError
from penelope.http import auth, held
from penelope.http.routes.runs import status_of
from penelope.http.worker import Worker
from penelope.jobs import views

# What Hypercorn says of HTTP/1.0 and 2 differs in more than the version.
_VERSION: Final = "1.1"
_POLLED: Final = re.compile(r"/api/v1/(?:jobs/([0-9a-f]{16})|runs/(run_[0-9a-f]{12}))", re.ASCII)
_READ: Final = frozenset({b"host", b"authorization", b"x-request-id"})
# Each asks for something else than a plain answer, or says that a body comes.
_NOT_PLAIN: Final = frozenset({b"prefer", b"x-api-key", b"content-length", b"transfer-encoding", b"expect"})

log = structlog.get_logger("penelope.http")


class ShortWay:
    """The polls of one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def __call__(self, scope: Any, send: Callable[[Any], Awaitable[None]]) -> bool:
        """Answer the request. False: it is not one to be answered here, and nothing of it was."""
        if scope["method"] != "GET" or scope["query_string"] or scope["http_version"] != _VERSION:
            return False
        polled = _POLLED.fullmatch(scope["path"])
        given = None if polled is None else _plain(scope["headers"])
        if polled is None or given is None:
            return False
        began = self._worker.clock.now()
        try:
            request_id = self._admit(given)
            body = await self._body(polled[1], polled[2])
        except PenelopeError:
            return False
        if body is None:
            return False
        took = self._worker.clock.now() - began
        log.info("request", method="GET", path=scope["path"], status=200, took_ms=round(took * 1000, 2))
        with trio.CancelScope(shield=True):  # as the server's own writes are
            await send({"type": "http.response.start", "status": 200, "headers": _headers(body, request_id)})
            await send({"type": "http.response.body", "body": body, "more_body": False})
        return True

    def _admit(self, given: dict[bytes, str]) -> str:
        """The checks before the route's own, in their order; the request's id.

        Raises:
            PenelopeError: one of them refuses.
        """
        settings = self._worker.settings
        named = given.get(b"x-request-id")
        request_id = auth.checked_request_id([] if named is None else [named]) or secrets.token_hex(8)
        auth.check_host(given.get(b"host"), on_loopback=settings.on_loopback, hosts=settings.hosts)
        key = given.get(b"authorization")
        auth.check_key([] if key is None else [key], settings.keys)
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        self._worker.touch()
        return request_id

    async def _body(self, job_id: str | None, run_id: str | None) -> bytes | None:
        """What the poll shows; None: there is nothing to show."""
        if job_id is not None:
            job = await held.find(self._worker, job_id)
            return None if job is None else views.shown(job, self._worker.clock.now())
        run = await self._worker.runs.get(run_id or "")
        return None if run is None else jsontext.dumps(status_of(self._worker, run)).encode()


def _plain(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, str] | None:
    """The headers that are read here; None: one is given twice, or one is there that this way does not know."""
    given: dict[bytes, str] = {}
    for name, value in headers:
        if name in _NOT_PLAIN or (name in _READ and name in given):
            return None
        if name in _READ:
            given[name] = value.decode("latin-1")
    return given


def _headers(body: bytes, request_id: str) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", request_id.encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
