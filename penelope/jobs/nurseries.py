"""The nurseries that calls, deliveries and what looks after them live in, and the order in which they end.

Source: contract, section 8; design, section 2.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import trio

from penelope.jobs.deliveries import Deliveries
from penelope.jobs.delivery import Authorities, open_client
from penelope.jobs.ends import JobEnds
from penelope.jobs.recovery import recover
from penelope.jobs.supervisor import Parts, Supervisor
from penelope.jobs.sweep import sweep_loop
from penelope.pages.purge import purge_loop

UNWIND_S: Final = 15.0


@asynccontextmanager
async def open_supervisor(parts: Parts) -> AsyncGenerator[Supervisor]:
    """Recover, then run calls and deliveries while the block lasts.

    The block has to call `stop` and to wait for `drained` before it ends; one that ends otherwise ends everything now.

    Raises:
        StoreBusy, StoreFull: the recovery could not read or write the store.
    """
    ends = JobEnds(parts.store, parts.clock)
    to_deliver = await recover(parts.store, parts.media, parts.requests, parts.clock)
    authorities = Authorities()
    async with (
        open_client(parts.transport, parts.rules, authorities) as client,
        open_client(parts.transport, parts.run_rules, authorities) as run_client,
        trio.open_nursery() as children,
    ):
        children.start_soon(parts.requests.run, name="request log")
        children.start_soon(parts.clock.run, name="clock")
        children.start_soon(ends.retry, name="owed ends")
        children.start_soon(parts.lag.run, name="loop lag")
        children.start_soon(
            sweep_loop, parts.store, parts.media, parts.requests, parts.ledger, parts.clock, name="sweep"
        )
        children.start_soon(
            purge_loop, parts.pages, parts.clock, parts.page_memory_bytes, name="memory purge"
        )
        async with trio.open_nursery() as delivering:
            deliveries = Deliveries(
                delivering,
                client,
                ends,
                parts.clock,
                parts.keys,
                sweep_media=parts.media.sweep,
                run_client=run_client,
            )
            supervisor: Supervisor = await children.start(_run_calls, parts, deliveries, ends, name="calls")
            for job in to_deliver:
                deliveries.start(job)
            try:
                yield supervisor
            finally:
                if not supervisor.drained.is_set():
                    supervisor.hurry()
                    with trio.move_on_after(UNWIND_S, shield=True):
                        await supervisor.drained.wait()
                delivering.cancel_scope.cancel(reason="the worker stops")
        with trio.move_on_after(UNWIND_S, shield=True):
            await ends.flush()
        children.cancel_scope.cancel(reason="the worker stops")


async def _run_calls(
    parts: Parts,
    deliveries: Deliveries,
    ends: JobEnds,
    *,
    task_status: trio.TaskStatus[Supervisor] = trio.TASK_STATUS_IGNORED,
) -> None:
    """The calls' nursery, open until a stop is asked for and the last call has ended."""
    supervisor: Supervisor | None = None
    try:
        async with trio.open_nursery() as calls:
            supervisor = Supervisor(parts, calls, deliveries, ends)
            task_status.started(supervisor)
            await supervisor.stop_asked.wait()
    finally:
        if supervisor is not None:
            supervisor.drained.set()
