"""Primitives that read and change what the browser keeps: cookies and storage.

Source: contract, section 3 (primitives).
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from penelope.pages.primitives.model import Nothing, Options
from penelope.plugin import Crossing, Host, PluginError

if TYPE_CHECKING:
    from playwright.async_api import Page


class CookiesOptions(Options):
    urls: Annotated[tuple[str, ...], Field(description="Only those sent to one of these; else all.")] = ()


class Cookie(BaseModel):
    """Playwright's cookie."""

    model_config = ConfigDict(extra="forbid")

    name: str
    value: str
    url: Annotated[str | None, Field(description="Either url, or domain and path.")] = None
    domain: str | None = None
    path: str | None = None
    expires: Annotated[float | None, Field(description="Epoch seconds; -1: until the browser's end.")] = None
    http_only: Annotated[bool | None, Field(alias="httpOnly")] = None
    secure: bool | None = None
    same_site: Annotated[Literal["Lax", "None", "Strict"] | None, Field(alias="sameSite")] = None

    @model_validator(mode="after")
    def _has_a_place(self) -> "Cookie":
        if (self.url is None) == (self.domain is None):
            raise ValueError("give either url, or domain and path")
        return self


class SetCookiesOptions(Options):
    cookies: tuple[Cookie, ...] = ()
    clear: Annotated[bool, Field(description="Drop all cookies first.")] = False


class Cookies(BaseModel):
    cookies: Annotated[list[dict[str, Any]], Field(description="Playwright's own form.")]


class StorageOptions(Options):
    kind: Annotated[Literal["local", "session"], Field(description="Of the page's own origin.")] = "local"
    set: Annotated[dict[str, str], Field(default_factory=dict, description="Items to write.")]
    remove: Annotated[tuple[str, ...], Field(description="Items to drop, before writing.")] = ()
    clear: Annotated[bool, Field(description="Drop all items first.")] = False


class Storage(BaseModel):
    items: Annotated[dict[str, str], Field(description="All items, after what was asked for.")]


async def cookies(page: "Page", _host: Host, _crossing: Crossing, options: CookiesOptions) -> Cookies:
    """The browser's cookies, session cookies included."""
    found = await page.context.cookies(list(options.urls) or None)
    return Cookies(cookies=[dict(cookie) for cookie in found])


async def set_cookies(page: "Page", _host: Host, _crossing: Crossing, options: SetCookiesOptions) -> Nothing:
    """Add cookies to the browser; they are the persona's, for all its pages."""
    if options.clear:
        await page.context.clear_cookies()
    given: list[Any] = [cookie.model_dump(by_alias=True, exclude_none=True) for cookie in options.cookies]
    if given:
        await page.context.add_cookies(given)
    return Nothing()


async def storage(page: "Page", _host: Host, _crossing: Crossing, options: StorageOptions) -> Storage:
    """Read the page's local or session storage, and change it."""
    asked = options.model_dump(include={"kind", "set", "remove", "clear"})
    match await page.evaluate(_STORAGE, asked):
        case {"items": dict(items)}:
            return Storage(items=items)
        case {"refused": "QuotaExceededError"}:
            raise PluginError(f"the page's {options.kind} storage takes no more", status=413)
        case {"refused": reason}:
            raise PluginError(f"the page has no {options.kind} storage: {reason}", status=409)
        case said:
            raise TypeError(f"storage: the page said {said!r}")


# A document of no origin (`about:blank`, `data:`) has none, and asking for it throws.
_STORAGE = """({kind, set, remove, clear}) => {
  try {
    const store = kind === "local" ? window.localStorage : window.sessionStorage;
    if (!store) return {refused: "the browser gives none"};
    if (clear) store.clear();
    for (const name of remove) store.removeItem(name);
    for (const [name, value] of Object.entries(set)) store.setItem(name, value);
    const items = Object.keys(store).map((name) => [name.toWellFormed(), store.getItem(name).toWellFormed()]);
    return {items: Object.fromEntries(items)};
  } catch (error) {
    return {refused: String(error?.name ?? error).toWellFormed()};
  }
}"""
