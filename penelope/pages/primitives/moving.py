"""Primitives that move the page, and that wait.

Source: contract, section 3 (primitives).
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from penelope.families import navigation
from penelope.pages.primitives.model import (
    Nothing,
    Options,
    PopupCount,
    Popups,
    Selector,
    Strict,
    Url,
    keep_download,
    script_failed,
)
from penelope.plugin import Crossing, Host, MediaLink

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from playwright.async_api import Page, Response


class MoveOptions(Options):
    wait_until: navigation.WaitUntil = "load"


class GotoOptions(MoveOptions):
    url: Url
    referer: str | None = None


class Went(BaseModel):
    """Where the page is now."""

    url: str
    status: Annotated[int | None, Field(description="What the site said; null where nobody was asked.")]
    title: str
    download: Annotated[MediaLink | None, Field(description="When the URL was a download.")] = None
    popups: PopupCount = 0


class WaitOptions(Options):
    selector: Annotated[Selector | None, Field(description="Until this element is in `state` …")] = None
    state: Annotated[
        Literal["attached", "detached", "visible", "hidden"], Field(description="Of the element.")
    ] = "visible"
    strict: Strict = False
    url: Annotated[
        str | None, Field(description="… or until the page is there: a glob or the whole URL …")
    ] = None
    load_state: Annotated[
        Literal["load", "domcontentloaded", "networkidle"] | None, Field(description="… or has loaded …")
    ] = None
    function: Annotated[
        str | None, Field(description="… or until this JavaScript gives something true …")
    ] = None
    arg: Annotated[Any, Field(description="For the function.")] = None
    delay_ms: Annotated[
        float | None, Field(ge=0, le=600_000, allow_inf_nan=False, description="… or so long.")
    ] = None

    @model_validator(mode="after")
    def _one_thing(self) -> "WaitOptions":
        things = (self.selector, self.url, self.load_state, self.function, self.delay_ms)
        if sum(thing is not None for thing in things) != 1:
            raise ValueError("give exactly one of selector, url, load_state, function and delay_ms")
        return self


async def goto(page: "Page", host: Host, crossing: Crossing, options: GotoOptions) -> Went:
    """Go to a URL. What the site says is data: a 404 is a success with `status` 404."""
    with navigation.FirstDownload(page) as first, Popups(page) as popups:
        try:
            arrival = await navigation.go(
                page, options.url, options.wait_until, timeout=options.timeout_ms, referer=options.referer
            )
        except navigation.IsDownload as found:
            download = await first.get(found)
            link = await keep_download(download, host, crossing)
            return Went(url=download.url, status=found.answered, title="", download=link, popups=popups.count)
        return await _went(page, arrival, popups)


async def back(page: "Page", _host: Host, _crossing: Crossing, options: MoveOptions) -> Went:
    """One step back in the page's history; where there is none, the page stays where it is."""
    return await _step(page, page.go_back, options)


async def forward(page: "Page", _host: Host, _crossing: Crossing, options: MoveOptions) -> Went:
    """One step forward in the page's history; where there is none, the page stays where it is."""
    return await _step(page, page.go_forward, options)


async def reload(page: "Page", _host: Host, _crossing: Crossing, options: MoveOptions) -> Went:
    """Load the page again."""
    return await _step(page, page.reload, options)


async def wait(page: "Page", _host: Host, _crossing: Crossing, options: WaitOptions) -> Nothing:
    """Wait for an element, a URL, a load, a condition, or some time."""
    limit = options.timeout_ms
    if options.selector is not None:
        await page.wait_for_selector(
            options.selector, state=options.state, strict=options.strict, timeout=limit
        )
    elif options.url is not None:
        await page.wait_for_url(options.url, timeout=limit, wait_until="commit")
    elif options.load_state is not None:
        await page.wait_for_load_state(options.load_state, timeout=limit)
    elif options.function is not None:
        try:
            await page.wait_for_function(options.function, arg=options.arg, timeout=limit)
        except Exception as exc:
            raise script_failed("function", exc) or exc from exc
    else:
        assert options.delay_ms is not None
        await page.wait_for_timeout(options.delay_ms)
    return Nothing()


async def _step(
    page: "Page", move: "Callable[..., Awaitable[Response | None]]", options: MoveOptions
) -> Went:
    with Popups(page) as popups:
        arrival = await navigation.step(page, move, options.wait_until, options.timeout_ms)
        return await _went(page, arrival, popups)


async def _went(page: "Page", arrival: navigation.Arrival, popups: Popups) -> Went:
    title = await navigation.title(page) if arrival.has_document else ""
    return Went(url=arrival.url, status=arrival.status, title=title, popups=popups.count)
