"""Plugin calls, plain and as jobs, and the list of plugins.

Source: contract, sections 2, 5 and 11.
"""

from functools import cache
from typing import Any

from quart import Blueprint, Response, request

from penelope import outcome
from penelope.errors import MethodNotAllowed
from penelope.http import calling, prefer, reading, waiting
from penelope.http.asked import Asked
from penelope.http.calling import Headed
from penelope.http.envelope import answer, response
from penelope.http.worker import Worker
from penelope.jobs import starts
from penelope.outcome import Outcome
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
        asked = reading.asked()
        call = calling.headed(worker, asked, f"{family}/{name}")
        body = await reading.body() if request.method == "POST" else b""
        given = calling.arguments(call.plugin, asked, body)
        return await _answered(worker, asked, page_id, call, given)

    return routes


async def _answered(
    worker: Worker, asked: Asked, page_id: str, call: Headed, given: dict[str, Any]
) -> Response:
    """The answer to a call whose request is in order: a plain call's, or a start's. That is answered again for the job
    that it began before, which may be what its page is busy with.
    """
    request_id, wanted = reading.request_id(), call.options
    if wanted is None:
        planned = calling.of_plugin(worker, asked, request_id, page_id, call, given)
        return answer(await worker.supervisor.run_plain(planned))
    what = starts.asked(wanted, page_id, call.plugin.name, given)
    async with worker.supervisor.starts.turn(what) as turn:
        job_id = turn.earlier
        if job_id is None:
            planned = calling.of_plugin(worker, asked, request_id, page_id, call, given)
            job = await worker.supervisor.start_job(planned, wanted, turn)
            job_id = job.job_id
    begun = waiting.Begun(job_id, page_id, wanted.way, replayed=turn.earlier is not None)
    return response(await waiting.started(worker, begun, prefer.wait(asked.all(prefer.PREFER.lower()))))


def _shown(plugin: Plugin) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "description": plugin.description,
        "parameters": plugin.parameters_schema,
        "result": plugin.result_schema,
    }
