"""Pages that no handle has: those that calls open themselves, and popups. None of them stays where no page may be.

Asyncio-flavoured. A `goto` is refused before it is sent, on any page; this is for all other ways to an address.

Source: contract, section 3 ("`goto` and plugins' URLs").
"""

import asyncio
from functools import partial

import structlog
from playwright.async_api import Frame, Page

from penelope.pages.browser.session import Session, answers
from penelope.pages.browser.urls import may_stay_at

CLOSE_S = 2.0

log = structlog.get_logger("penelope.browser")


def watch_strangers(session: Session) -> None:
    """Close each such page once it comes to a forbidden address."""
    closing: set[asyncio.Future[bool]] = set()

    def on_page(page: Page) -> None:
        page.on("framenavigated", partial(on_navigated, page))

    def on_navigated(page: Page, frame: Frame) -> None:
        try:
            if frame.parent_frame is not None or page in session.ends or may_stay_at(frame.url):
                return
            log.warning("page closed: it came to a forbidden address", url=frame.url[:200])
            task = asyncio.ensure_future(answers(page.close(), CLOSE_S))
            closing.add(task)
            task.add_done_callback(closing.discard)
        except Exception:
            log.exception("a handler of the browser's events failed", handler="on_navigated")

    session.context.on("page", on_page)
