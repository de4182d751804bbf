"""One watcher of a job's events: what to ask, what was heard, when to come back; without a socket.

Source: contract, section 11 ("Watch").
"""

from typing import Final

import httpx

from penelope import jsontext
from penelope.client.asking import Answer, Ask, How, Trying, comes_back, said
from penelope.client.errors import UnexpectedAnswer
from penelope.client.flows import job_path
from penelope.client.models import Event, Job, shown
from penelope.client.sse import Message, Reader

SILENCE_S: Final = 45.0  # three of the worker's heartbeats
LASTED_S: Final = 5.0  # a stream that did was a good one: what comes after it is a new beginning
TYPE: Final = "text/event-stream"


class Watching:
    """Attributes:
    over: `end` was heard.
    """

    def __init__(self, how: How, job_id: str) -> None:
        self.over = False
        self._how = how
        self._job_id = job_id
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
            path=f"{job_path(self._job_id)}/events",
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
        job = None
        if message.event == "end":
            job, self.over = shown(Job, data), True
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
            said(answer)
            raise UnexpectedAnswer(
                f"the events of job {self._job_id} were answered {answer.status}, and are no stream",
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
            error = httpx.RemoteProtocolError("the stream of events ended before the job did")
        return max(self._trying.failed(self._ask(), error), asked_for)
