"""One page of Playwright's, with what we know of it: where it is, whether it crashed, what it opened.

Asyncio-flavoured. Handlers of Playwright's events catch everything: an exception in one would be raised by the next
call of the API, whoever makes it.

Source: design, section 7 (6).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import structlog
from playwright.async_api import CDPSession, Dialog, Download, Error, Frame, Page, Request, Response

from penelope.errors import PageLost, ProxyFailed
from penelope.pages.browser.inner import Leftovers, on_navigations
from penelope.pages.browser.kept import Kept, drop_handles
from penelope.pages.browser.run import Run
from penelope.pages.browser.session import Session, answers
from penelope.pages.browser.strangers import close_soon
from penelope.pages.browser.urls import ERROR_PAGE, is_allowed, may_stay_at, refusal

DIALOGS_MAX = 50  # in a row; the page that opens a further one is ended
DIALOG_PAUSE_S = 1.0  # that ends a row
POPUPS_MAX = 20  # open at once; further ones are closed at once
CLOSE_S = 1.5
TARGET_CLOSE_S = 0.5
LEFTOVERS_S = 1.0
BLANK = "about:blank"
TIMEOUT_MS = 30_000.0  # Playwright's own; another call may have set it
HEAPS = ("totalSize", "embedderHeapUsedSize", "backingStorageSize")
PROXY_WANTS_LOGIN = 407

_E = TypeVar("_E")

log = structlog.get_logger("penelope.browser")


def safe(handler: Callable[[Any, _E], None]) -> Callable[[Any, _E], None]:
    """A handler that logs what goes wrong in it."""

    @wraps(handler)
    def guarded(self: Any, event: _E) -> None:
        try:
            handler(self, event)
        except Exception:
            log.exception("a handler of the browser's events failed", handler=handler.__name__)

    return guarded


class Live:
    """A page while it lives.

    Attributes:
        page: Playwright's.
        cdp: a CDP session of the page, of our own.
        crashed: its renderer has ended.
        gone: set once it has crashed or is closed.
        url: of the main frame, as last seen.
        place: the last address that it may be opened at again.
        run: the call that works it; None between calls.
        troubled: the last call was cancelled or timed out: a load, or a script, may hang.
        moved: the page has come to another document, or to a place in it, since the call began.
        held_back: the last call's navigation timed out before the page left the document that it was at.
        failed_url: of the last navigation that failed; None: none did.
        unsettled: an error page of a failed navigation may still be on its way.
        heartbeat, asked_at: of the heartbeat; `asked_at` is monotonic, None: not asked yet.
        memory, answered_at: what `ask_vitals` last heard: bytes, and monotonic seconds.
        suspicion: what to say when the call fails now: its page did not answer and is being judged.
        settling: what has to end before the page is worked again; None: nothing.
    """

    cdp: CDPSession
    target_id: str

    def __init__(self, session: Session, page: Page, page_id: str) -> None:
        self.session = session
        self.page = page
        self.page_id = page_id
        self.crashed = False
        self.crashed_at = 0.0
        self.gone = asyncio.Event()
        self.opened_at = time.monotonic()
        self.url = page.url
        self.place = BLANK
        self.run: Run[Any] | None = None
        self.failed_url: str | None = None
        self.unsettled = False
        self.troubled = False
        self.moved = False
        self.held_back = False
        self.error_page = asyncio.Event()
        self.heartbeat: asyncio.Task[bool] | None = None
        self.asked_at: float | None = None
        self.suspicion: PageLost | None = None
        self.settling: asyncio.Task[None] | None = None
        self.crashed_here: str | None = None  # the address that it was opened at again after a crash
        self.memory: int | None = None
        self.answered_at: float | None = None
        self.popups: list[Page] = []
        self.downloads: list[Download] = []
        self.popups_seen = 0
        self._leftovers: Leftovers | None = None
        self._kept = Kept(page)
        self._tasks: set[asyncio.Task[Any]] = set()
        page.on("crash", self._on_crash)
        page.on("close", self._on_close)
        page.on("framenavigated", self._on_navigated)
        page.on("popup", self._on_popup)
        page.on("download", self._on_download)
        if session.proxied:
            on_navigations(page, "response", self._on_response)
        if session.gated:
            on_navigations(page, "requestfailed", self._on_failed)

    async def attach(self) -> None:
        """Open its CDP session."""
        self.cdp = await self.session.context.new_cdp_session(self.page)
        self.session.ends[self.page] = self.flooded
        info = await self.cdp.send("Target.getTargetInfo")
        self.target_id = info["targetInfo"]["targetId"]

    @property
    def usable(self) -> bool:
        """Whether a call can be given this page."""
        return not self.crashed and not self.page.is_closed() and self.session.alive

    async def ask_vitals(self) -> None:
        """Have the page's main thread say how large its heaps are."""
        try:
            heap = await self.cdp.send("Runtime.getHeapUsage")
        except Error:  # closed or crashed: others see to that
            return
        # An array buffer and a document's nodes are on no JavaScript heap, and may be most of a page.
        self.memory = int(sum(heap.get(part, 0) for part in HEAPS))
        self.answered_at = time.monotonic()

    def start_soon(self, work: Awaitable[object], what: str) -> asyncio.Task[None]:
        """Do something beside; it is logged when it goes wrong."""
        task = asyncio.ensure_future(_quietly(work, what))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def flooded(self) -> None:
        """End a page that opens dialogs without end: no script of it can be stopped, and it would do so again."""
        self.place = BLANK
        self.fail(PageLost(f"page {self.page_id} opened dialogs without end"))
        self.start_soon(self.cdp.send("Page.crash"), "end the renderer of a page that floods")

    @safe
    def _on_crash(self, _: Page) -> None:
        self.crashed, self.crashed_at = True, time.monotonic()
        self.gone.set()
        log.warning("page crashed", page_id=self.page_id, url=self.url)
        if self.suspicion is not None:  # it would do so again where it was
            self.place = BLANK
        self.fail(self.suspicion or PageLost(f"page {self.page_id} crashed while the call was running"))

    @safe
    def _on_close(self, _: Page) -> None:
        self.gone.set()
        for popup in self.popups:
            close_soon(self.session, popup)

    @safe
    def _on_navigated(self, frame: Frame) -> None:
        if frame.parent_frame is not None:
            return
        self.url = frame.url
        self.moved = True
        if self.url.startswith(ERROR_PAGE):
            self.unsettled = False
            self.error_page.set()
        elif is_allowed(self.url):
            self.place = self.url
        elif not may_stay_at(self.url):
            self.settling = self.start_soon(self.page.goto(BLANK), "leave a forbidden address")
            self.fail(refusal(self.url))

    @safe
    def _on_failed(self, request: Request) -> None:
        if request.is_navigation_request() and request.frame.parent_frame is None:
            self.failed_url = request.url

    @safe
    def _on_response(self, response: Response) -> None:
        """With a wrong password the proxy's own page is what Chromium shows, as if the site had said it."""
        if response.status == PROXY_WANTS_LOGIN and response.request.is_navigation_request():
            host = urlsplit(response.url).netloc.rpartition("@")[2]
            self.fail(
                ProxyFailed(f"proxy cannot be used for {host}: it refuses the user or the password (407)")
            )

    @safe
    def _on_popup(self, popup: Page) -> None:
        self.popups_seen += 1
        self.popups = [known for known in self.popups if not known.is_closed()]
        if self.run is None or len(self.popups) >= POPUPS_MAX:
            close_soon(self.session, popup)
            return
        self.popups.append(popup)
        popup.on("popup", self._on_popup)

    @safe
    def _on_download(self, download: Download) -> None:
        if self.run is None:
            self.start_soon(_drop(download), "drop a download between calls")
        else:
            self.downloads.append(download)

    def fail(self, error: Exception) -> None:
        """End the call that works the page, if there is one, with this error."""
        if self.run is not None:
            self.run.fail(error)

    def begin(self, run: Run[Any]) -> None:
        """A call takes the page; immediate."""
        self.run = run
        run.begins_work()
        self.failed_url = None
        self.asked_at = None
        self.moved = False
        self.page.set_default_timeout(TIMEOUT_MS)
        self.page.set_default_navigation_timeout(TIMEOUT_MS)
        self._leftovers = Leftovers(self.page)

    async def end(self) -> None:
        """The call is over: its handlers are removed, what it opened is closed beside. Bounded."""
        run, self.run = self.run, None
        if self._leftovers is not None:
            await answers(self._leftovers.remove(), LEFTOVERS_S)
            self._leftovers = None
        if run is not None:
            await run.end_helpers()  # those of its handlers, which began until now
        self._kept.forget_requests()
        if handles := self._kept.handles():
            self.start_soon(drop_handles(handles), "drop the handles that a call left")
        if self.popups_seen:
            log.info("popups closed", page_id=self.page_id, seen=self.popups_seen)
            for popup in self.popups:
                close_soon(self.session, popup)
            self.popups, self.popups_seen = [], 0
        for download in self.downloads:
            self.start_soon(_drop(download), "drop a download")
        self.downloads.clear()

    async def close(self) -> None:
        """Close the page; bounded (2 s), whatever it does."""
        if self.page.is_closed() or not self.session.alive:
            return
        if await answers(self.page.close(), CLOSE_S):
            return
        log.info("page does not close; closed by the browser", page_id=self.page_id)
        closing = self.session.browser_cdp or self.cdp
        await answers(closing.send("Target.closeTarget", {"targetId": self.target_id}), TARGET_CLOSE_S)


async def open_live(session: Session, page_id: str, page: Page | None = None) -> Live:
    """A new page (or the one given), watched."""
    live = Live(session, page or await session.new_page(), page_id)
    await live.attach()
    return live


def answer_dialogs(session: Session) -> None:
    """Answer every dialog of every page, popups included.

    A dialog that asks whether to leave is accepted, so that no navigation is blocked; any other is dismissed, unless
    the plugin's own handler answers it at once. One that follows too many others ends its page.
    """
    floods: WeakKeyDictionary[Page, _Flood] = WeakKeyDictionary()

    def on_dialog(dialog: Dialog) -> None:
        try:
            page = dialog.page
            if page is not None and floods.setdefault(page, _Flood()).rises() and page in session.ends:
                log.warning("dialogs without end: their page is ended", url=page.url)
                session.ends.pop(page)()
            task = asyncio.ensure_future(_quietly(_answer(dialog), "answer a dialog"))
            task.set_name("answer a dialog")
            _answering.add(task)
            task.add_done_callback(_answering.discard)
        except Exception:
            log.exception("a handler of the browser's events failed", handler="on_dialog")

    session.context.on("dialog", on_dialog)


_answering: set[asyncio.Task[None]] = set()


class _Flood:
    """Counts a page's dialogs that come without a pause."""

    def __init__(self) -> None:
        self._count = 0
        self._last = 0.0

    def rises(self) -> bool:
        now = time.monotonic()
        self._count = self._count + 1 if now - self._last < DIALOG_PAUSE_S else 1
        self._last = now
        return self._count > DIALOGS_MAX


async def _answer(dialog: Dialog) -> None:
    leaving = dialog.type == "beforeunload"
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # the plugin's own handler, if it has one, has begun by now
    try:
        await (dialog.accept() if leaving else dialog.dismiss())
    except Error as error:
        if "already handled" in error.message:
            return
        raise
    log.info("dialog answered", type=dialog.type, message=dialog.message[:200], accepted=leaving)


async def _drop(download: Download) -> None:
    await download.cancel()
    await download.delete()


async def _quietly(work: Awaitable[object], what: str) -> None:
    try:
        await work
    except Error as error:
        log.debug("did not work", what=what, error=error.message.splitlines()[0])
    except Exception:
        log.warning("did not work", what=what, exc_info=True)
