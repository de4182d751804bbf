"""Going to a URL, as the shipped families do it.

What a site answers is data, whatever the status; only a site that cannot be reached is an error, which the worker
names. Chromium makes errors of more than that, hence this module.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from playwright.async_api import Download, Error, Frame, Page, Request, Response

from penelope import PluginError

WaitUntil = Literal["commit", "domcontentloaded", "load", "networkidle"]

ERROR_PAGE: Final = "chrome-error:"
ERROR_PAGE_S: Final = 1.0  # it is there after about 20 ms
DEFAULT_MS: Final = 30_000.0  # Playwright's
# The site did answer: with a status and no body, or with a question for a name and a password that nobody answers.
ANSWERED: Final = ("ERR_HTTP_RESPONSE_CODE_FAILURE", "ERR_INVALID_AUTH_CREDENTIALS")
CUT_OFF: Final = ("interrupted by another navigation", "net::ERR_ABORTED")
ANSWER_S: Final = 2.0  # for the status of a navigation that failed, which the driver knows
DOWNLOAD_S: Final = 2.0  # from the failed navigation to the download's event: some milliseconds
CLOCKS_MS: Final = 5.0  # that the browser's clock and this process's may differ by: they are one machine's
NO_DOCUMENT: Final = frozenset({204, 205})
READS: Final = 10  # of a page that goes from one document to the next
TRIES: Final = 5  # of a navigation that one of the page's own cuts off

# Not what an element of that name makes of `document.title`. A lone surrogate is no JSON.
TITLE: Final = """() => {
  const said = document.title;
  return (typeof said === "string" ? said : document.querySelector("title")?.text ?? "").toWellFormed();
}"""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# The browser drops these before it looks at the scheme, so "java\nscript:" is a scheme to it, too.
_DROPPED: Final = str.maketrans("", "", "\t\n\r")
_TRIMMED: Final = "".join(map(chr, range(0x21)))


@dataclass(frozen=True, slots=True)
class Arrival:
    """What a navigation came to.

    Attributes:
        url: after redirects.
        status: what the site answered; None where nobody was asked (`about:blank`, `data:`, another `#part`).
        has_document: False when the site sent no body: the page then shows the browser's own error page, or (204)
            what it showed before.
    """

    url: str
    status: int | None
    has_document: bool = True


class IsDownload(PluginError):
    """The URL is a download, not a page: a plugin that does not want it is answered `415`."""

    def __init__(self, url: str, status: int | None) -> None:
        super().__init__(f"the URL {_short(url)!r} is a download, not a page", status=415)
        self.answered = status


async def go(
    page: Page,
    url: str,
    wait_until: WaitUntil = "load",
    *,
    timeout: float | None = None,  # noqa: ASYNC109  Playwright enforces it, and says which step it was
    referer: str | None = None,
) -> Arrival:
    """Go to a URL that `checked_url` let through.

    Args:
        timeout: Playwright's own, milliseconds; None: its default.
        referer: Playwright's own.

    Raises:
        IsDownload: the URL is a download; the page has it as an event.
        playwright.async_api.Error: the site cannot be reached, or does not answer in time.
    """
    until = time.monotonic() + (DEFAULT_MS if timeout is None else timeout) / 1000
    for _ in range(TRIES - 1):
        left = max(1.0, (until - time.monotonic()) * 1000)
        try:
            return await _watched(
                page, url, page.goto(url, wait_until=wait_until, timeout=left, referer=referer)
            )
        except Error as error:
            if not any(sign in error.message for sign in CUT_OFF):
                raise
    left = max(1.0, (until - time.monotonic()) * 1000)
    return await _watched(page, url, page.goto(url, wait_until=wait_until, timeout=left, referer=referer))


class FirstDownload:
    """The first download that a page begins in the block; its event may come after the navigation has failed."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._begun: asyncio.Future[Download] = asyncio.get_running_loop().create_future()

    def __enter__(self) -> "FirstDownload":
        self._page.on("download", self._on_download)
        return self

    def __exit__(self, *_: object) -> None:
        self._page.remove_listener("download", self._on_download)

    def _on_download(self, download: Download) -> None:
        if not self._begun.done():
            self._begun.set_result(download)

    async def get(self, found: IsDownload) -> Download:
        """Raises `found` when none begins after all."""
        try:
            async with asyncio.timeout(DOWNLOAD_S):
                return await self._begun
        except TimeoutError:
            raise found from None


async def step(
    page: Page,
    move: Callable[..., Awaitable[Response | None]],
    wait_until: WaitUntil,
    timeout: float,  # noqa: ASYNC109  as in `go`
) -> Arrival:
    """Make a move that leads where the page has been before: Playwright's `go_back`, `go_forward` or `reload`.

    Raises:
        playwright.async_api.Error: as `go`.
    """
    return await _watched(page, page.url, move(wait_until=wait_until, timeout=timeout))


async def _watched(page: Page, url: str, navigation: Awaitable[Response | None]) -> Arrival:
    watch = _Watch(page)
    page.on("framenavigated", watch.on_navigated)
    try:
        response = await navigation
    except Error as error:
        return await _arrival_without_document(watch, url, error)
    finally:
        page.remove_listener("framenavigated", watch.on_navigated)
    return Arrival(page.url, response.status if response else None)


async def ask(page: Page, script: str, argument: object = None) -> Any:
    """Evaluate a script that only reads, again when a navigation of the page's own came between."""
    for _ in range(READS - 1):
        try:
            return await page.evaluate(script, argument)
        except Error as error:
            if "context was destroyed" not in error.message:
                raise
            await page.wait_for_load_state("domcontentloaded")
    return await page.evaluate(script, argument)


async def title(page: Page) -> str:
    """The page's title; "" where the page does not stay for long enough to be asked."""
    try:
        return str(await ask(page, TITLE))
    except Error as error:
        if "context was destroyed" not in error.message:
            raise
        return ""


def checked_url(text: str) -> str:
    """The URL as the browser will read it.

    Raises:
        PluginError: 400: it is none, or of a scheme that plugins do not open. Only `http`, `https`, `data` and
            `about:blank` are: `file:` would read the worker's disk, `chrome:` steer the browser.
    """
    url = text.strip(_TRIMMED).translate(_DROPPED)
    found = _SCHEME.match(url)
    scheme = found[1].lower() if found else "localhost"
    if scheme == "localhost" or "." in scheme:  # localhost:8200 and example.org:80 are a host and its port
        raise PluginError(f"the URL {_short(url)!r} has no scheme: write https:// before it", status=400)
    if scheme == "data" and "," not in url:
        raise PluginError(
            f"the data URL {_short(url)!r} has no comma, after which its content is", status=400
        )
    if scheme == "data" or re.split("[?#]", url.lower())[0] == "about:blank":
        return url
    if scheme not in ("http", "https"):
        raise PluginError(f"a URL of scheme {scheme!r} is not opened: only http, https, data and about:blank are",
                          status=400)  # fmt: skip
    if not _names_a_host(url):
        raise PluginError(f"the URL {_short(url)!r} names no host, or no valid port", status=400)
    return url


class _Watch:
    """A navigation of the page's main frame: what was answered to it when it failed, and when it came to the browser's
    error page.

    It listens to no requests: Playwright would tell, and make an object, of each that is broken off with the document
    that the page leaves, which may be dozens. They are asked for where a navigation has failed.
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        self._frame = page.main_frame
        self._began_ms = time.time() * 1000
        self.on_error_page = asyncio.Event()

    # What a listener raises comes out of the next call to Playwright, whoever makes it: so nothing is raised.
    def on_navigated(self, frame: Frame) -> None:
        with suppress(Exception):
            if frame == self._frame and frame.url.startswith(ERROR_PAGE):
                self.on_error_page.set()

    async def answer(self) -> Response | None:
        """What the site said before the navigation failed, which is told before the failure; None: nothing."""
        with suppress(TimeoutError, Error):  # the page is gone
            async with asyncio.timeout(ANSWER_S):
                for request in reversed(await self._page.requests()):
                    if self._is_failed(request):
                        return await request.response()
        return None

    def _is_failed(self, request: Request) -> bool:
        """Is it this navigation's, which failed, and was answered before?"""
        return (
            request.failure is not None
            and request.is_navigation_request()
            and request.frame == self._frame
            and request.timing["startTime"] >= self._began_ms - CLOCKS_MS
        )


async def _arrival_without_document(watch: _Watch, url: str, error: Error) -> Arrival:
    """Tell an answer without a body from a failure, which is raised on."""
    is_download = "Download is starting" in error.message
    answered = any(sign in error.message for sign in ANSWERED)
    if not (is_download or answered or "ERR_ABORTED" in error.message):
        raise error
    answer = await watch.answer()
    # Of an attachment that comes with a status of failure the browser makes an error page, and no download.
    if is_download and (answer is None or answer.status < 400):
        raise IsDownload(url, answer.status if answer else None) from None
    if answer is None or not (is_download or answered or answer.status in NO_DOCUMENT):
        raise error
    if is_download or answered:
        # A navigation begun before the error page is there would be cut off by it.
        with suppress(TimeoutError):
            async with asyncio.timeout(ERROR_PAGE_S):
                await watch.on_error_page.wait()
    return Arrival(answer.url, answer.status, has_document=False)


def _names_a_host(url: str) -> bool:
    try:
        parts = urlsplit(url.replace("\\", "/"))
        _ = parts.port  # parsed, and refused, only when it is asked for
    except ValueError:
        return False
    return bool(parts.hostname)


def _short(url: str) -> str:
    return url if len(url) <= 80 else f"{url[:77]}..."
