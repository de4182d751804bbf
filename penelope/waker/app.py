"""The waker's app: `/api/v1/personas`, and everything under `/p/` handed to the gateway. It owns no task.

Source: contract, sections 1 and 9.
"""

import secrets
import sqlite3
import time
from functools import partial
from typing import Any, Final

import structlog
import trio
from prometheus_client import CONTENT_TYPE_LATEST
from quart import Response, g, request
from werkzeug.http import http_date

from penelope import jsontext, outcome
from penelope.errors import (
    BadHeader,
    BadParameter,
    BadPersonas,
    MalformedBody,
    Unavailable,
    WorkerDown,
)
from penelope.http import auth, docs_page, envelope
from penelope.http.envelope import json_response, success
from penelope.http.front import Front, Receive, Send
from penelope.settings import Settings
from penelope.waker import described, metrics, stores, views, workload
from penelope.waker.driver import Driver
from penelope.waker.gateway import PREFIX, Gateway
from penelope.waker.house import House
from penelope.waker.keeper import Keeper

API: Final = "/api/v1"
OPEN_PATHS: Final = frozenset({"/healthz", "/openapi.json", "/docs"})
MAX_BODY_BYTES: Final = (
    64 * 1024
)  # of its own routes, which take none; what the gateway passes on has no limit here
MAX_LINES: Final = 1000
MAX_HOURS: Final = 168
LINES: Final = 100
HOURS: Final = 24

log = structlog.get_logger("penelope.waker")


class WakerFront(Front):
    """Requests under `/p/` never come to Quart: they are streamed."""

    gateway: Gateway

    async def answer(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["path"].startswith(PREFIX):
            await self.gateway.answer(scope, receive, send)
        else:
            await super().answer(scope, receive, send)


def create_app(settings: Settings, house: House, gateway: Gateway, driver: Driver) -> WakerFront:
    """The app over a house and its gateway."""
    app = WakerFront("penelope.waker", static_folder=None)
    app.gateway = gateway
    app.config.update(
        MAX_CONTENT_LENGTH=MAX_BODY_BYTES,
        RESPONSE_TIMEOUT=None,
        PROVIDE_AUTOMATIC_OPTIONS=False,
        PROPAGATE_EXCEPTIONS=False,
    )
    app.url_map.strict_slashes = True
    app.url_map.merge_slashes = False
    envelope.install(app, "the waker")
    app.register_error_handler(WorkerDown, _worker_down)
    _install_gates(app, settings)
    _add_personas(app, house)
    _add_orders(app, house)
    _add_details(app, house, driver)
    _add_status(app, house, gateway)
    return app


async def _worker_down(error: WorkerDown) -> Response:
    """With the last lines of its log: whoever has the waker's key may read it all."""
    said = outcome.failure(error.status, error.message, kind=error.kind, log=list(error.lines))
    return envelope.answer(said, error.headers)


def _install_gates(app: Front, settings: Settings) -> None:
    async def before() -> None:
        g.request_id = secrets.token_hex(8)
        bad_id: BadHeader | None = None
        try:
            g.request_id = auth.checked_request_id(request.headers.getlist("X-Request-Id")) or g.request_id
        except BadHeader as exc:
            bad_id = exc
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=g.request_id)
        auth.check_host(request.headers.get("Host"), on_loopback=settings.on_loopback, hosts=settings.hosts)
        if request.path not in OPEN_PATHS:
            auth.check_key(request.headers.getlist("Authorization"), settings.keys)
        if bad_id is not None:
            raise bad_id
        auth.check_target(request.path, request.scope["query_string"])
        if request.method not in {"GET", "HEAD"}:
            body = await request.get_data(as_text=False)
            auth.check_content_type(request.headers.get("Content-Type"), has_body=bool(body))
            _take_no_parameters(body)

    async def after(response: Response) -> Response:
        response.headers["X-Request-Id"] = g.request_id
        response.headers["Date"] = http_date()
        response.headers.setdefault("Cache-Control", "no-store")
        response.headers["X-Content-Type-Options"] = "nosniff"
        if request.method not in {"GET", "HEAD"}:
            log.info("request", method=request.method, path=request.path, status=response.status_code)
        return response

    app.before_request(before)
    app.after_request(after)


def _take_no_parameters(body: bytes | str) -> None:
    assert isinstance(body, bytes)
    if not body.strip():
        return
    try:
        given = jsontext.loads(body)
    except ValueError as exc:
        raise MalformedBody(f"the body is not JSON: {exc}") from exc
    if not isinstance(given, dict):
        raise MalformedBody("the body is not a JSON object")
    if given:
        raise BadParameter(f"parameter {next(iter(given))} is unknown: this route takes none")


def _add_personas(app: Front, house: House) -> None:
    @app.get(f"{API}/personas")
    async def personas() -> Response:
        _check_query()
        said = await views.activities(list(house))
        return success({"personas": [views.persona(one, said.get(one.name)) for one in house]})

    @app.get(f"{API}/personas/<name>")
    async def persona(name: str) -> Response:
        _check_query()
        return await _shown(house.get(name))


def _add_orders(app: Front, house: House) -> None:
    @app.post(f"{API}/personas/<name>/start")
    async def start(name: str) -> Response:
        keeper = house.get(name)
        await keeper.start()
        return await _shown(keeper)

    @app.post(f"{API}/personas/<name>/stop")
    async def stop(name: str) -> Response:
        keeper = house.get(name)
        await keeper.stop()
        return await _shown(keeper)

    @app.post(f"{API}/personas/<name>/restart")
    async def restart(name: str) -> Response:
        keeper = house.get(name)
        await keeper.restart()
        return await _shown(keeper)

    @app.post(f"{API}/personas/reload")
    async def reload() -> Response:
        try:
            found = house.reload()
        except BadPersonas as exc:
            raise MalformedBody(exc.message) from exc
        return success(
            {
                "added": found.added,
                "removed": found.removed,
                "changed": found.changed,
                "restarting": found.restarting,
            }
        )


def _add_details(app: Front, house: House, driver: Driver) -> None:
    @app.get(f"{API}/personas/<name>/logs")
    async def logs(name: str) -> Response:
        keeper = house.get(name)
        lines = _number("lines", LINES, MAX_LINES)
        return success({"name": name, "lines": list(await driver.log(keeper.name, lines))})

    @app.get(f"{API}/personas/<name>/workload")
    async def worked(name: str) -> Response:
        keeper = house.get(name)
        hours = _number("hours", HOURS, MAX_HOURS)
        now = int(time.time())
        first = now - (hours - 1) * workload.HOUR_S
        since = first // workload.HOUR_S * workload.HOUR_S
        try:
            works = await trio.to_thread.run_sync(
                partial(stores.works, keeper.persona.order.store, float(since))
            )
        except sqlite3.Error as exc:
            raise Unavailable(f"the store of {name} cannot be read now: {exc}") from exc
        return success({"name": name, **workload.shown(workload.by_hour(works, first, now))})


def _add_status(app: Front, house: House, gateway: Gateway) -> None:
    @app.get("/healthz")
    async def healthz() -> Response:
        return success({})

    @app.get("/metrics")
    async def measured() -> Response:
        said = await views.activities(list(house))
        return Response(metrics.render(house, gateway, said), content_type=CONTENT_TYPE_LATEST)

    @app.get("/openapi.json")
    async def openapi() -> Response:
        return json_response(jsontext.dumps(described.document()).encode())

    @app.get("/docs")
    async def docs() -> Response:
        page = Response(docs_page.render(described.document()), content_type="text/html; charset=utf-8")
        page.headers["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'"
        return page


async def _shown(keeper: Keeper) -> Response:
    return success(views.persona(keeper, await keeper.activity()))


def _check_query(*known: str) -> None:
    """Raises BadParameter for what the route does not know, or is given twice."""
    for name, values in request.args.to_dict(flat=False).items():
        if name not in known:
            raise BadParameter(f"parameter {name} is unknown")
        if len(values) > 1:
            raise BadParameter(f"parameter {name} is given more than once")


def _number(name: str, default: int, most: int) -> int:
    """The one parameter that the query may have: from 1 to `most`."""
    _check_query(name)
    text = request.args.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise BadParameter(f"parameter {name} must be a whole number from 1 to {most}")
    return int(text)
