"""Reading the request log.

Source: contract, section 7.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from quart import Blueprint, Response

from penelope.http import reading
from penelope.http.envelope import success
from penelope.http.worker import Worker


class Query(BaseModel):
    """The query of `GET /api/v1/requests`; `since` in epoch seconds."""

    model_config = ConfigDict(extra="forbid")

    kind: str | None = None
    page_id: str | None = None
    since: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


def blueprint(worker: Worker) -> Blueprint:
    """`GET /api/v1/requests`."""
    routes = Blueprint("requests", __name__)

    @routes.get("/api/v1/requests")
    async def newest() -> Response:
        asked = reading.checked_query(Query)
        rows = await worker.requests.newest(
            kind=asked.kind, page_id=asked.page_id, since=asked.since, limit=asked.limit
        )
        return success({"requests": rows})

    return routes
