"""The plugins that the worker of the hostile tests has: a copy of this file is in its plugin folder."""

import asyncio
from typing import Any

from penelope import Call, plugin


@plugin("hostile/crash")
async def crash(call: Call) -> dict[str, Any]:
    """End the page's renderer under the call."""
    session = await call.page.context.new_cdp_session(call.page)
    await asyncio.gather(session.send("Page.crash"), call.page.wait_for_timeout(20_000))
    return {}


@plugin("hostile/litter")
async def litter(call: Call, site: str, end: str) -> dict[str, Any]:
    """Leave behind whatever can be left behind, and end as asked: well, with an error, or with a timeout."""
    page = call.page
    await page.goto(f"{site}/hostile/good")
    await page.route("**/good", lambda route: route.abort())
    await page.context.route("**/good*", lambda route: route.abort())
    page.on("request", lambda _: page.evaluate("document.title = 'listener'"))
    page.on("dialog", lambda _: None)
    page.context.on("request", lambda _: page.evaluate("document.title = 'listener of the context'"))
    page.set_default_timeout(1)
    await page.evaluate("setTimeout(() => location.href = '/hang', 1); setTimeout(() => alert('left'), 2)")
    left = asyncio.ensure_future(page.goto(f"{site}/hang"))
    left.add_done_callback(lambda task: task.cancelled() or task.exception())
    if end == "timeout":
        await page.wait_for_selector("#never", timeout=400)
    if end == "error":
        raise RuntimeError("as asked")
    return {}


@plugin("hostile/slow")
async def slow(call: Call, site: str) -> dict[str, Any]:
    """Use Playwright's own time limit, for what takes some time."""
    await call.page.goto(f"{site}/hostile/good?delay=0.2")
    return {}
