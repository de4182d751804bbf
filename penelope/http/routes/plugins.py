"""Plugin calls, plain and as jobs, and the list of plugins.

Source: contract, sections 2, 5 and 11.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from quart import Blueprint, Response, request
from structlog.contextvars import bind_contextvars

from penelope import outcome
from penelope.errors import MethodNotAllowed, NotFound
from penelope.http import prefer, reading, waiting
from penelope.http.envelope import answer
from penelope.http.worker import Worker
from penelope.jobs import options, starts, trace
from penelope.jobs.calls import Planned, plugin_body
from penelope.jobs.options import JobOptions
from penelope.outcome import Outcome
from penelope.pages import lease as leases
from penelope.registry import Plugin


def blueprint(worker: Worker) -> Blueprint:
    """The routes under `/api/v1/{page_id}/plugin` and `/api/v1/plugins`."""
    routes = Blueprint("plugins", __name__)

    @cache  # which plugins there are does not change while the worker lives
    def shown() -> Outcome:
        return outcome.success(None, {"plugins": [_shown(plugin) for plugin in worker.registry.values()]})

    @routes.get("/api/v1/plugins")
    async def listed() -> Response:
        return answer(shown())

    @routes.route("/api/v1/<page:page_id>/plugin/<family>/<name>", methods=["GET", "POST"])
    async def call(page_id: str, family: str, name: str) -> Response:
        if request.method == "HEAD":  # of every GET route, by the framework's rule; here it would do the work
            raise MethodNotAllowed("HEAD is not allowed here, only GET, POST", headers={"Allow": "GET, POST"})
        asked = await _read(worker, f"{family}/{name}")
        if asked.options is None:
            return answer(await worker.supervisor.run_plain(_plan(worker, page_id, asked)))
        return await _start(worker, page_id, asked, asked.options)

    return routes


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call as its request has it. `options` None: it is no job; `token`: of `X-Lease`."""

    plugin: Plugin
    options: JobOptions | None
    token: str | None
    arguments: dict[str, Any]


async def _read(worker: Worker, name: str) -> _Asked:
    """The checks of a call that need only its request, in the contract's order."""
    worker.supervisor.refuse_when_unable()
    plugin = worker.registry.get(name)
    if plugin is None:
        raise NotFound(f"there is no plugin {name!r}")
    asked = options.parse(request.headers.items())
    worker.supervisor.check_callback(asked)
    token = reading.lease_token()
    given = plugin.from_query(reading.query()) if request.method == "GET" else await reading.json_object()
    return _Asked(plugin, asked, token, plugin.arguments(given))


def _plan(worker: Worker, page_id: str, asked: _Asked) -> Planned:
    """The checks that follow, up to the claim: the page, and its lease."""
    page = worker.pages.get(page_id)
    leases.check(page.lease, asked.token, worker.pages.lease_now())
    traceparent = trace.parse(request.headers.getlist(trace.HEADER))
    if traceparent is not None:
        bind_contextvars(trace_id=trace.trace_id(traceparent))
    return Planned(
        page=page,
        what=asked.plugin.name,
        kind="plugin",
        method=request.method,
        route=request.path,
        request_id=reading.request_id(),
        lease=asked.token,
        traceparent=traceparent,
        make_body=plugin_body(asked.plugin, asked.arguments),
    )


async def _start(worker: Worker, page_id: str, asked: _Asked, wanted: JobOptions) -> Response:
    """Start a job, or answer again for the one that this start began before: it may be what its page is busy with."""
    what = starts.asked(wanted, page_id, asked.plugin.name, asked.arguments)
    async with worker.supervisor.starts.turn(what) as turn:
        job_id = turn.earlier
        if job_id is None:
            job = await worker.supervisor.start_job(_plan(worker, page_id, asked), wanted, turn)
            job_id = job.job_id
    begun = waiting.Begun(job_id, page_id, wanted.way, replayed=turn.earlier is not None)
    return await waiting.started(worker, begun, prefer.wait(request.headers.getlist(prefer.PREFER)))


def _shown(plugin: Plugin) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "description": plugin.description,
        "parameters": plugin.parameters_schema,
        "result": plugin.result_schema,
    }
