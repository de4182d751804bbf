"""The port to the browser: what the worker asks of a page, in Trio's flavour.

`pages.browser` holds it for a real Chromium, the tests' fake for the mock clock. A `Tab` is a stable handle: when its
page crashes, hangs or is thrown away, or the whole browser is started again, the driver puts a fresh page under the
same handle; whoever holds the handle need not know.

Source: contract, sections 2 (kinds of failures) and 3; design, sections 1 and 7.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeVar

from penelope.plugin import Crossing

_Result = TypeVar("_Result")

# Asyncio-flavoured under a real browser: it runs on the browser's side, is given Playwright's page, and a
# `Crossing` that runs a Trio-flavoured function on the worker's side and waits for its result.
Body = Callable[[Any, Crossing], Awaitable[_Result]]


class Healing(Enum):
    """What it took to make a page answer again, mildest first."""

    NONE = "none"  # it answered
    STOPPED = "stopped"  # the load was stopped, a dialog answered, or the error page waited for
    KILLED = "killed"  # its renderer was ended and the page opened afresh
    REOPENED = "reopened"  # the page was opened afresh


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How the browser is, without asking it.

    Attributes:
        up: connected and not being started again.
        reason: a sentence when it is not up, else "".
        thread_lag_s: for how long the browser's thread has not answered, seconds; 0.0 when it does.
        stuck: a cancelled call still blocks the browser's thread and nothing ends it: the worker has to end itself.
        pids: the driver's and the browser's processes (roots of their trees).
    """

    up: bool
    reason: str
    thread_lag_s: float
    stuck: bool
    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """How a page is.

    Attributes:
        memory: bytes of its scripts' and its documents' heap, array buffers included, when it last said so; None: it
            never did.
        silent_s: seconds since its main thread last answered; 0.0 when it just did, None: it never has.
    """

    memory: int | None
    silent_s: float | None


class Tab(Protocol):
    """One page."""

    @property
    def page_id(self) -> str: ...

    @property
    def url(self) -> str:
        """Where the page is, as last seen; immediate."""
        ...

    @property
    def crashed(self) -> bool:
        """True from a crash until the page has been opened afresh; immediate."""
        ...

    @property
    def cookies_noted(self) -> bool:
        """Whether `Driver.noted_cookies` has all that the last `run` can have done to the cookies, or have heard of.
        Immediate.
        """
        ...

    async def title(self) -> str:
        """The page's title; "" when the page does not say within a second."""
        ...

    async def vitals(self) -> Vitals:
        """Ask the page how it is, whoever works it; what it last said when it does not answer within half a second."""
        ...

    async def run(self, body: Body[_Result], *, name: str) -> _Result:
        """Run `body` on this page and wait until it has really ended.

        Cancelling cancels `body` and waits a bounded grace for its end; a body that will not end loses its page, which
        is opened afresh. Nothing of it runs on the tab afterwards.

        Args:
            body: see `Body`.
            name: for log lines about a blocked thread, e.g. `instagram/get-following`.

        Raises:
            TimedOut: one of Playwright's own timeouts passed.
            SiteFailed, ProxyFailed: a navigation found no site (name, refused, TLS, redirect loop, …) or no proxy.
            PageLost: the page crashed under the body, or was thrown away.
            BrowserLost: the browser died under the body, or is not up.
            Exception: whatever else `body` raised, as it is.
        """
        ...

    async def heal(self) -> Healing:
        """Make the page answer: stop the load, answer the dialog, wait for the error page, end the renderer, open the
        page afresh, in that order, until it answers. Bounded, about 10 s at the very worst.

        Raises:
            BrowserLost: there is no browser to heal it in; the driver is starting one.
        """
        ...

    async def collect_garbage(self) -> None:
        """Have an idle page give back what nothing in it refers to; bounded (5 s), no matter whether it does."""
        ...

    async def refresh(self) -> None:
        """Leave an idle page's document for about:blank, and load it anew at its address. Bounded, about 15 s at the
        very worst; whatever the page does, it answers afterwards.

        Raises:
            BrowserLost: there is no browser to do it in; the driver is starting one.
        """
        ...

    async def close(self) -> None:
        """Close the page; bounded (2 s), whatever the page does."""
        ...


class Driver(Protocol):
    """One browser with one profile."""

    @property
    def health(self) -> Health: ...

    @property
    def stuck(self) -> bool:
        """`health.stuck` alone, which is asked before each call; immediate."""
        ...

    async def open_tab(self, page_id: str, url: str | None = None) -> Tab:
        """Open a page. The first tab takes over the page that the browser opened with.

        Raises:
            BrowserLost, SiteFailed, ProxyFailed, TimedOut: as `Tab.run`; the page is then not open.
        """
        ...

    @property
    def noted_cookies(self) -> str | None:
        """The cookies as they were last read; None: they never were, and none were given. Immediate."""
        ...

    async def cookies(self) -> str:
        """All cookies of the profile, session cookies included, as a JSON array in a stable order.

        The driver keeps the last answer and restores it when it starts the browser again.

        Raises:
            BrowserLost: there is no browser to ask.
        """
        ...

    async def wait_stuck(self) -> None:
        """Return once `health.stuck` is true; else never."""
        ...
