"""A call as its request has it: the checks that a plugin's or a primitive's own route makes, in the contract's order.

All are functions of plain values and of the worker, so that the framework's routes and the short way share them.

Source: contract, sections 2, 3, 5 and 11.
"""

from dataclasses import dataclass
from typing import Any

from structlog.contextvars import bind_contextvars

from penelope.errors import NotFound
from penelope.http import reading
from penelope.http.asked import Asked
from penelope.http.worker import Worker
from penelope.jobs import options, trace
from penelope.jobs.calls import Planned, plugin_body, primitive_body
from penelope.jobs.options import JobOptions
from penelope.pages import lease as leases
from penelope.pages.manager import Page
from penelope.pages.primitives.model import Primitive
from penelope.registry import Plugin, checked


@dataclass(frozen=True, slots=True)
class Headed:
    """A plugin's call as far as its headers say. `options` None: it is no job; `token`: of `X-Lease`."""

    plugin: Plugin
    options: JobOptions | None
    token: str | None


def headed(worker: Worker, asked: Asked, name: str) -> Headed:
    """The checks that need no more than the request's head.

    Raises:
        Stopping, Unavailable, NotFound, BadOptions, BadHeader: the call is refused.
    """
    worker.supervisor.refuse_when_unable()
    plugin = worker.registry.get(name)
    if plugin is None:
        raise NotFound(f"there is no plugin {name!r}")
    wanted = options.parse(asked.headers)
    worker.supervisor.check_callback(wanted)
    return Headed(plugin, wanted, reading.lease_in(asked))


def arguments(plugin: Plugin, asked: Asked, body: bytes) -> dict[str, Any]:
    """What the plugin is called with.

    Args:
        body: the request's; it counts for a POST alone.

    Raises:
        BadParameter, MalformedBody: see `Plugin.arguments`, `reading.object_of`.
    """
    if asked.method == "GET":
        return plugin.arguments(plugin.from_query(reading.query_in(asked.query)))
    return plugin.arguments(reading.object_of(body))


def of_plugin(
    worker: Worker, asked: Asked, request_id: str, page_id: str, call: Headed, given: dict[str, Any]
) -> Planned:
    """The checks that follow, up to the claim: the page, and its lease.

    Raises:
        PageMissing, LeaseHeld: as the names say.
    """
    page = _page(worker, page_id, call.token)
    traceparent = trace.parse(asked.all(trace.HEADER.lower()))
    if traceparent is not None:
        bind_contextvars(trace_id=trace.trace_id(traceparent))
    return Planned(
        page=page,
        what=call.plugin.name,
        kind="plugin",
        method=asked.method,
        route=asked.path,
        request_id=request_id,
        lease=call.token,
        traceparent=traceparent,
        make_body=plugin_body(call.plugin, given),
    )


def primitive_headed(worker: Worker, asked: Asked) -> str | None:
    """The checks of a primitive that need no more than the request's head; the token of `X-Lease`, None: there is none.

    Raises:
        Stopping, Unavailable, BadHeader: the call is refused.
    """
    worker.supervisor.refuse_when_unable()
    return reading.lease_in(asked)


def of_primitive(
    worker: Worker,
    asked: Asked,
    request_id: str,
    page_id: str,
    primitive: Primitive,
    token: str | None,
    body: bytes,
) -> Planned:
    """The checks that follow, up to the claim: the options, the page, its lease.

    Raises:
        BadParameter, MalformedBody, PageMissing, LeaseHeld: as the names say.
    """
    wanted = checked(primitive.options, reading.object_of(body))
    return Planned(
        page=_page(worker, page_id, token),
        what=primitive.name,
        kind="primitive",
        method=asked.method,
        route=asked.path,
        request_id=request_id,
        lease=token,
        make_body=primitive_body(primitive, wanted),
        limit_s=wanted.timeout_ms / 1000,
    )


def _page(worker: Worker, page_id: str, token: str | None) -> Page:
    page = worker.pages.get(page_id)
    leases.check(page.lease, token, worker.pages.lease_now())
    return page
