"""Answers and errors as the API speaks them: one envelope for all.

Source: contract, section 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import structlog
from quart import Quart, Response, g, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from penelope import jsontext, outcome
from penelope.errors import LeaseHeld, PenelopeError
from penelope.outcome import Outcome
from penelope.runs.views import RUNS_PATH

log = structlog.get_logger("penelope.http")

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_WORDS = {
    400: "the request is malformed",
    404: "there is no such route",
    408: "the body did not arrive in time",
    413: "the body is too large",
    414: "the URL is too long",
    415: "the content type is not taken here",
    416: "the range is not part of the file",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as plain values, whichever way it goes out: JSON, and the headers that it has of its own."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def said(result: Outcome, headers: Mapping[str, str] = _NO_HEADERS) -> Reply:
    """A ready envelope as a reply."""
    return Reply(result.status, result.text.encode(), headers)


def refused(error: PenelopeError, page_id: str | None) -> Reply:
    """One of Penelope's own errors."""
    if isinstance(error, LeaseHeld) and error.expires_in is not None:
        held = outcome.failure(error.status, error.message, page_id=page_id, expires_in=error.expires_in)
        return said(held, error.headers)
    return said(outcome.from_error(error, page_id), error.headers)


def failed(error: Exception, path: str, page_id: str | None, who: str = "the worker") -> Reply:
    """What nobody foresaw: a line in the log, and no word of it to the client."""
    log.error("request failed", exc_info=error, path=path)
    return said(outcome.failure(500, _failed(who), page_id=page_id, kind="worker"))


def _failed(who: str) -> str:
    return f"{who} failed on this request; its log has the details"


def response(given: Reply) -> Response:
    """An answer as the framework has it."""
    return json_response(given.body, given.status, given.headers)


def answer(result: Outcome, headers: Mapping[str, str] | None = None) -> Response:
    """A ready envelope as a response."""
    return json_response(result.text.encode(), result.status, headers)


def json_response(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    response = Response(body, status, content_type="application/json")
    response.timeout = None  # a slow reader of a large result is not cut off
    if headers:
        response.headers.update(headers)
    return response


def success(
    fields: Mapping[str, Any],
    *,
    page_id: str | None = None,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    return answer(outcome.success(page_id, fields, status), headers)


def detail(status: int, words: str, headers: Mapping[str, str] | None = None) -> Response:
    """A failure in the form that runs have, which is the public server's: no envelope."""
    return json_response(jsontext.dumps({"detail": words}).encode(), status, headers)


def is_of_runs(path: str) -> bool:
    """Is a request about runs?"""
    return path == RUNS_PATH or path.startswith(f"{RUNS_PATH}/")


def install(app: Quart, who: str = "the worker") -> None:
    """Answer every failure of `app` with an envelope: no HTML, no traceback, no internal path.

    Args:
        who: fails, when a request does that nobody foresaw.
    """

    async def penelope_error(error: PenelopeError) -> Response:
        if is_of_runs(request.path):
            return detail(error.status, error.message, error.headers)
        return response(refused(error, page_meant()))

    async def http_error(error: HTTPException) -> Response:
        status = error.code or 500
        headers = {}
        words = _WORDS.get(status, "the request cannot be answered")
        if isinstance(error, MethodNotAllowed):
            not_here = {"OPTIONS", "HEAD"} if "/plugin/" in request.path else {"OPTIONS"}
            allowed = ", ".join(sorted(set(error.valid_methods or ()) - not_here))
            headers["Allow"] = allowed
            words = f"{request.method} is not allowed here, only {allowed}"
        if is_of_runs(request.path):
            return detail(status, words, headers)
        return answer(outcome.failure(status, words, page_id=page_meant()), headers)

    async def unexpected(error: Exception) -> Response:
        said_of_it = failed(error, request.path, page_meant(), who)
        return detail(500, _failed(who)) if is_of_runs(request.path) else response(said_of_it)

    app.register_error_handler(PenelopeError, penelope_error)
    app.register_error_handler(HTTPException, http_error)
    app.register_error_handler(Exception, unexpected)


def page_meant() -> str | None:
    """The page that the request's route names; None where it names none."""
    named: str | None = (request.view_args or {}).get("page_id") or g.get("page_id")
    return named
