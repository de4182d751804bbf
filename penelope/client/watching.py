"""One watcher of the events of a job or a run: what to ask, what was heard, when to come back; without a socket.

Source: contract, section 11 ("Watch").
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import httpx

from penelope import jsontext
from penelope.client.asking import Answer, Ask, How, Trying, comes_back, said
from penelope.client.errors import UnexpectedAnswer
from penelope.client.flows import job_path
from penelope.client.models import Event, Job, shown
from penelope.client.run_flows import run_path
from penelope.client.run_flows import said as run_said
from penelope.client.sse import Message, Reader

SILENCE_S: Final = 45.0  # three of the worker's heartbeats
LASTED_S: Final = 5.0  # a stream that did was a good one: what comes after it is a new beginning
TYPE: Final = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is watched.

    Attributes:
        what: in words.
        ends: the kinds of events of which each is the last.
        said: makes of an answer that is no stream the failure that it is.
    """

    what: str
    path: str
    ends: frozenset[str]
    said: Callable[[Answer], object]


def job(job_id: str) -> Watched:
    return Watched(
        what=f"job {job_id}", path=f"{job_path(job_id)}/events", ends=frozenset({"end"}), said=said
    )


def run(run_id: str) -> Watched:
    ends = frozenset({"result", "error", "cancelled"})
    return Watched(what=f"run {run_id}", path=f"{run_path(run_id)}/stream", ends=ends, said=run_said)


class Watching:
    """Attributes:
    over: the last event was heard.
    """

    def __init__(self, how: How, watched: Watched) -> None:
        self.over = False
        self._how = how
        self._watched = watched
        self._trying = Trying(how)
        self._reader = Reader()
        self._opened_at = how.clock()

    def ask(self) -> Ask:
        """For the stream, from behind what was heard last."""
        self._reader = Reader(self._reader.last_id)
        self._opened_at = self._how.clock()
        return self._ask()

    def _ask(self) -> Ask:
        ask = Ask(
            method="GET",
            path=self._watched.path,
            headers={"Accept": TYPE},
            answer_s=SILENCE_S,
        )
        return ask.with_header("Last-Event-ID", self._reader.last_id or None)

    def feed(self, piece: bytes) -> list[Event]:
        """The events that these bytes complete.

        Raises:
            UnexpectedAnswer: one that is none of Penelope's.
        """
        events = [self._event(message) for message in self._reader.feed(piece)]
        if events:
            self._trying.again()
        return events

    def _event(self, message: Message) -> Event:
        try:
            data = jsontext.loads(message.data)
        except ValueError as exc:
            raise UnexpectedAnswer(f"the event {message.event} is no JSON: {exc}") from exc
        if not isinstance(data, dict):
            raise UnexpectedAnswer(f"the event {message.event} is no JSON object")
        job = shown(Job, data) if message.event == "end" else None
        self.over = self.over or message.event in self._watched.ends
        return Event(kind=message.event, data=data, id=message.last_id or None, job=job)

    def is_stream(self, status: int, content_type: str) -> bool:
        return status == 200 and content_type.partition(";")[0].strip().lower() == TYPE

    def refused(self, answer: Answer) -> float:
        """The pause after an answer that is no stream.

        Raises:
            Failure: it will not be one later either, or enough was tried.
            UnexpectedAnswer: it is none of Penelope's.
        """
        wait = self._trying.refused(answer) if comes_back(self._ask(), answer) else None
        if wait is None:
            self._watched.said(answer)
            raise UnexpectedAnswer(
                f"the events of {self._watched.what} were answered {answer.status}, and are no stream",
                status=answer.status,
            )
        return wait

    def broke(self, error: httpx.TransportError | None) -> float:
        """The pause after a stream that ended before the job.

        Args:
            error: None: the stream came to an end of its own.

        Raises:
            Unreachable: enough was tried.
        """
        if self._how.clock() - self._opened_at >= LASTED_S:
            self._trying.again()
        asked_for = self._reader.retry_s or 0.0
        if error is None:
            error = httpx.RemoteProtocolError(f"the stream of events ended before {self._watched.what} did")
        return max(self._trying.failed(self._ask(), error), asked_for)
