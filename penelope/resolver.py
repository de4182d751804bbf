"""Name look-ups in threads of their own: sixty that hang must not stop the store, nor each other's time limit.

Source: design, section 1 ("DNS and the database have limiters of their own"); contract, section 5 (the 10 s).
"""

import socket
from functools import partial
from typing import Any, Final

import trio

LOOKUPS: Final = 192  # at once; threads that hang count until the system's resolver gives up


class ThreadResolver(trio.abc.HostnameResolver):
    """The system's resolver; a cancelled look-up is left behind, its thread bounded by the limiter."""

    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(LOOKUPS)

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
        return await trio.to_thread.run_sync(look_up, limiter=self._limiter, abandon_on_cancel=True)

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        look_up = partial(socket.getnameinfo, sockaddr, flags)
        return await trio.to_thread.run_sync(look_up, limiter=self._limiter, abandon_on_cancel=True)


def install() -> None:
    """Use it in this Trio run."""
    trio.socket.set_custom_hostname_resolver(ThreadResolver())
