"""The composition root of `penelope waker`: who lives inside whom, and its signals.

    folder ⊃ port ⊃ house ⊃ server

A first SIGTERM or SIGINT stops the workers, then the server; a second one cuts the workers' stops short. SIGHUP reads
`personas.toml` again. Ended otherwise, e.g. killed, it leaves the workers running, and the next waker takes them over.

Source: contract, section 9.
"""

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog
import trio

from penelope.clock import Clock
from penelope.errors import BadPersonas, Stopping
from penelope.http import server
from penelope.http.serving import drop_connections, listening, server_config
from penelope.settings import Settings
from penelope.waker import asking
from penelope.waker.app import WakerFront, create_app
from penelope.waker.config import load, loose_files
from penelope.waker.gateway import Gateway
from penelope.waker.house import House, open_house
from penelope.waker.keeper import Tools
from penelope.waker.model import Persona
from penelope.waker.process import ProcessDriver, inherited
from penelope.waker.records import Owed, hold_folder

SERVER_GRACE_S: Final = 3.0
MIN_TURNS: Final = 2

log = structlog.get_logger("penelope.waker")


async def run(settings: Settings, file: Path) -> None:
    """Run a waker until it is told to stop.

    Args:
        settings: its own; what a persona does not say, its worker has from the same environment.
        file: `personas.toml`.

    Raises:
        StartError: it cannot start; in a group, when tasks were running already.
    """
    personas = load(file, settings)
    for words in loose_files(file, personas):
        log.warning(words)

    def read() -> list[Persona]:
        return list(load(file, settings, personas.state).by_name.values())

    with hold_folder(personas.state), listening(settings.host, settings.port, "--port") as port:
        clock = Clock()
        driver = ProcessDriver(personas.state, inherited(), clock)
        async with asking.open_client() as client:
            tools = Tools(
                driver=driver,
                client=client,
                clock=clock,
                owed=Owed(personas.state),
                # A start takes a core for a second: more at once would only make each late.
                turns=trio.CapacityLimiter(max(MIN_TURNS, os.cpu_count() or 1)),
            )
            async with open_house(tools, read) as house, trio.open_nursery() as nursery:
                gateway = Gateway(house, client, settings)
                nursery.start_soon(clock.run, name="clock")
                await _serve(create_app(settings, house, gateway, driver), port, house, driver.hurry)
                nursery.cancel_scope.cancel(reason="the waker ends")


async def _serve(app: WakerFront, port: socket.socket, house: House, hurry: Callable[[], None]) -> None:
    """Serve until a signal; then until the workers are gone."""
    number = port.getsockname()[1]
    empty = trio.Event()

    async def close() -> None:
        await house.close()
        empty.set()
        await trio.sleep(SERVER_GRACE_S + 0.5)
        drop_connections(number)  # clients that never read: the server waits for them under a shield

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_signals, nursery, house, close, hurry, name="signals")
        url = await nursery.start(_server, app, port, empty, nursery.cancel_scope, name="server")
        log.info("ready", url=url, api=f"{url}/api/v1/personas", personas=len(list(house)))


async def _server(  # noqa: ASYNC128  # the server calls it
    app: WakerFront,
    port: socket.socket,
    empty: trio.Event,
    scope: trio.CancelScope,
    *,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    config = server_config(SERVER_GRACE_S)
    config.include_date_header = False  # what is passed on has its worker's
    await server.serve(app, port, config, until=empty.wait, task_status=task_status)
    scope.cancel(reason="the server is down")


async def _signals(
    nursery: trio.Nursery, house: House, close: Callable[[], object], hurry: Callable[[], None]
) -> None:
    stopping = False
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            log.info("signal", signal=signal.Signals(number).name, second=stopping)
            if number == signal.SIGHUP:
                _reload(house)
            elif stopping:
                hurry()
            else:
                stopping = True
                nursery.start_soon(close, name="stop")  # type: ignore[arg-type]


def _reload(house: House) -> None:
    try:
        house.reload()
    except (BadPersonas, Stopping) as exc:
        log.warning("personas not reloaded: nothing changed", error=exc.message)
