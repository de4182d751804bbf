"""Fetching a file through the browser, with its cookies and its proxy, bounded in bytes and in time.

What a browser would rather show than save (a picture, a PDF, a page) is saved too: its answer is given the header
that makes a download of it.
"""

import asyncio
import mimetypes
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from playwright.async_api import CDPSession, Download, Error, Page, Response

from penelope import PluginError
from penelope.families.navigation import IsDownload, go

MIB: Final = 2**20
LOOK_S: Final = 0.25
ANY: Final = "application/octet-stream"
DOCUMENTS: Final = [{"urlPattern": "*", "resourceType": "Document", "requestStage": "Response"}]
_TYPE: Final = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}", re.ASCII)

# (bytes so far, bytes in all or 0)
Report = Callable[[int, int], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A file that arrived; `path` is the browser's own, and gone with the call."""

    url: str
    filename: str
    content_type: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much may come, and for how long: bytes and seconds, the wait for the beginning included."""

    size: int
    seconds: float


async def fetch_url(page: Page, url: str, bounds: Bounds, report: Report) -> Fetched:
    """Fetch what is at a URL, whatever it is.

    Raises:
        PluginError: the site answered no file (its status says why: 404 becomes 404, others 502), or it has no answer
            to save (415), is too large (413) or too slow (408).
        playwright.async_api.Error: the site cannot be reached, or the download breaks off.
    """
    async with _watched(page) as watch, _as_attachment(watch.cdp):
        until = time.monotonic() + bounds.seconds
        try:
            arrival = await go(page, url, "commit", timeout=bounds.seconds * 1000)
        except IsDownload:
            return await _finished(watch, bounds, until, report)
        if arrival.status is not None and arrival.status >= 400:
            status = arrival.status if arrival.status in (401, 403, 404, 410, 429) else 502
            raise PluginError(f"the site answered {arrival.status} for the file", status=status)
        raise PluginError("the URL has nothing to save", status=415)


async def fetch_by_click(page: Page, selector: str, bounds: Bounds, report: Report) -> Fetched:
    """Click an element and fetch the download that this begins.

    Raises:
        PluginError: nothing began to download in time (408), or it is too large (413) or too slow (408).
        playwright.async_api.Error: there is no such element, or the download breaks off.
    """
    async with _watched(page) as watch:
        until = time.monotonic() + bounds.seconds
        await page.click(selector, timeout=bounds.seconds * 1000)
        return await _finished(watch, bounds, until, report)


class _Watch:
    """What the page downloads. `begun` has its first download; sizes in bytes, 0 when they are not known."""

    def __init__(self, cdp: CDPSession) -> None:
        self.cdp = cdp
        self.begun: asyncio.Future[Download] = asyncio.get_running_loop().create_future()
        self.types: dict[str, str] = {}
        self.received = 0
        self.total = 0

    # What a listener raises comes out of the next call to Playwright, whoever makes it: so nothing is raised.
    def on_download(self, download: Download) -> None:
        if not self.begun.done():
            self.begun.set_result(download)

    def on_progress(self, event: dict[str, Any]) -> None:
        self.received = max(self.received, int(event.get("receivedBytes", 0)))
        self.total = int(event.get("totalBytes", 0))

    def on_response(self, response: Response) -> None:
        with suppress(Exception):
            self.types[response.url] = response.headers.get("content-type", "")


@asynccontextmanager
async def _watched(page: Page) -> AsyncGenerator[_Watch]:
    cdp = await page.context.new_cdp_session(page)
    watch = _Watch(cdp)
    cdp.on("Page.downloadProgress", watch.on_progress)
    page.on("download", watch.on_download)
    page.on("response", watch.on_response)
    try:
        await cdp.send("Page.enable")
        yield watch
    finally:
        page.remove_listener("download", watch.on_download)
        page.remove_listener("response", watch.on_response)
        watch.begun.cancel()
        with suppress(Error):  # gone with its page
            await cdp.detach()


@asynccontextmanager
async def _as_attachment(cdp: CDPSession) -> AsyncGenerator[None]:
    """Make a download of every document that the page's own frame is answered with 200."""
    answering: set[asyncio.Task[None]] = set()

    async def answer(paused: dict[str, Any]) -> None:
        changed: dict[str, Any] = {"requestId": paused["requestId"]}
        if paused.get("responseStatusCode") == 200 and paused.get("frameId") == main_frame:
            changed |= {"responseCode": 200, "responseHeaders": _attached(paused.get("responseHeaders", []))}
        with suppress(Error):  # the request, or the page, is gone
            await cdp.send("Fetch.continueResponse", changed)

    def on_paused(paused: dict[str, Any]) -> None:
        task = asyncio.ensure_future(answer(paused))
        answering.add(task)
        task.add_done_callback(answering.discard)

    main_frame = (await cdp.send("Page.getFrameTree"))["frameTree"]["frame"]["id"]
    cdp.on("Fetch.requestPaused", on_paused)
    await cdp.send("Fetch.enable", {"patterns": DOCUMENTS})
    try:
        yield
    finally:
        with suppress(Error):
            await cdp.send("Fetch.disable")


def _attached(headers: list[dict[str, str]]) -> list[dict[str, str]]:
    """The headers with `Content-Disposition: attachment`; the name that it had stays."""
    others = [header for header in headers if header["name"].lower() != "content-disposition"]
    (had, *_) = [header["value"] for header in headers if header not in others] or [""]
    name = f";{had.partition(';')[2]}" if ";" in had else ""
    return [*others, {"name": "Content-Disposition", "value": f"attachment{name}"}]


async def _finished(watch: _Watch, bounds: Bounds, until: float, report: Report) -> Fetched:
    try:
        download = await asyncio.wait_for(
            asyncio.shield(watch.begun), max(0.0, until - time.monotonic())
        )  # fmt: skip
    except TimeoutError:
        raise PluginError(f"no download began within {bounds.seconds:g} s", status=408) from None
    ended = asyncio.ensure_future(download.path())
    try:
        while not (await asyncio.wait({ended}, timeout=LOOK_S))[0]:
            _check_size(watch.received, watch.total, bounds.size)
            if time.monotonic() > until:
                raise PluginError(
                    f"the download has not ended within {bounds.seconds:g} s: {watch.received} bytes came",
                    status=408,
                )
            await report(watch.received, watch.total)
        path = ended.result()
    finally:
        if not ended.done():
            ended.cancel()
            with suppress(Error):
                await download.cancel()
    size = (await asyncio.to_thread(path.stat)).st_size
    _check_size(size, size, bounds.size)
    await report(size, size)
    return Fetched(
        url=download.url,
        filename=download.suggested_filename,
        content_type=_type(watch.types.get(download.url, ""), download.suggested_filename),
        path=path,
    )


def _check_size(received: int, total: int, limit: int) -> None:
    if max(received, total) > limit:
        raise PluginError(f"the file has more than {limit // MIB} MiB", status=413)


def _type(said: str, filename: str) -> str:
    """What the site says that it is, else what its name says."""
    match = _TYPE.match(said)
    return match[0].lower() if match else mimetypes.guess_type(filename)[0] or ANY
