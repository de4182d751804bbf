"""The waker's routes, described: its OpenAPI document. A test holds that this and the app's routes are the same set.

Source: contract, sections 1 and 9.
"""

from importlib.metadata import version
from typing import Any, Final

from penelope.waker.model import Mode, State

_STRING: Final = {"type": "string"}
_MAYBE_STRING: Final = {"type": ["string", "null"]}
_INTEGER: Final = {"type": "integer"}
_MAYBE_INTEGER: Final = {"type": ["integer", "null"]}
_NUMBER: Final = {"type": "number"}
_MAYBE_NUMBER: Final = {"type": ["number", "null"]}
_SUCCESS: Final = {"type": "boolean", "const": True}
_NAMES: Final = {"type": "array", "items": _STRING}
_NAME: Final = {"name": "name", "in": "path", "required": True, "schema": _STRING, "example": "alice"}
_REST: Final = {
    "name": "rest",
    "in": "path",
    "required": True,
    "schema": _STRING,
    "description": "What the worker is asked for, e.g. `main/plugin/web/read`; it may have slashes.",
}
PASSED_ON: Final = "/p/{name}/api/v1/{rest}"
METHODS: Final = ("get", "post", "delete")

PERSONA: Final = {
    "name": _STRING,
    "mode": {"type": "string", "enum": [mode.value for mode in Mode]},
    "state": {"type": "string", "enum": [state.value for state in State]},
    "pid": _MAYBE_INTEGER,
    "port": {**_MAYBE_INTEGER, "description": "Null while the worker has none and the file gives none."},
    "started_at": {**_MAYBE_NUMBER, "description": "Epoch seconds; null while no worker runs."},
    "idle_for_s": {**_MAYBE_NUMBER, "description": "Null while no worker runs, or it does not answer."},
    "in_flight": {**_MAYBE_INTEGER, "description": "As above."},
    "last_error": _MAYBE_STRING,
}
_HOUR: Final = {
    "hour": {**_INTEGER, "description": "When it begins, epoch seconds."},
    "calls": _INTEGER,
    "jobs": _INTEGER,
    "busy_s": _NUMBER,
}


def document() -> dict[str, Any]:
    """The whole document, OpenAPI 3.1."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penelope's waker",
            "version": version("penelope"),
            "description": "Personas that sleep until they are needed, on one address.",
        },
        "paths": {**_ROUTES, PASSED_ON: _passed_on()},
        "components": {
            "schemas": {"Error": _ERROR, "Persona": _object(PERSONA)},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _failures(*statuses: int) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {str(status): {"description": _MEANINGS[status], "content": content} for status in statuses}


def _operation(
    name: str,
    summary: str,
    result: dict[str, Any] | None,
    *,
    tag: str = "personas",
    parameters: tuple[dict[str, Any], ...] = (),
    fails: tuple[int, ...] = (401,),
    content_type: str = "application/json",
) -> dict[str, Any]:
    schema = _STRING if result is None else result
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": summary,
        "tags": [tag],
        "responses": {
            "200": {"description": "Done", "content": {content_type: {"schema": schema}}},
            **_failures(*fails),
        },
    }
    if parameters:
        operation["parameters"] = list(parameters)
    if 401 not in fails:
        operation["security"] = []
    return operation


def _order(name: str, summary: str, *fails: int) -> dict[str, Any]:
    shown = _object({"success": _SUCCESS, **PERSONA})
    return {"post": _operation(name, summary, shown, parameters=(_NAME,), fails=(401, 404, *fails))}


def _query(name: str, most: int, default: int, description: str) -> dict[str, Any]:
    schema = {"type": "integer", "minimum": 1, "maximum": most, "default": default}
    return {"name": name, "in": "query", "schema": schema, "description": description}


def _passed_on() -> dict[str, Any]:
    said = "As the persona's worker answers it: see its own /openapi.json"
    return {
        method: {
            "operationId": f"pass_on_{method}",
            "summary": "Wake the persona if it sleeps, and pass the request on",
            "tags": ["gateway"],
            "parameters": [_NAME, _REST],
            "responses": {"default": {"description": said}, **_failures(400, 401, 404, 502, 503, 504)},
        }
        for method in METHODS
    }


_ERROR: Final = _object({"success": {"type": "boolean", "const": False}, "error": _STRING}) | {
    "properties": {
        "success": {"type": "boolean", "const": False},
        "error": {"type": "string", "description": "One clear sentence."},
        "kind": {"type": "string", "enum": ["worker"]},
        "log": {**_NAMES, "description": "The last lines of the worker's log, where it did not start."},
    }
}
_MEANINGS: Final = {
    400: "A bad or unknown parameter; it is named",
    401: "The key is missing or wrong",
    404: "No such route, or no such persona",
    422: "`personas.toml` is not good; file, line and key are named, and nothing changed",
    502: "The worker did not start, or broke off",
    503: "Not now: the persona was stopped by hand, failed just now, or the waker stops; see `Retry-After`",
    504: "The worker was not ready in time",
}
_ROUTES: Final[dict[str, dict[str, Any]]] = {
    "/healthz": {
        "get": _operation(
            "healthz", "Is the waker alive?", _object({"success": _SUCCESS}), tag="status", fails=()
        )
    },
    "/metrics": {
        "get": _operation("metrics", "Metrics for Prometheus", None, tag="status", content_type="text/plain")
    },
    "/openapi.json": {
        "get": _operation("openapi", "This document", {"type": "object"}, tag="status", fails=())
    },
    "/docs": {
        "get": _operation(
            "docs", "This document, to read", None, tag="status", fails=(), content_type="text/html"
        )
    },
    "/api/v1/personas": {
        "get": _operation(
            "personas",
            "All personas",
            _object(
                {
                    "success": _SUCCESS,
                    "personas": {"type": "array", "items": {"$ref": "#/components/schemas/Persona"}},
                }
            ),
            fails=(400, 401),
        )
    },
    "/api/v1/personas/{name}": {
        "get": _operation(
            "persona",
            "One persona",
            _object({"success": _SUCCESS, **PERSONA}),
            parameters=(_NAME,),
            fails=(400, 401, 404),
        )
    },
    "/api/v1/personas/{name}/start": _order(
        "start", "Start its worker, and wait until it is ready", 502, 503, 504
    ),
    "/api/v1/personas/{name}/stop": _order("stop", "Stop its worker, and wait until it is gone"),
    "/api/v1/personas/{name}/restart": _order("restart", "Stop its worker, and start it", 502, 503, 504),
    "/api/v1/personas/reload": {
        "post": _operation(
            "reload",
            "Read personas.toml again",
            _object(
                {
                    "success": _SUCCESS,
                    "added": _NAMES,
                    "removed": _NAMES,
                    "changed": _NAMES,
                    "restarting": {
                        **_NAMES,
                        "description": "Their workers start anew once nothing of them is in flight.",
                    },
                }
            ),
            fails=(401, 422),
        )
    },
    "/api/v1/personas/{name}/logs": {
        "get": _operation(
            "logs",
            "The last lines of its worker's log, oldest first",
            _object({"success": _SUCCESS, "name": _STRING, "lines": _NAMES}),
            parameters=(_NAME, _query("lines", 1000, 100, "At most so many.")),
            fails=(400, 401, 404),
        )
    },
    "/api/v1/personas/{name}/workload": {
        "get": _operation(
            "workload",
            "Its calls and jobs by the hour",
            _object(
                {
                    "success": _SUCCESS,
                    "name": _STRING,
                    "since": {**_INTEGER, "description": "Epoch seconds."},
                    "calls": _INTEGER,
                    "jobs": _INTEGER,
                    "busy_s": _NUMBER,
                    "hours": {"type": "array", "items": _object(_HOUR), "description": "Oldest first."},
                }
            ),
            parameters=(_NAME, _query("hours", 168, 24, "So many hours, this one included.")),
            fails=(400, 401, 404, 503),
        )
    },
}
