"""Primitives: `POST /api/v1/{page_id}/{name}`, each a plain call of one small function.

Source: contract, section 3.
"""

from quart import Blueprint, Response, request

from penelope.http import reading
from penelope.http.envelope import answer
from penelope.http.worker import Worker
from penelope.jobs.calls import Planned, primitive_body
from penelope.pages import lease as leases
from penelope.pages.primitives.model import Primitive
from penelope.pages.primitives.table import PRIMITIVES
from penelope.registry import checked


def blueprint(worker: Worker) -> Blueprint:
    """A route per primitive."""
    routes = Blueprint("primitives", __name__)
    for primitive in PRIMITIVES.values():
        _add(routes, worker, primitive)
    return routes


def _add(routes: Blueprint, worker: Worker, primitive: Primitive) -> None:
    async def call(page_id: str) -> Response:
        worker.supervisor.refuse_when_unable()
        token = reading.lease_token()
        options = checked(primitive.options, await reading.json_object())
        page = worker.pages.get(page_id)
        leases.check(page.lease, token, worker.pages.lease_now())
        planned = Planned(
            page=page,
            what=primitive.name,
            kind="primitive",
            method=request.method,
            route=request.path,
            request_id=reading.request_id(),
            lease=token,
            make_body=primitive_body(primitive, options),
            limit_s=options.timeout_ms / 1000,
        )
        return answer(await worker.supervisor.run_plain(planned))

    routes.add_url_rule(f"/api/v1/<page:page_id>/{primitive.name}", primitive.name, call, methods=["POST"])
