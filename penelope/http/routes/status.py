"""Is it alive, is it ready, what is it doing, what can it do?

Source: contract, sections 1 and 7.
"""

from functools import cache

from quart import Blueprint, Response

from penelope import jsontext, outcome
from penelope.http import activity, docs_page, openapi, tree
from penelope.http.envelope import answer, json_response, success
from penelope.http.worker import Worker


def blueprint(worker: Worker) -> Blueprint:
    """`/healthz`, `/readyz`, `/metrics`, `/api/v1/activity`, `/api/v1/tree`, `/openapi.json` and `/docs`."""
    routes = Blueprint("status", __name__)

    @routes.get("/healthz")
    async def healthz() -> Response:
        return success({})

    @routes.get("/readyz")
    async def readyz() -> Response:
        why = _not_ready(worker)
        if why:
            return answer(outcome.failure(503, f"not ready: {why}"), {"Retry-After": "5"})
        return success({})

    @routes.get("/metrics")
    async def measured() -> Response:
        from penelope.http import metrics  # and Prometheus' library: a start does without

        held = await worker.jobs.held(worker.clock.now())
        return Response(metrics.render(worker, held), content_type=metrics.CONTENT_TYPE)

    @routes.get("/api/v1/activity")
    async def doing() -> Response:
        return success(await activity.activity(worker))

    @routes.get("/api/v1/tree")
    async def living() -> Response:
        return success(tree.tree(worker))

    _add_descriptions(routes, worker)
    return routes


def _add_descriptions(routes: Blueprint, worker: Worker) -> None:
    # Made once: nothing in them changes while the worker lives, and they are open to whoever asks without a key.
    @cache
    def description() -> bytes:
        return jsontext.dumps(openapi.document(worker)).encode()

    @cache
    def description_to_read() -> str:
        return docs_page.render(openapi.document(worker))

    @routes.get("/openapi.json")
    async def described() -> Response:
        return json_response(description())

    @routes.get("/docs")
    async def docs() -> Response:
        page = Response(description_to_read(), content_type="text/html; charset=utf-8")
        page.headers["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'"
        return page


def _not_ready(worker: Worker) -> str | None:
    """Why the worker cannot take calls, a clause; None: it can."""
    health = worker.pages.driver.health
    if worker.supervisor.stopping:
        return "the worker is stopping"
    if health.stuck:
        return "a call blocks the browser's thread and cannot be ended"
    if not health.up:
        return f"the browser is not up: {health.reason}"
    if worker.supervisor.ends.owed:
        return f"the store takes no writes; the ends of {worker.supervisor.ends.owed} jobs wait in memory"
    if worker.jobs.refuses:
        return "the store takes no writes"
    return None
