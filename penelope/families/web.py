"""The family `web`: open any page, read it, picture it.

Source: contract, section 2 (shipped families).
"""

import struct
from typing import Annotated, Literal
from urllib.parse import urlsplit

from playwright.async_api import Page
from pydantic import BaseModel, Field

from penelope import Call, PluginError, plugin
from penelope.families.navigation import ERROR_PAGE, Arrival, WaitUntil, ask, checked_url, go

MAX_LINKS = 2_000
JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # start-of-frame markers: they carry the size

Url = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1_000_000,
        description="Absolute: http, https, data or about:blank.",
        examples=["http://127.0.0.1:8200/alice/"],
    ),
]
OptionalUrl = Annotated[Url | None, Field(description="Where to go first; without it, the page as it is.")]


class Opened(BaseModel):
    """A page that was opened."""

    url: str = Field(description="After redirects.")
    status: int | None = Field(
        description="What the site answered, 404 and 500 included; null where nobody was asked."
    )
    title: str = Field(description='"" when the site sent no page.')


class Link(BaseModel):
    """One link of a page."""

    text: str = Field(description="What the visitor sees, white space folded.")
    href: str = Field(description="Absolute.")


class Metadata(BaseModel):
    """What a page says about itself to machines."""

    description: str | None = None
    lang: str | None = None
    canonical: str | None = Field(None, description="The URL that the page calls its own.")
    og: dict[str, str] = Field({}, description="Open Graph properties, without `og:`.")


class Document(BaseModel):
    """A page that was read."""

    url: str
    status: int | None = Field(description="As in web/open; null when the page was read as it was.")
    title: str = ""
    text: str = Field("", description="What a visitor can read, in the page's order.")
    text_cut: bool = Field(False, description="There was more text than `max_chars`.")
    links: list[Link] = Field([], description=f"In the page's order, the first {MAX_LINKS}.")
    metadata: Metadata = Metadata()


class Media(BaseModel):
    """A file to fetch once."""

    url: str = Field(description="Path of the one-shot link; it needs no key.")
    filename: str
    content_type: str
    size: int = Field(description="Bytes.")
    expires_at: float = Field(description="Epoch seconds.")


class Picture(BaseModel):
    """A picture of a page."""

    url: str
    status: int | None = Field(description="As in web/open; null when the page was pictured as it was.")
    media: Media
    width: int = Field(description="Pixels of the picture.")
    height: int = Field(description="Pixels of the picture.")


@plugin("web/open")
async def open_page(call: Call, url: Url, wait_until: WaitUntil = "load") -> Opened:
    """Open a URL and say where it led.

    What the site answers is data: a 404 or 500 is a success with that status, also when its body is empty. A site
    that cannot be reached is a 502, one that does not answer in 30 s a 408.
    """
    arrival = await go(call.page, checked_url(url), wait_until)
    title = await ask(call.page, "() => document.title.toWellFormed()") if arrival.has_document else ""
    return Opened(url=arrival.url, status=arrival.status, title=title)


@plugin("web/read")
async def read(
    call: Call,
    url: OptionalUrl = None,
    max_chars: Annotated[int, Field(ge=1, le=2_000_000, description="Cut the text after so many.")] = 200_000,
) -> Document:
    """Read a page: its title, its text as a visitor sees it, its links, and what it says about itself."""
    arrival = await _arrive(call.page, url)
    if not arrival.has_document:
        return Document(url=arrival.url, status=arrival.status)
    found = await ask(call.page, READ, [max_chars, MAX_LINKS])
    return Document(url=arrival.url, status=arrival.status, **found)


@plugin("web/screenshot")
async def screenshot(
    call: Call,
    url: OptionalUrl = None,
    full_page: Annotated[bool, Field(description="The whole page, not only what the window shows.")] = False,
    type: Literal["png", "jpeg"] = "png",  # noqa: A002  Playwright's own name for it
) -> Picture:
    """Picture a page. The file waits behind `media.url`, for one download."""
    arrival = await _arrive(call.page, url)
    picture = await call.page.screenshot(full_page=full_page, type=type)
    width, height = _size(picture)
    name = f"{urlsplit(arrival.url).hostname or 'page'}.{type}"
    link = await call.media(picture, filename=name, content_type=f"image/{type}")
    return Picture(url=arrival.url, status=arrival.status, media=Media(**link), width=width, height=height)


async def _arrive(page: Page, url: str | None) -> Arrival:
    if url is not None:
        return await go(page, checked_url(url))
    if page.url.startswith(ERROR_PAGE):
        raise PluginError("the page shows nothing: its last navigation came to no document", status=409)
    return Arrival(page.url, None)


def _size(picture: bytes) -> tuple[int, int]:
    """Width and height of a PNG (in its first chunk) or a JPEG (in its frame header)."""
    if picture.startswith(b"\x89PNG"):
        width, height = struct.unpack_from(">II", picture, 16)
        return width, height
    at = 2
    while picture[at + 1] not in JPEG_FRAMES:
        at += 2 + int.from_bytes(picture[at + 2 : at + 4], "big")
    height, width = struct.unpack_from(">HH", picture, at + 5)
    return width, height


# toWellFormed: a lone surrogate, which JavaScript allows and JSON does not, becomes U+FFFD. The text is cut in the
# page, so that a huge one never crosses to the worker.
READ = """([maxChars, maxLinks]) => {
  const clean = (text) => (text ?? "").toWellFormed();
  const meta = (name) => document.querySelector(`meta[name="${name}" i]`)?.content;
  const text = document.body?.innerText ?? document.documentElement?.textContent ?? "";
  const canonical = document.querySelector("link[rel~=canonical i]")?.href;
  return {
    title: clean(document.title),
    text: clean(text.slice(0, maxChars)),
    text_cut: text.length > maxChars,
    links: Array.from(document.links).slice(0, maxLinks).map((link) => ({
      text: clean((link.innerText ?? link.alt ?? "").replace(/\\s+/g, " ").trim()),
      href: clean(link.href),
    })),
    metadata: {
      description: clean(meta("description")) || null,
      lang: clean(document.documentElement?.lang) || null,
      canonical: clean(canonical) || null,
      og: Object.fromEntries(Array.from(document.querySelectorAll('meta[property^="og:"]')).map(
        (tag) => [clean(tag.getAttribute("property").slice(3)), clean(tag.content)])),
    },
  };
}"""
