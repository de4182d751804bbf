"""Primitives that read the page.

What a page may say is measured in the page first: a string of 600 MB must not cross to the worker to be refused there.

Source: contract, section 3 (primitives).
"""

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from penelope import jsontext
from penelope.pages.primitives.model import MAX_RESULT_CHARS, Options, Selector, Strict, script_failed
from penelope.plugin import Crossing, Host, MediaLink, PluginError

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page

MAX_WORDS: Final = 500  # of what a script throws


class ReadOptions(Options):
    selector: Annotated[Selector, Field(description="Whose; the first that matches.")] = "body"
    strict: Strict = False


class HtmlOptions(Options):
    selector: Annotated[
        Selector | None, Field(description="Only inside this element; else the document.")
    ] = None
    strict: Strict = False


class AttributeOptions(Options):
    selector: Selector
    name: Annotated[str, Field(min_length=1)]
    strict: Strict = False


class EvaluateOptions(Options):
    expression: Annotated[
        str,
        Field(
            min_length=1,
            description="JavaScript: an expression, or a function that is called with `arg`.",
            examples=["() => document.title"],
        ),
    ]
    arg: Annotated[Any, Field(description="Any JSON value.")] = None


class Clip(BaseModel):
    """A part of the page, CSS pixels."""

    model_config = ConfigDict(extra="forbid")

    x: Annotated[float, Field(allow_inf_nan=False)]
    y: Annotated[float, Field(allow_inf_nan=False)]
    width: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    height: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ScreenshotOptions(Options):
    full_page: Annotated[bool, Field(description="The whole page, not only what the window shows.")] = False
    selector: Annotated[Selector | None, Field(description="Only this element.")] = None
    clip: Clip | None = None
    type: Literal["png", "jpeg"] = "png"
    quality: Annotated[int | None, Field(ge=0, le=100, description="Of a jpeg.")] = None
    omit_background: bool = False
    animations: Literal["allow", "disabled"] = "allow"


class Margin(BaseModel):
    """As CSS lengths, e.g. `1cm`."""

    model_config = ConfigDict(extra="forbid")

    top: str | None = None
    right: str | None = None
    bottom: str | None = None
    left: str | None = None


class PdfOptions(Options):
    format: Annotated[str | None, Field(description="E.g. A4, Letter.")] = None
    width: Annotated[str | None, Field(description="A CSS length, instead of a format.")] = None
    height: str | None = None
    landscape: bool = False
    scale: Annotated[float, Field(ge=0.1, le=2)] = 1
    print_background: bool = False
    prefer_css_page_size: bool = False
    page_ranges: Annotated[str | None, Field(description="E.g. 1-5, 8.")] = None
    margin: Margin | None = None


class Text(BaseModel):
    text: Annotated[str, Field(description="As a visitor sees it.")]


class Html(BaseModel):
    html: str


class AttributeValue(BaseModel):
    value: Annotated[str | None, Field(description="null when the element has no such attribute.")]


class Evaluated(BaseModel):
    result: Annotated[Any, Field(description="As JSON.stringify has it; null where it has nothing.")]


class File(BaseModel):
    media: MediaLink


async def text(page: "Page", _host: Host, _crossing: Crossing, options: ReadOptions) -> Text:
    """The text of the page, or of one element, as a visitor sees it."""
    found = _located(page, options.selector, strict=options.strict)
    return Text(text=await _said(found, "(e) => e.innerText ?? e.textContent ?? ''", options.timeout_ms))


async def html(page: "Page", _host: Host, _crossing: Crossing, options: HtmlOptions) -> Html:
    """The page's HTML as it is now, or what is inside one element."""
    if options.selector is None:
        root = page.locator(":root")
        return Html(html=await _said(root, _DOCUMENT, options.timeout_ms, least=_LEAST))
    found = _located(page, options.selector, strict=options.strict)
    return Html(html=await _said(found, "(e) => e.innerHTML", options.timeout_ms, least=_LEAST))


async def attribute(
    page: "Page", _host: Host, _crossing: Crossing, options: AttributeOptions
) -> AttributeValue:
    """One attribute of an element, as it is written in the document."""
    found = _located(page, options.selector, strict=options.strict)
    script = f"(e) => e.getAttribute({jsontext.dumps(options.name)})"
    return AttributeValue(value=await _measured(found, script, options.timeout_ms))


async def evaluate(page: "Page", _host: Host, _crossing: Crossing, options: EvaluateOptions) -> Evaluated:
    """Evaluate JavaScript in the page; promises are waited for. What the script throws is answered as a `400`."""
    try:
        said = str(await page.evaluate(_EXPRESSION.replace("GIVEN", options.expression), options.arg))
    except Exception as exc:
        if "SyntaxError" not in str(exc):
            raise
        # Nothing ran: what the script throws comes as an answer. It is no expression; as statements, it may be fine.
        said = await _evaluate_statements(page, options)
    sign, text = said[:1], said[1:]
    match sign:
        case "=":
            return Evaluated(result=jsontext.loads(text))
        case "#":
            raise _too_large(int(text))
        case "!":
            raise PluginError(f"the script threw {text}", status=400)
        case _:
            return Evaluated(result=None)


async def _evaluate_statements(page: "Page", options: EvaluateOptions) -> str:
    try:
        value = await page.evaluate_handle(options.expression, options.arg)
        try:
            return str(await value.evaluate(_AS_JSON))
        finally:
            await value.dispose()  # noqa: ASYNC102  # asyncio's side: the call's own end bounds it
    except Exception as exc:
        raise script_failed("script", exc) or exc from exc


async def screenshot(page: "Page", host: Host, crossing: Crossing, options: ScreenshotOptions) -> File:
    """Picture the page, or one element of it; the file waits behind a media link."""
    common: dict[str, Any] = {
        "type": options.type,
        "quality": options.quality,
        "omit_background": options.omit_background,
        "animations": options.animations,
        "timeout": options.timeout_ms,
    }
    if options.selector is not None:
        picture = await page.locator(options.selector).first.screenshot(**common)
    else:
        clip = None if options.clip is None else options.clip.model_dump()
        picture = await page.screenshot(full_page=options.full_page, clip=clip, **common)  # type: ignore[arg-type]
    link = await crossing(host.media, picture, f"screenshot.{options.type}", f"image/{options.type}")
    return File(media=link)


async def pdf(page: "Page", host: Host, crossing: Crossing, options: PdfOptions) -> File:
    """Print the page as a PDF; the file waits behind a media link."""
    given = options.model_dump(exclude={"timeout_ms", "margin"}, exclude_none=True)
    margin = None if options.margin is None else options.margin.model_dump(exclude_none=True)
    printed = await page.pdf(margin=margin, **given)  # type: ignore[arg-type]
    return File(media=await crossing(host.media, printed, "page.pdf", "application/pdf"))


def _located(page: "Page", selector: str, *, strict: bool) -> "Locator":
    found = page.locator(selector)
    return found if strict else found.first


async def _said(found: "Locator", script: str, timeout_ms: float, least: str = "() => 0") -> str:
    return await _measured(found, script, timeout_ms, least) or ""


async def _measured(found: "Locator", script: str, timeout_ms: float, least: str = "() => 0") -> str | None:
    """What `script` says of an element, null included, when it is not too much. In one question: Playwright takes long
    for each about an element whose attributes are huge.

    Args:
        least: a script that tells a lower bound of its length, for what must not even be made to be measured.

    Raises:
        PluginError: 413, it is.
    """
    measured = f"""(e, most) => {{
      const least = ({least})(e);
      if (least > most) return least;
      const said = ({script})(e) ?? null;
      if (said === null) return null;
      const text = String(said);
      return text.length > most ? text.length : text.toWellFormed();
    }}"""
    said = await found.evaluate(measured, MAX_RESULT_CHARS, timeout=timeout_ms)
    if isinstance(said, int):
        raise _too_large(said)
    return None if said is None else str(said)


def _too_large(chars: int) -> PluginError:
    return PluginError(
        f"the page's answer has {chars} characters: at most {MAX_RESULT_CHARS} are brought back", status=413
    )


_LEAST = "(e) => e.textContent?.length ?? 0"  # the HTML of 100 MB of text takes a renderer's life
_DOCUMENT = "(e) => (document.doctype ? '<!DOCTYPE ' + document.doctype.name + '>' : '') + e.outerHTML"
# JSON's own text, made and measured in the page, behind a sign that says what follows: `=` the JSON, `#` its length
# where that is too much, `!` the words of what was thrown; "" where there is no JSON of it. `JSON.stringify` writes a
# lone surrogate as an escape. All of it is compiled for each expression: short, and with text alone to bring back, it
# adds a fifth of a millisecond to the bare expression instead of two.
_AS_JSON = f"""(value) => {{
  const json = JSON.stringify(value, (_, v) => typeof v === "bigint" ? v.toString() : v);
  return json === undefined ? "" : json.length > {MAX_RESULT_CHARS} ? "#" + json.length : "=" + json;
}}"""
_EXPRESSION = f"""async (arg) => {{
  try {{
    const given = (GIVEN
    );
    return ({_AS_JSON})(typeof given === "function" ? await given(arg) : await given);
  }} catch (error) {{
    try {{ return "!" + String(error).slice(0, {MAX_WORDS}).toWellFormed(); }}
    catch {{ return "!something that has no words"; }}
  }}
}}"""
