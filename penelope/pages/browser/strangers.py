"""Pages that no handle has: those that calls open themselves, and popups. None of them stays where no page may be, and
each is closed for certain: one that loops would take a core of the machine for ever.

Asyncio-flavoured. A `goto` is refused before it is sent, on any page; this is for all other ways to an address.

Source: contract, section 3 ("`goto` and plugins' URLs"; "Popups are closed").
"""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

import structlog
from playwright.async_api import Frame, Page

from penelope.pages.browser.session import Session, answers
from penelope.pages.browser.urls import may_stay_at

CLOSE_S = 1.5
ASK_S = 1.0
CRASH_S = 1.0
REMOVED_S = 2.0
UNROUTES = 5
UNROUTE_EVERY_S = 0.1

log = structlog.get_logger("penelope.browser")


def watch_strangers(session: Session) -> None:
    """Close each such page once it comes to a forbidden address."""

    def on_page(page: Page) -> None:
        page.on("framenavigated", partial(on_navigated, page))

    def on_navigated(page: Page, frame: Frame) -> None:
        try:
            if frame.parent_frame is not None or page in session.ends or may_stay_at(frame.url):
                return
            log.warning("page closed: it came to a forbidden address", url=frame.url[:200])
            close_soon(session, page)
        except Exception:
            log.exception("a handler of the browser's events failed", handler="on_navigated")

    session.context.on("page", on_page)


def close_soon(session: Session, page: Page) -> None:
    """Begin to close the page; immediate."""
    _beside(session, _close(session, page))


def unroute_soon(session: Session) -> None:
    """Begin to remove the routes for all pages; immediate."""
    _beside(session, _unroute(session, set(session.closing)))


async def removed(session: Session) -> None:
    """Wait for all that, at most 2 s: while a page closes, its context takes no routes, and says that it is closed."""
    if session.closing:
        await asyncio.wait(session.closing, timeout=REMOVED_S)


def _beside(session: Session, work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(work)
    session.closing.add(task)
    task.add_done_callback(session.closing.discard)


async def _unroute(session: Session, closing: set[asyncio.Future[None]]) -> None:
    if closing:
        await asyncio.wait(closing)
    for _ in range(UNROUTES):
        if await answers(session.context.unroute_all(), ASK_S) or not session.alive:
            return
        await asyncio.sleep(UNROUTE_EVERY_S)  # a page that the site itself closes
    log.warning("the routes that a call left could not be removed")


async def _close(session: Session, page: Page) -> None:
    """Close the page, whatever it does; bounded (6 s)."""
    if page.is_closed() or not session.alive or await answers(page.close(), CLOSE_S):
        return
    log.info("page of a call's own does not close; closed by the browser", url=page.url[:200])
    await answers(_force(session, page), 3 * ASK_S + CRASH_S)


async def _force(session: Session, page: Page) -> None:
    cdp = await session.context.new_cdp_session(page)
    info = await cdp.send("Target.getTargetInfo")
    closed = asyncio.Event()
    page.on("close", lambda _: closed.set())
    closing = (session.browser_cdp or cdp).send(
        "Target.closeTarget", {"targetId": info["targetInfo"]["targetId"]}
    )
    await answers(closing, ASK_S)
    if not page.is_closed() and not await answers(closed.wait(), ASK_S):
        await answers(cdp.send("Page.crash"), CRASH_S)  # never answered itself
