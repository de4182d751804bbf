"""Name look-ups in threads of their own: sixty that hang must not stop the store, nor each other's time limit.

A look-up that is cancelled is left behind: its thread lives on until the system gives up, half a minute or more. So one
name whose server never answers gets a part of the threads, however often it is asked for.

Source: design, section 1 ("DNS and the database have limiters of their own"); contract, section 5 (the 10 s).
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

import trio

LOOKUPS: Final = 192  # at once; threads that hang count until the system's resolver gives up
LOOKUPS_PER_NAME: Final = 16

_Result = TypeVar("_Result")


@dataclass(eq=False, slots=True)
class _Name:
    """`users` have a place, or wait for one."""

    places: trio.CapacityLimiter = field(default_factory=lambda: trio.CapacityLimiter(LOOKUPS_PER_NAME))
    users: int = 0


class _Places:
    """The limiter of one look-up: of its name first, so that those who wait there keep no other name waiting.

    Trio gives the places back when the thread ends, not when it is left behind.
    """

    def __init__(self, name: object, names: dict[object, _Name], all_of_them: trio.CapacityLimiter) -> None:
        self._key = name
        self._names = names
        self._all = all_of_them

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        name = self._names.setdefault(self._key, _Name())
        name.users += 1
        try:
            await name.places.acquire_on_behalf_of(borrower)
            try:
                await self._all.acquire_on_behalf_of(borrower)
            except BaseException:
                name.places.release_on_behalf_of(borrower)
                raise
        except BaseException:
            self._leave(name)
            raise

    def release_on_behalf_of(self, borrower: object) -> None:
        name = self._names[self._key]
        self._all.release_on_behalf_of(borrower)
        name.places.release_on_behalf_of(borrower)
        self._leave(name)

    def _leave(self, name: _Name) -> None:
        name.users -= 1
        if not name.users:
            del self._names[self._key]


class ThreadResolver(trio.abc.HostnameResolver):
    """The system's resolver; a cancelled look-up is left behind, its thread bounded by the limiters."""

    def __init__(self) -> None:
        self._all = trio.CapacityLimiter(LOOKUPS)
        self._names: dict[object, _Name] = {}

    async def getaddrinfo(
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,  # noqa: A002  # the port's own name for it
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        look_up = partial(socket.getaddrinfo, host, port, family, type, proto, flags)
        return await self._run(host, look_up)

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        return await self._run(sockaddr, partial(socket.getnameinfo, sockaddr, flags))

    async def _run(self, name: object, look_up: Callable[[], _Result]) -> _Result:
        # Trio asks no more of a limiter than these two functions, though its types do.
        limiter: Any = _Places(name, self._names, self._all)
        return await trio.to_thread.run_sync(look_up, limiter=limiter, abandon_on_cancel=True)


def install() -> None:
    """Use it in this Trio run."""
    trio.socket.set_custom_hostname_resolver(ThreadResolver())
