"""Plugin calls, plain and as jobs, and primitives: answered without the framework, half of what a small one costs.

As with the polls (`http.short`), only a request that is plain and in order is taken, and it is answered as its route
would, to the byte (a test holds the two against each other): by the same functions, `http.gates` and `http.calling`.
What a gate refuses, what names no plugin or page that is there, a start under a key, and a body that is large or
dawdles, is the framework's, from the beginning.

The client's leave is heard in the request's own task, which has nothing else to do while the call is at work.

Source: contract, sections 2, 3 and 5.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import trio

from penelope.errors import PenelopeError
from penelope.http import calling, envelope, gates, noting, prefer, waiting, whole
from penelope.http.asked import Asked, plain
from penelope.http.envelope import Reply
from penelope.http.noting import Handled
from penelope.http.whole import Answer, Answering, Gone, Known, Peer
from penelope.http.worker import Worker
from penelope.jobs.calls import Planned
from penelope.jobs.options import CALLBACK_HEADER, KEY_HEADER, TTL_HEADER
from penelope.jobs.supervisor import leave_line
from penelope.jobs.ticket import Ticket
from penelope.pages.primitives.model import Primitive
from penelope.pages.primitives.table import PRIMITIVES

MAX_BODY_BYTES: Final = 64 * 1024
DAWDLES_S: Final = 1.0  # after which the rest of a body is waited for by the framework
_BEGINS: Final = (b"GET /api/v1/", b"POST /api/v1/")
_BEFORE: Final = f"{gates.API}/"
_NOT_PLAIN: Final = KEY_HEADER.lower()
_OF_JOBS: Final = frozenset({CALLBACK_HEADER.lower(), TTL_HEADER.lower()})


@dataclass(frozen=True, slots=True)
class Meant:
    """A call that a request asks for, and that passes what comes before its route.

    Attributes:
        request_id: its client's name for it; None: it has none.
        name: of the plugin, or of the primitive.
        primitive: None where it is a plugin's.
        length: of the body, bytes.
        patience_s: for the end of the job that it starts; None: its client does not wait for that.
    """

    asked: Asked
    request_id: str | None
    page_id: str
    name: str
    primitive: Primitive | None
    length: int
    patience_s: int | None


class ShortCalls:
    """The calls of one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._known = Known[Meant]()

    def at_once(self, data: bytes, peer: Peer) -> Answering | None:
        """See `whole.AtOnce`; the body may follow. As with a poll, a head is known again by its bytes: what `Meant`
        says of it depends on them alone.
        """
        if not data.startswith(_BEGINS) or (head := whole.head_of(data)) is None:
            return None
        meant = self._known.get(head) or self._read(head)
        if meant is None or self._worker.pages.find(meant.page_id) is None:
            return None
        begun = data[len(head) :]
        if meant.patience_s is not None and len(begun) == meant.length:
            # Beside the task that reads: that hears its client leave, and this one has two things to wait for.
            return Answering(partial(self._answer, meant, begun, Unheard()), waits=True)
        if len(begun) > meant.length or meant.patience_s is not None:
            return None
        return Answering(partial(self._answer, meant, begun, peer))

    def _read(self, head: bytes) -> Meant | None:
        request = whole.read(head)
        meant = None if request is None else self._meant(request)
        if meant is not None:
            self._known.add(head, meant)
        return meant

    def _meant(self, request: whole.Asked) -> Meant | None:
        """None: it is not one for the short way."""
        target, _, query = request.target.partition(b"?")
        if b"%" in target or not target.isascii():
            return None
        asked = plain(request.method.decode("ascii"), target.decode("ascii"), query, request.headers)
        match asked.path.removeprefix(_BEFORE).split("/"):
            case [page_id, "plugin", family, plugin]:
                name, primitive = f"{family}/{plugin}", None
                known = name in self._worker.registry
            case [page_id, name] if asked.method == "POST":
                primitive = PRIMITIVES.get(name)
                known = primitive is not None
            case _:
                return None
        if not known or not _is_plain(asked, request.length):
            return None
        try:
            request_id, bad_id = gates.checked_id(asked)
            gates.check(asked, self._worker.settings, bad_id)
            gates.check_content_type(asked)
        except PenelopeError:
            return None
        starts = any(known in _OF_JOBS for known, _ in asked.headers)
        patience_s = prefer.wait(asked.all(prefer.PREFER.lower())) if starts else None
        return Meant(asked, request_id, page_id, name, primitive, request.length, patience_s)

    async def _answer(self, meant: Meant, begun: bytes, peer: Peer) -> Answer | None:
        """
        Args:
            begun: as much of the body as is there.
        """
        worker, asked = self._worker, meant.asked
        began = worker.clock.now()
        complete = len(begun) == meant.length
        body = begun if complete else await whole.body_of(begun, meant.length, peer, DAWDLES_S)
        if body is None:
            return None
        request_id = gates.named(meant.request_id)
        worker.touch()
        kind = "plugin" if meant.primitive is None else "primitive"
        handled = Handled(request_id, began, asked.method, asked.path, kind, meant.page_id)
        try:
            noting.begins(worker, handled)
            reply = await self._reply(meant, request_id, body, peer)
            noting.ends(worker, handled, reply.status)
            return _sent(reply, request_id)
        except Gone:
            raise
        except Exception as error:  # the call was made, or may be: whoever else answered would make it again
            return _sent(envelope.failed(error, asked.path, meant.page_id), request_id)
        finally:
            noting.left(worker, handled)

    async def _reply(self, meant: Meant, request_id: str, body: bytes, peer: Peer) -> Reply:
        try:
            return await self._called(meant, request_id, body, peer)
        except Gone:
            raise
        except PenelopeError as error:
            return envelope.refused(error, meant.page_id)
        except Exception as error:
            return envelope.failed(error, meant.asked.path, meant.page_id)

    async def _called(self, meant: Meant, request_id: str, body: bytes, peer: Peer) -> Reply:
        worker, asked, page_id = self._worker, meant.asked, meant.page_id
        if meant.primitive is not None:
            token = calling.primitive_headed(worker, asked)
            planned = calling.of_primitive(worker, asked, request_id, page_id, meant.primitive, token, body)
            return await self._plain(planned, peer)
        call = calling.headed(worker, asked, meant.name)
        given = calling.arguments(call.plugin, asked, body)
        planned = calling.of_plugin(worker, asked, request_id, page_id, call, given)
        if call.options is None:
            return await self._plain(planned, peer)
        ticket = worker.supervisor.begin_job(planned, call.options)
        await _answered(ticket, peer)
        begun = waiting.Begun(ticket.value().job_id, page_id, call.options.way, replayed=False)
        return await waiting.started(worker, begun, meant.patience_s)

    async def _plain(self, planned: Planned, peer: Peer) -> Reply:
        live, ticket = self._worker.supervisor.begin_plain(planned)
        try:
            await _answered(ticket, peer)
        finally:
            if not ticket.answered:
                leave_line(live)
        return envelope.said(ticket.value())


class Unheard(Peer):
    """A client whose request is whole, and that somebody else hears leave."""

    async def more(self) -> bytes:
        raise Gone

    async def left(self) -> None:
        await trio.sleep_forever()


async def _answered(ticket: Ticket[Any], peer: Peer) -> None:
    """Wait until the ticket is.

    Raises:
        Gone: the client left before.
    """
    with trio.CancelScope() as listening:
        ticket.then(listening.cancel)
        await peer.left()
    if not ticket.answered:
        raise Gone


def _is_plain(asked: Asked, length: int) -> bool:
    """Has it a body of the size that is taken here, or none, and no key of its own?"""
    if asked.first(_NOT_PLAIN) is not None:
        return False
    return length <= (MAX_BODY_BYTES if asked.method == "POST" else 0)


def _sent(reply: Reply, request_id: str) -> Answer:
    return whole.json_answer(reply.status, reply.body, reply.headers, request_id)
