"""Answers and errors as the API speaks them: one envelope for all.

Source: contract, section 1.
"""

from collections.abc import Mapping
from typing import Any

import structlog
from quart import Quart, Response, g, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from penelope import jsontext, outcome
from penelope.errors import LeaseHeld, PenelopeError
from penelope.outcome import Outcome
from penelope.runs.views import RUNS_PATH

log = structlog.get_logger("penelope.http")

_WORDS = {
    400: "the request is malformed",
    404: "there is no such route",
    408: "the body did not arrive in time",
    413: "the body is too large",
    414: "the URL is too long",
    415: "the content type is not taken here",
    416: "the range is not part of the file",
}


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


def error_response(error: PenelopeError, page_id: str | None) -> Response:
    """One of Penelope's own errors."""
    if isinstance(error, LeaseHeld) and error.expires_in is not None:
        held = outcome.failure(error.status, error.message, page_id=page_id, expires_in=error.expires_in)
        return answer(held, error.headers)
    return answer(outcome.from_error(error, page_id), error.headers)


def detail(status: int, words: str, headers: Mapping[str, str] | None = None) -> Response:
    """A failure in the form that runs have, which is the public server's: no envelope."""
    return json_response(jsontext.dumps({"detail": words}).encode(), status, headers)


def speaks_detail() -> bool:
    """Is the request about runs?"""
    return request.path == RUNS_PATH or request.path.startswith(f"{RUNS_PATH}/")


def install(app: Quart, who: str = "the worker") -> None:
    """Answer every failure of `app` with an envelope: no HTML, no traceback, no internal path.

    Args:
        who: fails, when a request does that nobody foresaw.
    """

    async def penelope_error(error: PenelopeError) -> Response:
        if speaks_detail():
            return detail(error.status, error.message, error.headers)
        return error_response(error, page_meant())

    async def http_error(error: HTTPException) -> Response:
        status = error.code or 500
        headers = {}
        words = _WORDS.get(status, "the request cannot be answered")
        if isinstance(error, MethodNotAllowed):
            not_here = {"OPTIONS", "HEAD"} if "/plugin/" in request.path else {"OPTIONS"}
            allowed = ", ".join(sorted(set(error.valid_methods or ()) - not_here))
            headers["Allow"] = allowed
            words = f"{request.method} is not allowed here, only {allowed}"
        if speaks_detail():
            return detail(status, words, headers)
        return answer(outcome.failure(status, words, page_id=page_meant()), headers)

    async def unexpected(error: Exception) -> Response:
        log.error("request failed", exc_info=error, path=request.path)
        words = f"{who} failed on this request; its log has the details"
        if speaks_detail():
            return detail(500, words)
        return answer(outcome.failure(500, words, page_id=page_meant(), kind="worker"))

    app.register_error_handler(PenelopeError, penelope_error)
    app.register_error_handler(HTTPException, http_error)
    app.register_error_handler(Exception, unexpected)


def page_meant() -> str | None:
    """The page that the request's route names; None where it names none."""
    named: str | None = (request.view_args or {}).get("page_id") or g.get("page_id")
    return named
