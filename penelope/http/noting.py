"""The two notes of a request: its pair of rows in the request log, and its line in the worker's.

Source: contract, section 7.
"""

from dataclasses import dataclass
from typing import Final

import structlog

from penelope.http.gates import API
from penelope.http.worker import Worker
from penelope.store.request_log import Entry

CLIENT_LEFT: Final = 499  # in the request log only: nobody was there to be answered

log = structlog.get_logger("penelope.http")


@dataclass(slots=True)
class Handled:
    """A request while it is answered.

    Attributes:
        began: epoch seconds.
        path: as logs may have it.
        kind: how the request log names it; None: it is not in it.
        page_id: of the page that it means; None: none.
    """

    request_id: str
    began: float
    method: str
    path: str
    kind: str | None = None
    page_id: str | None = None
    answered: bool = False


def logged_path(path: str) -> str:
    """The path without what must not be in a log: a media token is as good as the file."""
    return f"{API}/media/…" if path.startswith(f"{API}/media/") else path


def begins(worker: Worker, handled: Handled) -> None:
    """Its first row; immediate."""
    if handled.kind is not None:
        worker.requests.add(_row(handled, handled.kind, "begin", handled.began))


def left(worker: Worker, handled: Handled) -> None:
    """Its client left before it was answered; immediate."""
    if not handled.answered:
        _ends(worker, handled, CLIENT_LEFT, worker.clock.now())


def ends(worker: Worker, handled: Handled, status: int, *, line: bool = True) -> None:
    """It has its answer; immediate.

    Args:
        line: whether it is one that has a line in the worker's log.
    """
    now = worker.clock.now()
    handled.answered = True
    _ends(worker, handled, status, now)
    if line:
        took_ms = round((now - handled.began) * 1000, 2)
        log.info("request", method=handled.method, path=handled.path, status=status, took_ms=took_ms)


def _ends(worker: Worker, handled: Handled, status: int, now: float) -> None:
    if handled.kind is not None:
        worker.requests.add(_row(handled, handled.kind, "end", now, status, now - handled.began))


def _row(
    handled: Handled,
    kind: str,
    phase: str,
    at: float,
    status: int | None = None,
    duration_s: float | None = None,
) -> Entry:
    return Entry(
        at=at,
        phase=phase,
        kind=kind,
        method=handled.method,
        route=handled.path,
        page_id=handled.page_id,
        request_id=handled.request_id,
        status=status,
        duration_s=duration_s,
    )
