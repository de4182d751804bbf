"""Keeps the browser's cookies in the store: read after each call, written when they changed.

Source: contract, section 3 ("A login survives").
"""

from collections.abc import Awaitable, Callable
from typing import Final

import structlog
import trio

from penelope.pages.driver import Driver

# Also the most by which a neighbour that blocks the thread may delay the end of a call: its cookies come with the next.
COOKIES_TIMEOUT_S: Final = 1.0
NONE: Final = "[]"  # as the driver says it: no row need be written to say so

KeepCookies = Callable[[str], Awaitable[None]]

log = structlog.get_logger("penelope.pages")


class CookieKeeper:
    """One read at a time, written before the next begins: of two at once, the older could land over the newer.

    Calls that end while one is under way share the next: a page more costs no read more.
    """

    def __init__(self, driver: Driver, keep: KeepCookies, kept: str | None) -> None:
        """`keep` makes them durable; `kept` are the ones that are so already, None: none are."""
        self._driver = driver
        self._keep = keep
        self._kept: str | None = NONE if kept is None else kept
        self._turn = trio.Lock()
        self._begun = 0  # reads so far
        self._ended = 0  # the number of the last one that came to its end

    async def save(self, *, noted: bool = False) -> None:
        """Keep the cookies as they are now, or newer; what cannot be kept is tried after the next call.

        Args:
            noted: the driver has noted them, so nobody has to be asked.
        """
        if noted and self._driver.noted_cookies == self._kept:
            return  # most calls change none: they need no turn
        before = self._begun
        async with self._turn:
            if noted:
                await self._keep_if_new(self._driver.noted_cookies)
                return
            if self._ended > before:  # it began after this call asked, and saw all that this call did
                return
            self._begun += 1
            await self._read_and_keep()
            self._ended = self._begun

    async def _read_and_keep(self) -> None:
        text: str | None = None
        with trio.move_on_after(COOKIES_TIMEOUT_S):
            try:
                text = await self._driver.cookies()
            except Exception as exc:  # whatever it is, the call has its outcome already
                log.warning("cookies not read", error=str(exc))
        await self._keep_if_new(text)

    async def _keep_if_new(self, text: str | None) -> None:
        if text is None or text == self._kept:
            return
        self._kept = (
            None  # until it is known: a write that is under way, or was cut off, may have come to its end
        )
        try:
            await self._keep(text)
        except Exception as exc:  # a full or locked store; a login is worth another try, not a failed call
            log.warning("cookies not kept", error=str(exc))
        else:
            self._kept = text
