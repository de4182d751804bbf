"""The app: every request is named, checked, logged and answered in the envelope. It owns no task.

Source: contract, sections 1 and 7.
"""

import secrets
from dataclasses import dataclass

import structlog
from quart import Request, Response, g, request
from quart_trio import QuartTrio
from werkzeug.routing import BaseConverter

from penelope.clock import Clock
from penelope.errors import BadHeader
from penelope.http import auth, envelope
from penelope.http.front import Front
from penelope.http.routes import (
    deliveries,
    events,
    jobs,
    media,
    pages,
    plugins,
    primitives,
    requests,
    runs,
    status,
)
from penelope.http.short import ShortWay
from penelope.http.short_runs import ShortRuns
from penelope.http.worker import Worker
from penelope.pages.manager import RESERVED
from penelope.store.request_log import Entry

MAX_BODY_BYTES = 16 * 2**20
BODY_TIMEOUT_S = 60
CLIENT_LEFT = 499  # in the request log only: nobody was there to be answered
API = "/api/v1"
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json", "/docs"})
# Not in the request log, and no client's activity either: questions about the worker itself.
QUESTIONS = frozenset(
    {"/healthz", "/readyz", "/metrics", f"{API}/activity", f"{API}/tree", "/openapi.json", "/docs"}
)

log = structlog.get_logger("penelope.http")


@dataclass(slots=True)
class Handled:
    """What is remembered of a request while it is answered. `began` in epoch seconds; `kind` None: not logged."""

    request_id: str
    began: float
    kind: str | None = None
    answered: bool = False


class PageConverter(BaseConverter):
    """A page's name in a route: never one that is a route of its own, whatever the method."""

    regex = rf"(?!(?:{'|'.join(sorted(RESERVED))})(?:/|$))[^/]+"


def create_app(worker: Worker) -> Front:
    """The app over a worker's parts."""
    app = Front("penelope", static_folder=None)
    app.config.update(
        MAX_CONTENT_LENGTH=MAX_BODY_BYTES,
        BODY_TIMEOUT=BODY_TIMEOUT_S,
        RESPONSE_TIMEOUT=None,
        PROVIDE_AUTOMATIC_OPTIONS=False,
        PROPAGATE_EXCEPTIONS=False,
    )
    app.url_map.converters["page"] = PageConverter
    app.url_map.strict_slashes = True
    app.url_map.merge_slashes = False
    app.url_map.redirect_defaults = False
    envelope.install(app)
    for blueprint in (
        status.blueprint(worker),
        jobs.blueprint(worker),
        events.blueprint(worker),
        deliveries.blueprint(worker),
        media.blueprint(worker),
        plugins.blueprint(worker),
        primitives.blueprint(worker),
        requests.blueprint(worker),
        runs.blueprint(worker),
        pages.blueprint(worker),
    ):
        app.register_blueprint(blueprint)
    _install_gates(app, worker)
    app.short_way = polls = ShortWay(worker)
    submits = ShortRuns(worker)
    app.at_once = lambda data: polls.at_once(data) or submits.at_once(data)
    return app


def _install_gates(app: QuartTrio, worker: Worker) -> None:
    async def before() -> None:
        await _admit(worker)

    async def after(response: Response) -> Response:
        return _answered(worker, response)

    async def left(_: BaseException | None) -> None:
        handled: Handled | None = g.get("handled")
        if handled is not None and handled.kind is not None and not handled.answered:
            worker.requests.add(_entry(_asked(), handled, worker.clock, CLIENT_LEFT))

    app.before_request(before)
    app.after_request(after)
    app.teardown_request(left)


async def _admit(worker: Worker) -> None:
    """Every check that comes before the route's own, in the contract's order; then the beginning is noted."""
    settings, asked = worker.settings, _asked()
    handled = g.handled = Handled(secrets.token_hex(8), worker.clock.now())
    bad_id = _name(handled, asked.headers.getlist("X-Request-Id"))
    auth.check_host(asked.headers.get("Host"), on_loopback=settings.on_loopback, hosts=settings.hosts)
    if envelope.speaks_detail():
        open_here = settings.runs_auth == "loopback" and settings.on_loopback
        given = {name: asked.headers.getlist(name) for name in auth.FOR_RUNS}
        auth.check_key_for_runs(given, settings.keys, open_here=open_here)
    elif _needs_key(asked.path):
        auth.check_key(asked.headers.getlist("Authorization"), settings.keys)
    if bad_id is not None:  # a header like others: after the key
        raise bad_id
    auth.check_target(asked.path, asked.scope["query_string"])
    clients = await _is_a_clients(worker, asked)
    if clients and asked.path not in QUESTIONS:
        worker.touch()
    if asked.method not in {"GET", "HEAD"}:
        auth.check_content_type(asked.headers.get("Content-Type"), has_body=_has_body(asked))
    handled.kind = kind_of(asked) if clients else None
    if handled.kind is not None:
        worker.requests.add(_entry(asked, handled, worker.clock, None))


def _answered(worker: Worker, response: Response) -> Response:
    handled: Handled = g.handled
    asked = _asked()
    response.headers["X-Request-Id"] = handled.request_id
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["X-Content-Type-Options"] = "nosniff"
    took = worker.clock.now() - handled.began
    handled.answered = True
    if handled.kind is not None:
        worker.requests.add(_entry(asked, handled, worker.clock, response.status_code))
    if asked.path not in QUESTIONS:
        log.info(
            "request",
            method=asked.method,
            path=_logged_path(asked),
            status=response.status_code,
            took_ms=round(took * 1000, 2),
        )
    return response


def _asked() -> Request:
    """The request itself: each look through the framework's stand-in costs a microsecond, and there are forty."""
    found: Request = request._get_current_object()  # type: ignore[attr-defined]  # of the stand-in, documented
    return found


def _name(handled: Handled, given: list[str]) -> BadHeader | None:
    """Take the client's `X-Request-Id` into answer and log lines; else keep the one that was made, and say why."""
    refusal: BadHeader | None = None
    try:
        handled.request_id = auth.checked_request_id(given) or handled.request_id
    except BadHeader as exc:
        refusal = exc
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(request_id=handled.request_id)
    return refusal


async def _is_a_clients(worker: Worker, asked: Request) -> bool:
    """Only one who has the key, or a file's token, leaves a trace: pages that the browser shows can reach this port."""
    if _needs_key(asked.path):
        return True
    token = (asked.view_args or {}).get("token")
    return token is not None and await worker.media.find(token) is not None


def _needs_key(path: str) -> bool:
    if path.startswith(f"{API}/media/"):
        return False
    return path not in OPEN_PATHS


def _has_body(asked: Request) -> bool:
    length = asked.headers.get("Content-Length")
    return "Transfer-Encoding" in asked.headers or (length is not None and length != "0")


def kind_of(asked: Request) -> str | None:
    """How the request log names a request; None: it is not in it."""
    endpoint = asked.endpoint
    if endpoint is None or asked.path in QUESTIONS:
        return None
    blueprint, _, name = endpoint.partition(".")
    match blueprint:
        case "plugins":
            return "plugin" if name == "call" else None
        case "primitives":
            return "primitive"
        case "pages" | "media":
            return "op"
        case "jobs":
            return "op" if name == "cancel" else None
        case "runs":
            return "op" if name in {"submit", "cancel", "delete"} else None
        case _:  # polls, the log itself
            return None


def _logged_path(asked: Request) -> str:
    """The path without what must not be in a log: a media token is as good as the file."""
    return f"{API}/media/…" if asked.path.startswith(f"{API}/media/") else asked.path


def _entry(asked: Request, handled: Handled, clock: Clock, status: int | None) -> Entry:
    now = clock.now()
    return Entry(
        at=now if status is not None else handled.began,
        phase="begin" if status is None else "end",
        kind=handled.kind or "",
        method=asked.method,
        route=_logged_path(asked),
        page_id=envelope.page_meant(),
        request_id=handled.request_id,
        status=status,
        duration_s=None if status is None else now - handled.began,
    )
