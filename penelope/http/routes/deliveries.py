"""Reading the ledger of webhooks' POSTs.

Source: contract, section 11 ("Ledger").
"""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from quart import Blueprint, Response

from penelope.http import reading
from penelope.http.envelope import success
from penelope.http.worker import Worker
from penelope.jobs.answers import CLASSES
from penelope.jobs.delivery import named
from penelope.jobs.ledger import Entry

_CURSOR: Final = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)


class Query(BaseModel):
    """The query of `GET /api/v1/deliveries`; `since` in epoch seconds, `cursor` as an answer before gave it."""

    model_config = ConfigDict(extra="forbid")

    job_id: Annotated[str, Field(pattern="^([0-9a-f]{16}|run_[0-9a-f]{12})$")] | None = None
    host: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    verdict: Literal["delivered", "retry", "give up"] | None = None
    error_class: str | None = None
    since: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    cursor: str | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100

    @field_validator("error_class")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        if value is not None and value not in CLASSES:
            raise ValueError(f"must be one of {', '.join(CLASSES)}")
        return value

    @field_validator("host")
    @classmethod
    def _as_noted(cls, value: str | None) -> str | None:
        return None if value is None else value.strip("[]").lower()

    @field_validator("cursor")
    @classmethod
    def _of_ours(cls, value: str | None) -> str | None:
        if value is not None and not _CURSOR.fullmatch(value):
            raise ValueError("must be the next_cursor of an answer")
        return value


def blueprint(worker: Worker) -> Blueprint:
    """`GET /api/v1/deliveries`."""
    routes = Blueprint("deliveries", __name__)

    @routes.get("/api/v1/deliveries")
    async def newest() -> Response:
        asked = reading.checked_query(Query)
        rows = await worker.ledger.newest(
            job_id=asked.job_id,
            host=asked.host,
            verdict=asked.verdict,
            error_class=asked.error_class,
            since=asked.since,
            before=None if asked.cursor is None else int(asked.cursor),
            limit=asked.limit + 1,  # whether there are more
        )
        shown, more = rows[: asked.limit], rows[asked.limit :]
        return success(
            {
                "deliveries": [_shown(entry) for _, entry in shown],
                "next_cursor": str(shown[-1][0]) if more else None,
            }
        )

    return routes


def _shown(entry: Entry) -> dict[str, Any]:
    return {
        "at": entry.at,
        "job_id": entry.job_id,
        "request_id": entry.request_id,
        "attempt": entry.attempt,
        "receiver": named(entry.host, entry.port),
        "address": entry.address,
        "status": entry.status,
        "error_class": entry.error_class,
        "error": entry.error,
        "verdict": entry.verdict,
        "took_s": entry.took_s,
    }
