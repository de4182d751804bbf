"""Ends the renderer of a page that does not answer while a call works it.

Asyncio-flavoured. One task for all pages: a call costs nothing more for it.
"""

import asyncio
import time
from collections.abc import Callable, Iterable

import structlog

from penelope.errors import PageLost
from penelope.pages.browser.heal import end_renderer, page_answers
from penelope.pages.browser.live import Live
from penelope.pages.browser.session import answers

BEAT_EVERY_S = 10.0
SILENT_MAX_S = 60.0
JUDGE_S = 0.5

log = structlog.get_logger("penelope.browser")


async def beat(lives: Callable[[], Iterable[Live]], *, every_s: float, silent_max_s: float) -> None:
    """Ask every page at work whether its main thread runs, for ever."""
    while True:
        await asyncio.sleep(every_s)
        for live in list(lives()):
            if live.run is not None and live.usable:
                _ask(live, silent_max_s)


def _ask(live: Live, silent_max_s: float) -> None:
    now = time.monotonic()
    if live.heartbeat is None or live.heartbeat.done() or live.asked_at is None:
        live.asked_at = now
        live.heartbeat = asyncio.ensure_future(_ping(live))
    elif now - live.asked_at >= silent_max_s and live.suspicion is None:
        live.suspicion = PageLost(f"page {live.page_id} did not answer for {silent_max_s:g} s")
        live.settling = live.start_soon(_judge(live, live.suspicion), "judge a page that does not answer")


async def _judge(live: Live, suspicion: PageLost) -> None:
    """Tell a page that hangs from one that waits for a site: while a navigation is pending, pings wait too."""
    run = live.run
    try:
        if await answers(live.cdp.send("Performance.getMetrics"), JUDGE_S):
            await answers(
                live.cdp.send("Runtime.terminateExecution"), JUDGE_S
            )  # a loop in a script ends here
            if live.heartbeat is not None and not await answers(asyncio.shield(live.heartbeat), JUDGE_S):
                return  # a pending navigation: it has a timeout of its own
        if live.run is not run or run is None:
            return  # it ended by itself meanwhile
        log.warning(suspicion.message, url=live.url)
        run.fail(suspicion)
        if not await page_answers(live, JUDGE_S):
            await end_renderer(live)
    finally:
        live.suspicion = None
        live.asked_at = None


async def _ping(live: Live) -> bool:
    try:
        await live.cdp.send("Runtime.evaluate", {"expression": "0"})
    except Exception:  # closed or crashed: others see to that
        return False
    return True
