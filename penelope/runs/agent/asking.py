"""The endpoint: one question and its answer, the tries that it may take, and its time.

No proxy of the environment, no redirect. The key goes into one header and nowhere else: where the endpoint repeats it,
it is struck out.

Trio-flavoured. Source: contract, section 10 ("an OpenAI-compatible endpoint").
"""

import email.utils
import functools
import math
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import httpx
import structlog
import trio

from penelope import jsontext
from penelope.jobs import answers
from penelope.jobs.delivery import trust
from penelope.runs.agent import streamed, wire
from penelope.runs.agent.model import AgentFailed, Endpoint
from penelope.runs.agent.wire import BadAnswer, Said, ToolCall

ANSWER_S: Final = 300.0  # for one answer, the connection included
CONNECT_S: Final = 15.0
TRIES: Final = 4
FIRST_PAUSE_S: Final = 1.0  # doubled each time
MAX_PAUSE_S: Final = 120.0  # an endpoint that asks for more is not waited for
MAX_ANSWER_BYTES: Final = 8 * 2**20
READ_AT_ONCE_BYTES: Final = 64 * 1024  # a fraction of a millisecond to some
MIN_SECRET_CHARS: Final = 8  # shorter ones (`none`, `x`) are no secrets, and words of any answer
_PASSING: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})

log = structlog.get_logger("penelope.runs")


class _CanPass(Exception):
    """A failure that may be gone at the next try.

    Attributes:
        after_s: how long the endpoint wants to be left alone.
    """

    def __init__(self, message: str, after_s: float = 0.0) -> None:
        super().__init__(message)
        self.message = message
        self.after_s = after_s


class Asking:
    """Open it with `open_asking`."""

    def __init__(self, endpoint: Endpoint, client: httpx.AsyncClient) -> None:
        self._endpoint = endpoint
        self._client = client
        key = "" if endpoint.key is None else endpoint.key.get_secret_value()
        self._secret = key if len(key) >= MIN_SECRET_CHARS else None

    async def ask(self, question: bytes) -> Said:
        """Put a question, again where that may help.

        Raises:
            AgentFailed: there is no answer; the message says why.
        """
        pause_s = FIRST_PAUSE_S
        for tries_left in range(TRIES - 1, -1, -1):
            try:
                return self._struck(await self._once(question))
            except _CanPass as exc:
                message = self._hidden(exc.message)
                if not tries_left:
                    raise AgentFailed(f"the agent's endpoint {message}, {TRIES} times") from exc
                if exc.after_s > MAX_PAUSE_S:
                    raise AgentFailed(
                        f"the agent's endpoint {message}, and asks to wait {exc.after_s:.0f} s"
                    ) from exc
                log.info("agent's endpoint failed; asked again", error=message)
                await trio.sleep(max(pause_s, exc.after_s))
                pause_s *= 2
        raise AssertionError("a loop that returns or raises")

    async def _once(self, question: bytes) -> Said:
        try:
            with trio.fail_after(ANSWER_S):
                response, data = await self._post(question)
        except trio.TooSlowError as exc:
            raise AgentFailed(f"the agent's endpoint did not answer within {ANSWER_S:.0f} s") from exc
        except httpx.HTTPError as exc:
            told = answers.of_error(exc)
            if told.error_class == "tls":  # a certificate is no better in a second
                raise AgentFailed(f"the agent's endpoint cannot be asked: {told.error}") from exc
            raise _CanPass(f"cannot be asked: {told.error}") from exc
        if response.status_code != httpx.codes.OK:
            raise self._refusal(response, data)
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        try:
            if len(data) > MAX_ANSWER_BYTES:
                raise BadAnswer(f"it has more than {MAX_ANSWER_BYTES // 2**20} MiB")
            return await _read(streamed.read if is_stream else wire.read, data)
        except BadAnswer as exc:
            words = self._hidden(f"the agent's endpoint sent no answer of its format: {exc}")
            raise AgentFailed(words) from exc

    async def _post(self, question: bytes) -> tuple[httpx.Response, bytes]:
        """The head of the answer, and as much of its body as is read."""
        data = bytearray()
        async with self._client.stream("POST", self._endpoint.address, content=question) as response:
            with trio.CancelScope() as scope:
                async for piece in response.aiter_bytes():
                    data += piece
                    # No `break`: it would leave the generators beneath to the garbage collector.
                    if len(data) > MAX_ANSWER_BYTES or streamed.is_done(data, len(piece)):
                        scope.cancel(reason="enough read")
        return response, bytes(data)

    def _refusal(self, response: httpx.Response, data: bytes) -> Exception:
        status = response.status_code
        if status in (401, 403):  # their words often have a part of the key
            return AgentFailed(f"the agent's endpoint refuses its key ({status}): see PENELOPE_AGENT_KEY")
        if 300 <= status <= 399:
            return AgentFailed(f"the agent's endpoint answers {status}: redirects are not followed")
        try:
            said = wire.complaint(jsontext.loads(data[:MAX_ANSWER_BYTES]))
        except ValueError:
            said = ""
        words = f"answers {status}: {said}" if said else f"answers {status}"
        if status in _PASSING:
            return _CanPass(words, after_s(response.headers.get("retry-after")))
        hint = ": see PENELOPE_AGENT_URL and the model's name" if status == 404 else ""
        return AgentFailed(self._hidden(f"the agent's endpoint {words}{hint}"))

    def _struck(self, said: Said) -> Said:
        if self._secret is None:
            return said
        return replace(
            said,
            text=self._hidden(said.text),
            calls=tuple(
                ToolCall(self._hidden(call.call_id), self._hidden(call.name), self._hidden(call.arguments))
                for call in said.calls
            ),
            refusal=None if said.refusal is None else self._hidden(said.refusal),
            finish=None if said.finish is None else self._hidden(said.finish),
        )

    def _hidden(self, text: str) -> str:
        return text if self._secret is None else text.replace(self._secret, "***")


async def _read(read: Callable[[bytes], Said], data: bytes) -> Said:
    """What an answer says; a large one is read in a thread: eight MiB of small pieces take seconds.

    Raises:
        BadAnswer: see `read`.
    """
    if len(data) <= READ_AT_ONCE_BYTES:
        return read(data)
    return await trio.to_thread.run_sync(read, data, abandon_on_cancel=True)


@asynccontextmanager
async def open_asking(endpoint: Endpoint) -> AsyncGenerator[Asking]:
    """Ask the endpoint while the block lasts; connections are kept in between."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Accept-Encoding": "identity",
        "User-Agent": "penelope",
    }
    if endpoint.key is not None:
        headers["Authorization"] = f"Bearer {endpoint.key.get_secret_value()}"
    async with httpx.AsyncClient(
        headers=headers,
        timeout=httpx.Timeout(None, connect=CONNECT_S),  # the rest has one scope over all of it
        trust_env=False,
        follow_redirects=False,
        verify=_trust() if endpoint.url.startswith("https:") else True,
    ) as client:
        yield Asking(endpoint, client)


@functools.cache
def _trust() -> ssl.SSLContext:
    """Read once: the authorities are some hundreds, and runs are many."""
    return trust()


def after_s(header: str | None) -> float:
    """What a `Retry-After` says, in seconds or as a date; 0.0 where it says nothing."""
    text = (header or "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            until = email.utils.parsedate_to_datetime(text)
        except ValueError:
            return 0.0
        zoned = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
        seconds = (zoned - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0
