"""The way back to a client of the gateway: a worker's answer as it comes, or the waker's own word in the envelope.

Source: contract, sections 1 and 9.
"""

from collections import Counter

from werkzeug.http import http_date

from penelope import outcome
from penelope.errors import PenelopeError
from penelope.http.front import Send
from penelope.outcome import Outcome
from penelope.waker.passing import Headers


class Answer:
    """One answer, and what is remembered of its request for the log.

    Attributes:
        persona, path: "" until they are known.
        status: None until the answer begins.
    """

    def __init__(self, method: str, request_id: str, send: Send, answered: Counter[tuple[str, int]]) -> None:
        """
        Args:
            answered: counts it, by persona and status.
        """
        self.method = method
        self.request_id = request_id
        self.persona = ""
        self.path = ""
        self.status: int | None = None
        self._send = send
        self._answered = answered

    async def begin(self, status: int, headers: Headers) -> None:
        self.status = status
        self._answered[self.persona, status] += 1
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def more(self, chunk: bytes) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self, last: bytes = b"") -> None:
        await self._send({"type": "http.response.body", "body": last, "more_body": False})

    async def fail(self, error: PenelopeError) -> None:
        """Answer with one of Penelope's own errors."""
        await self.refuse(outcome.from_error(error), dict(error.headers))

    async def refuse(self, said: Outcome, more: dict[str, str] | None = None) -> None:
        """Answer with an envelope; nothing happens where an answer has begun."""
        if self.status is not None:
            return
        body = said.text.encode()
        headers = {
            "date": http_date(),
            "content-type": "application/json",
            "content-length": str(len(body)),
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
            "x-request-id": self.request_id,
            **(more or {}),
        }
        raw = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]
        await self.begin(said.status, raw)
        await self.end(body)
