"""A waker as its commands see it: what fails, whoever's fault it is, becomes one line."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
import trio

from penelope import jsontext
from penelope.terminal import plain
from penelope.terminal.client import Trouble

ANSWER_S: Final = 30.0  # but for orders, which take as long as they take
CONNECT_S: Final = 5.0


class Waker:
    """A waker, for one who has its key.

    Attributes:
        url: its base URL, without a slash at the end.
    """

    def __init__(self, url: str, http: httpx.AsyncClient) -> None:
        self.url = url
        self._http = http

    async def get(self, path: str) -> dict[str, Any]:
        """What it answers at once.

        Raises:
            Trouble: there is no waker, it does not answer in time, or it says no.
        """
        with trio.move_on_after(ANSWER_S):
            return self.envelope(await self._send("GET", path))
        raise Trouble(f"the waker at {self.url} has not answered in {ANSWER_S:.0f} s")

    async def post(self, path: str) -> httpx.Response:
        """Order something; raises Trouble where there is no waker."""
        return await self._send("POST", path)

    async def _send(self, method: str, path: str) -> httpx.Response:
        try:
            return await self._http.request(method, path)
        except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
            raise Trouble(
                f"there is no waker at {self.url}: start one with `penelope waker`, or say where it is with --url"
            ) from exc
        except httpx.TransportError as exc:
            raise Trouble(f"the waker at {self.url} hung up: {type(exc).__name__} {exc}".rstrip()) from exc

    def envelope(self, answer: httpx.Response) -> dict[str, Any]:
        """The answer's envelope; the log that comes with a refusal is printed before it.

        Raises:
            Trouble: it is a failure, or none of a waker's answers.
        """
        try:
            said = jsontext.loads(answer.content)
        except ValueError:
            said = None
        if not isinstance(said, dict) or not isinstance(said.get("success"), bool):
            raise Trouble(
                f"what answers at {self.url} is no waker of Penelope's: it said {answer.status_code}"
            )
        if said["success"]:
            return said
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            raise Trouble(
                f"the waker at {self.url} does not take this key: set PENELOPE_KEY to the one that it has"
            )
        for line in said.get("log", ()):
            plain.note(f"  {line}")
        raise Trouble(f"{said.get('error')} ({answer.status_code})")


@asynccontextmanager
async def open_waker(url: str, key: str) -> AsyncGenerator[Waker]:
    """A waker at a base URL.

    Raises:
        Trouble: no URL, no key, or one that no header can carry.
    """
    if not url.startswith(("http://", "https://")):
        raise Trouble(f"{url!r} is no URL of a waker: it begins with http:// or https://")
    if not key:
        raise Trouble("PENELOPE_KEY is not set: it is the key that the waker was started with")
    if not (key.isascii() and key.isprintable()):
        raise Trouble("PENELOPE_KEY has characters that no header can carry")
    try:
        http = httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=httpx.Timeout(None, connect=CONNECT_S),
            trust_env=False,  # the key is for the waker, not for a proxy of the environment's
        )
    except httpx.InvalidURL as exc:
        raise Trouble(f"{url!r} is no URL of a waker: {exc}") from exc
    async with http:
        yield Waker(url.rstrip("/"), http)
