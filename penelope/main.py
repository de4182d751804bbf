"""The composition root: who lives inside whom, signals, and the exit code.

    store lock ⊃ port ⊃ database ⊃ browser ⊃ supervisor ⊃ queue of runs ⊃ server

Leaving a block ends everything in it, so a stop is the way back out of this nesting. Its inner half, from the
supervisor on, is `penelope.worker`: most of what that imports is not needed by a browser that starts, and is loaded
beside it.

Source: contract, section 8; design, section 2.
"""

import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Final

import trio

from penelope import resolver, startup, stops
from penelope.births import watch_births
from penelope.http.serving import listening
from penelope.pages.browser.driver import open_browser
from penelope.pages.browser.guard import Limits
from penelope.pages.browser.node import HeadStart
from penelope.pages.gate import open_network
from penelope.pages.manager import MAIN, PageManager
from penelope.registry import Registry
from penelope.runs.planning import Planning
from penelope.settings import Settings
from penelope.stops import Stops
from penelope.store.database import open_database
from penelope.store.lock import hold_store
from penelope.store.persona import PersonaStore

EXIT_OK: Final = 0
EXIT_STUCK: Final = 75  # EX_TEMPFAIL: start it again
EXIT_CUT_SHORT: Final = 143  # as a process that SIGTERM ended: not everything was let to its end
COOKIES: Final = "cookies"
MIB: Final = 2**20
INNER: Final = "penelope.worker"


async def run(
    settings: Settings, registry: Registry, planner: Planning, ahead: HeadStart | None = None
) -> int:
    """Run a worker until it is told to stop.

    Args:
        planner: makes the work of runs, of the recipes and agents that were read.
        ahead: Playwright's driver, started already; None: it is started when it is needed.

    Returns:
        The process's exit code: 0, also when a signal came before it was ready; 75 when a call that could not be ended
        made it end itself; 143 when a second signal cut the stop short.

    Raises:
        StartError: it cannot start; in a group.
    """
    code, heard = EXIT_OK, Stops()
    async with trio.open_nursery() as beside:
        await beside.start(heard.hear, name="signals")
        resolver.install()
        with (
            heard.starting,
            hold_store(settings.store),
            listening(settings.host, settings.port, "PENELOPE_PORT") as port,
        ):
            code = await _live(settings, registry, planner, port, heard, ahead)
        beside.cancel_scope.cancel(reason="the worker is down")
    stops.hear_no_more()
    return code


async def _live(
    settings: Settings,
    registry: Registry,
    planner: Planning,
    port: socket.socket,
    heard: Stops,
    ahead: HeadStart | None,
) -> int:
    """From the store's opening to its closing."""
    births = watch_births()
    async with open_database(settings.store / "penelope.db") as database:
        persona = PersonaStore(database)
        cookies = await persona.load(COOKIES)
        async with (
            open_network(public=settings.page_network == "public", proxy=startup.proxy_of(settings)) as gate,
            _importing() as launching,
            open_browser(
                startup.browser_options(settings, gate),
                cookies,
                Limits(downloads=settings.media_max_mb * MIB),
                ahead,
                launching,
            ) as driver,
        ):
            await _load_inner()
            from penelope import worker

            clock = await worker.open_clock(database)
            pages = PageManager(
                driver,
                clock,
                max_pages=settings.max_pages,
                keep_cookies=lambda text: persona.save(COOKIES, text, clock.now()),
                cookies=cookies,
            )
            await pages.open(MAIN)
            outer = worker.Outer(
                settings=settings,
                registry=registry,
                planner=planner,
                database=database,
                clock=clock,
                pages=pages,
                driver=driver,
                port=port,
                births=births,
                heard=heard,
            )
            hurried = await worker.live(outer)
            if driver.stuck:
                return EXIT_STUCK
            return EXIT_CUT_SHORT if hurried else EXIT_OK


@asynccontextmanager
async def _importing() -> AsyncGenerator[Callable[[], None]]:
    """Import the inner half when what is yielded is called: the browser starts, and has nothing for Python to do."""
    launching = trio.Event()

    async def load() -> None:
        await launching.wait()
        await _load_inner()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(load, name="imports")
        yield launching.set


async def _load_inner() -> None:
    """Import the inner half, or wait until another thread has."""
    await trio.to_thread.run_sync(_import_inner)


def _import_inner() -> None:
    with startup.without(startup.HTTPX_COMMAND):
        import_module(INNER)
