"""The command line. It reads the environment once; everything else gets values.

Source: contract, sections 1, 2 and 12.
"""

import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

import click

from penelope.errors import StartError
from penelope.terminal import commands, run_commands
from penelope.terminal.waker_commands import personas

if TYPE_CHECKING:
    from penelope.pages.browser.node import HeadStart
    from penelope.registry import Registry
    from penelope.runs.recipes.book import Recipes
    from penelope.settings import Settings

_Error = TypeVar("_Error", bound=Exception)

EXIT_OK = 0
EXIT_START_FAILED = 1


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


for _command in commands.ALL:
    main.add_command(_command)
main.add_command(personas)
main.add_command(run_commands.run)


@main.command(cls=_ServeCommand)
@click.option("--host", help="The address to listen on (PENELOPE_HOST).")
@click.option("--port", type=int, help="The port to listen on (PENELOPE_PORT).")
@click.option("--store", type=click.Path(path_type=Path), help="The store's folder (PENELOPE_STORE).")
def serve(host: str | None, port: int | None, store: Path | None) -> None:
    """Run a worker until it is told to stop."""
    given = {"host": host, "port": port, "store": store}
    sys.exit(_serve({name: value for name, value in given.items() if value is not None}))


def _leave_at_once() -> None:
    """Until the worker hears signals itself, one ends the process as a clean stop does: there is nothing to end yet."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(EXIT_OK))


def _open_what_is_closed() -> None:
    """Standard streams that were closed become nothing. What is opened next, the pipes to the browser's driver, would
    have their numbers, and whatever is written there, by a library or a child, would go into them.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(
                os.open(os.devnull, os.O_RDWR), True
            )  # the lowest number that is free: this one


def _serve(overrides: dict[str, object]) -> int:
    _leave_at_once()
    _open_what_is_closed()

    from penelope import startup

    startup.begin()
    from penelope.pages.browser.node import head_start

    try:
        # The first thing of all: it takes as long to be there as what it needs here takes to be imported.
        with head_start(startup.likely_profile(overrides)) as ahead:
            from penelope.settings import Settings, secret_variables

            settings = Settings.from_environ(overrides)
            # Read once: no child process, the browser's least of all, needs to inherit it.
            for name in secret_variables():
                os.environ.pop(name, None)
            return _work(settings, ahead)
    except StartError as error:
        _fail(error)
    except BaseExceptionGroup as group:
        start_errors = group.subgroup(StartError)
        if start_errors is not None and group.split(StartError)[1] is None:
            _fail(_first(start_errors))
        raise


def _work(settings: "Settings", ahead: "HeadStart | None") -> int:
    """The worker's life, from its imports to its exit code.

    Raises:
        StartError: it cannot start; by itself, or in a group.
    """
    from penelope import startup

    with startup.without(*startup.RICH):
        import structlog
    import trio

    from penelope import logs, registry
    from penelope import main as worker
    from penelope.pages.browser.run import any_given_up
    from penelope.runs import planning
    from penelope.settings import environment

    logs.configure(settings.log)
    structlog.get_logger("penelope").info("settings", **settings.masked())
    plugins = registry.load(settings.plugins)
    planner = planning.load(settings, plugins, environment())
    code = trio.run(worker.run, settings, plugins, planner, ahead)
    if any_given_up():  # code that swallows everything would keep the interpreter from ending
        logging.shutdown()
        os._exit(code)
    return code


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


@main.group()
def recipes() -> None:
    """Write, check and list recipes."""


@recipes.command("new")
@click.argument("name", metavar="NAME")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("recipes"),
    show_default=True,
    help="The folder of recipes to write to.",
)
def new_recipe(name: str, folder: Path) -> None:
    """Write a recipe that works."""
    from penelope import recipe_tools

    try:
        file = recipe_tools.write_skeleton(name, folder)
    except StartError as error:
        _fail(error)
    click.echo(f"{file}  the recipe\n\nNext:")
    click.echo(f"  PENELOPE_RECIPES={folder} penelope recipes check")


@recipes.command("check")
def check_recipes() -> None:
    """Read all recipes as `serve` does; print them, or all that is wrong in them, a line each."""
    from penelope import recipe_tools

    found = _read_recipes()
    recipe_tools.show_table(found)
    click.echo(f"{len(found)} recipe{'s' * (len(found) != 1)}, all well", err=True)


@recipes.command("list")
def list_recipes() -> None:
    """Print all recipes, a line each."""
    from penelope import recipe_tools

    recipe_tools.show_list(_read_recipes())


def _read_recipes() -> "Recipes":
    from penelope.runs.recipes import book
    from penelope.settings import environment, recipe_folders

    try:
        found, faults = book.read_all(recipe_folders(), _load_plugins(), environment())
    except StartError as error:
        _fail(error)
    for fault in faults:
        click.echo(f"penelope: {fault}", err=True)
    if faults:
        sys.exit(EXIT_START_FAILED)
    return book.Recipes(found)


@main.command("demo-site")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=int, default=8200, show_default=True)
def demo_site(host: str, port: int) -> None:
    """Serve the bundled stand-in site."""
    import trio

    from penelope.demo.site import serve_site

    trio.run(serve_site, port, host)


_config_option = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("personas.toml"),
    show_default=True,
    help="The file of the personas.",
)


@main.command()
@_config_option
@click.option("--host", help="The address to listen on (PENELOPE_HOST).")
@click.option("--port", type=int, default=5050, show_default=True, help="The port to listen on.")
def waker(config: Path, host: str | None, port: int) -> None:
    """Serve personas that sleep until they are needed, on one address.

    Its key is PENELOPE_KEY. What a persona does not say in the file, its worker has from the same environment.
    """
    import structlog
    import trio

    from penelope import logs
    from penelope.settings import Settings
    from penelope.waker import run

    given = {"port": port} if host is None else {"port": port, "host": host}
    try:
        settings = Settings.from_environ(given)
        logs.configure(settings.log)
        shown = {"host": settings.host, "port": settings.port, "config": str(config)}
        structlog.get_logger("penelope.waker").info("settings", **shown)
        trio.run(run.run, settings, config)
    except StartError as error:
        _fail(error)
    except BaseExceptionGroup as group:
        start_errors, others = group.split(StartError)
        if start_errors is None or others is not None:
            raise
        _fail(_first(start_errors))


@personas.command("new")
@click.argument("name")
@click.option("--always", is_flag=True, help="One that is kept up, instead of a sleepy one.")
@_config_option
def new_persona(name: str, always: bool, config: Path) -> None:
    """Add a persona to the file, which is made if it is not there."""
    from penelope.waker import editing

    try:
        editing.add(config, name, "always" if always else "sleepy")
    except StartError as error:
        _fail(error)
    click.echo(f"{config}  has {name} now\n\nNext:")
    click.echo(f"  penelope waker --config {config}    or, where it runs already: penelope personas reload")
    click.echo(f"  penelope personas start {name}")
