"""Flows, carried out: each step waits where it stands."""

import ssl
import time
from contextlib import AbstractContextManager
from typing import TypeVar

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
        transport: httpx.BaseTransport | None,
    ) -> None:
        self.url = address.url
        self._address = address
        self.how = How(url=address.url, retries=retries, clock=time.monotonic)
        self._http = httpx.Client(
            transport=transport, verify=True if tls is None else tls, **options(address)
        )

    def close(self) -> None:
        self._http.close()

    def carry_out(self, flow: Flow[R]) -> R:
        """Do what a flow wants, until it returns."""
        try:
            step = next(flow)
            while True:
                try:
                    answer = self._do(step)
                except httpx.TransportError as exc:
                    step = flow.throw(exc)
                else:
                    step = flow.send(answer)
        except StopIteration as done:
            result: R = done.value
            return result

    def _do(self, step: Ask | Pause) -> Answer | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        with self.stream(step) as response:
            return self.read(response)

    def stream(self, ask: Ask) -> AbstractContextManager[httpx.Response]:
        """Send; its body is still to come while the block lasts."""
        return self._http.stream(
            ask.method,
            ask.path,
            headers=headers(self._address, ask),
            content=ask.content,
            timeout=timeout(ask),
        )

    def read(self, response: httpx.Response) -> Answer:
        """The whole of it as a value."""
        response.read()
        return answered(self.url, response, time.time())
