"""Flows, carried out: each step is awaited."""

import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

import anyio
import httpx

from penelope.client.address import Address, answered, headers, options, timeout
from penelope.client.asking import Answer, Ask, Flow, How, Pause
from penelope.client.retrying import Retries

R = TypeVar("R")


class Wire:
    """The connections to a worker, and how they are used.

    Attributes:
        url: the worker's base URL.
    """

    def __init__(
        self,
        address: Address,
        retries: Retries,
        tls: ssl.SSLContext | None,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        self.url = address.url
        self._address = address
        self.how = How(url=address.url, retries=retries, clock=anyio.current_time)
        self._http = httpx.AsyncClient(
            transport=transport, verify=True if tls is None else tls, **options(address)
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def carry_out(self, flow: Flow[R]) -> R:
        """Do what a flow wants, until it returns."""
        try:
            step = next(flow)
            while True:  # noqa: ASYNC913  # the flow ends it
                try:
                    answer = await self._do(step)
                except httpx.TransportError as exc:
                    step = flow.throw(exc)
                else:
                    step = flow.send(answer)
        except StopIteration as done:
            result: R = done.value
            return result

    async def _do(self, step: Ask | Pause) -> Answer | None:
        if isinstance(step, Pause):
            await anyio.sleep(step.seconds)
            return None
        async with self.stream(step) as response:
            return await self.read(response)

    def stream(self, ask: Ask) -> AbstractAsyncContextManager[httpx.Response]:
        """Send; its body is still to come while the block lasts."""
        return self._http.stream(
            ask.method,
            ask.path,
            headers=headers(self._address, ask),
            content=ask.content,
            timeout=timeout(ask),
        )

    async def read(self, response: httpx.Response) -> Answer:
        """The whole of it as a value."""
        await response.aread()
        return answered(self.url, response, time.time())


@asynccontextmanager
async def ended(pieces: AsyncIterator[bytes]) -> AsyncGenerator[AsyncIterator[bytes]]:
    """A response's pieces, brought to an end with the block. Left in the middle, httpx's generators beneath would be
    the garbage collector's, which Trio warns of: a cancelled scope ends them from within.
    """
    try:
        yield pieces
    finally:
        with anyio.CancelScope() as scope:  # noqa: ASYNC100  # it is left at its first checkpoint
            scope.cancel()
            async for _ in pieces:  # noqa: ASYNC102  # cancelled already: it cannot hang
                pass
