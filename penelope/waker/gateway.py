"""`/p/{name}/api/v1/…`: wakes the persona's worker and passes one request on, streamed both ways.

Below Quart, in one nursery: the request's body goes to the worker as it comes, the answer comes back as it goes, a
client that leaves ends both. Nothing is held but what is under way. The target is not taken apart: what follows
`/p/{name}` goes, as it was written, to the worker of that name, and can name nothing else.

Source: contract, section 9 ("Beyond the seed").
"""

import math
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
import structlog
import trio

from penelope import outcome
from penelope.errors import PenelopeError, Unauthorized, WorkerDown
from penelope.http import auth
from penelope.http.front import Receive, Send
from penelope.settings import Settings
from penelope.waker import passing
from penelope.waker.answer import Answer
from penelope.waker.house import House
from penelope.waker.keeper import Keeper
from penelope.waker.passing import Headers

PREFIX: Final = "/p/"
BODY_CHUNKS: Final = 4  # of 64 KiB at most: a small body is taken whole, so that its client is seen to leave
CLOSE_S: Final = 5.0
NOW: Final = -math.inf

log = structlog.get_logger("penelope.waker")


class Gateway:
    """Passes requests on to the workers of a house.

    Attributes:
        answered: how many it answered, by persona ("" where there is none) and status.
    """

    def __init__(self, house: House, client: httpx.AsyncClient, settings: Settings) -> None:
        """
        Args:
            settings: the waker's own, whose keys open every persona.
        """
        self.answered: Counter[tuple[str, int]] = Counter()
        self._house = house
        self._client = client
        self._settings = settings

    async def answer(self, scope: Any, receive: Receive, send: Send) -> None:
        """One request under `/p/`, as the server hands it over."""
        answer = Answer(scope["method"], passing.request_id(scope["headers"]), send, self.answered)
        began = trio.current_time()
        try:
            await self._answer(scope, receive, answer)
        finally:
            log.info(
                "passed on",
                persona=answer.persona or None,
                method=answer.method,
                path=answer.path,
                status=answer.status,
                took_ms=round((trio.current_time() - began) * 1000, 2),
                request_id=answer.request_id,
            )

    async def _answer(self, scope: Any, receive: Receive, answer: Answer) -> None:
        put, get = trio.open_memory_channel[bytes](BODY_CHUNKS)
        async with trio.open_nursery() as nursery, put, get:
            nursery.start_soon(_read, receive, put, nursery.cancel_scope)
            try:
                await self._pass_on(scope, get, answer)
            except PenelopeError as exc:
                await answer.fail(exc)
            except Exception:
                log.exception("request failed", path=answer.path)
                words = "the waker failed on this request; its log has the details"
                await answer.refuse(outcome.failure(500, words, kind="worker"))
            nursery.cancel_scope.cancel(reason="answered")

    async def _pass_on(self, scope: Any, body: trio.MemoryReceiveChannel[bytes], answer: Answer) -> None:
        headers: Headers = passing.framed(list(scope["headers"]), scope["http_version"])
        auth.check_host(
            passing.host(headers), on_loopback=self._settings.on_loopback, hosts=self._settings.hosts
        )
        name, target = passing.split(scope["raw_path"])
        answer.path = passing.logged(target)
        passing.check_method(scope["method"])
        by_link = passing.is_media(scope["method"], target) and not passing.credentials(headers)
        keeper = self._admit_link(name) if by_link else self._admit(name, headers)
        answer.persona = name
        auth.check_target(scope["path"], scope["query_string"])
        passing.check_dots(target)
        async with keeper.passage() as address:
            request = httpx.Request(
                scope["method"],
                address,
                headers=passing.to_worker(
                    headers, address, None if by_link else keeper.key, answer.request_id, name
                ),
                stream=_Body(body),
                extensions={"target": passing.with_query(target, scope["query_string"])},
            )
            await self._exchange(request, keeper, answer)

    def _admit_link(self, name: str) -> Keeper:
        """The keeper of a worker that is up, for one who has a link to a file of it."""
        keeper = self._house.find(name)
        if keeper is None or not keeper.is_up:
            raise Unauthorized(
                "a file's link alone wakes no worker: send the key too",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return keeper

    def _admit(self, name: str, headers: Headers) -> Keeper:
        """The keeper, for one who has a key of the persona's or the waker's."""
        keeper = self._house.find(name)
        own = () if keeper is None else keeper.persona.keys
        auth.check_key(passing.credentials(headers), [*self._settings.keys, *own])
        return self._house.get(name)

    async def _exchange(self, request: httpx.Request, keeper: Keeper, answer: Answer) -> None:
        try:
            response = await self._client.send(request, stream=True)
        except httpx.TransportError as exc:
            raise WorkerDown(f"the worker of {keeper.name} broke off: {type(exc).__name__}") from exc
        chunks = response.aiter_raw()
        try:
            await answer.begin(response.status_code, passing.to_client(response.headers.raw))
            async for chunk in chunks:
                await answer.more(chunk)
            await answer.end()
        except httpx.TransportError as exc:
            # Its client has the beginning: what is cut off must look cut off, so there is no end.
            log.warning("a worker broke off in its answer", persona=keeper.name, error=type(exc).__name__)
        finally:
            # httpx reads through generators in generators: cancelled between two chunks, they end only from within.
            with trio.CancelScope(deadline=NOW, shield=True):
                async for _ in chunks:
                    pass
            with trio.move_on_after(CLOSE_S, shield=True):
                await response.aclose()


class _Body(httpx.AsyncByteStream):
    """The request's body, as it comes."""

    def __init__(self, chunks: trio.MemoryReceiveChannel[bytes]) -> None:
        self._chunks = chunks

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks


async def _read(receive: Receive, body: trio.MemorySendChannel[bytes], scope: trio.CancelScope) -> None:
    """Hand the request's body over, and end the exchange when its client leaves."""
    more = True
    async with body:
        while more:
            message = await receive()
            more = message["type"] == "http.request" and message.get("more_body", False)
            if message.get("body"):
                await body.send(message["body"])
            if message["type"] == "http.disconnect":
                scope.cancel(reason="the client left")
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel(reason="the client left")
