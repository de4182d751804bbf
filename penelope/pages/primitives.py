"""Primitives: one small typed function each, on Playwright's own page, with Playwright's own names for the options.

They run on the browser's side, so they are asyncio-flavoured, like a plugin's code.

Source: contract, section 3 (primitives).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from penelope.families import navigation
from penelope.pages.browser.urls import allowed_url
from penelope.plugin import Crossing, Host, MediaLink

if TYPE_CHECKING:
    from playwright.async_api import Download, Page

DEFAULT_TIMEOUT_MS: Final = 30_000
TITLE: Final = "() => document.title.toWellFormed()"


def _allowed(url: str) -> str:
    allowed_url(url)
    return url


class Options(BaseModel):
    """What every primitive takes."""

    model_config = ConfigDict(extra="forbid")

    timeout_ms: Annotated[
        float,
        Field(gt=0, le=600_000, allow_inf_nan=False, description="Past it the call is answered 408."),
    ] = DEFAULT_TIMEOUT_MS


class GotoOptions(Options):
    url: Annotated[str, AfterValidator(_allowed), Field(description="http, https, data or about:blank.")]
    wait_until: navigation.WaitUntil = "load"
    referer: str | None = None


class Clip(BaseModel):
    """A part of the page, CSS pixels."""

    x: float
    y: float
    width: Annotated[float, Field(gt=0)]
    height: Annotated[float, Field(gt=0)]


class ScreenshotOptions(Options):
    full_page: Annotated[bool, Field(description="The whole page, not only what the window shows.")] = False
    selector: Annotated[str | None, Field(description="Only this element.")] = None
    clip: Clip | None = None
    type: Literal["png", "jpeg"] = "png"
    quality: Annotated[int | None, Field(ge=0, le=100, description="Of a jpeg.")] = None
    omit_background: bool = False


class TextOptions(Options):
    selector: Annotated[str, Field(description="Whose text; the first that matches.")] = "body"


class Went(BaseModel):
    """Where a page went."""

    url: str
    status: Annotated[int | None, Field(description="What the site said; null where there was no site.")]
    title: str
    download: Annotated[
        dict[str, Any] | None, Field(description="A media link, when the URL was a download.")
    ]


class Picture(BaseModel):
    """A picture of a page."""

    media: Annotated[dict[str, Any], Field(description="A media link.")]


class Text(BaseModel):
    """What a visitor reads."""

    text: str


Function = Callable[["Page", Host, Crossing, Any], Awaitable[BaseModel]]


@dataclass(frozen=True, slots=True)
class Primitive:
    """Attributes:
    options: the model of its body.
    result: the model of its answer.
    """

    name: str
    function: Function
    options: type[Options]
    result: type[BaseModel]

    @property
    def description(self) -> str:
        return self.function.__doc__ or ""


async def goto(page: "Page", host: Host, crossing: Crossing, options: GotoOptions) -> Went:
    """Go to a URL. What the site says is data: a 404 is a success with `status` 404."""
    downloads: list[Download] = []

    def on_download(download: "Download") -> None:
        downloads.append(download)

    page.on("download", on_download)
    try:
        arrival = await navigation.go(
            page, options.url, options.wait_until, timeout=options.timeout_ms, referer=options.referer
        )
    except navigation.IsDownload as found:
        if not downloads:
            raise
        link = await _keep(downloads[0], host, crossing)
        return Went(url=downloads[0].url, status=found.answered, title="", download=dict(link))
    finally:
        page.remove_listener("download", on_download)
    title = await navigation.ask(page, TITLE) if arrival.has_document else ""
    return Went(url=arrival.url, status=arrival.status, title=title, download=None)


async def screenshot(page: "Page", host: Host, crossing: Crossing, options: ScreenshotOptions) -> Picture:
    """Picture the page, or one element of it; the file waits behind a media link."""
    common: dict[str, Any] = {
        "type": options.type,
        "quality": options.quality,
        "omit_background": options.omit_background,
        "timeout": options.timeout_ms,
    }
    if options.selector is not None:
        picture = await page.locator(options.selector).first.screenshot(**common)
    else:
        clip = None if options.clip is None else options.clip.model_dump()
        picture = await page.screenshot(full_page=options.full_page, clip=clip, **common)  # type: ignore[arg-type]
    link = await crossing(host.media, picture, f"screenshot.{options.type}", f"image/{options.type}")
    return Picture(media=dict(link))


async def text(page: "Page", _host: Host, _crossing: Crossing, options: TextOptions) -> Text:
    """The text of the page, or of one element, as a visitor sees it."""
    return Text(text=await page.locator(options.selector).first.inner_text(timeout=options.timeout_ms))


async def _keep(download: "Download", host: Host, crossing: Crossing) -> MediaLink:
    path = await download.path()
    return await crossing(host.media, path, download.suggested_filename, "application/octet-stream")


PRIMITIVES: Final = {
    primitive.name: primitive
    for primitive in (
        Primitive("goto", goto, GotoOptions, Went),
        Primitive("screenshot", screenshot, ScreenshotOptions, Picture),
        Primitive("text", text, TextOptions, Text),
    )
}
