"""The polls of jobs and runs, most of what clients ask: answered without the framework, at a quarter of its cost.

The short way answers only a request that is plain and in order, and as the route would, to the byte (a test holds the
two against each other). Any other (a header that it does not know what to do with, a wrong key, a job that is not
there) is the framework's, from the beginning: here is no refusal.

Source: contract, section 1, section 5 ("Polling"), section 10 (`GET /api/v1/runs/{run_id}`).
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog
import trio

from penelope import jsontext
from penelope.errors import PenelopeError
from penelope.http import auth, gates, held, prefer, waiting, whole
from penelope.http.routes.runs import status_of
from penelope.http.whole import Answer, Answering, Known
from penelope.http.worker import Worker
from penelope.jobs import views

# What Hypercorn says of HTTP/1.0 and 2 differs in more than the version.
_VERSION: Final = "1.1"
_BEGINS: Final = (b"GET /api/v1/jobs/", b"GET /api/v1/runs/")
_POLLED: Final = re.compile(r"/api/v1/(?:jobs/([0-9a-f]{16})|runs/(run_[0-9a-f]{12}))", re.ASCII)
_READ: Final = frozenset({b"host", b"authorization", b"x-request-id"})
_PREFER: Final = b"prefer"
# Each asks for something else than a plain answer, or says that a body comes.
_NOT_PLAIN: Final = frozenset({b"x-api-key", b"content-length", b"transfer-encoding", b"expect"})

log = structlog.get_logger("penelope.http")


@dataclass(frozen=True, slots=True)
class Poll:
    """A poll that is plain and in order.

    Attributes:
        request_id: its client's name for it; None: it has none.
        prefers: it has `Prefer`; `patience_s` is what that says of `wait`, None: nothing.
    """

    path: str
    job_id: str | None
    run_id: str | None
    request_id: str | None
    prefers: bool
    patience_s: int | None


class ShortWay:
    """The polls of one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._known = Known[Poll]()

    async def __call__(self, scope: Any, send: Callable[[Any], Awaitable[None]]) -> bool:
        """Answer the request. False: it is not one to be answered here, and nothing of it was."""
        if scope["method"] != "GET" or scope["query_string"] or scope["http_version"] != _VERSION:
            return False
        poll = self._in_order(scope["path"], scope["headers"])
        answer = None if poll is None or poll.prefers else await self._answer(poll)
        if answer is None:
            return False
        with trio.CancelScope(shield=True):  # as the server's own writes are
            await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
            await send({"type": "http.response.body", "body": answer.body, "more_body": False})
        return True

    def at_once(self, data: bytes) -> Answering | None:
        """The answer to a request that came whole, in one piece; None: it is not one to be answered here.

        A poll is known again by its bytes. Who asks for a job again and again sends the same ones each time, and what
        was found of them depends on them alone: that h11 takes them, the Host, the key. What is answered does not.

        A job's may wait for its end.
        """
        poll = self._known.get(data) or self._read(data)
        if poll is None or (poll.prefers and poll.job_id is None):
            return None
        return Answering(partial(self._answer, poll), waits=poll.patience_s is not None)

    def _read(self, data: bytes) -> Poll | None:
        if not data.startswith(_BEGINS) or whole.head_of(data) != data or (asked := whole.read(data)) is None:
            return None
        poll = self._in_order(asked.target.decode("ascii"), asked.headers)
        if poll is not None:
            self._known.add(data, poll)
        return poll

    def _in_order(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> Poll | None:
        """The poll of that path, if it is one that passes what comes before the route, in the order of its checks."""
        polled = _POLLED.fullmatch(path)
        given = None if polled is None else _plain(headers)
        if polled is None or given is None:
            return None
        settings = self._worker.settings
        try:
            named = given.get(b"x-request-id")
            request_id = auth.checked_request_id([] if named is None else [named])
            auth.check_host(given.get(b"host"), on_loopback=settings.on_loopback, hosts=settings.hosts)
            key = given.get(b"authorization")
            auth.check_key([] if key is None else [key], settings.keys)
        except PenelopeError:
            return None
        patience_s = prefer.wait([given.get(_PREFER, "")])
        return Poll(path, polled[1], polled[2], request_id, _PREFER in given, patience_s)

    async def _answer(self, poll: Poll) -> Answer | None:
        """None: there is nothing to show."""
        clock = self._worker.clock
        began = clock.now()
        request_id = gates.named(poll.request_id)
        self._worker.touch()
        try:
            body = await self._body(poll)
        except PenelopeError:
            return None
        if body is None:
            return None
        took = clock.now() - began
        log.info("request", method="GET", path=poll.path, status=200, took_ms=round(took * 1000, 2))
        return whole.json_answer(200, body, prefer.applied(poll.patience_s), request_id)

    async def _body(self, poll: Poll) -> bytes | None:
        """What the poll shows; None: there is nothing to show."""
        if poll.job_id is not None:
            ended = await waiting.end(self._worker, poll.job_id, poll.patience_s)
            if ended is not None:
                return ended.shown(self._worker.clock.now())
            job = await held.find(self._worker, poll.job_id)
            return None if job is None else views.shown(job, self._worker.clock.now())
        run = await self._worker.runs.get(poll.run_id or "")
        return None if run is None else jsontext.dumps(status_of(self._worker, run)).encode()


def _plain(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, str] | None:
    """The headers that are read here; None: one is given twice, or one is there that this way does not know."""
    given: dict[bytes, str] = {}
    for name, value in headers:
        if name == _PREFER:  # of several, all count
            given[name] = ", ".join((*filter(None, [given.get(name)]), value.decode("latin-1")))
        if name in _NOT_PLAIN or (name in _READ and name in given):
            return None
        if name in _READ:
            given[name] = value.decode("latin-1")
    return given
