"""`penelope run …`, as the command line has it; what the commands need is imported when they run."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from penelope import jsontext
from penelope.terminal.commands import address_options, at_worker

if TYPE_CHECKING:
    from penelope.client import AsyncClient

LEFT: Final = "left; the run goes on"
STATUSES: Final = ("queued", "running", "succeeded", "failed", "cancelled")


class _Object(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """A JSON object."""

    name = "JSON"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        try:
            found = jsontext.loads(value)
        except ValueError as error:
            self.fail(f"it is no JSON: {error}", param, ctx)
        if not isinstance(found, dict):
            self.fail("it is no JSON object", param, ctx)
        return found


@click.group()
def run() -> None:
    """Submit, watch and read runs: queued calls that find their own page."""


@run.command()
@click.argument("prompt", default="")
@address_options
@click.option(
    "--recipe", metavar="NAME", help="The recipe; PROMPT is its input. Without one an agent does it."
)
@click.option("--recipe-config", "config", type=_Object(), help="What goes over the recipe's own values.")
@click.option(
    "--agent-file", "agent", metavar="NAME", help="The agent's instructions, a name under PENELOPE_AGENTS."
)
@click.option("--session", "--session-id", "session_id", help="A label, to list by.")
@click.option(
    "--timeout", "timeout_s", type=click.IntRange(min=1), help="Seconds of work, past which it has failed."
)
@click.option("--webhook-url", metavar="URL", help="Where the worker POSTs the end.")
@click.option("--idempotency-key", metavar="KEY", help="With it the same submit twice is one run.")
@click.option(
    "--idempotency-scope",
    "scope",
    type=click.Choice(["none", "session", "global"]),
    default="none",
    help="session: the key counts within the session alone.",
)
@click.option("--wait", is_flag=True, help="Wait for the end and print what came of it.")
@click.option("--stream", is_flag=True, help="The same, and show how far it is meanwhile.")
def submit(
    url: str | None, as_json: bool, scope: str, wait: bool, stream: bool, recipe: str | None, **given: Any
) -> None:
    """Put a run into the queue of a running worker, and print its id.

    PROMPT is the input of a recipe (a JSON object, or a text), or what an agent is to do. With --wait or --stream the
    exit code is 0 when the run succeeded; with --json and --stream each event is a line.

        penelope run submit '{"handle": "alice"}' --recipe follow-report --stream
    """
    from penelope.terminal import run_following, runs

    async def within(client: "AsyncClient") -> bool:
        handle = await client.runs.submit(recipe=recipe, per_session=scope == "session", **given)
        if not (wait or stream):
            runs.submitted(handle, client.url, as_json=as_json)
            return True
        if stream:
            await run_following.follow(handle, as_json=as_json)
            if as_json:
                return (await handle.status()).succeeded
        return runs.ended(await handle.wait(), as_json=as_json)

    at_worker(url, within, left=LEFT, patient=wait or stream)


@run.command()
@click.argument("run_id", metavar="RUN")
@address_options
def status(url: str | None, as_json: bool, run_id: str) -> None:
    """Print how a run is. The exit code is 1 when it failed or was cancelled."""
    from penelope.terminal import runs

    at_worker(url, lambda client: runs.show(client.runs.get(run_id), as_json=as_json))


@run.command()
@click.argument("run_id", metavar="RUN")
@address_options
@click.option("--wait", is_flag=True, help="Wait for the end.")
def result(url: str | None, as_json: bool, run_id: str, wait: bool) -> None:
    """Print what a run answered. The exit code is 0 when it succeeded."""
    from penelope.terminal import runs

    at_worker(
        url,
        lambda client: runs.show_result(client.runs.get(run_id), wait=wait, as_json=as_json),
        left=LEFT,
        patient=wait,
    )


@run.command("list")
@address_options
@click.option("--status", type=click.Choice(STATUSES), help="Only those.")
@click.option("--session", "--session-id", "session_id", help="Only those of this session.")
@click.option("--page", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--page-size", type=click.IntRange(1, 100), default=20, show_default=True)
def list_runs(url: str | None, as_json: bool, **given: Any) -> None:
    """Print the runs that the worker has, newest first."""
    from penelope.terminal import runs

    at_worker(url, _well(lambda client: runs.show_list(client, as_json=as_json, **given)))


@run.command()
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@address_options
def cancel(url: str | None, as_json: bool, run_ids: tuple[str, ...]) -> None:
    """End runs before they end by themselves."""
    from penelope.terminal import runs

    at_worker(
        url,
        _well(lambda client: runs.cancel(map(client.runs.get, run_ids), as_json=as_json)),
        left="left; what was asked for is done all the same",
    )


@run.command()
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@address_options
def delete(url: str | None, as_json: bool, run_ids: tuple[str, ...]) -> None:
    """Have the worker forget runs that are over, their results and their files."""
    from penelope.terminal import runs

    at_worker(url, _well(lambda client: runs.delete(map(client.runs.get, run_ids), as_json=as_json)))


def _well(work: "Callable[[AsyncClient], Any]") -> "Callable[[AsyncClient], Any]":
    """A command that did what it was asked, unless it raised."""

    async def within(client: "AsyncClient") -> bool:
        await work(client)
        return True

    return within
