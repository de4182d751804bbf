"""The pages of the stand-in site: feed, search, profiles, the following dialog, posts, the login.

`create_site` owns no task and no state: everything shown follows from the URL and the visitor's cookies.
"""

from datetime import timedelta
from typing import Any, Final

import trio
from quart import Response, redirect, render_template, request
from quart.typing import ResponseReturnValue
from quart_trio import QuartTrio
from werkzeug.routing import BaseConverter

from penelope.demo import accounts, pictures
from penelope.demo.accounts import Account, Manner
from penelope.demo.faults import faults, wait_as_asked

LIST_LATENCY_S: Final = 0.2  # a real site is no faster, and a demo of progress needs something to watch
LIST_PAGE: Final = 20
GRID: Final = 24  # posts that a profile shows at first, and that each page of the list of posts has
MOST_FOUND: Final = 50
REMEMBERED: Final = timedelta(days=30)
SESSION_COOKIE: Final = "ithaca_session"  # gone with the browser
REMEMBER_COOKIE: Final = "ithaca_remember"  # stays


class _Handle(BaseConverter):
    regex = accounts.HANDLE
    part_isolating = True


def create_site(list_latency_s: float = LIST_LATENCY_S) -> QuartTrio:
    """The site as an application; `list_latency_s` is what one page of a list takes, seconds."""
    site = QuartTrio(__name__)
    site.url_map.converters["handle"] = _Handle
    site.config["RESPONSE_TIMEOUT"] = None  # /drip and /hang end with their client
    site.before_request(wait_as_asked)
    site.context_processor(_visitor)
    site.register_error_handler(404, _no_such_page)
    site.register_blueprint(faults)
    site.add_url_rule("/", view_func=home)
    site.add_url_rule("/search", view_func=search)
    site.add_url_rule("/<handle:handle>/", view_func=profile)
    site.add_url_rule("/<handle:handle>/following", view_func=profile, defaults={"dialog": True})
    site.add_url_rule("/avatar/<handle:handle>.svg", view_func=avatar)
    site.add_url_rule("/favicon.ico", view_func=favicon)
    site.add_url_rule("/p/<shortcode>/", view_func=post)
    site.add_url_rule("/p/<shortcode>/<any(picture, thumb):size>.png", view_func=picture)
    site.add_url_rule("/p/<shortcode>/download", view_func=download)
    site.add_url_rule("/login", view_func=login_form)
    site.add_url_rule("/login", view_func=login, methods=["POST"])
    site.add_url_rule("/logout", view_func=logout, methods=["POST"])

    async def following(handle: str) -> ResponseReturnValue:
        return await following_page(handle, list_latency_s)

    async def posts(handle: str) -> ResponseReturnValue:
        return await posts_page(handle, list_latency_s)

    site.add_url_rule("/api/<handle:handle>/posts", view_func=posts)
    site.add_url_rule("/api/<handle:handle>/following", view_func=following)
    return site


async def home() -> str:
    residents = [found for handle in accounts.RESIDENTS if (found := accounts.account(handle))]
    posts = [newest for resident in residents for newest in accounts.latest_posts(resident, 1)]
    return await render_template("home.html", accounts=residents, posts=posts)


async def profile(handle: str, dialog: bool = False) -> ResponseReturnValue:
    found = accounts.account(handle)
    if found is None:
        return await _notice(404, "Sorry, this page isn't here", f"Nobody is called {handle}.")
    if found.manner is Manner.LIMITED:
        words = "You have been quick. Please wait a few minutes before you try again."
        return *await _notice(429, "Too many requests", words), {"Retry-After": "60"}
    if found.manner is Manner.BROKEN:
        return await _notice(500, "Something went wrong", "It is our fault. Try again later.")
    private = found.manner is Manner.PRIVATE
    return await render_template(
        "profile.html",
        account=found,
        private=private,
        dialog=dialog and not private,
        posts=[] if private else accounts.latest_posts(found, GRID),
    )


async def search() -> str:
    """Who is called so, by `?q=`."""
    words = request.args.get("q", "")[:100]
    found = [one for handle in accounts.search(words, MOST_FOUND) if (one := accounts.account(handle))]
    return await render_template("search.html", words=words, accounts=found, most=MOST_FOUND)


async def following_page(handle: str, latency_s: float) -> ResponseReturnValue:
    """One page of whom an account follows, as JSON; `?after=` is the `next` of the page before, 0 at first."""
    refusal = await _refused(handle, latency_s, accounts.THIN_LIST)
    return refusal or _list_page(handle, _after())


async def posts_page(handle: str, latency_s: float) -> ResponseReturnValue:
    """One page of an account's posts, newest first, as JSON; `?after=` as above: the profile shows the first GRID."""
    refusal = await _refused(handle, latency_s, GRID)
    return refusal or _grid_page(handle, _after())


async def _refused(handle: str, latency_s: float, thin: int) -> ResponseReturnValue | None:
    """What a list says instead of its next page, if it does: after `thin` items some accounts give no more."""
    found = accounts.account(handle)
    after = request.args.get("after", "0")
    if found is None or found.manner is Manner.PRIVATE:
        return {"error": f"Nobody to see here called {handle}."}, 404
    if not (after.isascii() and after.isdigit() and len(after) < 7):
        return {"error": "The parameter after is a number from 0."}, 400
    await trio.sleep(latency_s)
    if int(after) >= thin and found.manner is Manner.THROTTLED:
        return {"error": "Please wait a few minutes before you try again."}, 429
    if int(after) >= thin and found.manner is Manner.STALLED:
        await trio.sleep_forever()
    return None


def _after() -> int:
    return int(request.args.get("after", "0"))


def _grid_page(handle: str, start: int) -> dict[str, Any]:
    owner = _known(handle)
    posts = accounts.latest_posts(owner, GRID, start)
    stop = start + len(posts)
    return {
        "total": owner.posts,
        "posts": [{"shortcode": post.shortcode, "caption": post.caption} for post in posts],
        "next": stop if posts and stop < owner.posts else None,
    }


def _known(handle: str) -> Account:
    found = accounts.account(handle)
    assert found is not None, handle  # it was looked up before
    return found


def _list_page(handle: str, start: int) -> dict[str, Any]:
    found = _known(handle)
    handles = accounts.following(found.handle)[start : start + LIST_PAGE]
    stop = start + len(handles)
    return {
        "total": found.following,
        "accounts": [
            {"handle": handle, "name": accounts.name_of(handle), "hue": pictures.hue(handle)}
            for handle in handles
        ],
        "next": stop if handles and stop < found.following else None,
    }


async def post(shortcode: str) -> ResponseReturnValue:
    found = accounts.post(shortcode)
    if found is None:
        return await _no_such_page()
    return await render_template("post.html", post=found)


async def picture(shortcode: str, size: str) -> ResponseReturnValue:
    if accounts.post(shortcode) is None:
        return await _no_such_page()
    side = pictures.FULL_PX if size == "picture" else pictures.THUMB_PX
    return Response(
        pictures.landscape(shortcode, side), mimetype="image/png", headers={"Cache-Control": "max-age=3600"}
    )


async def download(shortcode: str) -> ResponseReturnValue:
    found = accounts.post(shortcode)
    if found is None:
        return await _no_such_page()
    name = f"{found.handle}-{found.number}.png"
    return Response(
        pictures.landscape(shortcode, pictures.FULL_PX),
        mimetype="image/png",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


async def avatar(handle: str) -> Response:
    return Response(
        pictures.avatar(handle), mimetype="image/svg+xml", headers={"Cache-Control": "max-age=3600"}
    )


async def favicon() -> ResponseReturnValue:
    return redirect("/static/icon.svg")


async def login_form() -> str:
    return await render_template("login.html", problem=None)


async def login() -> ResponseReturnValue:
    form = await request.form
    handle = form.get("handle", "").strip().lower()
    if accounts.account(handle) is None:
        problem = f"Nobody is called {handle}." if handle else "Say who you are."
        return await render_template("login.html", problem=problem), 403
    answer = redirect("/", 303)
    answer.set_cookie(SESSION_COOKIE, handle, httponly=True, samesite="Lax")
    if form.get("remember"):
        answer.set_cookie(REMEMBER_COOKIE, handle, max_age=REMEMBERED, httponly=True, samesite="Lax")
    return answer


async def logout() -> ResponseReturnValue:
    answer = redirect("/", 303)
    answer.delete_cookie(SESSION_COOKIE)
    answer.delete_cookie(REMEMBER_COOKIE)
    return answer


async def _visitor() -> dict[str, str | None]:
    """Who is logged in, by either cookie, for every template."""
    return {"visitor": request.cookies.get(SESSION_COOKIE) or request.cookies.get(REMEMBER_COOKIE)}


async def _no_such_page(_error: Exception | None = None) -> tuple[str, int]:
    return await _notice(404, "Sorry, this page isn't here", f"There is nothing at {request.path}.")


async def _notice(status: int, heading: str, words: str) -> tuple[str, int]:
    return await render_template("notice.html", heading=heading, words=words), status
