"""A waker's personas at a terminal: a table in one, plain lines in a pipe; orders; logs; all of it live.

Source: contract, section 9.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import trio
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penelope import jsontext
from penelope.terminal import plain
from penelope.terminal.waker import Waker

PERSONAS: Final = "/api/v1/personas"
COLUMNS: Final = ("NAME", "MODE", "STATE", "PORT", "PID", "UP", "IDLE", "IN FLIGHT", "LAST ERROR")
COLOURS: Final = {
    "running": "green",
    "starting": "yellow",
    "stopping": "yellow",
    "failed": "bold red",
    "stopped": "dim",
}
MAX_ERROR_CHARS: Final = 60
AGAIN_S: Final = 2.0


async def show(waker: Waker, *, as_json: bool) -> None:
    """Print all personas."""
    said = await waker.get(PERSONAS)
    if as_json:
        plain.say(Text(jsontext.dumps(said)))
    else:
        plain.say(table(said["personas"], time.time()))


def _path(name: str) -> str:
    return f"{PERSONAS}/{quote(name, safe='')}"


def table(personas: list[Mapping[str, Any]], now: float) -> Table:
    """A row each; plain in a pipe, where a column that is empty holds a dash."""
    drawn = Table(*COLUMNS, box=None, pad_edge=False, header_style="bold")
    for one in personas:
        drawn.add_row(*_cells(one, now))
    return drawn


def _cells(one: Mapping[str, Any], now: float) -> Iterator[Text]:
    started = one["started_at"]
    yield Text(one["name"])
    yield Text(one["mode"])
    yield Text(one["state"], style=COLOURS.get(one["state"], ""))
    yield Text(_dash(one["port"]))
    yield Text(_dash(one["pid"]))
    yield Text(_dash(None if started is None else plain.duration(max(0.0, now - started))))
    yield Text(_dash(plain.duration(one["idle_for_s"]) or None))
    yield Text(_dash(one["in_flight"]))
    error = plain.one_line(one["last_error"] or "")
    yield Text(_dash(error if len(error) <= MAX_ERROR_CHARS else f"{error[:MAX_ERROR_CHARS]}…"))


def _dash(value: object) -> str:
    return "-" if value in {None, ""} else str(value)


async def order(waker: Waker, what: str, name: str, *, as_json: bool) -> bool:
    """`start`, `stop` or `restart` a persona and say how it is then; with the worker's last words when it is not up.

    Returns:
        Whether the waker did it.

    Raises:
        Trouble: there is no waker, or it says no.
    """
    answer = await waker.post(f"{_path(name)}/{what}")
    if as_json:
        plain.say(Text(answer.text))
        return answer.is_success
    plain.say(table([waker.envelope(answer)], time.time()))
    return True


async def reload(waker: Waker, *, as_json: bool) -> bool:
    """Let the waker read its file again and say what that changed."""
    answer = await waker.post(f"{PERSONAS}/reload")
    if as_json:
        plain.say(Text(answer.text))
        return answer.is_success
    said = waker.envelope(answer)
    for what in ("added", "removed", "changed", "restarting"):
        plain.say(Text(f"{what}: {', '.join(said[what]) or '-'}"))
    return True


async def logs(waker: Waker, name: str, lines: int, *, as_json: bool) -> None:
    """Print the last lines of a worker's log."""
    said = await waker.get(f"{_path(name)}/logs?lines={lines}")
    if as_json:
        plain.say(Text(jsontext.dumps(said)))
        return
    for line in said["lines"]:
        plain.say(Text(plain.harmless(line), no_wrap=True, overflow="ignore"))


async def top(waker: Waker) -> None:
    """The table, every two seconds, until it is interrupted; in a pipe once."""
    said = await waker.get(PERSONAS)
    if not plain.is_terminal():
        plain.say(table(said["personas"], time.time()))
        return
    console = Console(highlight=False)
    with Live(_screen(said), console=console, screen=True, auto_refresh=False) as live:
        while True:
            await trio.sleep(AGAIN_S)
            live.update(_screen(await waker.get(PERSONAS)), refresh=True)


def _screen(said: Mapping[str, Any]) -> Group:
    personas: list[Mapping[str, Any]] = said["personas"]
    up = sum(one["state"] == "running" for one in personas)
    busy = sum(bool(one["in_flight"]) for one in personas)
    count = f"{len(personas)} persona{'s' * (len(personas) != 1)}"
    head = f"{count}, {up} up, {busy} with something in flight; Ctrl-C leaves\n"
    # Those that something happens to first; the others in the file's order.
    first = sorted(personas, key=lambda one: one["state"] == "stopped")
    return Group(Text(head), table(first, time.time()))
