"""The routes that are no plugin's and no primitive's, described for the OpenAPI document.

A test holds that this and the app's own routes are the same set.

Source: contract, sections 1, 3 to 7.
"""

from typing import Any, Final

from penelope.jobs.answers import CLASSES
from penelope.jobs.schedule import Verdict

_ERROR: Final = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


STRING: Final = {"type": "string"}
_NUMBER: Final = {"type": "number"}
_INTEGER: Final = {"type": "integer"}
MAYBE_NUMBER: Final = {"type": ["number", "null"]}
MAYBE_STRING: Final = {"type": ["string", "null"]}
_EPOCH: Final = {"type": "number", "description": "Epoch seconds."}
_SUCCESS: Final = {"type": "boolean", "const": True}

_PAGE: Final = {
    "page_id": STRING,
    "url": STRING,
    "title": STRING,
    "state": {"type": "string", "enum": ["idle", "busy", "job", "crashed"]},
    "job_id": MAYBE_STRING,
    "lease": {"anyOf": [_object({"expires_in": _NUMBER}), {"type": "null"}]},
    "created_at": _EPOCH,
    "last_used_at": _EPOCH,
}
_STATE: Final = {"type": "string", "enum": ["running", "done", "cancelled", "interrupted"]}
_JOB: Final = {
    "success": _SUCCESS,
    "page_id": STRING,
    "job_id": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
    "state": _STATE,
    "plugin": STRING,
    "started_at": _EPOCH,
    "finished_at": MAYBE_NUMBER,
    "expires_in": {"type": ["number", "null"], "description": "Seconds until the job is forgotten."},
    "status": {"type": ["integer", "null"], "description": "What the plain call would have answered."},
    "result": {"type": ["object", "null"], "description": "What the plain call would have answered."},
    "callback": MAYBE_STRING,
    "delivery": {
        "anyOf": [
            _object({"attempts": _INTEGER, "delivered": {"type": "boolean"}, "error": MAYBE_STRING}),
            {"type": "null"},
        ]
    },
}
_LISTED_JOB: Final = {name: schema for name, schema in _JOB.items() if name not in {"success", "result"}}
_ACTIVITY: Final = {
    "success": _SUCCESS,
    "in_flight": _INTEGER,
    "jobs_running": _INTEGER,
    "jobs_held": {"type": ["integer", "null"]},
    "runs_running": _INTEGER,
    "runs_queued": _INTEGER,
    "deliveries_pending": _INTEGER,
    "last_client_activity": MAYBE_NUMBER,
    "idle_for_s": _NUMBER,
    "rss_mb": _NUMBER,
    "browser_rss_mb": _NUMBER,
    "started_at": _EPOCH,
    "calls": {
        "type": "array",
        "items": _object(
            {
                "what": STRING,
                "page_id": MAYBE_STRING,
                "job_id": MAYBE_STRING,
                "request_id": STRING,
                "state": {"type": "string", "enum": ["running", "waiting"]},
                "since": _EPOCH,
                "progress": _NUMBER,
                "note": STRING,
            }
        ),
    },
    "pressure": _object(
        {
            "why": {"type": "string", "enum": ["ok", "pages", "memory", "browser", "disk", "stopping"]},
            "pages": {
                "type": "array",
                "items": _object(
                    {"page_id": STRING, "memory_mb": MAYBE_NUMBER, "silent_for_s": MAYBE_NUMBER}
                ),
            },
            "driver_rss_mb": _NUMBER,
            "loop_lag_s": _NUMBER,
            "browser_thread_lag_s": _NUMBER,
        }
    ),
}
_HELD: Final = {"what": STRING, "job_id": MAYBE_STRING, "for_s": _NUMBER}
_TREE: Final = {
    "success": _SUCCESS,
    "tree": {"type": "array", "items": {"$ref": "#/components/schemas/Task"}},
    "pages": {
        "type": "array",
        "items": _object(
            {
                "page_id": STRING,
                "url": STRING,
                "state": _PAGE["state"],
                "lease": _PAGE["lease"],
                "holder": {
                    "anyOf": [_object({**_HELD, "progress": _NUMBER, "note": STRING}), {"type": "null"}]
                },
                "waiting": {"type": "array", "items": _object(_HELD), "description": "Next first."},
            }
        ),
    },
}
# For the document's components: it names itself.
TASK: Final = _object(
    {
        "task": {"type": "string", "description": "Its name."},
        "for_s": {**MAYBE_NUMBER, "description": "How long it has lived, seconds."},
        "nurseries": {
            "type": "array",
            "description": "Outermost first.",
            "items": _object(
                {
                    "cancelled": {"type": "boolean"},
                    "ends_in_s": {**MAYBE_NUMBER, "description": "Seconds until its deadline."},
                    "tasks": {"type": "array", "items": {"$ref": "#/components/schemas/Task"}},
                }
            ),
        },
    }
)
_LEASE: Final = {
    "success": _SUCCESS,
    "page_id": STRING,
    "lease": {"type": "string", "description": "The token for X-Lease."},
    "ttl": _NUMBER,
    "expires_in": _NUMBER,
}
_ENTRY: Final = {
    "at": _EPOCH,
    "phase": {"type": "string", "enum": ["begin", "end"]},
    "kind": STRING,
    "method": STRING,
    "route": STRING,
    "page_id": MAYBE_STRING,
    "job_id": MAYBE_STRING,
    "request_id": STRING,
    "status": {"type": ["integer", "null"]},
    "duration_s": MAYBE_NUMBER,
}
_VERDICT: Final = {"type": "string", "enum": [verdict.value for verdict in Verdict]}
_POSTED: Final = {
    "at": _EPOCH,
    "job_id": STRING,
    "request_id": STRING,
    "attempt": _INTEGER,
    "receiver": {"type": "string", "description": "name:port"},
    "address": {"type": ["string", "null"], "description": "That was dialled; null: none was."},
    "status": {"type": ["integer", "null"], "description": "That was answered; null: none was."},
    "error_class": {"type": ["string", "null"], "enum": [*CLASSES, None]},
    "error": MAYBE_STRING,
    "verdict": _VERDICT,
    "took_s": _NUMBER,
}
_PAGE_ID: Final = {"name": "page_id", "in": "path", "required": True, "schema": STRING, "example": "main"}
_TOKEN: Final = {"name": "token", "in": "path", "required": True, "schema": STRING}
_JOB_ID: Final = {"name": "job_id", "in": "path", "required": True, "schema": STRING}
PREFER: Final = {
    "name": "Prefer",
    "in": "header",
    "description": "`wait=N`: wait up to N seconds for the job's end; 60 at most.",
    "schema": {"type": "string"},
    "example": "wait=30",
}
LAST_EVENT_ID: Final = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The id of the last event that was seen: what came until then is not told again.",
    "schema": {"type": "string"},
}
_X_LEASE: Final = {"name": "X-Lease", "in": "header", "schema": STRING}
_OPEN: Final[list[Any]] = []


_DETAIL: Final = {
    "application/json": {
        "schema": {"type": "object", "properties": {"detail": STRING}, "required": ["detail"]}
    }
}


def query(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, "description": description}


def operation(
    name: str,
    summary: str,
    *,
    tag: str,
    result: dict[str, Any] | None,
    status: int = 200,
    parameters: list[dict[str, Any]] | None = None,
    body: dict[str, Any] | None = None,
    required: list[str] | None = None,
    fails: tuple[int, ...] = (),
    content_type: str = "application/json",
    empty: dict[int, str] | None = None,
    needs_key: bool = True,
    more: bool = False,
    details: tuple[int, ...] = (),
) -> dict[str, Any]:
    """One operation of the document.

    Args:
        empty: answers without a body, by status.
        fails: statuses of failures in the envelope; `details`: of those in the form that runs have.
        more: the body may have fields that are not named.
    """
    schema = _object(result) if result is not None else {"type": "string"}
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": summary,
        "tags": [tag],
        "responses": {
            str(status): {"description": "Done", "content": {content_type: {"schema": schema}}},
            **{str(other): {"description": words} for other, words in (empty or {}).items()},
            **{str(fail): {"description": "Failed", "content": _ERROR} for fail in fails},
            **{str(fail): {"description": "Failed", "content": _DETAIL} for fail in details},
        },
    }
    if parameters:
        operation["parameters"] = parameters
    if body is not None:
        schema = {**_object(body), "required": required or [], "additionalProperties": more}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    if not needs_key:
        operation["security"] = _OPEN
    return operation


ROUTES: Final[dict[str, dict[str, Any]]] = {
    "/healthz": {
        "get": operation(
            "healthz", "Is the worker alive?", tag="status", result={"success": _SUCCESS}, needs_key=False
        )
    },
    "/readyz": {
        "get": operation(
            "readyz",
            "Are browser and store up?",
            tag="status",
            result={"success": _SUCCESS},
            fails=(503,),
            needs_key=False,
        )
    },
    "/metrics": {
        "get": operation(
            "metrics",
            "Metrics for Prometheus",
            tag="status",
            result=None,
            content_type="text/plain",
            fails=(401,),
        )
    },
    "/openapi.json": {"get": operation("openapi", "This document", tag="status", result={}, needs_key=False)},
    "/docs": {
        "get": operation(
            "docs",
            "This document, to read",
            tag="status",
            result=None,
            content_type="text/html",
            needs_key=False,
        )
    },
    "/api/v1/activity": {
        "get": operation("activity", "What the worker is doing", tag="status", result=_ACTIVITY, fails=(401,))
    },
    "/api/v1/tree": {
        "get": operation(
            "tree", "The live tree of nurseries and tasks", tag="status", result=_TREE, fails=(401,)
        )
    },
    "/api/v1/requests": {
        "get": operation(
            "requests",
            "The request log, newest first",
            tag="status",
            result={"success": _SUCCESS, "requests": {"type": "array", "items": _object(_ENTRY)}},
            parameters=[
                query("kind", STRING, "plugin, op, primitive, job or run"),
                query("page_id", STRING, "Of one page only."),
                query("since", _NUMBER, "Epoch seconds."),
                query("limit", {"type": "integer", "minimum": 1, "maximum": 1000}, "At most so many rows."),
            ],
            fails=(400, 401),
        )
    },
    "/api/v1/deliveries": {
        "get": operation(
            "deliveries",
            "The POSTs of webhooks, newest first",
            tag="jobs",
            result={
                "success": _SUCCESS,
                "deliveries": {"type": "array", "items": _object(_POSTED)},
                "next_cursor": MAYBE_STRING,
            },
            parameters=[
                query("job_id", STRING, "Of one job, or run, only."),
                query("host", STRING, "To one host only, a name or an address without a port."),
                query("verdict", _VERDICT, "What came of it."),
                query("error_class", {"type": "string", "enum": [*CLASSES]}, "Why it did not deliver."),
                query("since", _NUMBER, "Epoch seconds."),
                query("cursor", STRING, "The `next_cursor` of the answer before."),
                query("limit", {"type": "integer", "minimum": 1, "maximum": 1000}, "At most so many rows."),
            ],
            fails=(400, 401, 503),
        )
    },
    "/api/v1/plugins": {
        "get": operation(
            "plugins",
            "All plugins with their schemas",
            tag="status",
            result={"success": _SUCCESS, "plugins": {"type": "array", "items": {"type": "object"}}},
            fails=(401,),
        )
    },
    "/api/v1/jobs": {
        "get": operation(
            "jobs",
            "The jobs that are held, newest first, without their results",
            tag="jobs",
            result={
                "success": _SUCCESS,
                "jobs": {"type": "array", "items": _object(_LISTED_JOB)},
                "next_cursor": {**MAYBE_STRING, "description": "`cursor` of the next part; null: the end."},
            },
            parameters=[
                query("state", _STATE, "In that state only."),
                query("page_id", STRING, "Of one page only."),
                query("plugin", STRING, "Of one plugin only, `family/name`."),
                query("limit", {"type": "integer", "minimum": 1, "maximum": 1000}, "At most so many."),
                query("cursor", STRING, "`next_cursor` of the part before."),
            ],
            fails=(400, 401, 503),
        )
    },
    "/api/v1/jobs/{job_id}": {
        "get": operation(
            "poll_job",
            "A job: running, or ended with its result",
            tag="jobs",
            result=_JOB,
            parameters=[_JOB_ID, PREFER],
            fails=(401, 404, 503),
        ),
        "delete": operation(
            "cancel_job",
            "Cancel a running job, and wait for its end",
            tag="jobs",
            result=_JOB,
            parameters=[_JOB_ID],
            fails=(401, 404, 409, 422, 503),
        ),
    },
    "/api/v1/jobs/{job_id}/events": {
        "get": operation(
            "watch_job",
            "A job as it happens: events `state`, `progress` and `end`",
            tag="jobs",
            result=None,
            content_type="text/event-stream",
            parameters=[_JOB_ID, LAST_EVENT_ID],
            empty={204: "The end was seen already"},
            fails=(401, 404, 503),
        ),
    },
    "/api/v1/media/{token}": {
        "get": operation(
            "download",
            "A file, once",
            tag="jobs",
            result=None,
            content_type="application/octet-stream",
            parameters=[_TOKEN, {"name": "Range", "in": "header", "schema": STRING}],
            fails=(404, 409, 416),
            needs_key=False,
        )
    },
    "/api/v1/pages": {
        "get": operation(
            "pages",
            "All pages",
            tag="pages",
            result={"success": _SUCCESS, "pages": {"type": "array", "items": _object(_PAGE)}},
            fails=(401,),
        ),
        "post": operation(
            "open_page",
            "Open a page",
            tag="pages",
            result={"success": _SUCCESS, **_PAGE},
            status=201,
            body={"page_id": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}, "url": MAYBE_STRING},
            required=["page_id"],
            fails=(400, 401, 408, 409, 415, 422, 502, 503),
        ),
    },
    "/api/v1/{page_id}": {
        "get": operation(
            "page",
            "One page",
            tag="pages",
            result={"success": _SUCCESS, **_PAGE},
            parameters=[_PAGE_ID],
            fails=(401, 404),
        ),
        "delete": operation(
            "close_page",
            "Close an idle page",
            tag="pages",
            result={"success": _SUCCESS, "page_id": STRING},
            parameters=[_PAGE_ID, _X_LEASE],
            fails=(401, 404, 409, 423, 503),
        ),
    },
    "/api/v1/{page_id}/lease": {
        "post": operation(
            "lease_page",
            "Reserve a page between calls",
            tag="pages",
            result=_LEASE,
            parameters=[_PAGE_ID],
            body={"ttl": {"type": "number", "exclusiveMinimum": 0, "maximum": 600}},
            required=["ttl"],
            fails=(400, 401, 404, 415, 422, 423, 503),
        ),
        "delete": operation(
            "give_back_page",
            "Give a lease back",
            tag="pages",
            result={"success": _SUCCESS, "page_id": STRING},
            parameters=[_PAGE_ID, {**_X_LEASE, "required": True}],
            fails=(401, 404, 423),
        ),
    },
}
