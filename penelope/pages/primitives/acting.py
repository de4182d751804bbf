"""Primitives that act on the page as a person does.

Source: contract, section 3 (primitives).
"""

import base64
import binascii
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from penelope.errors import BadParameter
from penelope.pages.primitives.model import (
    Force,
    Nothing,
    Options,
    PopupCount,
    Popups,
    Selector,
    Strict,
    keep_download,
)
from penelope.plugin import Crossing, Host, MediaLink

if TYPE_CHECKING:
    from playwright.async_api import FilePayload, Page

Modifier = Literal["Alt", "Control", "ControlOrMeta", "Meta", "Shift"]
Delay = Annotated[float, Field(ge=0, le=60_000, allow_inf_nan=False, description="Milliseconds.")]


class Position(BaseModel):
    """A point in the element, CSS pixels from its top left corner."""

    model_config = ConfigDict(extra="forbid")

    x: Annotated[float, Field(allow_inf_nan=False)]
    y: Annotated[float, Field(allow_inf_nan=False)]


class HoverOptions(Options):
    selector: Selector
    position: Position | None = None
    modifiers: tuple[Modifier, ...] = ()
    force: Force = False
    strict: Strict = False
    trial: Annotated[bool, Field(description="Check and wait only, do not act.")] = False

    def pointer(self) -> dict[str, Any]:
        """The options that Playwright's pointer actions share."""
        return {
            "position": None if self.position is None else self.position.model_dump(),
            "modifiers": list(self.modifiers) or None,
            "force": self.force,
            "strict": self.strict,
            "trial": self.trial,
            "timeout": self.timeout_ms,
        }


class ClickOptions(HoverOptions):
    button: Literal["left", "right", "middle"] = "left"
    click_count: Annotated[int, Field(ge=1, le=10)] = 1
    delay: Delay = 0
    expect_download: Annotated[
        bool, Field(description="Wait for the download that the click begins, and answer its media link.")
    ] = False


class Clicked(BaseModel):
    url: Annotated[str, Field(description="Where the page is after the click.")]
    download: Annotated[MediaLink | None, Field(description="When one was expected.")] = None
    popups: PopupCount = 0


class FillOptions(Options):
    selector: Selector
    value: str
    force: Force = False
    strict: Strict = False


class TypeOptions(Options):
    selector: Selector
    text: str
    delay: Delay = 0
    strict: Strict = False


class PressOptions(Options):
    key: Annotated[str, Field(min_length=1, description="E.g. `Enter`, `Control+A`.", examples=["Enter"])]
    selector: Annotated[Selector | None, Field(description="Without one the key goes to what has focus.")] = (
        None
    )
    delay: Delay = 0
    strict: Strict = False


class Pressed(BaseModel):
    popups: PopupCount = 0


class SelectOptions(Options):
    selector: Selector
    value: Annotated[str | list[str] | None, Field(description="By the options' values …")] = None
    label: Annotated[str | list[str] | None, Field(description="… or by what they show …")] = None
    index: Annotated[int | list[int] | None, Field(description="… or by their place, from 0.")] = None
    force: Force = False
    strict: Strict = False

    @model_validator(mode="after")
    def _one_way(self) -> "SelectOptions":
        if sum(way is not None for way in (self.value, self.label, self.index)) != 1:
            raise ValueError("give exactly one of value, label and index")
        return self


class Selected(BaseModel):
    values: Annotated[list[str], Field(description="The values that are selected now.")]


class CheckOptions(Options):
    selector: Selector
    checked: Annotated[bool, Field(description="false unchecks.")] = True
    force: Force = False
    strict: Strict = False


class ScrollOptions(Options):
    selector: Annotated[Selector | None, Field(description="Bring this element into view …")] = None
    delta_x: Annotated[float, Field(allow_inf_nan=False, description="… or turn the wheel, CSS pixels.")] = 0
    delta_y: Annotated[float, Field(allow_inf_nan=False)] = 0

    @model_validator(mode="after")
    def _one_way(self) -> "ScrollOptions":
        if (self.selector is None) == (self.delta_x == 0 and self.delta_y == 0):
            raise ValueError("give either selector, or delta_x or delta_y")
        return self


class Scrolled(BaseModel):
    """Where the page is scrolled to, CSS pixels from its top left corner, and how large it is."""

    x: float
    y: float
    width: float
    height: float


class UploadFile(BaseModel):
    """A file as Playwright takes one from memory."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=255)]
    mime_type: str = "application/octet-stream"
    content: Annotated[str, Field(description="Base64.")]


class UploadOptions(Options):
    selector: Annotated[Selector, Field(description="The file input.")]
    files: Annotated[list[UploadFile], Field(description="An empty list takes the files back out.")]
    strict: Strict = False


async def click(page: "Page", host: Host, crossing: Crossing, options: ClickOptions) -> Clicked:
    """Click an element."""
    how = {
        **options.pointer(),
        "button": options.button,
        "click_count": options.click_count,
        "delay": options.delay,
    }
    with Popups(page) as popups:
        if not options.expect_download:
            await page.click(options.selector, **how)
            return Clicked(url=page.url, popups=popups.count)
        async with page.expect_download(timeout=options.timeout_ms) as expected:
            await page.click(options.selector, **how)
        link = await keep_download(await expected.value, host, crossing)
        return Clicked(url=page.url, download=link, popups=popups.count)


async def fill(page: "Page", _host: Host, _crossing: Crossing, options: FillOptions) -> Nothing:
    """Set a field's value at once."""
    await page.fill(
        options.selector,
        options.value,
        force=options.force,
        strict=options.strict,
        timeout=options.timeout_ms,
    )
    return Nothing()


async def type_text(page: "Page", _host: Host, _crossing: Crossing, options: TypeOptions) -> Nothing:
    """Type into a field key by key, as a person does."""
    field = page.locator(options.selector)
    field = field if options.strict else field.first
    await field.press_sequentially(options.text, delay=options.delay, timeout=options.timeout_ms)
    return Nothing()


async def press(page: "Page", _host: Host, _crossing: Crossing, options: PressOptions) -> Pressed:
    """Press a key, on an element or on what has focus."""
    with Popups(page) as popups:
        if options.selector is None:
            await page.keyboard.press(options.key, delay=options.delay)
        else:
            await page.press(
                options.selector,
                options.key,
                delay=options.delay,
                strict=options.strict,
                timeout=options.timeout_ms,
            )
        return Pressed(popups=popups.count)


async def hover(page: "Page", _host: Host, _crossing: Crossing, options: HoverOptions) -> Nothing:
    """Move the mouse over an element."""
    await page.hover(options.selector, **options.pointer())
    return Nothing()


async def select(page: "Page", _host: Host, _crossing: Crossing, options: SelectOptions) -> Selected:
    """Choose in a `<select>`."""
    values = await page.select_option(
        options.selector,
        value=options.value,
        label=options.label,
        index=options.index,
        force=options.force,
        strict=options.strict,
        timeout=options.timeout_ms,
    )
    return Selected(values=values)


async def check(page: "Page", _host: Host, _crossing: Crossing, options: CheckOptions) -> Nothing:
    """Check or uncheck a box or a radio button."""
    await page.set_checked(
        options.selector,
        options.checked,
        force=options.force,
        strict=options.strict,
        timeout=options.timeout_ms,
    )
    return Nothing()


async def scroll(page: "Page", _host: Host, _crossing: Crossing, options: ScrollOptions) -> Scrolled:
    """Bring an element into view, or turn the mouse wheel."""
    if options.selector is not None:
        await page.locator(options.selector).first.scroll_into_view_if_needed(timeout=options.timeout_ms)
    else:
        await page.mouse.wheel(options.delta_x, options.delta_y)
    return Scrolled(**await page.evaluate(_SCROLLED))


async def upload(page: "Page", _host: Host, _crossing: Crossing, options: UploadOptions) -> Nothing:
    """Put files into a file input."""
    payloads = [_payload(file) for file in options.files]
    found = page.locator(options.selector)
    found = found if options.strict else found.first
    # Into an input of another type Playwright puts them without a word, and nothing is there.
    if not await found.evaluate(_TAKES_FILES, timeout=options.timeout_ms):
        raise BadParameter("parameter selector: the element is no file input")
    await page.set_input_files(
        options.selector,
        payloads,
        strict=options.strict,
        timeout=options.timeout_ms,
    )
    return Nothing()


def _payload(file: UploadFile) -> "FilePayload":
    try:
        content = base64.b64decode(file.content, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise BadParameter(f"parameter files: the content of {file.name!a} is not base64") from exc
    return {"name": file.name, "mimeType": file.mime_type, "buffer": content}


_TAKES_FILES = """(element) => {
  const input = element instanceof HTMLLabelElement ? element.control : element;
  return input instanceof HTMLInputElement && input.type === "file";
}"""
# After two frames: the wheel's event is handled by then, and smooth scrolling has at least begun.
_SCROLLED = """async () => {
  const frame = () => new Promise((done) => { requestAnimationFrame(done); setTimeout(done, 100); });
  await frame(); await frame();
  const e = document.scrollingElement ?? document.documentElement;
  return {x: window.scrollX, y: window.scrollY, width: e.scrollWidth, height: e.scrollHeight};
}"""
