"""The memory purge: idle pages that have grown too large give back what they can.

A page is asked to collect its garbage; one that is too large still is loaded anew. The purge holds the page meanwhile,
so that no call sees it half done: plain calls stand in line behind it, and a job's start waits for its end.

Source: contract, section 3 ("The memory purge").
"""

from typing import Final

import structlog
import trio

from penelope.clock import Clock
from penelope.errors import CallFailed
from penelope.pages.claim import Holder
from penelope.pages.driver import Tab, Vitals
from penelope.pages.manager import Page, PageManager

PURGE_EVERY_S: Final = 300.0
PURGE_AT_MOST_S: Final = 25.0  # collecting, loading anew and healing, each at its worst
PURGE: Final = "purge"
MIB: Final = 2**20

log = structlog.get_logger("penelope.pages")


def is_heavy(vitals: Vitals, limit: int) -> bool:
    """Whether a page takes more than `limit` bytes; one that never said how much does not.

    A page that hangs is judged by what it said last.
    """
    return vitals.memory is not None and vitals.memory > limit


async def purge_loop(pages: PageManager, clock: Clock, limit: int) -> None:
    """Purge every 5 minutes, for ever.

    Args:
        limit: bytes above which an idle page is purged.
    """
    due = trio.current_time()
    while True:
        due = max(due + PURGE_EVERY_S, trio.current_time())
        await trio.sleep_until(due)
        for page in pages:  # one after the other: each costs a core
            await purge_page(pages, page, clock, limit)


async def purge_page(pages: PageManager, page: Page, clock: Clock, limit: int) -> None:
    """Purge a page, if it is at rest and takes more than `limit` bytes."""
    if not pages.at_rest(page):
        return
    assert page.tab is not None
    before = await page.tab.vitals()
    if not is_heavy(before, limit) or not pages.at_rest(page):  # it was taken, leased or closed meanwhile
        return
    with page.line.hold(Holder(what=PURGE, job_id=None, since=clock.now())):
        page.line.settling(PURGE_AT_MOST_S)
        try:
            await _purge(page.tab, before, limit)
        except CallFailed as error:  # the browser is gone: its pages are opened afresh
            log.warning("page not purged", page_id=page.page_id, error=error.message)


async def _purge(tab: Tab, before: Vitals, limit: int) -> None:
    await tab.collect_garbage()
    after, how = await tab.vitals(), "collected"
    if is_heavy(after, limit):
        await tab.refresh()
        after, how = await tab.vitals(), "reloaded"
    log.info("page purged", page_id=tab.page_id, how=how, before_mb=_mib(before), after_mb=_mib(after))


def _mib(vitals: Vitals) -> int | None:
    return None if vitals.memory is None else round(vitals.memory / MIB)
