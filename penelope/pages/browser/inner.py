"""What we take from Playwright's inside, because there is no public way: each use is guarded, and has a test.

Asyncio-flavoured. Works with Playwright 1.56 to 1.65.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

import structlog
from playwright.async_api import BrowserContext, Error, Page, Playwright

from penelope.pages.browser.urls import is_allowed, refusal

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


def refuse_gotos(playwright: Playwright) -> None:
    """Refuse each `goto` to where no page may be before it is sent, whoever opened the page or frame: plugins, sites.

    It fails as a `goto` of Playwright's does, so that it is translated as one. Where this Playwright sends in another
    way than is known here, the pages themselves are left to say where they have come.
    """
    connection: Any = getattr(getattr(playwright, "_impl_obj", None), "_connection", None)
    for name in ("send_message_to_server", "_send_message_to_server"):
        if callable(send := getattr(connection, name, None)):
            setattr(connection, name, _refusing(send))


def _refusing(send: Callable[..., Any]) -> Callable[..., Any]:
    def checked(about: Any, method: str, params: Any, *args: Any, **kwargs: Any) -> Any:
        url = params.get("url") if method == "goto" and isinstance(params, Mapping) else None
        if isinstance(url, str) and not is_allowed(url):
            raise Error(
                f'{refusal(url).message}\nCall log:\n  - navigating to "{url}", waiting until "commit"\n'
            )
        return send(about, method, params, *args, **kwargs)

    return checked


class Traffic:
    """Attributes:
    messages: between this side and the driver so far, both ways.
    """

    messages = 0


def count_traffic(playwright: Playwright) -> Traffic | None:
    """Count the messages from now on; None: this Playwright sends or hears in another way than is known here."""
    connection: Any = getattr(getattr(playwright, "_impl_obj", None), "_connection", None)
    names = ("send_message_to_server", "_send_message_to_server")
    sends = [name for name in names if callable(getattr(connection, name, None))]
    if not sends or not callable(getattr(connection, "dispatch", None)):
        return None
    traffic = Traffic()

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def passed(*args: Any, **kwargs: Any) -> Any:
            traffic.messages += 1
            return function(*args, **kwargs)

        return passed

    for name in (*sends, "dispatch"):
        setattr(connection, name, counted(getattr(connection, name)))
    return traffic


def on_navigations(
    page: Any, event: Literal["response", "requestfailed"], handler: Callable[[Any], None]
) -> None:
    """`page.on(event, handler)` for the page's navigations, which costs nothing for its other requests.

    Once somebody listens to the public event, Playwright makes, and keeps, an object for each request and response.
    It has them of navigations in any case, and tells of them a floor below. Where that floor is another one than is
    known here, it is the public event, with all of the page's requests.
    """
    impl = getattr(page, "_impl_obj", None)
    channel: Any = getattr(getattr(page.context, "_impl_obj", None), "_channel", None)
    if impl is None or not hasattr(channel, "remove_listener"):
        page.on(event, handler)
        return
    name, what = ("response", "response") if event == "response" else ("requestFailed", "request")

    def heard(said: Any) -> None:
        about = said.get("page") if isinstance(said, dict) else None
        if getattr(about, "_object", None) is impl:
            handler(getattr(said.get(what), "_object", None))

    channel.on(name, heard)
    page.on("close", lambda _: channel.remove_listener(name, heard))


def has_routes(context: BrowserContext) -> bool:
    """Whether there are routes for all pages."""
    return bool(getattr(getattr(context, "_impl_obj", None), "_routes", None))


class Listeners:
    """The handlers of a page's or a context's events that are there when it is made; later ones can be removed."""

    def __init__(self, of: Page | BrowserContext) -> None:
        self._emitter: Any = getattr(of, "_impl_obj", None)
        self._before = self._now()

    def _now(self) -> dict[str, list[Any]]:
        emitter = self._emitter
        if emitter is None or not hasattr(emitter, "event_names"):
            return {}
        return {event: list(emitter.listeners(event)) for event in emitter.event_names()}

    def remove_later_ones(self) -> None:
        for event, listeners in self._now().items():
            kept = self._before.get(event, [])
            for listener in listeners:
                if listener not in kept:
                    self._emitter.remove_listener(event, listener)


class Leftovers:
    """The handlers and routes that a call adds to its page: they end with the call."""

    def __init__(self, page: Page) -> None:
        """Remember what is there before the call."""
        self._page = page
        self._emitter = getattr(page, "_impl_obj", None)
        self._listeners = Listeners(page)

    async def remove(self) -> None:
        """Remove what came since."""
        self._listeners.remove_later_ones()
        if getattr(self._emitter, "_routes", None) and not self._page.is_closed():
            await self._page.unroute_all(behavior="ignoreErrors")
