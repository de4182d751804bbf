"""The composition root: who lives inside whom, signals, and the exit code.

    store lock ⊃ port ⊃ database ⊃ browser ⊃ supervisor ⊃ queue of runs ⊃ server

Leaving a block ends everything in it, so a stop is the way back out of this nesting.

Source: contract, section 8; design, section 2.
"""

import socket
from dataclasses import replace
from functools import partial
from typing import Final

import structlog
import trio
from hypercorn.trio import serve as serve_app
from quart_trio import QuartTrio

from penelope import resolver, stops
from penelope.births import Births, watch_births
from penelope.clock import Clock
from penelope.http.app import create_app
from penelope.http.serving import drop_connections, listening, server_config
from penelope.http.worker import Worker
from penelope.jobs.dialling import refusal_now
from penelope.jobs.ledger import Ledger
from penelope.jobs.nurseries import open_supervisor
from penelope.jobs.screening import Rules, rules
from penelope.jobs.store import JobStore
from penelope.jobs.supervisor import Parts, Supervisor
from penelope.pages.browser.driver import open_browser
from penelope.pages.browser.guard import Limits
from penelope.pages.browser.persona import BrowserOptions
from penelope.pages.driver import Driver
from penelope.pages.gate import Gate, open_network
from penelope.pages.manager import MAIN, PageManager
from penelope.registry import Registry
from penelope.runs.planning import Planning
from penelope.runs.service import Limits as RunLimits
from penelope.runs.service import Runs, open_runs
from penelope.runs.store import RunStore
from penelope.settings import Settings
from penelope.stops import Stops
from penelope.store.database import Database, open_database, thread_runner
from penelope.store.lock import hold_store
from penelope.store.media import MediaStore
from penelope.store.persona import PersonaStore
from penelope.store.request_log import RequestLog

EXIT_OK: Final = 0
EXIT_STUCK: Final = 75  # EX_TEMPFAIL: start it again
EXIT_CUT_SHORT: Final = 143  # as a process that SIGTERM ended: not everything was let to its end
COOKIES: Final = "cookies"
SERVER_GRACE_S: Final = 3.0
MIB: Final = 2**20

log = structlog.get_logger("penelope")


async def run(settings: Settings, registry: Registry, planner: Planning) -> int:
    """Run a worker until it is told to stop.

    Args:
        planner: makes the work of runs, of the recipes and agents that were read.

    Returns:
        The process's exit code: 0, also when a signal came before it was ready; 75 when a call that could not be ended
        made it end itself; 143 when a second signal cut the stop short.

    Raises:
        StartError: it cannot start; in a group.
    """
    code, heard = EXIT_OK, Stops()
    async with trio.open_nursery() as hearing:
        await hearing.start(heard.hear, name="signals")
        resolver.install()
        with (
            heard.starting,
            hold_store(settings.store),
            listening(settings.host, settings.port, "PENELOPE_PORT") as port,
        ):
            code = await _live(settings, registry, planner, port, heard)
        hearing.cancel_scope.cancel(reason="the worker is down")
    stops.hear_no_more()
    return code


async def _live(
    settings: Settings, registry: Registry, planner: Planning, port: socket.socket, heard: Stops
) -> int:
    """From the store's opening to its closing."""
    births = watch_births()
    async with open_database(settings.store / "penelope.db") as database:
        clock = await _clock(database)
        persona = PersonaStore(database)
        cookies = await persona.load(COOKIES)
        async with (
            open_network(public=settings.page_network == "public", proxy=proxy_of(settings)) as gate,
            open_browser(
                browser_options(settings, gate), cookies, Limits(downloads=settings.media_max_mb * MIB)
            ) as driver,
        ):
            pages = PageManager(
                driver,
                clock,
                max_pages=settings.max_pages,
                keep_cookies=lambda text: persona.save(COOKIES, text, clock.now()),
                cookies=cookies,
            )
            await pages.open(MAIN)
            return await _supervise(
                settings, registry, planner, database, clock, pages, driver, port, births, heard
            )


async def _supervise(
    settings: Settings,
    registry: Registry,
    planner: Planning,
    database: Database,
    clock: Clock,
    pages: PageManager,
    driver: Driver,
    port: socket.socket,
    births: Births,
    heard: Stops,
) -> int:
    parts = Parts(
        pages=pages,
        store=JobStore(database),
        media=media_store(settings, database, clock),
        requests=RequestLog(database),
        ledger=Ledger(database),
        clock=clock,
        keys=settings.keys,
        stop_grace_s=settings.stop_grace_s,
        page_memory_bytes=settings.page_memory_mb * MIB,
        rules=rules(settings.webhook_policy, settings.webhook_allow, port.getsockname()[:2]),
        run_rules=run_rules(settings, port.getsockname()[:2]),
    )
    limits = RunLimits(
        concurrent=settings.runs_max_concurrent,
        admitted=settings.runs_admitted,
        resume=settings.runs_resume_queued,
    )
    async with open_supervisor(parts) as supervisor:
        heard.hand_over(supervisor)
        with heard.serving:
            runs_of = Runs(supervisor, parts, registry, RunStore(database), planner, limits)
            async with open_runs(runs_of) as runs:
                worker = Worker(
                    settings=settings,
                    registry=registry,
                    clock=clock,
                    pages=pages,
                    jobs=parts.store,
                    media=parts.media,
                    requests=parts.requests,
                    ledger=parts.ledger,
                    supervisor=supervisor,
                    runs=runs,
                    planner=planner,
                    screen=partial(refusal_now, parts.run_rules),
                    started_at=clock.now(),
                    births=births,
                )
                await serve(create_app(worker), port, supervisor, driver)
    if driver.health.stuck:
        return EXIT_STUCK
    return EXIT_CUT_SHORT if supervisor.hurried else EXIT_OK


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


def proxy_of(settings: Settings) -> str | None:
    return None if settings.proxy is None else settings.proxy.get_secret_value()


def browser_options(settings: Settings, gate: Gate | None) -> BrowserOptions:
    return BrowserOptions(
        profile=settings.store.absolute() / "profile",
        executable=settings.browser,
        headless=settings.headless,
        proxy=proxy_of(settings),
        locale=settings.locale,
        timezone=settings.timezone,
        viewport=settings.viewport,
        user_agent=settings.user_agent,
        geolocation=settings.geolocation,
        gate=gate,
    )


async def serve(app: QuartTrio, port: socket.socket, supervisor: Supervisor, driver: Driver) -> None:
    """Serve until a signal, or a call that cannot be ended, asks for a stop and the calls are drained."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_when_stuck, supervisor, driver, name="stuck watch")
        (url,) = await nursery.start(_serve_app, app, port, supervisor, nursery.cancel_scope, name="server")
        log.info("ready", url=url, api=f"{url}/api/v1", docs=f"{url}/docs")
        await supervisor.drained.wait()


async def _serve_app(  # noqa: ASYNC128  # Hypercorn calls it
    app: QuartTrio,
    port: socket.socket,
    supervisor: Supervisor,
    serving: trio.CancelScope,
    *,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    number = port.getsockname()[1]

    async def drop_late_clients() -> None:
        await supervisor.drained.wait()
        await trio.sleep(SERVER_GRACE_S + 0.5)
        drop_connections(number)  # clients that never read: the server waits for them under a shield

    async with trio.open_nursery() as nursery:
        nursery.start_soon(drop_late_clients)
        trigger = supervisor.drained.wait
        await serve_app(
            app, server_config(port, SERVER_GRACE_S), shutdown_trigger=trigger, task_status=task_status
        )
        serving.cancel(reason="the server is down")


async def _stop_when_stuck(supervisor: Supervisor, driver: Driver) -> None:
    await driver.wait_stuck()
    log.critical("a call blocks the browser's thread and cannot be ended: the worker ends itself")
    supervisor.stop()


async def _clock(database: Database) -> Clock:
    clock = Clock()
    for newest in (await JobStore(database).newest(), await RunStore(database).newest()):
        if newest is not None:
            clock.at_least(newest)
    return clock
