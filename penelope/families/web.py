"""The family `web`: open any page, read it, picture it, print it; fetch files; gather lists.

Source: contract, section 2 (shipped families).
"""

import struct
from typing import Annotated, Literal
from urllib.parse import urlsplit

from playwright.async_api import Page
from pydantic import BaseModel, Field

from penelope import Call, PluginError, plugin
from penelope.families import collecting, downloading
from penelope.families.navigation import ERROR_PAGE, Arrival, WaitUntil, ask, checked_url, go
from penelope.families.navigation import title as navigation_title

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


class Printed(BaseModel):
    """A page as a PDF."""

    url: str
    status: int | None = Field(description="As in web/open; null when the page was printed as it was.")
    media: Media


class Downloaded(BaseModel):
    """A file that was fetched."""

    url: str = Field(description="Where it came from, after redirects.")
    media: Media


class Collected(BaseModel):
    """What was gathered."""

    url: str
    status: int | None = Field(description="As in web/open; null when the page was read as it was.")
    items: list[dict[str, str | None]] = Field(
        description="In the order in which they came into sight; null where an item has no such field."
    )
    ended_by: collecting.EndedBy = Field(
        description="Why there are no more: the list's end, `limit`, the site refused or did not answer, "
        "`rounds`, or `seconds`."
    )
    rounds: int = Field(description="How often the list was read.")


@plugin("web/open")
async def open_page(call: Call, url: Url, wait_until: WaitUntil = "load") -> Opened:
    """Open a URL and say where it led.

    What the site answers is data: a 404 or 500 is a success with that status, also when its body is empty. A site
    that cannot be reached is a 502, one that does not answer in 30 s a 408.
    """
    arrival = await go(call.page, checked_url(url), wait_until)
    title = await navigation_title(call.page) if arrival.has_document else ""
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
    link = await call.media(picture, filename=_named(arrival, type), content_type=f"image/{type}")
    return Picture(url=arrival.url, status=arrival.status, media=Media(**link), width=width, height=height)


@plugin("web/pdf")
async def pdf(
    call: Call,
    url: OptionalUrl = None,
    format: Literal["A3", "A4", "A5", "Legal", "Letter", "Tabloid"] = "A4",  # noqa: A002  Playwright's own name
    landscape: bool = False,
    print_background: bool = True,
) -> Printed:
    """Print a page as a PDF. The file waits behind `media.url`, for one download."""
    arrival = await _arrive(call.page, url)
    printed = await call.page.pdf(format=format, landscape=landscape, print_background=print_background)
    link = await call.media(printed, filename=_named(arrival, "pdf"), content_type="application/pdf")
    return Printed(url=arrival.url, status=arrival.status, media=Media(**link))


@plugin("web/download")
async def download(
    call: Call,
    url: Annotated[
        Url | None, Field(description="Of the file; with `selector`, of the page to go to first.")
    ] = None,
    selector: Annotated[
        str | None, Field(min_length=1, description="Click this element, and fetch the download that begins.")
    ] = None,
    max_mb: Annotated[int, Field(ge=1, le=100_000, description="MiB; a larger file is a 413.")] = 1024,
    seconds: Annotated[
        float,
        Field(gt=0, le=86_400, allow_inf_nan=False, description="For all of it; past them it is a 408."),
    ] = 600,
) -> Downloaded:
    """Fetch a file with the browser's cookies and proxy: by its URL, or by a click on the page that begins a download.

    By URL everything is saved, also what a browser would rather show: a picture, a PDF, a page. The file waits behind
    `media.url`, for one download. A download that breaks off is a 502; where the site answers 401, 403, 404, 410 or
    429 for the file, that is the status.
    """
    if url is None and selector is None:
        raise PluginError("give url, or selector, or both", status=400)
    bounds = downloading.Bounds(size=max_mb * downloading.MIB, seconds=seconds)

    async def report(received: int, total: int) -> None:
        share = min(1.0, received / total) if total else 0.0
        await call.progress(share, f"{received / downloading.MIB:.1f} of {total / downloading.MIB:.1f} MiB")

    if selector is None:
        assert url is not None
        fetched = await downloading.fetch_url(call.page, checked_url(url), bounds, report)
    else:
        await _arrive(call.page, url)
        fetched = await downloading.fetch_by_click(call.page, selector, bounds, report)
    link = await call.media(fetched.path, filename=fetched.filename, content_type=fetched.content_type)
    return Downloaded(url=fetched.url, media=Media(**link))


@plugin("web/collect")
async def collect(
    call: Call,
    selector: Annotated[
        str, Field(min_length=1, description="Of an item: CSS, text=, xpath=, …", examples=["article", "li"])
    ],
    fields: Annotated[
        dict[str, str],
        Field(
            min_length=1,
            max_length=50,
            description="What to read of each item, by a name of your own: `CSS` is the text of the first such element "
            "inside of it, `CSS@attribute` that one's attribute (`href` and `src` are made absolute), `@attribute` the "
            "item's own, and an empty string the item's own text.",
            examples=[{"title": "h2", "link": "a@href"}],
        ),
    ] = {"text": ""},  # noqa: B006  never changed
    url: OptionalUrl = None,
    key: Annotated[
        str | None,
        Field(description="The field that tells items apart; without it those that read the same are one."),
    ] = None,
    limit: Annotated[int, Field(ge=1, le=100_000, description="Stop after so many items …")] = 200,
    rounds: Annotated[
        int, Field(ge=1, le=100_000, description="… after so many steps of scrolling …")
    ] = 1_000,
    seconds: Annotated[
        float, Field(gt=0, le=86_400, allow_inf_nan=False, description="… or after so many seconds.")
    ] = 300,
    patience: Annotated[
        float,
        Field(
            gt=0,
            le=600,
            allow_inf_nan=False,
            description="The list has ended when for so many seconds nothing comes.",
        ),
    ] = 5,
) -> Collected:
    """Gather the items of a list that loads as it scrolls, also of one that keeps only what is in sight.

    It scrolls what the items are in, step by step, until the list ends or a bound is met, and says which
    (`ended_by`). As a job it keeps what it has found so far, in case it is interrupted.
    """
    readers = {name: collecting.reader(text) for name, text in fields.items()}
    if key is not None and key not in readers:
        raise PluginError(f"key names the field {key!r}, which is none of fields", status=400)
    wanted = collecting.Wanted(
        selector=selector,
        readers=readers,
        key=key,
        limit=limit,
        rounds=rounds,
        seconds=seconds,
        patience_s=patience,
    )
    arrival = await _arrive(call.page, url)
    kept = collecting.Seldom()

    async def report(items: list[collecting.Item]) -> None:
        await call.progress(min(1.0, len(items) / limit), f"{len(items)} items")
        if kept.is_due():
            await call.checkpoint({"items": items})

    gathered = await collecting.gather(call.page, wanted, report)
    return Collected(
        url=call.page.url,
        status=arrival.status,
        items=gathered.items,
        ended_by=gathered.ended_by,
        rounds=gathered.rounds,
    )


async def _arrive(page: Page, url: str | None) -> Arrival:
    if url is not None:
        return await go(page, checked_url(url))
    if page.url.startswith(ERROR_PAGE):
        raise PluginError("the page shows nothing: its last navigation came to no document", status=409)
    return Arrival(page.url, None)


def _named(arrival: Arrival, ending: str) -> str:
    return f"{urlsplit(arrival.url).hostname or 'page'}.{ending}"


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
