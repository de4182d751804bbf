"""A worker as its clients see it: what fails, whoever's fault it is, becomes one line for a terminal."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
import trio

from penelope import jsontext

ASK_S: Final = 10.0  # for what a worker answers at once
CONNECT_S: Final = 5.0


class Trouble(Exception):
    """A command cannot do what it was asked; the message is the one line that it says."""


class Refused(Trouble):
    """The worker said no.

    Attributes:
        envelope: what it answered, as text.
    """

    def __init__(self, message: str, envelope: str) -> None:
        super().__init__(message)
        self.envelope = envelope


class Remote:
    """A worker.

    Attributes:
        url: its base URL, without a slash at the end.
    """

    def __init__(self, url: str, http: httpx.AsyncClient) -> None:
        self.url = url
        self.http = http

    async def get(self, path: str) -> dict[str, Any]:
        """Ask for what is answered at once.

        Raises:
            Trouble: there is no worker, it does not answer in 10 s, or it says no.
        """
        with trio.move_on_after(ASK_S) as scope:
            answer = await self.send("GET", path)
        if scope.cancelled_caught:
            raise Trouble(f"the worker at {self.url} has not answered in {ASK_S:.0f} s")
        return self.envelope(answer)

    async def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        """A request, however long its answer takes.

        Raises:
            Trouble: there is no worker, or it hung up.
        """
        try:
            return await self.http.request(method, path, **more)
        except httpx.TransportError as exc:
            raise self.not_reached(exc) from exc

    def not_reached(self, error: httpx.TransportError) -> Trouble:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return Trouble(
                f"there is no worker at {self.url}: start one with `penelope serve`, or say where it is with --url"
            )
        return Trouble(f"the worker at {self.url} hung up: {type(error).__name__} {error}".rstrip())

    def envelope(self, answer: httpx.Response) -> dict[str, Any]:
        """The answer's envelope.

        Raises:
            Refused: it is a failure.
            Trouble: it is none of Penelope's.
        """
        try:
            value = jsontext.loads(answer.content)
        except ValueError:
            value = None
        if not isinstance(value, dict) or not isinstance(value.get("success"), bool):
            raise Trouble(f"what answers at {self.url} is no Penelope worker: it said {answer.status_code}")
        if not value["success"]:
            raise Refused(self._said(answer.status_code, value), answer.text)
        return value

    def _said(self, status: int, envelope: Mapping[str, Any]) -> str:
        if status == 401:
            return f"the worker at {self.url} does not take this key: set PENELOPE_KEY to the one that it has"
        kind = f", {envelope['kind']}" if "kind" in envelope else ""
        return f"{envelope.get('error')} ({status}{kind})"


@asynccontextmanager
async def open_remote(url: str, key: str) -> AsyncGenerator[Remote]:
    """A worker at a base URL, for one who has its key.

    Raises:
        Trouble: no URL, no key, or one that no header can carry.
    """
    if not url.startswith(("http://", "https://")):
        raise Trouble(f"{url!r} is no URL of a worker: it begins with http:// or https://")
    if not key:
        raise Trouble("PENELOPE_KEY is not set: it is the key that the worker was started with")
    if not (key.isascii() and key.isprintable()):
        raise Trouble("PENELOPE_KEY has characters that no header can carry")
    try:
        http = httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=httpx.Timeout(None, connect=CONNECT_S),  # a call takes as long as it takes
            trust_env=False,  # the key is for the worker, not for a proxy of the environment's
        )
    except httpx.InvalidURL as exc:
        raise Trouble(f"{url!r} is no URL of a worker: {exc}") from exc
    async with http:
        yield Remote(url.rstrip("/"), http)
