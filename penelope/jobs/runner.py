"""Runs one call, plain or as a job, in a task of the supervisor's: claim, run, store, hand over.

Source: contract, sections 2, 5, 8 and 11; design, section 4.
"""

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Protocol

import structlog
import trio

from penelope.clock import Clock
from penelope.errors import Stopping, TimedOut
from penelope.jobs import transitions
from penelope.jobs.calls import Live
from penelope.jobs.ends import JobEnds
from penelope.jobs.host import CallHost
from penelope.jobs.model import Job, Start, State, Webhook
from penelope.jobs.options import JobOptions
from penelope.jobs.store import JobStore
from penelope.jobs.ticket import Ticket
from penelope.jobs.watching import Watching
from penelope.outcome import Outcome, failure, from_error
from penelope.pages.claim import Holder
from penelope.pages.driver import Tab
from penelope.pages.manager import PageManager
from penelope.pages.work import Done, mend, work
from penelope.store.media import MediaStore
from penelope.store.request_log import Entry, RequestLog

JOB_ID_BYTES: Final = 8
STORE_GRACE_S: Final = 15.0
# Playwright has no limit of its own for `evaluate`, `title` and others; where it has one, that one comes first.
LIMIT_SLACK_S: Final = 1.0

log = structlog.get_logger("penelope.jobs")


class Lives(Protocol):
    """Where calls at work are listed."""

    def began(self, live: Live, /) -> None: ...

    def over(self, live: Live, status: int | None, /) -> None: ...


class Runner:
    """What a call needs of the worker."""

    def __init__(
        self,
        *,
        pages: PageManager,
        store: JobStore,
        ends: JobEnds,
        media: MediaStore,
        requests: RequestLog,
        clock: Clock,
        lives: Lives,
        watching: Watching,
        deliver: Callable[[Job], None],
    ) -> None:
        self._pages = pages
        self._store = store
        self._ends = ends
        self._media = media
        self._requests = requests
        self._clock = clock
        self._lives = lives
        self._watching = watching
        self._deliver = deliver

    async def plain(self, live: Live, ticket: Ticket[Outcome]) -> None:
        """Run a plain call and hand its outcome to the request, which may have gone: the work goes on to its end."""
        call, status = live.call, None
        self._lives.began(live)
        try:
            with live.scope:
                holder = Holder(what=call.what, job_id=None, since=live.since)
                async with self._pages.claim(call.page, holder, call.lease, at_once=False) as tab:
                    await trio.lowlevel.checkpoint_if_cancelled()  # the client left as its turn came
                    live.claimed = True
                    if call.limit_s is not None:
                        live.work.deadline = trio.current_time() + call.limit_s + LIMIT_SLACK_S
                    done = await self._work(live, tab)
                    outcome = done.outcome
                    if outcome is None:
                        late = TimedOut(f"{call.what} took longer than {call.limit_s:g} s")
                        outcome = from_error(late, call.page.page_id)
                    status = outcome.status
                    try:
                        await self._tidy(live, tab, done)
                    finally:
                        ticket.give(outcome)
        except Exception as exc:  # the request's to answer; a bug must not end the other calls
            _refuse(ticket, exc)
        finally:
            self._lives.over(live, status)
            live.over.set()
            ticket.refuse(_stopped())

    async def job(self, live: Live, options: JobOptions, start: Start | None, ticket: Ticket[Job]) -> None:
        """Run a job: hold the page, store the row, answer the request, run, store the end, hand over.

        A stop leaves the row `running`, as a crash does: the next start reads it.
        """
        call = live.call
        job = Job(
            job_id=secrets.token_hex(JOB_ID_BYTES),
            page_id=call.page.page_id,
            plugin=call.what,
            way=options.way,
            request_id=call.request_id,
            started_at=live.since,
            limit_s=options.limit_s,
            traceparent=call.traceparent,
        )
        live.job_id = job.job_id
        try:
            with live.scope:
                holder = Holder(what=call.what, job_id=job.job_id, since=live.since)
                async with self._pages.claim(call.page, holder, call.lease, at_once=True) as tab:
                    if self._ends.owed:  # the page's last job must be over in the store, too
                        await self._ends.flush()
                    live.watched = self._watching.begin(job)
                    self._lives.began(live)  # already: a job that others can know of can be cancelled
                    # A row that is stored is answered with its 202: a stop in between leaves it to the next start.
                    with trio.CancelScope(shield=True):
                        await self._store.insert(job, start)
                    trio.lowlevel.current_task().name = f"job {job.job_id} of {call.what} on {job.page_id}"
                    live.claimed = True
                    self._log(live, "begin")
                    ticket.give(job)
                    await self._run(live, job, tab)
        except Exception as exc:  # the request's to answer; a bug must not end the other calls
            _refuse(ticket, exc)
        finally:
            self._watching.leave(job.job_id)
            self._lives.over(live, None if live.end is None else live.end.status)
            live.over.set()
            ticket.refuse(_stopped())
        if live.end is not None and isinstance(live.end.way, Webhook):
            self._deliver(live.end)

    async def _run(self, live: Live, job: Job, tab: Tab) -> None:
        """Work the page until the job ends, and note how. This task alone does: a job has one end, whoever asks for it.

        Raises:
            trio.Cancelled: the worker stops. The job has no end then, unless it had one already but for the tidying, or
                was being cut off already.
        """
        if job.limit_s is not None:
            live.work.deadline = trio.current_time() + job.limit_s
        done: Done | None = None
        try:
            done = await self._work(live, tab)
            await self._tidy(live, tab, done)
        finally:  # the stop's Cancelled comes alone, or in a nursery's group
            if done is not None or live.work.cancel_called:
                await self._end(live, job, None if done is None else done.outcome)  # noqa: ASYNC102  # shielded there

    async def _end(self, live: Live, job: Job, outcome: Outcome | None) -> None:
        """Note the end; `outcome` None: the plugin was cut off before it had one."""
        now = self._clock.now()
        known = replace(job, checkpoint=live.checkpoint)
        if outcome is not None:
            ended = transitions.finish(job, outcome, now)
        elif live.cancelled:
            ended = transitions.cancel(known, now)
            log.info("job cancelled", job_id=job.job_id, plugin=job.plugin)
        else:
            ended = transitions.time_out(known, now)
            log.warning("job timed out", job_id=job.job_id, plugin=job.plugin, limit_s=job.limit_s)
        live.end = ended
        with trio.move_on_after(STORE_GRACE_S, shield=True):  # a stop must not lose what is known
            live.end = await self._store_end(ended)
        self._log(live, "end", live.end.status)

    async def _store_end(self, ended: Job) -> Job:
        """Tell the store; an end that it can never take, e.g. a result of 1 GB, becomes an end that says so."""
        try:
            await self._ends.finish(ended)
        except Exception:
            log.exception("a job's end cannot be stored", job_id=ended.job_id, chars=len(ended.result or ""))
            text = "the result could not be stored; the worker's log has the details"
            status = ended.status if ended.state is State.CANCELLED else 500
            outcome = failure(status or 500, text, page_id=ended.page_id, kind="worker")
            ended = replace(ended, status=outcome.status, result=outcome.text)
            await self._ends.finish(ended)
        return ended

    async def _work(self, live: Live, tab: Tab) -> Done:
        """What the call comes to. A bug of the worker's own is an outcome too: it must not end the other calls."""
        call = live.call
        host = CallHost(live, self._store, self._media)
        try:
            return await work(tab, call.make_body(live, host), name=call.what, scope=live.work)
        except Exception:
            log.exception("the worker failed on a call", work=call.what)
            text = "the worker failed on this call; its log has the details"
            return Done(failure(500, text, page_id=call.page.page_id, kind="worker"), page_in_doubt=True)

    async def _tidy(self, live: Live, tab: Tab, done: Done) -> None:
        """What comes between a call's end and the next call: a page that answers, and the cookies on the disk."""
        try:
            if done.page_in_doubt:
                await mend(tab)
            live.call.page.line.settling()
            noted = done.outcome is not None and done.outcome.ok and tab.cookies_noted
            if noted or self._pages.driver.health.up:
                await self._pages.save_cookies(noted=noted)
        except Exception:  # it has its outcome all the same
            log.exception("the worker failed after a call", work=live.call.what)

    def _log(self, live: Live, phase: str, status: int | None = None) -> None:
        """The job's own pair of rows: the `202` of its start is another request's."""
        now = self._clock.now()
        self._requests.add(
            Entry(
                at=now,
                phase=phase,
                kind="job",
                method=live.call.method,
                route=live.call.route,
                page_id=live.call.page.page_id,
                request_id=live.call.request_id,
                job_id=live.job_id,
                status=status,
                duration_s=None if phase == "begin" else now - live.since,
            )
        )


def _refuse(ticket: Ticket[Any], error: Exception) -> None:
    if ticket.answered:
        log.error("the worker failed after it had answered", exc_info=error)
    ticket.refuse(error)


def _stopped() -> Stopping:
    return Stopping("the worker stopped before the call ended", headers={"Retry-After": "10"})
