"""The inner half of a worker: from the supervisor to the server, on a browser that is there.

Apart from `penelope.main`, which imports it while the browser starts: the HTTP stack is a third of what a worker loads.

Source: contract, section 8; design, section 2.
"""

import socket
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import structlog
import trio

from penelope import startup
from penelope.births import Births
from penelope.clock import Clock
from penelope.http import server
from penelope.http.app import create_app
from penelope.http.front import Front
from penelope.http.serving import drop_connections, server_config
from penelope.http.worker import Worker
from penelope.jobs.dialling import refusal_now
from penelope.jobs.ledger import Ledger
from penelope.jobs.nurseries import open_supervisor
from penelope.jobs.screening import Rules, rules
from penelope.jobs.store import JobStore
from penelope.jobs.supervisor import Parts, Supervisor
from penelope.pages.driver import Driver
from penelope.pages.manager import PageManager
from penelope.registry import Registry
from penelope.runs.service import Limits as RunLimits
from penelope.runs.service import Runs, open_runs
from penelope.runs.store import RunStore
from penelope.runs.submission import Planner
from penelope.settings import Settings
from penelope.stops import Stops
from penelope.store.database import Database, thread_runner
from penelope.store.media import MediaStore
from penelope.store.request_log import RequestLog

SERVER_GRACE_S: Final = 3.0
MIB: Final = 2**20

log = structlog.get_logger("penelope")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    """What the outer half has opened.

    Attributes:
        planner: makes the work of runs, of the recipes and agents that were read.
        port: bound, and not listening yet.
    """

    settings: Settings
    registry: Registry
    planner: Planner
    database: Database
    clock: Clock
    pages: PageManager
    driver: Driver
    port: socket.socket
    births: Births
    heard: Stops


async def open_clock(database: Database) -> Clock:
    """One that is not behind what the store has; it need not be closed."""
    clock = Clock()
    for newest in (await JobStore(database).newest(), await RunStore(database).newest()):
        if newest is not None:
            clock.at_least(newest)
    return clock


async def live(outer: Outer) -> bool:
    """Work until a stop is asked for and the calls are drained; whether a second signal cut the stop short."""
    settings, clock, bound = outer.settings, outer.clock, outer.port.getsockname()[:2]
    parts = Parts(
        pages=outer.pages,
        store=JobStore(outer.database),
        media=media_store(settings, outer.database, clock),
        requests=RequestLog(outer.database),
        ledger=Ledger(outer.database),
        clock=clock,
        keys=settings.keys,
        stop_grace_s=settings.stop_grace_s,
        page_memory_bytes=settings.page_memory_mb * MIB,
        rules=rules(settings.webhook_policy, settings.webhook_allow, bound),
        run_rules=run_rules(settings, bound),
    )
    limits = RunLimits(
        concurrent=settings.runs_max_concurrent,
        admitted=settings.runs_admitted,
        resume=settings.runs_resume_queued,
    )
    async with open_supervisor(parts) as supervisor:
        outer.heard.hand_over(supervisor)
        with outer.heard.serving:
            runs_of = Runs(supervisor, parts, outer.registry, RunStore(outer.database), outer.planner, limits)
            async with open_runs(runs_of) as runs:
                worker = Worker(
                    settings=settings,
                    registry=outer.registry,
                    clock=clock,
                    pages=outer.pages,
                    jobs=parts.store,
                    media=parts.media,
                    requests=parts.requests,
                    ledger=parts.ledger,
                    supervisor=supervisor,
                    runs=runs,
                    planner=outer.planner,
                    screen=partial(refusal_now, parts.run_rules),
                    started_at=clock.now(),
                    births=outer.births,
                )
                await serve(create_app(worker), outer.port, supervisor, outer.driver)
    return supervisor.hurried


def run_rules(settings: Settings, bound: tuple[str, int]) -> Rules:
    """Where the webhooks of runs may go; WEBHOOK_ALLOW counts for them too."""
    made = rules(settings.runs_webhook_policy, settings.webhook_allow, bound)
    return replace(made, setting="RUNS_WEBHOOK_POLICY")


def media_store(settings: Settings, database: Database, clock: Clock) -> MediaStore:
    return MediaStore(
        database,
        settings.store / "media",
        cap_bytes=settings.media_max_mb * MIB,
        clock=clock,
        run=thread_runner(2),
    )


async def serve(app: Front, port: socket.socket, supervisor: Supervisor, driver: Driver) -> None:
    """Serve until a signal, or a call that cannot be ended, asks for a stop and the calls are drained."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_when_stuck, supervisor, driver, name="stuck watch")
        url = await nursery.start(_serve_app, app, port, supervisor, nursery.cancel_scope, name="server")
        startup.end()
        log.info("ready", url=url, api=f"{url}/api/v1", docs=f"{url}/docs")
        await supervisor.drained.wait()


async def _serve_app(  # noqa: ASYNC128  # the server calls it
    app: Front,
    port: socket.socket,
    supervisor: Supervisor,
    serving: trio.CancelScope,
    *,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    number = port.getsockname()[1]

    async def drop_late_clients() -> None:
        await supervisor.drained.wait()
        await trio.sleep(SERVER_GRACE_S + 0.5)
        drop_connections(number)  # clients that never read: the server waits for them under a shield

    async with trio.open_nursery() as nursery:
        nursery.start_soon(drop_late_clients)
        await server.serve(
            app,
            port,
            server_config(SERVER_GRACE_S),
            until=supervisor.drained.wait,
            at_once=app.at_once,
            task_status=task_status,
        )
        serving.cancel(reason="the server is down")


async def _stop_when_stuck(supervisor: Supervisor, driver: Driver) -> None:
    await driver.wait_stuck()
    log.critical("a call blocks the browser's thread and cannot be ended: the worker ends itself")
    supervisor.stop()
