"""Pages that no handle has: those that calls open themselves, and popups. None of them stays where no page may be, and
each is closed for certain: one that loops would take a core of the machine for ever.

Asyncio-flavoured. A `goto` is refused before it is sent, on any page; this is for all other ways to an address.

Source: contract, section 3 ("`goto` and plugins' URLs"; "Popups are closed").
"""

import asyncio
from functools import partial

import structlog
from playwright.async_api import Frame, Page

from penelope.pages.browser.session import Session, answers
from penelope.pages.browser.urls import may_stay_at

CLOSE_S = 1.5
ASK_S = 1.0
CRASH_S = 1.0

log = structlog.get_logger("penelope.browser")


def watch_strangers(session: Session) -> None:
    """Close each such page once it comes to a forbidden address."""
    closing: set[asyncio.Future[None]] = set()

    def on_page(page: Page) -> None:
        page.on("framenavigated", partial(on_navigated, page))

    def on_navigated(page: Page, frame: Frame) -> None:
        try:
            if frame.parent_frame is not None or page in session.ends or may_stay_at(frame.url):
                return
            log.warning("page closed: it came to a forbidden address", url=frame.url[:200])
            task = asyncio.ensure_future(close_stranger(session, page))
            closing.add(task)
            task.add_done_callback(closing.discard)
        except Exception:
            log.exception("a handler of the browser's events failed", handler="on_navigated")

    session.context.on("page", on_page)


async def close_stranger(session: Session, page: Page) -> None:
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
