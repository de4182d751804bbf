"""The clients of `penelope.client` in their three flavours: blocking, under asyncio, under Trio.

A scenario is written once, for the asynchronous client; the blocking one is dressed up for it. Those that are not
Trio's run in a thread of their own.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from penelope.client import AsyncClient, Client, JobHandle, Retries
from penelope.client.blocking.events import Events

Scenario = Callable[[Any], Awaitable[Any]]
FLAVOURS: Final = ("blocking", "asyncio", "trio")
SOON: Final = Retries(attempts=5, first_s=0.01, longest_s=0.05, within_s=20)


class Dressed:
    """A blocking object whose methods can be awaited; they block all the same."""

    def __init__(self, bare: Any) -> None:
        self._bare = bare

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._bare, name)
        if name in {"job", "events"}:  # asked nothing yet: plain calls in both
            return lambda *args, **more: _dressed(value(*args, **more))
        if not callable(value):
            return value

        async def method(*args: Any, **more: Any) -> Any:
            return _dressed(value(*args, **more))

        return method

    def __aiter__(self) -> "Dressed":
        return self

    async def __anext__(self) -> Any:
        try:
            return next(self._bare)
        except StopIteration:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> "Dressed":
        self._bare.__enter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._bare.__exit__(*error)


def _dressed(value: Any) -> Any:
    return Dressed(value) if isinstance(value, JobHandle | Events) else value


async def play(
    flavour: str, scenario: Scenario, url: str, key: str, retries: Retries = SOON, within_s: float = 60
) -> Any:
    """What the scenario returns, or raises."""
    with trio.fail_after(within_s):
        match flavour:
            case "trio":
                return await _asynchronously(scenario, url, key, retries)
            case "asyncio":
                return await trio.to_thread.run_sync(
                    lambda: asyncio.run(_asynchronously(scenario, url, key, retries))
                )
            case _:
                return await trio.to_thread.run_sync(_blocking, scenario, url, key, retries)


async def _asynchronously(scenario: Scenario, url: str, key: str, retries: Retries) -> Any:
    async with AsyncClient(url, key, retries=retries) as client:
        return await scenario(client)


def _blocking(scenario: Scenario, url: str, key: str, retries: Retries) -> Any:
    with Client(url, key, retries=retries) as client:
        try:
            scenario(Dressed(client)).__await__().send(None)
        except StopIteration as done:
            return done.value
    raise AssertionError("a blocking client waits where it stands")
