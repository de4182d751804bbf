"""A browser that is none: the port of `penelope.pages.driver`, in Trio, in place.

The plugins of these tests are Trio-flavoured, since nothing crosses to another loop here: `call.page` is a `FakePage`,
a crossing is a plain await. What only a real Chromium shows is tested in tests/browser.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import trio

from penelope.errors import BrowserLost, CallFailed
from penelope.pages.driver import Body, Driver, Healing, Health, Tab, Vitals

_Result = TypeVar("_Result")


@dataclass
class FakePage:
    """What plugins get as `call.page`; they write down in `seen` what they did."""

    seen: list[str] = field(default_factory=list)
    url: str = "about:blank"


async def cross(function: Callable[..., Awaitable[_Result]], /, *args: Any) -> _Result:
    """The crossing to the worker's side: there is none."""
    return await function(*args)


class FakeTab(Tab):
    """Attributes:
    healed: how often the worker asked it to answer again; `heal_takes_s` each time.
    memory: what it takes, bytes; None: it never said.
    garbage: how much of that collecting gives back.
    purged: what the purge asked of it.
    purging_takes_s: each time.
    """

    def __init__(self, page_id: str, driver: "FakeDriver", url: str | None) -> None:
        self.page = FakePage(url=url or "about:blank")
        self.healed = 0
        self.heal_takes_s = 0.0
        self.closed = False
        self.crashed_now = False
        self.memory: int | None = 3 * 2**20
        self.garbage = 0
        self.purged: list[str] = []
        self.purging_takes_s = 0.0
        self._page_id = page_id
        self._driver = driver

    @property
    def page_id(self) -> str:
        return self._page_id

    @property
    def url(self) -> str:
        return self.page.url

    @property
    def crashed(self) -> bool:
        return self.crashed_now

    async def vitals(self) -> Vitals:
        await trio.lowlevel.checkpoint()
        return Vitals(memory=None if self.crashed_now else self.memory, silent_s=0.0)

    async def collect_garbage(self) -> None:
        await trio.sleep(self.purging_takes_s)
        self.purged.append("collected")
        if self.memory is not None:
            self.memory -= self.garbage
        self.garbage = 0

    async def refresh(self) -> None:
        await trio.sleep(self.purging_takes_s)
        if not self._driver.up:
            raise BrowserLost("there is no browser")
        self.purged.append("reloaded")
        self.memory = 2**20

    @property
    def cookies_noted(self) -> bool:
        return self._driver.notes

    async def title(self) -> str:
        await trio.lowlevel.checkpoint()
        return f"title of {self.page_id}"

    async def run(self, body: Body[_Result], *, name: str) -> _Result:
        if not self._driver.up:
            raise BrowserLost("the browser is not up")
        return await body(self.page, cross)

    async def heal(self) -> Healing:
        await trio.sleep(self.heal_takes_s)
        self.healed += 1
        if not self._driver.up:
            raise BrowserLost("there is no browser")
        return Healing.REOPENED

    async def close(self) -> None:
        await trio.lowlevel.checkpoint()
        self.closed = True


class FakeDriver(Driver):
    """Attributes:
    jar: the cookies, as the JSON text that `cookies` answers.
    notes: a call ends with a read of them, as it does in a real browser; else the worker has to ask.
    refuse_tab: raised by the next `open_tab`.
    """

    def __init__(self, jar: str | None) -> None:
        self.jar = jar or "[]"
        self.notes = False
        self.up = True
        self.tabs: dict[str, FakeTab] = {}
        self.refuse_tab: CallFailed | None = None
        self.open_takes_s = 0.0
        self._stuck = trio.Event()

    @property
    def health(self) -> Health:
        reason = "" if self.up else "it crashed and is being started again"
        return Health(up=self.up, reason=reason, thread_lag_s=0.0, stuck=self.stuck, pids=())

    @property
    def stuck(self) -> bool:
        return self._stuck.is_set()

    async def open_tab(self, page_id: str, url: str | None = None) -> FakeTab:
        await trio.sleep(self.open_takes_s)
        if self.refuse_tab is not None:
            raise self.refuse_tab
        self.tabs[page_id] = FakeTab(page_id, self, url)
        return self.tabs[page_id]

    @property
    def noted_cookies(self) -> str | None:
        return self.jar if self.notes else None

    async def cookies(self) -> str:
        await trio.lowlevel.checkpoint()
        if not self.up:
            raise BrowserLost("there is no browser to ask")
        return self.jar

    async def wait_stuck(self) -> None:
        await self._stuck.wait()

    def stick(self) -> None:
        """A call blocks the browser's thread and nothing ends it."""
        self._stuck.set()
