"""Plugin calls, plain and as jobs, and the list of plugins.

Source: contract, sections 2 and 5.
"""

from functools import cache
from typing import Any

from quart import Blueprint, Response, request

from penelope import outcome
from penelope.errors import MethodNotAllowed, NotFound
from penelope.http import prefer, reading, waiting
from penelope.http.envelope import answer
from penelope.http.worker import Worker
from penelope.jobs import options, trace
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
        planned, asked = await _plan(worker, page_id, f"{family}/{name}")
        if asked is None:
            return answer(await worker.supervisor.run_plain(planned))
        job = await worker.supervisor.start_job(planned, asked)
        return await waiting.started(worker, job, prefer.wait(request.headers.getlist(prefer.PREFER)))

    return routes


async def _plan(worker: Worker, page_id: str, name: str) -> tuple[Planned, JobOptions | None]:
    """Every check of a call, in the contract's order, up to the claim."""
    worker.supervisor.refuse_when_unable()
    plugin = worker.registry.get(name)
    if plugin is None:
        raise NotFound(f"there is no plugin {name!r}")
    asked = options.parse(request.headers.items())
    worker.supervisor.check_callback(asked)
    token = reading.lease_token()
    given = plugin.from_query(reading.query()) if request.method == "GET" else await reading.json_object()
    arguments = plugin.arguments(given)
    page = worker.pages.get(page_id)
    leases.check(page.lease, token, worker.pages.lease_now())
    planned = Planned(
        page=page,
        what=plugin.name,
        kind="plugin",
        method=request.method,
        route=request.path,
        request_id=reading.request_id(),
        lease=token,
        traceparent=trace.parse(request.headers.getlist(trace.HEADER)),
        make_body=plugin_body(plugin, arguments),
    )
    return planned, asked


def _shown(plugin: Plugin) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "description": plugin.description,
        "parameters": plugin.parameters_schema,
        "result": plugin.result_schema,
    }
