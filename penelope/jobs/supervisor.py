"""The supervisor: begins calls and jobs, cancels them, and takes no more of them once a stop is asked for.

No call lives in a request's nursery: a client that hangs up cancels its request, never the work.

Source: contract, sections 5 and 8; design, section 2.
"""

from collections import Counter
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

import httpx
import structlog
import trio
from structlog.contextvars import bind_contextvars

from penelope.clock import Clock
from penelope.errors import BadOptions, Stopping, Unavailable
from penelope.jobs import trace
from penelope.jobs.calls import Live, Planned
from penelope.jobs.deliveries import Deliveries
from penelope.jobs.delivery import ANYWHERE
from penelope.jobs.ends import JobEnds
from penelope.jobs.lag import LoopLag
from penelope.jobs.ledger import Ledger
from penelope.jobs.model import Job, Start, Webhook
from penelope.jobs.options import CALLBACK_HEADER, JobOptions
from penelope.jobs.runner import Runner
from penelope.jobs.screening import Policy, Rules
from penelope.jobs.starts import Starts, Turn
from penelope.jobs.store import JobStore
from penelope.jobs.ticket import Ticket
from penelope.jobs.watching import Watching
from penelope.outcome import Outcome
from penelope.pages.gate import own_addresses
from penelope.pages.manager import PageManager
from penelope.store.media import MediaStore
from penelope.store.request_log import RequestLog

log = structlog.get_logger("penelope.supervisor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the supervisor works with; all of it outlives it.

    Attributes:
        keys: that sign webhooks, the current one first.
        rules, run_rules: where webhooks of jobs, and of runs, may go.
        page_memory_bytes: above which an idle page is purged.
    """

    pages: PageManager
    store: JobStore
    media: MediaStore
    requests: RequestLog
    ledger: Ledger
    clock: Clock
    keys: tuple[str, ...]
    stop_grace_s: float
    page_memory_bytes: int
    rules: Rules = ANYWHERE
    run_rules: Rules = ANYWHERE
    transport: httpx.AsyncBaseTransport | None = None
    lag: LoopLag = field(default_factory=LoopLag)


class Supervisor:
    """Open it with `nurseries.open_supervisor`.

    Attributes:
        lives: the calls at work or in line.
        ended: how many calls ended, by work and status.
        quiet_since: when the last call, run or delivery ended, epoch seconds.
        ends: the jobs' ends, written or owed.
        watching: the running jobs, for those who watch them.
        starts: under an Idempotency-Key, one at a time each.
        hurried: a stop was not waited for.
        drained: set once a stop has seen the last call end.
        beside: how much else is in flight, each of another sort of work.
    """

    def __init__(self, parts: Parts, calls: trio.Nursery, deliveries: Deliveries, ends: JobEnds) -> None:
        self.lives: set[Live] = set()
        self.ended: Counter[tuple[str, int]] = Counter()
        self.quiet_since = parts.clock.now()
        self.ends = ends
        self.watching = Watching(parts.clock)
        ends.on_finished = self.watching.end
        self.starts = Starts(parts.store, parts.clock)
        self.deliveries = deliveries
        self.drained = trio.Event()
        self.stop_asked = trio.Event()
        self.hurried = False
        self.beside: list[Callable[[], int]] = []
        self._parts = parts
        self._calls = calls
        self._runner = Runner(
            pages=parts.pages,
            store=parts.store,
            ends=ends,
            media=parts.media,
            requests=parts.requests,
            clock=parts.clock,
            lives=self,
            watching=self.watching,
            deliver=deliveries.start,
        )
        deliveries.on_settled = self.quiet

    def quiet(self) -> None:
        """Something is over that was in flight. Immediate."""
        self.quiet_since = self._parts.clock.now()

    def began(self, live: Live) -> None:
        """A call is at work, or in line."""
        self.lives.add(live)

    def over(self, live: Live, status: int | None) -> None:
        """It is not any more; `status` is None when it had no end."""
        self.lives.discard(live)
        self.quiet_since = self._parts.clock.now()
        if status is not None:
            self.ended[live.call.what, status] += 1

    @property
    def loop_lag_s(self) -> float:
        """How late Trio's loop was at worst in the last ten seconds, seconds."""
        return self._parts.lag.worst_s

    @property
    def stopping(self) -> bool:
        return self.stop_asked.is_set()

    @property
    def in_flight(self) -> int:
        """Calls at work, running jobs among them, webhook jobs not yet settled, and what else there is."""
        return len(self.lives) + len(self.deliveries.pending) + sum(count() for count in self.beside)

    async def run_plain(self, call: Planned) -> Outcome:
        """Run a plain call and wait for its outcome. Cancelled while the call waits in line, the call leaves the line;
        afterwards, it goes on to its end alone.

        Raises:
            PageBusy, PageMissing, LeaseHeld: see `PageManager.claim`.
            Stopping: the worker stops, or stopped before the call ended.
        """
        live, ticket = self.begin_plain(call)
        try:
            return await ticket.wait()
        except trio.Cancelled:
            leave_line(live)
            raise

    def begin_plain(self, call: Planned) -> tuple[Live, Ticket[Outcome]]:
        """Begin a plain call; immediate. Whoever asked for it waits for the ticket, or leaves: see `leave_line`.

        The ticket is answered as `run_plain` would.

        Raises:
            Stopping, Unavailable: see `refuse_when_unable`.
        """
        self.refuse_when_unable()
        live = Live(call=call, since=self._parts.clock.now())
        ticket: Ticket[Outcome] = Ticket()
        name = f"call {call.what} on {call.page.page_id}"
        self.spawn(self._runner.plain, live, ticket, name=name, **_bound(call))
        return live, ticket

    async def start_job(self, call: Planned, options: JobOptions, turn: Turn | None = None) -> Job:
        """Start a job; it is stored and at work once this returns, and does not need the caller any more.

        Args:
            turn: of the start under its key, with no earlier job; it lasts until the start is decided.

        Raises:
            PageBusy, PageMissing, LeaseHeld: see `PageManager.claim`.
            TooManyJobs, StoreBusy, StoreFull: nothing runs.
            Stopping: the worker stops.
        """
        ticket = self.begin_job(call, options, None if turn is None else turn.start)
        if turn is not None:
            ticket.then(turn.keep())
        return await ticket.wait()

    def begin_job(self, call: Planned, options: JobOptions, start: Start | None = None) -> Ticket[Job]:
        """Begin a job's start; immediate. The ticket is answered as `start_job` would.

        Raises:
            Stopping, Unavailable: see `refuse_when_unable`.
        """
        self.refuse_when_unable()
        live = Live(call=call, since=self._parts.clock.now())
        ticket: Ticket[Job] = Ticket()
        name = f"job {call.what} on {call.page.page_id}"
        self.spawn(self._runner.job, live, options, start, ticket, name=name, **_bound(call))
        return ticket

    async def cancel_job(self, job_id: str) -> Job | None:
        """End a running job's plugin, and wait for the job's end. Once asked for it comes, whoever waits.

        Returns:
            The job as it ended, by this or by itself in the same moment; its page is free. None: no such job runs.

        Raises:
            Stopping: the worker stopped before the job ended.
        """
        live = next((live for live in self.lives if live.job_id == job_id), None)
        if live is None:
            return None
        live.cancel()
        await live.over.wait()
        if live.end is None:
            raise Stopping("the worker stopped before the job ended", headers={"Retry-After": "10"})
        return live.end

    async def run_apart(self, work: Callable[[], Any], *, name: str, request_id: str) -> Any:
        """Run something that a client's leaving must not cut off half-way, e.g. the opening of a page.

        Raises:
            Stopping: the worker stops.
            Exception: what `work` raised.
        """
        self.refuse_when_unable()
        ticket = Ticket[Any]()

        async def run() -> None:
            try:
                ticket.give(await work())
            except Exception as exc:  # the request's to answer
                ticket.refuse(exc)
            finally:
                ticket.refuse(Stopping("the worker stops"))

        self.spawn(run, name=name, request_id=request_id)
        return await ticket.wait()

    def check_callback(self, asked: JobOptions | None) -> None:
        """May webhooks go where the callback says, as far as it says so itself? Names are judged when they are dialled.

        Raises:
            BadOptions: no.
        """
        rules = self._parts.rules
        if asked is None or not isinstance(asked.way, Webhook) or rules.policy is Policy.ANY:
            return
        if refusal := rules.refusal_at_start(asked.way.url, own_addresses()):
            raise BadOptions(f"{CALLBACK_HEADER}: {refusal}")

    def refuse_when_unable(self) -> None:
        """Raises:
        Stopping: no new calls are taken.
        Unavailable: a call that cannot be ended blocks them all.
        """
        if self.stopping:
            raise Stopping("the worker is stopping", headers={"Retry-After": "10"})
        if self._parts.pages.driver.stuck:
            raise Unavailable(
                "a call blocks the browser's thread and cannot be ended; the worker is about to end itself",
                headers={"Retry-After": "30"},
            )

    def stop(self) -> None:
        """Take no new calls, and give those at work their grace to end; immediate."""
        if not self.stopping:
            self.stop_asked.set()
            self.watching.stop()
            grace = self._parts.stop_grace_s
            self._calls.cancel_scope.deadline = trio.current_time() + grace
            log.info("stopping", calls=len(self.lives), grace_s=grace)

    def hurry(self) -> None:
        """End the calls now, and do not wait for POSTs under way; immediate."""
        self.stop()
        self.hurried = True
        self._calls.cancel_scope.cancel(reason="second signal")
        self.deliveries.hurry()

    def spawn(self, function: Callable[..., Any], *arguments: Any, name: str, **bound: str) -> None:
        """Run something as the calls are run: a stop gives it its grace, and waits for its end. Immediate.

        Args:
            bound: what its log lines have in common.
        """

        # In a context of its own: what a request left in its context variables (the whole request, its body included)
        # must neither be seen by the work nor live as long. Its ids go along, for the log.
        def spawn() -> None:
            bind_contextvars(**bound)
            self._calls.start_soon(function, *arguments, name=name)

        Context().run(spawn)


def leave_line(live: Live) -> None:
    """The client of a plain call is gone: it leaves the line, if it still waits there; immediate."""
    if not live.claimed:
        live.scope.cancel(reason="the client left the line")


def _bound(call: Planned) -> dict[str, str]:
    """What the log lines of a call's work have in common."""
    named = trace.trace_id(call.traceparent)
    return {"request_id": call.request_id} | ({} if named is None else {"trace_id": named})
