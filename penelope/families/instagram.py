"""The family `instagram`: accounts, whom they follow and what they post, on the site of `PENELOPE_INSTAGRAM_BASE_URL`.

It reads the page as a visitor's screen reader would, by roles and by what the page marks up for machines. Without
a setting that site is the stand-in, as `penelope demo-site` serves it.

Source: contract, section 2 (shipped families).
"""

from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from playwright.async_api import Locator, Page
from playwright.async_api import TimeoutError as PlaywrightTimeout
from pydantic import BaseModel, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from penelope import Call, PluginError, plugin
from penelope.families.navigation import ask, go

PATIENCE_MS: Final = 5_000  # without a new name for that long, the site has stopped giving

Handle = Annotated[
    str,
    Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,29}$", description="Without the @.", examples=["alice"]),
]


AccountHandle = Annotated[Handle | None, Field(description="Without it: the account on the page.")]
Ended = Literal["end", "limit", "site"]
WHY: Final = "Why the list ends: it was all, or `limit` was reached, or the site gave no more."


class InstagramSettings(BaseSettings):
    """The family's settings.

    Attributes:
        base_url: of the site, `PENELOPE_INSTAGRAM_BASE_URL`; by default where `penelope demo-site` serves.
    """

    # extra: the `.env` file holds the worker's own settings too
    model_config = SettingsConfigDict(env_prefix="PENELOPE_INSTAGRAM_", env_file=".env", extra="ignore")

    base_url: Annotated[str, Field(pattern=r"^https?://[^/\s]+.*$")] = "http://127.0.0.1:8200"


class Account(BaseModel):
    """An account, as its page shows it."""

    handle: str
    url: str
    name: str
    bio: str
    posts: int
    followers: int
    following: int
    is_private: bool = Field(description="Its posts, and whom it follows, are hidden.")


class Following(BaseModel):
    """Whom an account follows."""

    handle: str
    following: list[str] = Field(description="Handles, in the order in which the site lists them.")
    total: int = Field(description="How many the site says there are.")
    complete: bool = Field(description="`following` is all of them.")
    ended_by: Ended = Field(description=WHY)


class Post(BaseModel):
    """A post, as its account's page shows it."""

    shortcode: str = Field(description="Names it on the whole site.")
    url: str
    caption: str
    picture: str = Field(description="URL of the small picture.")


class Posts(BaseModel):
    """What an account posted."""

    handle: str
    posts: list[Post] = Field(description="Newest first.")
    total: int = Field(description="How many the site says there are.")
    complete: bool = Field(description="`posts` is all of them.")
    ended_by: Ended = Field(description=WHY)


@plugin("instagram/open-account")
async def open_account(call: Call, handle: Handle) -> Account:
    """Open an account and say what its page shows.

    404 when there is no such account, 429 with the site's own words when it wants to be left alone for a while.
    """
    await _open(call, f"/{handle}/", handle)
    return await _account(call.page)


@plugin("instagram/get-account")
async def get_account(call: Call, handle: AccountHandle = None) -> Account:
    """Say what the account on the page shows, without leaving it; with a handle, open that one if it is not shown.

    409 when the page shows no account and no handle was given.
    """
    if handle is None:
        await _shown(call)
    elif handle != await _handle_on_page(call):
        await _open(call, f"/{handle}/", handle)
    return await _account(call.page)


@plugin("instagram/get-posts")
async def get_posts(
    call: Call,
    handle: AccountHandle = None,
    limit: Annotated[int, Field(ge=1, le=5000, description="Stop after so many.")] = 50,
) -> Posts:
    """List what an account posted, newest first, scrolling until the list ends, `limit` is reached, or the site gives
    no more.

    Without a handle it is the account that `instagram/open-account` opened before; 409 when the page shows none.
    As a job, it keeps what it has found so far, in case it is interrupted.
    """
    handle = handle or await _shown(call)
    await _open(call, f"/{handle}/", handle)
    account = await _account(call.page)
    if account.is_private:
        raise PluginError(f"the account {handle} is private: its posts are hidden", status=403)
    wanted = min(limit, account.posts)
    grid = call.page.get_by_role("region", name="Posts", exact=True)
    found: list[Post] = []
    while len(found) < wanted and (not found or await _more_posts(grid, len(found))):
        found = [Post(**post) for post in await grid.evaluate(POSTS)]
        if not found:
            break
        await call.progress(min(1.0, len(found) / wanted), f"{len(found)} of {account.posts}")
        await call.checkpoint({"posts": [post.model_dump() for post in found[:limit]]})
    posts = found[:limit]
    return Posts(
        handle=handle,
        posts=posts,
        total=account.posts,
        complete=len(posts) >= account.posts,
        ended_by=_why(len(posts), limit, account.posts),
    )


async def _more_posts(grid: Locator, seen: int) -> bool:
    """Scroll to the grid's end and wait for more than `seen` posts; False when the site gives no more."""
    await grid.get_by_role("link").last.scroll_into_view_if_needed()
    await grid.page.mouse.wheel(
        0, 10_000
    )  # past the grid's last row, where the site looks for readers of more
    try:
        await grid.page.wait_for_function(
            MORE_POSTS, arg=[await grid.element_handle(), seen], timeout=PATIENCE_MS
        )
    except PlaywrightTimeout:
        return False
    return await grid.get_by_role("link").count() > seen


@plugin("instagram/get-following")
async def get_following(
    call: Call,
    handle: AccountHandle = None,
    limit: Annotated[int, Field(ge=1, le=5000, description="Stop after so many.")] = 200,
) -> Following:
    """List whom an account follows, scrolling until the list ends, `limit` is reached, or the site gives no more.

    Without a handle it is the account that `instagram/open-account` opened before; 409 when the page shows none.
    As a job, it keeps what it has found so far, in case it is interrupted.
    """
    handle = handle or await _shown(call)
    await _open(call, f"/{handle}/following", handle)
    account = await _account(call.page)
    if account.is_private:
        raise PluginError(f"the account {handle} is private: whom it follows is hidden", status=403)
    wanted = min(limit, account.following)
    dialog = call.page.get_by_role("dialog")
    found: list[str] = []
    while len(found) < wanted and await _scroll(dialog, len(found)):
        found = await dialog.get_by_role("listitem").locator("a").all_inner_texts()
        await call.progress(min(1.0, len(found) / wanted), f"{len(found)} of {account.following}")
        await call.checkpoint({"following": found[:limit]})
    return _result(handle, found, limit, account.following)


def _result(handle: str, found: list[str], limit: int, total: int) -> Following:
    following = found[:limit]
    return Following(
        handle=handle,
        following=following,
        total=total,
        complete=len(following) >= total,
        ended_by=_why(len(following), limit, total),
    )


def _why(found: int, limit: int, total: int) -> Ended:
    return "end" if found >= total else "limit" if found == limit else "site"


async def _scroll(dialog: Locator, seen: int) -> bool:
    """Scroll to the list's end and wait for more than `seen` names; False when the site gives no more."""
    if seen:
        await dialog.get_by_role("listitem").last.scroll_into_view_if_needed()
    try:
        await dialog.page.wait_for_function(MORE, arg=seen, timeout=PATIENCE_MS)
    except PlaywrightTimeout:
        return False
    return await dialog.get_by_role("listitem").count() > seen


async def _open(call: Call, path: str, handle: str) -> None:
    """Go to a page of an account; what the site refuses becomes the plugin's own error."""
    base_url = call.settings(InstagramSettings).base_url.rstrip("/")
    arrival = await go(call.page, base_url + path)
    status = arrival.status or 200
    if status < 400:
        return
    if status in (404, 410):
        raise PluginError(f"there is no account {handle}", status=404)
    said = await call.page.locator("main").all_inner_texts() if arrival.has_document else []
    words = " ".join(" ".join(said).split())[:200] or "nothing"
    own = status if status in (401, 403, 429) else 502
    raise PluginError(f"the site answered {status} for the account {handle} and said: {words}", status=own)


async def _account(page: Page) -> Account:
    """What the profile on the page says, from its microdata."""
    shown = await ask(page, PROFILE)
    if shown is None:
        raise PluginError(f"{page.url} shows no account: has the site changed?", status=502)
    is_private = await page.get_by_role("note", name="Private account").count() > 0
    return Account(url=page.url, is_private=is_private, **shown)


async def _shown(call: Call) -> str:
    """The handle of the account on the page."""
    handle = await _handle_on_page(call)
    if handle is None:
        raise PluginError(
            "the page shows no account: call instagram/open-account before, or give a handle", status=409
        )
    return handle


async def _handle_on_page(call: Call) -> str | None:
    base_url = call.settings(InstagramSettings).base_url
    at_site = urlsplit(call.page.url)[:2] == urlsplit(base_url)[:2]
    shown = await ask(call.page, PROFILE) if at_site else None
    return None if shown is None else str(shown["handle"])


PROFILE: Final = """() => {
  const item = document.querySelector("[itemtype='https://schema.org/Person']");
  if (!item) return null;
  const text = (name) => item.querySelector(`[itemprop=${name}]`)?.textContent.trim().toWellFormed() ?? "";
  const count = (name) => Number(item.querySelector(`data[itemprop=${name}]`)?.value ?? 0);
  return {
    handle: text("alternateName"), name: text("name"), bio: text("description"),
    posts: count("posts"), followers: count("followers"), following: count("following"),
  };
}"""

# More names than before; or, while there are none, the list's end or the site's apology.
MORE: Final = """(seen) => {
  const dialog = document.querySelector("[role=dialog]");
  const said = dialog?.querySelector("[role=alert]:not([hidden]), [role=status]:not(:empty)");
  return Boolean(said) || dialog?.querySelectorAll("li").length > seen;
}"""

POSTS: Final = """(grid) => Array.from(grid.querySelectorAll("a[href*='/p/']")).map((link) => {
  const picture = link.querySelector("img");
  return {
    shortcode: link.pathname.split("/p/")[1].split("/")[0].toWellFormed(), url: link.href.toWellFormed(),
    caption: (picture?.alt ?? "").toWellFormed(), picture: (picture?.src ?? "").toWellFormed(),
  };
})"""

# More posts than before; or, while there are none, the grid's end or the site's apology, which follow the grid.
MORE_POSTS: Final = """([grid, seen]) => {
  let said = false;
  for (let next = grid.nextElementSibling; next; next = next.nextElementSibling)
    said ||= next.matches("[role=alert]:not([hidden]), [role=status]:not(:empty)");
  return said || grid.querySelectorAll("a[href*='/p/']").length > seen;
}"""
