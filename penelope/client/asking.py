"""Requests and answers as values, and the flows made of them: what both clients do, without a socket or an event loop.

A flow is a generator. It yields what it wants (an `Ask`, a `Pause`), is sent the `Answer` or thrown the network's
error, and returns its result. `blocking` and `waiting` carry flows out, each in its own colour.
"""

import json
import random
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import httpx

from penelope import jsontext
from penelope.client.errors import BY_STATUS, Failure, Unavailable, UnexpectedAnswer, Unreachable
from penelope.client.retrying import Retries, retry_after

ANSWER_S: Final = 30.0  # for what is answered at once
CONNECT_S: Final = 5.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request.

    Attributes:
        path: with its query.
        answer_s: how long the other side may be silent; None: as long as it likes.
        repeatable: asking twice does no more than asking once.
        keyless: it goes without the key.
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    answer_s: float | None = ANSWER_S
    repeatable: bool = True
    keyless: bool = False

    def with_header(self, name: str, value: str | None) -> "Ask":
        """With one header more; None: as it is."""
        return self if value is None else replace(self, headers={**self.headers, name: value})

    def with_json(self, value: object) -> "Ask":
        """With a JSON body.

        Raises:
            ValueError: it is no JSON.
        """
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return replace(
            self, content=text.encode(), headers={**self.headers, "Content-Type": "application/json"}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Attributes:
    url: of whoever answered: the worker's base URL.
    headers: with names in lower case.
    at: when it had arrived, epoch seconds.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    content: bytes
    at: float

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    @property
    def retry_after(self) -> float | None:
        return retry_after(self.headers, self.at)

    @property
    def envelope(self) -> dict[str, Any] | None:
        """The JSON object that every answer of the API is; None: this is none."""
        try:
            value = jsontext.loads(self.content)
        except ValueError:
            return None
        is_one = isinstance(value, dict) and isinstance(value.get("success"), bool)
        return value if is_one else None

    @property
    def is_refusal(self) -> bool:
        """Did the worker, or a proxy before it, do nothing and ask to come back? A plugin that says 503 in words of its
        own has no `Retry-After`, and has run.
        """
        return self.status in (429, 503) and self.retry_after is not None


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


Flow = Generator[Ask | Pause, Answer | None, T]


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """What a client was told once.

    Attributes:
        url: the worker's base URL, for messages.
        clock: seconds, of which only differences are taken.
        chance: 0 to 1.
    """

    url: str
    retries: Retries
    clock: Callable[[], float]
    chance: Callable[[], float] = random.random


def send(ask: Ask) -> Flow[Answer]:
    """One request, once.

    Raises:
        httpx.TransportError: the network's.
    """
    answer = yield ask
    assert answer is not None
    return answer


def pause(seconds: float) -> Flow[None]:
    yield Pause(seconds)


def asked(ask: Ask, how: How) -> Flow[Answer]:
    """A request, again where that is safe: when it never got there, when it was refused with a `Retry-After`, and
    whatever happened when it is repeatable.

    Raises:
        Unreachable: no answer.
    """
    trying = Trying(how)
    while True:
        try:
            answer = yield from send(ask)
        except httpx.TransportError as exc:
            wait = trying.failed(ask, exc)
        else:
            if not comes_back(ask, answer) or (wait_or_none := trying.refused(answer)) is None:
                return answer
            wait = wait_or_none
        yield from pause(wait)


class Trying:
    """Attempts at one thing, counted."""

    def __init__(self, how: How) -> None:
        self._how = how
        self._began = how.clock()
        self._tried = 0

    def again(self) -> None:
        """It got somewhere: count anew."""
        self._began = self._how.clock()
        self._tried = 0

    def failed(self, ask: Ask, error: httpx.TransportError) -> float:
        """The pause after an attempt that the network failed.

        Raises:
            Unreachable: there is no further one, or it would not be safe.
        """
        unreachable = not_reached(ask, error, self._how.url)
        if unreachable.maybe_done and not ask.repeatable:
            raise unreachable from error
        wait = self._pause(None)
        if wait is None:
            raise unreachable from error
        return wait

    def refused(self, answer: Answer) -> float | None:
        """The pause after an answer that asks to come back; None: there is no further attempt."""
        return self._pause(answer.retry_after)

    def _pause(self, asked_for: float | None) -> float | None:
        self._tried += 1
        elapsed = self._how.clock() - self._began
        return self._how.retries.pause(
            self._tried, elapsed=elapsed, asked=asked_for, chance=self._how.chance()
        )


def comes_back(ask: Ask, answer: Answer) -> bool:
    if answer.is_refusal:
        return True
    if not ask.repeatable:
        return False
    # The worker's own 502, of a page or a site, has an envelope: it is an answer. A proxy's has none.
    return answer.status in (429, 503) or (answer.status in (502, 504) and answer.envelope is None)


def not_reached(ask: Ask, error: httpx.TransportError, url: str) -> Unreachable:
    """The network's error in our words."""
    words = " ".join(f"{type(error).__name__} {error}".split())
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return Unreachable(f"the worker at {url} cannot be reached: {words}", maybe_done=False)
    if isinstance(error, httpx.ReadTimeout) and ask.answer_s is not None:
        return Unreachable(f"the worker at {url} has not answered in {ask.answer_s:g} s", maybe_done=True)
    return Unreachable(f"the worker at {url} hung up: {words}", maybe_done=True)


def said(answer: Answer) -> dict[str, Any]:
    """The envelope of a success.

    Raises:
        Failure: it is a failure's.
        UnexpectedAnswer: it is none of Penelope's.
    """
    envelope = answer.envelope
    if envelope is None:
        if answer.status in (429, 502, 503, 504):
            raise Unavailable(
                f"what stands before the worker at {answer.url} answered {answer.status}",
                status=answer.status,
                text=answer.text,
                retry_after=answer.retry_after,
            )
        raise UnexpectedAnswer(
            f"what answers at {answer.url} is no Penelope worker: it said {answer.status}",
            status=answer.status,
        )
    if envelope["success"]:
        return envelope
    raise failure(answer, envelope)


def failure(answer: Answer, envelope: Mapping[str, Any]) -> Failure:
    kind = envelope.get("kind")
    return BY_STATUS.get(answer.status, Failure)(
        str(envelope.get("error", f"answered {answer.status}")),
        status=answer.status,
        kind=kind if isinstance(kind, str) else None,
        text=answer.text,
        retry_after=answer.retry_after,
    )
