"""Primitives: `POST /api/v1/{page_id}/{name}`, each a plain call of one small function.

Source: contract, section 3.
"""

from quart import Blueprint, Response

from penelope.http import calling, reading
from penelope.http.envelope import answer
from penelope.http.worker import Worker
from penelope.pages.primitives.model import Primitive
from penelope.pages.primitives.table import PRIMITIVES


def blueprint(worker: Worker) -> Blueprint:
    """A route per primitive."""
    routes = Blueprint("primitives", __name__)
    for primitive in PRIMITIVES.values():
        _add(routes, worker, primitive)
    return routes


def _add(routes: Blueprint, worker: Worker, primitive: Primitive) -> None:
    async def call(page_id: str) -> Response:
        asked = reading.asked()
        token = calling.primitive_headed(worker, asked)
        body = await reading.body()
        planned = calling.of_primitive(worker, asked, reading.request_id(), page_id, primitive, token, body)
        return answer(await worker.supervisor.run_plain(planned))

    routes.add_url_rule(f"/api/v1/<page:page_id>/{primitive.name}", primitive.name, call, methods=["POST"])
