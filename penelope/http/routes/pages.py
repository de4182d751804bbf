"""Ops: open, list, show and close pages; and leases.

Source: contract, sections 3 (ops) and 4.
"""

from typing import Annotated, Any

import trio
from pydantic import BaseModel, ConfigDict, Strict
from quart import Blueprint, Response, request

from penelope.errors import MalformedBody
from penelope.http import reading
from penelope.http.envelope import success
from penelope.http.worker import Worker
from penelope.pages.browser.urls import allowed_url
from penelope.pages.claim import Holder
from penelope.pages.manager import Page
from penelope.registry import checked


class NewPage(BaseModel):
    """The body of `POST /api/v1/pages`."""

    model_config = ConfigDict(extra="forbid")

    page_id: str
    url: str | None = None


class NewLease(BaseModel):
    """The body of `POST /api/v1/{page_id}/lease`; `ttl` in seconds."""

    model_config = ConfigDict(extra="forbid")

    ttl: Annotated[float, Strict()]


def blueprint(worker: Worker) -> Blueprint:
    """The routes of `/api/v1/pages` and `/api/v1/{page_id}`."""
    routes = Blueprint("pages", __name__)
    pages = worker.pages

    def holder(what: str) -> Holder:
        return Holder(what=what, job_id=None, since=worker.clock.now())

    @routes.get("/api/v1/pages")
    async def listed() -> Response:
        return success({"pages": await _shown(worker, list(pages))})

    @routes.post("/api/v1/pages")
    async def opened() -> Response:
        worker.supervisor.refuse_when_unable()
        asked = checked(NewPage, await reading.json_object())
        if asked.url is not None:
            allowed_url(asked.url)
        page: Page = await worker.supervisor.run_apart(
            lambda: pages.open(asked.page_id, asked.url),
            name=f"opening of {asked.page_id}",
            request_id=reading.request_id(),
        )
        (shown,) = await _shown(worker, [page])
        return success(
            _without_id(shown),
            page_id=page.page_id,
            status=201,
            headers={"Location": f"/api/v1/{page.page_id}"},
        )

    @routes.get("/api/v1/<page:page_id>")
    async def one(page_id: str) -> Response:
        (shown,) = await _shown(worker, [pages.get(page_id)])
        return success(_without_id(shown), page_id=page_id)

    @routes.delete("/api/v1/<page:page_id>")
    async def closed(page_id: str) -> Response:
        token = reading.lease_token()
        await worker.supervisor.run_apart(
            lambda: pages.close(page_id, holder("close"), token),
            name=f"closing of {page_id}",
            request_id=reading.request_id(),
        )
        return success({}, page_id=page_id)

    @routes.post("/api/v1/<page:page_id>/lease")
    async def leased(page_id: str) -> Response:
        worker.supervisor.refuse_when_unable()
        asked = checked(NewLease, await reading.json_object())
        lease = pages.lease(page_id, asked.ttl)
        shown = {"lease": lease.token, "ttl": lease.ttl, "expires_in": lease.expires_in(trio.current_time())}
        return success(shown, page_id=page_id)

    @routes.delete("/api/v1/<page:page_id>/lease")
    async def given_back(page_id: str) -> Response:
        if await request.get_data():
            raise MalformedBody("a lease is given back without a body")
        pages.give_back(page_id, reading.lease_token())
        return success({}, page_id=page_id)

    return routes


async def _shown(worker: Worker, asked: list[Page]) -> list[dict[str, Any]]:
    """Pages as clients see them; idle ones are asked for their title, side by side."""
    async with trio.open_nursery() as nursery:
        for page in asked:
            nursery.start_soon(worker.pages.read_title, page)
    return [worker.pages.shown(page) for page in asked]


def _without_id(shown: dict[str, Any]) -> dict[str, Any]:
    """The envelope has `page_id` already."""
    return {name: value for name, value in shown.items() if name != "page_id"}
