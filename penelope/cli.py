"""The command line. It reads the environment once; everything else gets values.

Source: contract, sections 1, 2 and 12.
"""

import logging
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

import click

from penelope import jsontext
from penelope.errors import StartError

if TYPE_CHECKING:
    from penelope.registry import Registry
    from penelope.terminal.client import Remote

_Error = TypeVar("_Error", bound=Exception)

EXIT_START_FAILED = 1
EXIT_FAILED = 1


def _fail(error: StartError) -> NoReturn:
    click.echo(f"penelope: {error.message}", err=True)
    sys.exit(EXIT_START_FAILED)


class _ServeCommand(click.Command):
    """Its help lists every setting, read from the settings themselves."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from penelope.settings import Settings, variable

        rows = []
        for name, field in Settings.model_fields.items():
            default = "required" if field.is_required() else f"default: {_default(field.default)}"
            rows.append((variable(name), f"{field.description} [{default}]"))
        with formatter.section("Settings, from the environment and .env"):
            formatter.write_dl(rows)


def _default(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return "unset" if value in (None, ()) else str(value)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="penelope", message="%(prog)s %(version)s")
def main() -> None:
    """Penelope works web pages for you over HTTP."""


@main.command(cls=_ServeCommand)
@click.option("--host", help="The address to listen on (PENELOPE_HOST).")
@click.option("--port", type=int, help="The port to listen on (PENELOPE_PORT).")
@click.option("--store", type=click.Path(path_type=Path), help="The store's folder (PENELOPE_STORE).")
def serve(host: str | None, port: int | None, store: Path | None) -> None:
    """Run a worker until it is told to stop."""
    given = {"host": host, "port": port, "store": store}
    sys.exit(_serve({name: value for name, value in given.items() if value is not None}))


def _serve(overrides: dict[str, object]) -> int:
    import structlog
    import trio

    from penelope import logs, registry
    from penelope import main as worker
    from penelope.pages.browser.run import any_given_up
    from penelope.settings import Settings

    try:
        settings = Settings.from_environ(overrides)
        # Read once: no child process, the browser's least of all, needs to inherit it.
        for name in ("PENELOPE_KEY", "PENELOPE_PROXY"):
            os.environ.pop(name, None)
        logs.configure(settings.log)
        structlog.get_logger("penelope").info("settings", **settings.masked())
        plugins = registry.load(settings.plugins)
        code = trio.run(worker.run, settings, plugins)
        if any_given_up():  # code that swallows everything would keep the interpreter from ending
            logging.shutdown()
            os._exit(code)
        return code
    except StartError as error:
        _fail(error)
    except BaseExceptionGroup as group:
        start_errors = group.subgroup(StartError)
        if start_errors is not None and group.split(StartError)[1] is None:
            _fail(_first(start_errors))
        raise


def _first(group: BaseExceptionGroup[_Error]) -> _Error:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


@main.command()
@click.option("--out", type=click.Path(path_type=Path), help="Where the screenshot is saved.")
def demo(out: Path | None) -> None:
    """Walk through the main job against the bundled site."""
    import trio

    from penelope.demo.walk import run_demo

    sys.exit(trio.run(run_demo, out))


def _address_options(command: Callable[..., None]) -> Callable[..., None]:
    """Where the worker is. The key is never on a command line: other users of the machine see those."""
    url = click.option("--url", help="The worker's base URL [default: by PENELOPE_HOST and PENELOPE_PORT].")
    as_json = click.option("--json", "as_json", is_flag=True, help="Print what the worker answers, as it is.")
    return url(as_json(command))


@main.command()
@click.argument("page_id", metavar="PAGE")
@click.argument("name", metavar="FAMILY/NAME")
@click.argument("words", metavar="[KEY=VALUE]...", nargs=-1)
@_address_options
@click.option("--job", is_flag=True, help="Start it as a job, print the job's id and return.")
@click.option("--ttl", default=600.0, show_default=True, help="For how long a job's result is held, seconds.")
@click.option("--lease", metavar="TOKEN", help="Of the page's lease.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False, writable=True),
    default=Path(),
    help="Where files are saved [default: here].",
)
def call(
    page_id: str,
    name: str,
    words: tuple[str, ...],
    url: str | None,
    as_json: bool,
    job: bool,
    ttl: float,
    lease: str | None,
    folder: Path,
) -> None:
    """Call a plugin of a running worker and show its answer.

    Parameters are written key=value (repeated, where one is a list), key=@file for what a file holds, or key:=json. The
    key is PENELOPE_KEY. Files that the answer links to are saved; with --json they wait behind their links.

        penelope call main web/read url=https://example.org/
    """
    from penelope.terminal import calling
    from penelope.terminal.client import Remote

    wanted = calling.Wanted(page_id=page_id, name=name, words=words, lease=lease)

    async def run(remote: Remote) -> bool:
        if job:
            await calling.start_job(remote, wanted, ttl)
            return True
        if as_json:
            return await calling.call_as_json(remote, wanted)
        await calling.call(remote, wanted, folder)
        return True

    _at_worker(url, run, left="left; the call goes on to its end on the worker")


@main.command()
@_address_options
@click.option("--all", "all_of_it", is_flag=True, help="Each task in a line of its own, the server's too.")
def tree(url: str | None, as_json: bool, all_of_it: bool) -> None:
    """Draw what lives in a running worker: pages, who works them, who waits, and the tasks in their nurseries."""
    from penelope.terminal import drawing, plain
    from penelope.terminal.client import Remote

    async def run(remote: Remote) -> bool:
        shown = await remote.get("/api/v1/tree")
        if as_json:
            click.echo(jsontext.dumps(shown))
        else:
            plain.say(drawing.drawing(shown, all_of_it=all_of_it))
        return True

    _at_worker(url, run)


def _at_worker(url: str | None, run: "Callable[[Remote], Awaitable[bool]]", left: str = "left") -> None:
    """Run a command that talks to a worker, and end with its exit code.

    Args:
        run: whether the worker did what it was asked.
        left: what to say when it is interrupted.
    """
    import trio

    from penelope.settings import worker_address
    from penelope.terminal import plain
    from penelope.terminal.client import Trouble, open_remote

    async def within() -> bool:
        own_url, key = worker_address()
        async with open_remote(url or own_url, key) as remote:
            return await run(remote)

    interrupted = False
    done = False
    try:
        done = trio.run(within)
    except* (Trouble, StartError) as group:
        error = _first(group)
        click.echo(f"penelope: {plain.one_line(str(error))}", err=True)  # it may have a page's own words
    except* KeyboardInterrupt:
        interrupted = True
    if interrupted:
        click.echo(f"penelope: {left}", err=True)
    sys.exit(0 if done else EXIT_FAILED)


@main.group()
def plugins() -> None:
    """Write, check and list plugins."""


@plugins.command("new")
@click.argument("name", metavar="FAMILY/NAME")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("plugins"),
    show_default=True,
    help="The folder to write to.",
)
def new_plugin(name: str, folder: Path) -> None:
    """Write a plugin that works, with its test."""
    from penelope import plugin_tools

    try:
        plugin, test = plugin_tools.write_skeleton(name, folder)
    except StartError as error:
        _fail(error)
    click.echo(f"{plugin}  the plugin\n{test}  its test\n\nNext:")
    click.echo(f"  python -m pytest {folder}")
    click.echo(f"  PENELOPE_PLUGINS={folder} penelope plugins check")


@plugins.command("check")
def check_plugins() -> None:
    """Load all plugins as `serve` does, and print them."""
    from penelope import plugin_tools

    found = _load_plugins()
    plugin_tools.show_table(found)
    click.echo(f"{len(found)} plugins, all well", err=True)


@plugins.command("list")
def list_plugins() -> None:
    """Print all plugins, a line each."""
    from penelope import plugin_tools

    plugin_tools.show_list(_load_plugins())


def _load_plugins() -> "Registry":
    from penelope import registry
    from penelope.settings import plugin_folders

    try:
        return registry.load(plugin_folders())
    except StartError as error:
        _fail(error)


@main.command("demo-site")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=int, default=8200, show_default=True)
def demo_site(host: str, port: int) -> None:
    """Serve the bundled stand-in site."""
    import trio

    from penelope.demo.site import serve_site

    trio.run(serve_site, port, host)
