"""The commands about a running waker; what they need is imported when they run.

Source: contract, section 9.
"""

import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Final

import click

from penelope.errors import StartError

if TYPE_CHECKING:
    from penelope.terminal.waker import Waker

URL: Final = "http://127.0.0.1:5050"
EXIT_FAILED: Final = 1


@click.group()
def personas() -> None:
    """List, start, stop and watch the personas of a running waker."""


def _address_options(command: Callable[..., None]) -> Callable[..., None]:
    """Where the waker is. The key is never on a command line: other users of the machine see those."""
    url = click.option(
        "--url",
        envvar="PENELOPE_WAKER_URL",
        default=URL,
        show_default=True,
        show_envvar=True,
        help="The waker's base URL.",
    )
    as_json = click.option("--json", "as_json", is_flag=True, help="Print what the waker answers, as it is.")
    return url(as_json(command))


@personas.command("list")
@_address_options
def list_personas(url: str, as_json: bool) -> None:
    """Print all personas, a line each."""
    from penelope.terminal import personas as at_terminal

    async def run(waker: "Waker") -> bool:
        await at_terminal.show(waker, as_json=as_json)
        return True

    _at_waker(url, run)


def _add_order(what: str, words: str) -> None:
    @personas.command(what, help=words)
    @click.argument("name")
    @_address_options
    def order(name: str, url: str, as_json: bool) -> None:
        from penelope.terminal import personas as at_terminal

        async def run(waker: "Waker") -> bool:
            return await at_terminal.order(waker, what, name, as_json=as_json)

        _at_waker(url, run)


_add_order("start", "Start a persona's worker, and wait until it is ready.")
_add_order("stop", "Stop a persona's worker, and wait until it is gone.")
_add_order("restart", "Stop a persona's worker, and start it.")


@personas.command("reload")
@_address_options
def reload_personas(url: str, as_json: bool) -> None:
    """Let the waker read its file again; only what changed is renewed, when nothing of it is in flight."""
    from penelope.terminal import personas as at_terminal

    async def run(waker: "Waker") -> bool:
        return await at_terminal.reload(waker, as_json=as_json)

    _at_waker(url, run)


@personas.command("logs")
@click.argument("name")
@click.option(
    "--lines", type=click.IntRange(1, 1000), default=100, show_default=True, help="At most so many."
)
@_address_options
def show_logs(name: str, lines: int, url: str, as_json: bool) -> None:
    """Print the last lines of a persona's log, also while it sleeps."""
    from penelope.terminal import personas as at_terminal

    async def run(waker: "Waker") -> bool:
        await at_terminal.logs(waker, name, lines, as_json=as_json)
        return True

    _at_waker(url, run)


@personas.command("top")
@_address_options
def top_personas(url: str, as_json: bool) -> None:
    """Watch all personas, until Ctrl-C."""
    from penelope.terminal import personas as at_terminal

    async def run(waker: "Waker") -> bool:
        if as_json:
            await at_terminal.show(waker, as_json=True)
        else:
            await at_terminal.top(waker)
        return True

    _at_waker(url, run, is_left=True)


def _at_waker(url: str, run: "Callable[[Waker], Awaitable[bool]]", *, is_left: bool = False) -> None:
    """Run a command that talks to a waker, and end with its exit code.

    Args:
        is_left: it ends by being interrupted, which is no failure then.
    """
    import trio

    from penelope.settings import worker_address
    from penelope.terminal import plain
    from penelope.terminal.client import Trouble
    from penelope.terminal.waker import open_waker

    async def within() -> bool:
        async with open_waker(url, worker_address()[1]) as waker:
            return await run(waker)

    done = False
    try:
        done = trio.run(within)
    except* (Trouble, StartError) as group:
        for error in _leaves(group):
            click.echo(f"penelope: {plain.one_line(str(error))}", err=True)
    except* KeyboardInterrupt:
        done = is_left
        if not is_left:
            click.echo("penelope: left; the waker goes on with what it was asked", err=True)
    sys.exit(0 if done else EXIT_FAILED)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
