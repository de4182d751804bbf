"""One piece of work on a claimed page: in a nursery of the claim's own, its errors made values at the edge.

Source: contract, section 2 (results and kinds), section 3 ("A page heals"), section 11 (cancel, limit); design,
section 4.
"""

from dataclasses import dataclass

import structlog
import trio

from penelope.errors import BrowserLost, CallFailed, PenelopeError, Unavailable
from penelope.outcome import Outcome, failure
from penelope.pages.driver import Body, Healing, Tab
from penelope.plugin import PluginError, checked_status

log = structlog.get_logger("penelope.calls")


@dataclass(frozen=True, slots=True)
class Done:
    """Work that is over.

    Attributes:
        outcome: None: it was cut off.
        page_in_doubt: the page may not answer: `mend` it before another gets it.
    """

    outcome: Outcome | None
    page_in_doubt: bool


async def work(tab: Tab, body: Body[str], *, name: str, scope: trio.CancelScope) -> Done:
    """Run `body`, which gives the envelope of its result, to its end.

    Whatever the body does becomes an outcome: a helper of one plugin that fails must not end the other calls.

    Args:
        name: of the plugin or the primitive, for log lines.
        scope: the caller's, not yet entered: its deadline, or its cancel, cuts the body off. What that says from then
            on, a result or an error, counts no more.

    Raises:
        trio.Cancelled: the worker stops. What the body did is unknown then, and nothing is said about it.
    """
    outcome: Outcome | None = None
    browser_lost = False

    async def run() -> None:
        nonlocal outcome, browser_lost
        try:
            text = await tab.run(body, name=name)
            outcome = None if scope.cancel_called else Outcome(200, text)
        except Exception as error:
            # Here already: Trio writes the repr of what a task dies of, and that may raise.
            browser_lost = isinstance(_first(error), BrowserLost)
            outcome = None if scope.cancel_called else _outcome(error, tab.page_id, name)

    try:
        with scope:
            async with trio.open_nursery() as claim:  # noqa: ASYNC112  # the work's own task is what `/tree` shows
                claim.start_soon(run, name=f"work {name}")
    except* Exception as group:
        outcome = _outcome(group, tab.page_id, name)
    # A browser that is gone is started again, its pages with it, by the driver: whoever waits is told now.
    return Done(outcome, page_in_doubt=(outcome is None or not outcome.ok) and not browser_lost)


async def mend(tab: Tab) -> None:
    """Make sure that the page answers; what cannot be healed is left to the next call."""
    try:
        how = await tab.heal()
    except CallFailed as exc:
        log.warning("page not healed", page_id=tab.page_id, error=exc.message)
    except Exception:  # the call has its outcome; the next one opens the page afresh if it must
        log.exception("healing failed", page_id=tab.page_id)
    else:
        if how is not Healing.NONE:
            log.info("page healed", page_id=tab.page_id, how=how.value)


def _outcome(raised: BaseException, page_id: str, name: str) -> Outcome:
    error = _first(raised)
    try:
        return _said(error, page_id, name)
    except Exception:  # an error of a plugin's own making may hold anything, and break when it is read
        log.exception("an error could not be read", work=name, type=type(error).__name__)
        return _unsaid(error, page_id, name)


def _said(error: BaseException, page_id: str, name: str) -> Outcome:
    if isinstance(error, PluginError):
        return failure(checked_status(error.status), str(error.message), page_id=page_id)
    if isinstance(error, PenelopeError):
        kind = "worker" if isinstance(error, Unavailable) else error.kind  # e.g. a store that is locked
        log.info("call failed", work=name, kind=kind, error=error.message)
        return failure(error.status, error.message, page_id=page_id, kind=kind)
    log.error("plugin failed", work=name, exc_info=error)
    return _unsaid(error, page_id, name)


def _unsaid(error: BaseException, page_id: str, name: str) -> Outcome:
    reason = f"{name} failed: {type(error).__name__}; the worker's log has the details"
    return failure(500, reason, page_id=page_id, kind="plugin")


def _first(error: BaseException) -> BaseException:
    """The first error in a group that came alone or first; groups of a plugin's own task groups included."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
