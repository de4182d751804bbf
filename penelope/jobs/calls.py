"""A call: what is to be done on which page, for whom; frozen before it starts, so nothing of a request is needed.

Source: contract, section 2; design, section 1 ("A job gets a frozen `Call`, never `request`").
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog
import trio

from penelope.jobs.model import Job
from penelope.jobs.watching import Watched
from penelope.outcome import success
from penelope.pages.driver import Body
from penelope.pages.manager import Page
from penelope.pages.primitives.model import Options, Primitive, asked_wrong
from penelope.plugin import Call, Crossing, Host
from penelope.registry import Plugin

# Given the call's host, the body that does the work on the browser's side; it answers the envelope's text.
TextBody = Body[str]  # made once: the functions below that are annotated with it are made for each call
MakeBody = Callable[["Live", Host], TextBody]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A call whose checks are done.

    Attributes:
        what: `family/name` of the plugin, or the name of the primitive or op.
        kind: for the request log: `plugin`, `primitive` or `op`.
        route, method: of the request.
        lease: the token of `X-Lease`; None without one.
        traceparent: of the request, as version 00 writes it; None: it had none, or a bad one.
        limit_s: seconds of work after which it is ended with a `408`; None: no limit.
    """

    page: Page
    what: str
    kind: str
    method: str
    route: str
    request_id: str
    lease: str | None
    make_body: MakeBody
    limit_s: float | None = None
    traceparent: str | None = None


@dataclass(eq=False, slots=True)
class Live:
    """A call at work or in line, for `/activity` and the tree. Times are epoch seconds.

    Attributes:
        checkpoint: the plugin's last one, JSON text; None: there was none.
        claimed: it has its page. Until then `scope` may be cancelled by a client that leaves; from then on its work
            runs to its end whoever listens.
        watched: of a running job, where those who watch it look.
        scope: of all of it, from its place in line on.
        work: of its work on the page; its deadline is the limit.
        cancelled: a client asked for its end, before it had one.
        end: the job as it ended; None: it has not, the worker stopped before, or it is a plain call.
        over: set when its page is free again and `end` is what it will be.
    """

    call: Planned
    since: float
    job_id: str | None = None
    fraction: float = 0.0
    note: str = ""
    checkpoint: str | None = None
    claimed: bool = False
    cancelled: bool = False
    watched: Watched | None = None
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    work: trio.CancelScope = field(default_factory=trio.CancelScope)
    end: Job | None = None
    over: trio.Event = field(default_factory=trio.Event)

    def cancel(self) -> None:
        """End its work, unless that is over or past its limit already; immediate."""
        if not self.work.cancel_called:
            self.cancelled = True
            self.work.cancel(reason="a client cancelled the job")


def plugin_body(plugin: Plugin, arguments: dict[str, Any]) -> MakeBody:
    """The body that runs a plugin and writes its result, both on the browser's side."""

    def make(live: Live, host: Host) -> TextBody:
        async def body(page: Any, crossing: Crossing) -> str:
            page_id = live.call.page.page_id
            call = Call(
                page=page,
                page_id=page_id,
                job_id=live.job_id,
                request_id=live.call.request_id,
                family=plugin.family,
                log=structlog.get_logger(f"plugin.{plugin.name}").bind(
                    request_id=live.call.request_id, page_id=page_id
                ),
                host=host,
                crossing=crossing,
            )
            return plugin.answer(page_id, await plugin.function(call, **arguments))

        return body

    return make


def primitive_body(primitive: Primitive, options: Options) -> MakeBody:
    """The body that runs a primitive."""

    def make(live: Live, host: Host) -> TextBody:
        async def body(page: Any, crossing: Crossing) -> str:
            try:
                result = await primitive.function(page, host, crossing, options)
            except Exception as exc:
                raise asked_wrong(exc) or exc from exc
            return success(live.call.page.page_id, result.model_dump(mode="json")).text

        return body

    return make
