"""The app: every request is named, checked, logged and answered in the envelope. It owns no task.

Source: contract, sections 1 and 7.
"""

from quart import Request, Response, g, request
from quart_trio import QuartTrio
from werkzeug.routing import BaseConverter

from penelope.http import envelope, gates, noting
from penelope.http.asked import plain
from penelope.http.front import Front
from penelope.http.gates import QUESTIONS
from penelope.http.noting import Handled, logged_path
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
from penelope.http.short_calls import ShortCalls
from penelope.http.short_runs import ShortRuns
from penelope.http.whole import Answering, AtOnce, Peer
from penelope.http.worker import Worker
from penelope.pages.manager import RESERVED

MAX_BODY_BYTES = 16 * 2**20
BODY_TIMEOUT_S = 60


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
    app.at_once = at_once(polls, ShortRuns(worker), ShortCalls(worker))
    return app


def at_once(polls: ShortWay, submits: ShortRuns, calls: ShortCalls) -> AtOnce:
    """What answers a request before the server reads it: the one that it is for."""

    def answered(data: bytes, peer: Peer | None = None) -> Answering | None:
        found = polls.at_once(data) or submits.at_once(data, peer)
        return found if found is not None or peer is None else calls.at_once(data, peer)

    return answered


def _install_gates(app: QuartTrio, worker: Worker) -> None:
    async def before() -> None:
        await _admit(worker)

    async def after(response: Response) -> Response:
        return _answered(worker, response)

    async def left(_: BaseException | None) -> None:
        handled: Handled | None = g.get("handled")
        if handled is not None:
            handled.page_id = envelope.page_meant()
            noting.left(worker, handled)

    app.before_request(before)
    app.after_request(after)
    app.teardown_request(left)


async def _admit(worker: Worker) -> None:
    """Every check that comes before the route's own, in the contract's order; then the beginning is noted."""
    scope = request.scope
    asked = g.asked = plain(request.method, request.path, scope["query_string"], scope["headers"])
    request_id, bad_id = gates.checked_id(asked)
    handled = g.handled = Handled(
        gates.named(request_id), worker.clock.now(), asked.method, logged_path(asked.path)
    )
    gates.check(asked, worker.settings, bad_id)
    clients = await _is_a_clients(worker, asked.path)
    if clients and asked.path not in QUESTIONS:
        worker.touch()
    gates.check_content_type(asked)
    handled.kind = kind_of(_request()) if clients else None
    handled.page_id = envelope.page_meant()
    noting.begins(worker, handled)


def _answered(worker: Worker, response: Response) -> Response:
    handled: Handled = g.handled
    response.headers["X-Request-Id"] = handled.request_id
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["X-Content-Type-Options"] = "nosniff"
    handled.page_id = envelope.page_meant()
    noting.ends(worker, handled, response.status_code, line=_request().path not in QUESTIONS)
    return response


def _request() -> Request:
    """The request itself: each look through the framework's stand-in costs a microsecond, and there are forty."""
    found: Request = request._get_current_object()  # type: ignore[attr-defined]  # of the stand-in, documented
    return found


async def _is_a_clients(worker: Worker, path: str) -> bool:
    """Only one who has the key, or a file's token, leaves a trace: pages that the browser shows can reach this port."""
    if gates.needs_key(path):
        return True
    token = (request.view_args or {}).get("token")
    return token is not None and await worker.media.find(token) is not None


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
