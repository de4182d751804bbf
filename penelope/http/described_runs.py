"""The routes of runs for the OpenAPI document: the public server's own shapes.

Source: contract, section 10.
"""

from typing import Any, Final

from penelope.http.described import (
    LAST_EVENT_ID,
    MAYBE_NUMBER,
    MAYBE_STRING,
    PREFER,
    STRING,
    operation,
    query,
)
from penelope.runs.model import RunState
from penelope.runs.submission import SCOPES, Submission

_STATES: Final = {"type": "string", "enum": [state.value for state in RunState]}
_TIME: Final = {"type": "string", "format": "date-time"}
_MAYBE_TIME: Final = {"type": ["string", "null"], "format": "date-time"}
_RUN_ID: Final = {
    "name": "run_id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^run_[0-9a-f]{12}$"},
}
_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A submit with the key of an earlier one is answered with that one; wins over the body's field.",
    "schema": {"type": "string", "maxLength": 255},
}
_SUBMITTED: Final = {
    "job_id": STRING,
    "status": _STATES,
    "created_at": _TIME,
    "poll_url": STRING,
    "stream_url": STRING,
}
_STATUS: Final = {
    "job_id": STRING,
    "status": _STATES,
    "progress": {
        "type": "object",
        "properties": {
            "percentage": {"type": "number", "minimum": 0, "maximum": 100},
            "current_step": MAYBE_STRING,
            "steps_completed": {"type": "integer"},
            "steps_total": {"type": ["integer", "null"]},
        },
    },
    "created_at": _TIME,
    "started_at": _MAYBE_TIME,
    "completed_at": _MAYBE_TIME,
    "agent_id": STRING,
    "run_id": STRING,
    "session_id": MAYBE_STRING,
    "error": MAYBE_STRING,
    "retry_after": MAYBE_NUMBER,
}
_RESULT: Final = {
    "job_id": STRING,
    "status": _STATES,
    "result": {},
    "result_url": {"type": "null"},
    "metrics": {"type": "null"},
    "created_at": _TIME,
    "started_at": _MAYBE_TIME,
    "completed_at": _MAYBE_TIME,
    "duration_seconds": MAYBE_NUMBER,
    "error": MAYBE_STRING,
}
_LIST: Final = {
    "jobs": {"type": "array", "items": {"type": "object", "properties": _STATUS}},
    "total": {"type": "integer"},
    "page": {"type": "integer"},
    "page_size": {"type": "integer"},
}


def _body() -> dict[str, Any]:
    fields: dict[str, Any] = dict(Submission.model_json_schema()["properties"])
    fields["idempotency_scope"] = {"type": ["string", "null"], "enum": [*SCOPES, None]}
    return fields


RUN_ROUTES: Final[dict[str, dict[str, Any]]] = {
    "/api/v1/runs": {
        "post": operation(
            "submit_run",
            "Queue a recipe, or a prompt for the agent",
            tag="runs",
            result=_SUBMITTED,
            status=202,
            parameters=[_KEY, PREFER],
            body=_body(),
            required=["prompt"],
            more=True,
            details=(401, 415, 422, 503, 507),
        ),
        "get": operation(
            "list_runs",
            "Runs, newest first",
            tag="runs",
            result=_LIST,
            parameters=[
                query("status", _STATES, "In this state only."),
                query("session_id", STRING, "Of one session only."),
                query("page", {"type": "integer", "minimum": 1}, "Which page."),
                query("page_size", {"type": "integer", "minimum": 1, "maximum": 100}, "How many on a page."),
            ],
            details=(400, 401, 422, 503),
        ),
    },
    "/api/v1/runs/{run_id}": {
        "get": operation(
            "run_status",
            "A run: how far it is",
            tag="runs",
            result=_STATUS,
            parameters=[_RUN_ID, PREFER],
            details=(401, 404, 503),
        ),
        "delete": operation(
            "delete_run",
            "Forget a run that is over, its result and its files",
            tag="runs",
            result=None,
            status=204,
            parameters=[_RUN_ID],
            details=(401, 404, 409, 503),
        ),
    },
    "/api/v1/runs/{run_id}/result": {
        "get": operation(
            "run_result",
            "What a run that is over came to",
            tag="runs",
            result=_RESULT,
            parameters=[_RUN_ID, PREFER],
            details=(401, 404, 409, 503),
        )
    },
    "/api/v1/runs/{run_id}/cancel": {
        "post": operation(
            "cancel_run",
            "End a run, and wait for its end",
            tag="runs",
            result=_STATUS,
            parameters=[_RUN_ID],
            details=(401, 404, 409, 503),
        )
    },
    "/api/v1/runs/{run_id}/stream": {
        "get": operation(
            "watch_run",
            "A run as it happens: events `status`, `progress`, `heartbeat`, and `result`, `error` or `cancelled`",
            tag="runs",
            result=None,
            content_type="text/event-stream",
            parameters=[_RUN_ID, LAST_EVENT_ID],
            empty={204: "The end was seen already"},
            details=(401, 404, 503),
        )
    },
}
