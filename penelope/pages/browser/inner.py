"""What we take from Playwright's inside, because there is no public way: each use is guarded, and has a test.

Asyncio-flavoured. Works with Playwright 1.49 to 1.65.
"""

import time
from typing import Any

import structlog
from playwright.async_api import BrowserContext, Page, Playwright

SAY_EVERY_S = 10.0  # the same error of a handler that fails at every event

log = structlog.get_logger("penelope.browser")


def quiet_listeners(playwright: Playwright) -> None:
    """Keep the error of one plugin's event handler from the next call of the API, whoever makes it.

    Playwright keeps it in its connection and raises it there; here it is logged, and gone.
    """
    connection = getattr(getattr(playwright, "_impl_obj", None), "_connection", None)
    if connection is None or not hasattr(connection, "_error"):
        return

    said, said_at = "", 0.0

    class Quiet(type(connection)):  # type: ignore[misc]
        @property
        def _error(self) -> None:
            return None

        @_error.setter
        def _error(self, error: BaseException | None) -> None:
            nonlocal said_at, said
            now = time.monotonic()
            if error is not None and (repr(error) != said or now - said_at > SAY_EVERY_S):
                said, said_at = repr(error), now
                log.warning("a handler of the browser's events failed", error=repr(error), exc_info=error)

    del connection._error
    connection.__class__ = Quiet


def has_routes(context: BrowserContext) -> bool:
    """Whether there are routes for all pages."""
    return bool(getattr(getattr(context, "_impl_obj", None), "_routes", None))


class Leftovers:
    """The handlers and routes that a call adds to its page: they end with the call."""

    def __init__(self, page: Page) -> None:
        """Remember what is there before the call."""
        self._page = page
        self._emitter = getattr(page, "_impl_obj", None)
        self._before = self._listeners()

    def _listeners(self) -> dict[str, list[Any]]:
        emitter = self._emitter
        if emitter is None or not hasattr(emitter, "event_names"):
            return {}
        return {event: list(emitter.listeners(event)) for event in emitter.event_names()}

    async def remove(self) -> None:
        """Remove what came since."""
        assert self._emitter is not None or not self._before
        for event, listeners in self._listeners().items():
            kept = self._before.get(event, [])
            for listener in listeners:
                if listener not in kept:
                    self._emitter.remove_listener(event, listener)  # type: ignore[union-attr]
        if getattr(self._emitter, "_routes", None) and not self._page.is_closed():
            await self._page.unroute_all(behavior="ignoreErrors")
