"""Submits of runs that come whole, in one piece: answered without the framework, which costs more than a run does.

As with polls (`short`), only a request that is plain and in order is answered here, and as the route would, to the
byte. What has a webhook or a key of its own, and what would be refused before it is in the log, is the framework's.

Source: contract, section 10 (`POST /api/v1/runs`), section 11 ("Wait").
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog
import trio

from penelope import jsontext
from penelope.errors import PenelopeError
from penelope.http import auth, gates, noting, prefer, reading, submits, whole
from penelope.http.envelope import Reply
from penelope.http.noting import Handled
from penelope.http.short_calls import DAWDLES_S, MAX_BODY_BYTES, Unheard
from penelope.http.whole import Answer, Answering, Gone, Known, Peer
from penelope.http.worker import Worker
from penelope.runs import submission
from penelope.runs.model import Run
from penelope.runs.port import Work
from penelope.runs.views import RUNS_PATH

_BEGINS: Final = b"POST /api/v1/runs "
_ONCE: Final = frozenset({b"host", b"authorization", b"x-request-id", b"content-type"})
_NOT_PLAIN: Final = frozenset(
    {
        b"x-api-key",
        b"idempotency-key",
        b"traceparent",
        b"x-forwarded-proto",
        b"x-forwarded-host",
        b"x-forwarded-prefix",
    }
)

log = structlog.get_logger("penelope.http")


@dataclass(frozen=True, slots=True)
class Submit:
    """A submit whose head is plain and in order.

    Attributes:
        host: as its client has it.
        request_id: its client's name for it; None: it has none.
        patience_s: of `Prefer: wait`.
        length: of its body, bytes.
    """

    host: str
    request_id: str | None
    patience_s: int | None
    length: int


class ShortRuns:
    """The submits of one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._known = Known[Submit]()

    def at_once(self, data: bytes, peer: Peer | None = None) -> Answering | None:
        """See `whole.AtOnce`. A head is known again by its bytes, as a poll is."""
        if not data.startswith(_BEGINS) or (head := whole.head_of(data)) is None:
            return None
        submit = self._known.get(head) or self._read(head)
        if submit is None:
            return None
        begun = data[len(head) :]
        if len(begun) != submit.length and (
            peer is None or len(begun) > submit.length or submit.length > MAX_BODY_BYTES
        ):
            return None
        return Answering(partial(self._answer, submit, begun, peer or Unheard()))

    def _read(self, head: bytes) -> Submit | None:
        asked = whole.read(head)
        given = None if asked is None or not asked.length else _plain(asked.headers)
        if asked is None or given is None:
            return None
        try:
            submit = self._admitted(given, asked.length)
        except PenelopeError:
            return None
        self._known.add(head, submit)
        return submit

    def _admitted(self, given: dict[bytes, list[str]], length: int) -> Submit:
        """
        Raises:
            PenelopeError: one of the checks that come before the route's own refuses.
        """
        settings = self._worker.settings
        request_id = auth.checked_request_id(given[b"x-request-id"])
        host = given[b"host"][0]
        auth.check_host(host, on_loopback=settings.on_loopback, hosts=settings.hosts)
        auth.check_key(given[b"authorization"], settings.keys)
        content_type = next(iter(given[b"content-type"]), None)
        auth.check_content_type(content_type, has_body=True)
        return Submit(host, request_id, prefer.wait(given[b"prefer"]), length)

    async def _answer(self, submit: Submit, begun: bytes, peer: Peer) -> Answer | None:
        """None: it is not plain after all, and nothing came of it.

        Args:
            begun: as much of the body as is there; many clients write head and body apart.

        Raises:
            Gone: the client has left.
        """
        began = self._worker.clock.now()
        is_there = len(begun) == submit.length
        body = begun if is_there else await whole.body_of(begun, submit.length, peer, DAWDLES_S)
        if body is None:
            return None
        request_id = gates.named(submit.request_id)
        self._worker.touch()
        try:
            made = self._made(body, request_id)
        except PenelopeError:
            return None
        if made is None:
            return None
        handled = Handled(request_id, began, "POST", RUNS_PATH, "op")
        try:
            noting.begins(self._worker, handled)
            reply = await self._submitted(*made, submit, peer)
            noting.ends(self._worker, handled, reply.status)
        except Gone:
            raise
        except Exception as error:  # the run is there, or may be: whoever else answered would submit it again
            reply = _failed(error)
        finally:
            noting.left(self._worker, handled)
        return whole.json_answer(reply.status, reply.body, reply.headers, request_id)

    def _made(self, body: bytes, request_id: str) -> tuple[Run, Work] | None:
        """The run that is asked for; None: its submit needs more than it.

        Raises:
            PenelopeError: it is refused.
        """
        worker = self._worker
        worker.supervisor.refuse_when_unable()
        asked = submission.read(reading.object_of(body))
        planned = worker.planner(asked)
        webhook = submission.webhook_of(asked, planned)
        if webhook is not None or submission.key_of(asked, (), planned.scope) is not None:
            return None
        run = submits.run_of(
            worker, asked, planned, webhook=None, key=None, request_id=request_id, traceparent=None
        )
        return run, planned.work

    async def _submitted(self, run: Run, work: Work, submit: Submit, peer: Peer) -> Reply:
        try:
            taken = await self._worker.runs.submit(run, work)
            shown = await self._waited(taken, submit.patience_s, peer)
        except Gone:
            raise
        except PenelopeError as error:
            return _refused(error.status, error.message, error.headers)
        except Exception as error:
            return _failed(error)
        body, headers = submits.accepted(shown, f"http://{submit.host}", submit.patience_s)
        return Reply(202, body, headers)

    async def _waited(self, run: Run, seconds: int | None, peer: Peer) -> Run:
        """As `submits.waited`, in the one task that there is: until the end it hears whether the client leaves.

        Raises:
            Gone: the client has left.
        """
        entry = self._worker.runs.entry(run.run_id)
        if seconds and entry is not None and not self._worker.runs.stopping:
            with trio.move_on_after(seconds) as hearing:
                entry.then(hearing.cancel)
                await peer.left()
                raise Gone
            self._worker.touch()
        return run if entry is None else entry.run


def _plain(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, list[str]] | None:
    """The headers that are read here, each with its values; None: one is given twice that may not be, or one is there
    that this way does not know.
    """
    given: dict[bytes, list[str]] = {name: [] for name in (*_ONCE, b"prefer")}
    for name, value in headers:
        if name in _NOT_PLAIN or (name in _ONCE and given[name]):
            return None
        if name in given:
            given[name].append(value.decode("latin-1"))
    return given


def _refused(status: int, words: str, headers: Mapping[str, str]) -> Reply:
    return Reply(status, jsontext.dumps({"detail": words}).encode(), headers)


def _failed(error: Exception) -> Reply:
    log.error("request failed", exc_info=error, path=RUNS_PATH)
    return _refused(500, "the worker failed on this request; its log has the details", {})
