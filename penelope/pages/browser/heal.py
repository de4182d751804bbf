"""Makes a page answer again, mildest means first.

Asyncio-flavoured; each step is bounded. Source: contract, section 3 ("A page heals"); design, section 7 (2, 3, 4, 8).
"""

import asyncio

import structlog

from penelope.pages.browser.live import BLANK, Live
from penelope.pages.browser.session import answers
from penelope.pages.driver import Healing

FIRST_S = 0.5  # a page that is well answers in a millisecond
TROUBLED_S = 0.1  # after a call that was cancelled, or whose navigation timed out
STOP_S = 0.5
SOOTHED_S = 0.5
AGAIN_S = 1.0
RELAPSE_S = 0.2
AGAIN_EVERY_S = 0.02
ERROR_PAGE_S = 0.5  # it comes in about 20 ms
KILL_S = 1.0
SETTLE_S = 3.0

FONTS_S = 0.5
FRAMES_MAX = 20
FINISH_FONTS = """async () => {
  const soon = new Promise(done => setTimeout(done, 50, "late"));
  if (await Promise.race([document.fonts.ready, soon]) !== "late") return;
  const face = new FontFace("penelope", "url(data:font/woff2;base64,AAAA)");
  document.fonts.add(face);
  await face.load().catch(() => 0);
  document.fonts.delete(face);
}"""

log = structlog.get_logger("penelope.browser")


async def page_answers(live: Live, within_s: float) -> bool:
    """Whether scripts run in the page; one that a navigation ended is tried again in the next document."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within_s
    while live.usable and (left := until - loop.time()) > 0:
        if await answers(live.page.evaluate("1"), left):
            return True
        await asyncio.sleep(AGAIN_EVERY_S)
    return False


async def settle(live: Live) -> bool:
    """Wait for the error page of a failed navigation, for the way back from a forbidden address, and for the verdict
    on a silent page: what starts before would fail too.

    Returns whether there was anything to wait for.
    """
    settling, live.settling = live.settling, None
    if settling is not None:
        await answers(settling, SETTLE_S)
    if not live.unsettled:
        return settling is not None
    await answers(live.error_page.wait(), ERROR_PAGE_S)
    live.unsettled = False
    return True


async def soothe(live: Live) -> None:
    """Stop the load, answer the dialog that waits, and await the error page."""
    cdp = live.cdp
    await asyncio.gather(
        answers(cdp.send("Page.stopLoading"), STOP_S),
        answers(cdp.send("Page.handleJavaScriptDialog", {"accept": False}), STOP_S),
    )
    await settle(live)


async def heal(live: Live) -> Healing | None:
    """Try everything that keeps the page.

    Returns:
        What helped; None when nothing did, and the page has to be opened afresh.
    """
    if not live.usable:
        return None
    troubled = live.troubled
    healed = await _heal(live)
    if troubled and healed is not None:
        await finish_fonts(live)
    return healed


async def finish_fonts(live: Live) -> None:
    """Have a document whose load was stopped know that no font comes any more; bounded (0.5 s).

    `document.fonts.ready` waits for a load that never ends otherwise, and each screenshot with it. A font that fails
    ends that, and leaves nothing.
    """
    frames = live.page.frames[:FRAMES_MAX]
    await asyncio.gather(*(answers(frame.evaluate(FINISH_FONTS), FONTS_S) for frame in frames))


async def _heal(live: Live) -> Healing | None:
    settled = await settle(live)
    troubled, live.troubled = live.troubled, False
    held_back, live.held_back = live.held_back, False
    if await _answers_unloaded(live) if troubled else await page_answers(live, FIRST_S):
        return Healing.STOPPED if settled or held_back else Healing.NONE
    await soothe(live)
    if await page_answers(live, SOOTHED_S):
        return Healing.STOPPED
    # Only now: where no script runs it would hit the next one, Playwright's own.
    await answers(live.cdp.send("Runtime.terminateExecution"), STOP_S)
    if not await page_answers(live, AGAIN_S):
        return None
    await asyncio.sleep(RELAPSE_S)  # a loop that a timer begins anew lets an answer through in between
    if not await page_answers(live, SOOTHED_S):
        return None
    if held_back:  # its script would hold the next navigation back, too
        log.warning("page does not let go of its document; opened blank", page_id=live.page_id, url=live.url)
        live.place = BLANK
        return None
    return Healing.STOPPED


async def _answers_unloaded(live: Live) -> bool:
    """Whether the page answers; what it still loads for the last call ends either way."""
    if not live.usable:
        return False
    stopping = asyncio.ensure_future(answers(live.cdp.send("Page.stopLoading"), STOP_S))
    if not await page_answers(live, TROUBLED_S):
        stopping.cancel()
        return False
    return await stopping


async def end_renderer(live: Live) -> bool:
    """End the page's renderer; what waits on it fails then. Bounded (1 s). False when it would not end."""
    if live.crashed or live.page.is_closed():
        return True
    ending = asyncio.ensure_future(answers(live.cdp.send("Page.crash"), KILL_S))
    ended = await answers(live.gone.wait(), KILL_S)
    ending.cancel()  # Page.crash itself is never answered
    log.warning("renderer ended" if ended else "renderer will not end", page_id=live.page_id, url=live.url)
    return ended
