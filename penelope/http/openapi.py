"""The OpenAPI document: every route, each plugin as a path of its own with its real schemas.

Source: contract, section 1.
"""

from importlib.metadata import version
from typing import Any, Final

from penelope.http.described import PREFER, ROUTES, TASK
from penelope.http.described_runs import RUN_ROUTES
from penelope.http.worker import Worker
from penelope.pages.primitives.model import Primitive
from penelope.pages.primitives.table import PRIMITIVES
from penelope.registry import Plugin

API: Final = "/api/v1"
PAGE_ID: Final = {
    "name": "page_id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
    "example": "main",
}
X_LEASE: Final = {
    "name": "X-Lease",
    "in": "header",
    "description": "The token of the page's lease; needed while the page is leased.",
    "schema": {"type": "string"},
}
JOB_HEADERS: Final = [
    {
        "name": "X-Callback-Url",
        "in": "header",
        "description": "Makes the call a job whose end is POSTed there: an absolute http(s) URL.",
        "schema": {"type": "string", "format": "uri", "maxLength": 2048},
    },
    {
        "name": "X-Result-Ttl",
        "in": "header",
        "description": "Makes the call a job whose result is held so many seconds after its end; above 0, at most 600.",
        "schema": {"type": "number", "exclusiveMinimum": 0, "maximum": 600},
    },
    {
        "name": "X-Job-Timeout",
        "in": "header",
        "description": "Seconds of work past which the job ends as a 408; above 0, at most 86400. For jobs only.",
        "schema": {"type": "number", "exclusiveMinimum": 0, "maximum": 86400},
    },
    {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "Under it the same start begins one job, for 24 hours, however often it is sent. For jobs only.",
        "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
    },
]
TRACEPARENT: Final = {
    "name": "traceparent",
    "in": "header",
    "description": "W3C Trace Context: the POST of a job's end carries the same trace.",
    "schema": {"type": "string"},
}
ENVELOPE: Final = {
    "success": {"type": "boolean", "const": True},
    "page_id": {"type": "string"},
}


def document(worker: Worker) -> dict[str, Any]:
    """The whole document, OpenAPI 3.1."""
    paths: dict[str, Any] = {**ROUTES, **RUN_ROUTES}
    schemas: dict[str, Any] = {"Error": _error_schema(), "Accepted": _ACCEPTED, "Task": TASK}
    for primitive in PRIMITIVES.values():
        paths[f"{API}/{{page_id}}/{primitive.name}"] = {"post": _primitive(primitive, schemas)}
    for plugin in worker.registry.values():
        paths[f"{API}/{{page_id}}/plugin/{plugin.name}"] = _plugin(plugin, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penelope",
            "version": version("penelope"),
            "description": "A worker that works web pages over HTTP, plainly or as jobs.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def errors(*statuses: int) -> dict[str, Any]:
    """Failures in the envelope, by status."""
    return {
        str(status): {
            "description": _MEANINGS.get(status, "Failed"),
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        }
        for status in statuses
    }


def _plugin(plugin: Plugin, schemas: dict[str, Any]) -> dict[str, Any]:
    parameters = _lifted(plugin.parameters_schema, plugin.name, schemas)
    common = {
        "summary": plugin.name,
        "description": plugin.description,
        "tags": [plugin.family],
        "responses": _call_responses(
            _enveloped(_lifted(plugin.result_schema, plugin.name, schemas)), job=True
        ),
    }
    required = set(parameters.get("required", ()))
    in_query = [
        {"name": name, "in": "query", "required": name in required, "schema": schema}
        for name, schema in parameters.get("properties", {}).items()
    ]
    name = plugin.name.replace("/", "_")
    return {
        "get": {
            **common,
            "operationId": f"get_{name}",
            "parameters": [PAGE_ID, X_LEASE, *JOB_HEADERS, PREFER, TRACEPARENT, *in_query],
        },
        "post": {
            **common,
            "operationId": f"post_{name}",
            "parameters": [PAGE_ID, X_LEASE, *JOB_HEADERS, PREFER, TRACEPARENT],
            "requestBody": {
                "required": bool(required),
                "content": {"application/json": {"schema": parameters}},
            },
        },
    }


def _primitive(primitive: Primitive, schemas: dict[str, Any]) -> dict[str, Any]:
    options = _lifted(primitive.options.model_json_schema(), primitive.name, schemas)
    result = _lifted(primitive.result.model_json_schema(mode="serialization"), primitive.name, schemas)
    return {
        "summary": primitive.name,
        "description": primitive.description,
        "tags": ["primitives"],
        "operationId": f"primitive_{primitive.name}",
        "parameters": [PAGE_ID, X_LEASE],
        "requestBody": {
            "required": bool(options.get("required")),
            "content": {"application/json": {"schema": options}},
        },
        "responses": _call_responses(_enveloped(result), job=False),
    }


def _call_responses(result: dict[str, Any], *, job: bool) -> dict[str, Any]:
    responses = {
        "200": {"description": "Done", "content": {"application/json": {"schema": result}}},
        **errors(400, 401, 404, 408, 409, 415, 422, 423, 500, 502, 503, 507),
    }
    if job:
        responses["202"] = {
            "description": "Started as a job; `Location` is its status URL",
            "headers": {
                "Location": {"schema": {"type": "string"}},
                "Idempotency-Replayed": {
                    "description": "There when the job was begun before, by the same start.",
                    "schema": {"type": "string", "const": "true"},
                },
            },
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Accepted"}}},
        }
    return responses


def _enveloped(result: dict[str, Any]) -> dict[str, Any]:
    return {
        **result,
        "type": "object",
        "properties": {**ENVELOPE, **result.get("properties", {})},
        "required": ["success", "page_id", *result.get("required", ())],
    }


def _lifted(schema: dict[str, Any], owner: str, schemas: dict[str, Any]) -> dict[str, Any]:
    """The schema with its `$defs` moved to the components, under names of the owner's own: two may have a `Link`."""
    prefix = owner.replace("/", "_")
    for name, definition in schema.pop("$defs", {}).items():
        schemas[f"{prefix}.{name}"] = _renamed(definition, prefix)
    renamed = _renamed(schema, prefix)
    assert isinstance(renamed, dict)
    return renamed


def _renamed(node: Any, prefix: str) -> Any:
    if isinstance(node, dict):
        return {
            key: (
                value.replace("#/$defs/", f"#/components/schemas/{prefix}.")
                if key == "$ref" and isinstance(value, str)
                else _renamed(value, prefix)
            )
            for key, value in node.items()
        }
    return [_renamed(item, prefix) for item in node] if isinstance(node, list) else node


def _error_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["success", "error"],
        "properties": {
            "success": {"type": "boolean", "const": False},
            "error": {"type": "string", "description": "One clear sentence."},
            "page_id": {"type": "string"},
            "kind": {
                "type": "string",
                "enum": ["site", "proxy", "page", "browser", "timeout", "plugin", "worker"],
                "description": "Whose fault it was, where it was not the plugin's own word.",
            },
            "expires_in": {"type": "number", "description": "Of the lease that is in the way, seconds."},
        },
    }


_ACCEPTED: Final = {
    "type": "object",
    "required": ["success", "page_id", "job_id", "status_url", "ttl", "callback"],
    "properties": {
        **ENVELOPE,
        "job_id": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        "status_url": {"type": "string"},
        "ttl": {"type": ["number", "null"], "description": "The hold of a polling job, seconds."},
        "callback": {"type": ["string", "null"], "description": "The URL of a webhook job."},
    },
}
_MEANINGS: Final = {
    400: "A bad, missing or unknown parameter, or a bad header; it is named",
    401: "The key is missing or wrong",
    404: "No such route, plugin, page, job or file",
    405: "The method is not allowed",
    408: "The page did not get there in time",
    409: "The page is busy, or the plugin says so",
    413: "The body is too large",
    415: "The body is not declared as JSON",
    416: "The range is outside the file",
    421: "The Host is not this worker's",
    422: "The body is malformed, or the Idempotency-Key was another request's",
    423: "The page is leased",
    500: "The plugin failed",
    502: "The site, the proxy, the page or the browser failed; `kind` says which",
    503: "The worker cannot now; see `Retry-After`",
    507: "The disk, or the cap on media, takes no more",
}
