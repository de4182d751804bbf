"""Runs: the second front, in the public server's own shapes: no envelope, errors as `{"detail": …}`.

Source: contract, section 10; the owner's documents on runs.
"""

import re
from typing import Any, Final

from quart import Blueprint, Response, request

from penelope import jsontext
from penelope.errors import BadParameter, NotFound, RunRefused
from penelope.http import prefer, reading, submits
from penelope.http.envelope import detail, json_response
from penelope.http.run_stream import RunViewer
from penelope.http.streaming import stream
from penelope.http.worker import Worker
from penelope.jobs import trace
from penelope.runs import events, model, submission, views
from penelope.runs.model import Run, RunState

PAGE_SIZE: Final = 20
MAX_PAGE_SIZE: Final = 100
_RUN_ID: Final = re.compile(r"run_[0-9a-f]{12}", re.ASCII)
_WHOLE: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_FORWARDED_HOST: Final = re.compile(
    r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?", re.ASCII
)
_FORWARDED_PREFIX: Final = re.compile(r"(/[A-Za-z0-9_-]{1,64}){1,8}", re.ASCII)


def blueprint(worker: Worker) -> Blueprint:
    """The routes under `/api/v1/runs`."""
    routes = Blueprint("runs", __name__)
    at = views.RUNS_PATH

    @routes.post(at)
    async def submit() -> Response:
        seconds = _patience()
        run = await submits.waited(worker, await _submit(worker), seconds)
        body, headers = submits.accepted(run, _base(), seconds)
        return json_response(body, 202, headers)

    @routes.get(at)
    async def listed() -> Response:
        state, page, page_size = (
            _state(),
            _number("page", 1, 10**18),
            _number("page_size", PAGE_SIZE, MAX_PAGE_SIZE),
        )
        found, total = await worker.runs.page(state, request.args.get("session_id"), page, page_size)
        return _json(views.listed([status_of(worker, run) for run in found], total, page, page_size))

    @routes.get(f"{at}/<run_id>")
    async def status(run_id: str) -> Response:
        run = await _waited(worker, await _run(worker, run_id))
        return _json(status_of(worker, run), headers=_applied())

    @routes.get(f"{at}/<run_id>/result")
    async def result(run_id: str) -> Response:
        run = await _waited(worker, await _run(worker, run_id, whole=True), whole=True)
        if not run.state.over:
            return detail(409, f"Job is not complete. Current status: {run.state.value}", _applied())
        return json_response(views.result(run), headers=_applied())

    @routes.post(f"{at}/<run_id>/cancel")
    async def cancel(run_id: str) -> Response:
        await _run(worker, run_id)
        run = await worker.supervisor.run_apart(
            lambda: worker.runs.cancel(run_id), name=f"cancel {run_id}", request_id=reading.request_id()
        )
        return _json(status_of(worker, run))

    @routes.delete(f"{at}/<run_id>")
    async def delete(run_id: str) -> Response:
        await _run(worker, run_id)
        await worker.runs.delete(run_id)
        return Response(b"", 204)

    @routes.get(f"{at}/<run_id>/stream")
    async def watch(run_id: str) -> Response:
        run = await _run(worker, run_id)
        seen = events.seen(request.headers.getlist("Last-Event-ID"))
        if run.state.over and seen == int(events.END_ID):
            return Response(b"", 204)  # an EventSource stops then; after a 200 it would come again
        viewer = RunViewer(worker.runs, worker.clock, run_id, seen)
        return stream(viewer, on_end=worker.touch, name=f"viewer of {run_id}")

    return routes


async def _submit(worker: Worker) -> Run:
    worker.supervisor.refuse_when_unable()
    asked = submission.read(await reading.json_object())
    planned = worker.planner(asked)
    webhook = submission.webhook_of(asked, planned)
    named = submission.key_of(asked, request.headers.getlist("Idempotency-Key"), planned.scope)
    key = None if named is None else model.scoped_key(*named, asked.session_id)
    if key is not None and (first := await worker.runs.submitted(key)) is not None:
        return first  # already here: a name that cannot be looked up now is no matter of a run that is there
    if webhook is not None and (refusal := await worker.screen(webhook)) is not None:
        raise RunRefused(f"webhook_url: {refusal}")
    run = submits.run_of(
        worker,
        asked,
        planned,
        webhook=webhook,
        key=key,
        request_id=reading.request_id(),
        traceparent=trace.parse(request.headers.getlist(trace.HEADER)),
    )
    return await worker.runs.submit(run, planned.work)


async def _run(worker: Worker, run_id: str, *, whole: bool = False) -> Run:
    run = await worker.runs.get(run_id, whole=whole) if _RUN_ID.fullmatch(run_id) else None
    if run is None:
        raise NotFound(f"Job not found: {run_id[:100]}")
    return run


async def _waited(worker: Worker, run: Run, *, whole: bool = False) -> Run:
    return await submits.waited(worker, run, _patience(), whole=whole)


def _patience() -> int | None:
    return prefer.wait(request.headers.getlist(prefer.PREFER))


def _applied() -> dict[str, str]:
    return dict(prefer.applied(_patience()))


def status_of(worker: Worker, run: Run) -> dict[str, Any]:
    """A run as its status shows it now."""
    entry = worker.runs.entry(run.run_id)
    return views.status(run, worker.clock.now(), None if entry is None else entry.far)


def _state() -> RunState | None:
    given = request.args.get("status")
    if not given:
        return None
    try:
        return RunState(given)
    except ValueError:
        known = [state.value for state in RunState]
        raise BadParameter(f"Invalid status: {given[:50]}. Valid values: {known}") from None


def _number(name: str, default: int, most: int) -> int:
    given = request.args.get(name)
    if given is None:
        return default
    if not _WHOLE.fullmatch(given) or not 1 <= int(given) <= most:
        raise RunRefused(f"{name}: a whole number from 1 to {most} is needed")
    return int(given)


def _base() -> str:
    """Scheme, host and prefix as the client has them: a proxy, or the waker, says them in `X-Forwarded-…`."""
    said = request.headers.get("X-Forwarded-Proto", "").partition(",")[0].strip().lower()
    scheme = said if said in ("http", "https") else request.scheme
    host = request.headers.get("X-Forwarded-Host", "").partition(",")[0].strip()
    if not _FORWARDED_HOST.fullmatch(host):
        host = request.headers.get("Host", request.host)
    prefix = request.headers.get("X-Forwarded-Prefix", "")
    return f"{scheme}://{host}{prefix if _FORWARDED_PREFIX.fullmatch(prefix) else ''}"


def _json(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return json_response(jsontext.dumps(body).encode(), status, headers)
