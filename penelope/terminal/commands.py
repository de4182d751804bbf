"""The commands about a running worker, as the command line has them; what they need is imported when they run."""

import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from penelope import jsontext
from penelope.errors import StartError

if TYPE_CHECKING:
    from penelope.client import AsyncClient

EXIT_FAILED: Final = 1

_F = TypeVar("_F", bound=Callable[..., None])


def address_options(command: _F) -> _F:
    """Where the worker is. The key is never on a command line: other users of the machine see those."""
    url = click.option(
        "--url", help="The worker's base URL [default: PENELOPE_URL, or by PENELOPE_HOST and PENELOPE_PORT]."
    )
    as_json = click.option("--json", "as_json", is_flag=True, help="Print what the worker answers, as it is.")
    return url(as_json(command))


def _folder_option(text: str) -> Callable[[_F], _F]:
    kind = click.Path(path_type=Path, exists=True, file_okay=False, writable=True)
    return click.option("--dir", "folder", type=kind, help=text)


@click.command()
@click.argument("page_id", metavar="PAGE")
@click.argument("name", metavar="FAMILY/NAME")
@click.argument("words", metavar="[KEY=VALUE]...", nargs=-1)
@address_options
@click.option("--job", is_flag=True, help="Start it as a job, print the job's id and return.")
@click.option("--ttl", default=600.0, show_default=True, help="For how long a job's result is held, seconds.")
@click.option("--lease", metavar="TOKEN", help="Of the page's lease.")
@_folder_option("Where files are saved [default: here].")
def call(
    page_id: str,
    name: str,
    words: tuple[str, ...],
    url: str | None,
    as_json: bool,
    job: bool,
    ttl: float,
    lease: str | None,
    folder: Path | None,
) -> None:
    """Call a plugin of a running worker and show its answer.

    Parameters are written key=value (repeated, where one is a list), key=@file for what a file holds, or key:=json. The
    key is PENELOPE_KEY. Files that the answer links to are saved; with --json they wait behind their links.

        penelope call main web/read url=https://example.org/
    """
    from penelope.terminal import calling

    wanted = calling.Wanted(page_id=page_id, name=name, words=words, lease=lease)

    async def run(client: "AsyncClient") -> bool:
        if job:
            await calling.start_job(client, wanted, ttl)
            return True
        if as_json:
            return await calling.call_as_json(client, wanted)
        await calling.call(client, wanted, folder or Path())
        return True

    at_worker(url, run, left="left; the call goes on to its end on the worker")


@click.command()
@address_options
@click.option("--all", "all_of_it", is_flag=True, help="Each task in a line of its own, the server's too.")
def tree(url: str | None, as_json: bool, all_of_it: bool) -> None:
    """Draw what lives in a running worker: pages, who works them, who waits, and the tasks in their nurseries."""
    from penelope.terminal import drawing, plain

    async def run(client: "AsyncClient") -> bool:
        shown = await client.get("/api/v1/tree")
        if as_json:
            click.echo(jsontext.dumps(shown))
        else:
            plain.say(drawing.drawing(shown, all_of_it=all_of_it))
        return True

    at_worker(url, run)


@click.group()
def jobs() -> None:
    """List, show, watch and cancel the jobs of a running worker."""


@jobs.command("list")
@address_options
@click.option(
    "--state", type=click.Choice(["running", "done", "interrupted", "cancelled"]), help="Only those."
)
@click.option("--page", "page_id", help="Only those on this page.")
@click.option("--plugin", metavar="FAMILY/NAME", help="Only those of this plugin.")
def list_jobs(
    url: str | None, as_json: bool, state: str | None, page_id: str | None, plugin: str | None
) -> None:
    """Print the jobs that the worker holds, newest first."""
    from penelope.terminal import jobs as shown

    filters = {"state": state, "page_id": page_id, "plugin": plugin}

    async def run(client: "AsyncClient") -> bool:
        await shown.show_list(client, filters, as_json=as_json)
        return True

    at_worker(url, run)


@jobs.command("show")
@click.argument("job_id", metavar="JOB")
@address_options
@_folder_option("Save the result's files there; without it they wait behind their links.")
def show_job(job_id: str, url: str | None, as_json: bool, folder: Path | None) -> None:
    """Print a job and its result."""
    from penelope.terminal import jobs as shown

    async def run(client: "AsyncClient") -> bool:
        await shown.show(client, job_id, as_json=as_json, folder=folder)
        return True

    at_worker(url, run)


@jobs.command("watch")
@click.argument("job_ids", metavar="[JOB]...", nargs=-1)
@address_options
def watch_jobs(job_ids: tuple[str, ...], url: str | None, as_json: bool) -> None:
    """Follow jobs to their ends, or those that run now: bars in a terminal, lines in a pipe.

    The exit code is 0 when each of them did what it was asked. With --json each event is a line.
    """
    from penelope.terminal import following

    async def run(client: "AsyncClient") -> bool:
        return await following.watch(client, job_ids, as_json=as_json)

    at_worker(url, run, left="left; the jobs go on", patient=True)


@jobs.command("cancel")
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@address_options
def cancel_jobs(job_ids: tuple[str, ...], url: str | None, as_json: bool) -> None:
    """End jobs before they end by themselves."""
    from penelope.terminal import jobs as shown

    async def run(client: "AsyncClient") -> bool:
        await shown.cancel(client, job_ids, as_json=as_json)
        return True

    at_worker(url, run, left="left; what was asked for is done all the same")


@click.command()
@address_options
@click.option("--job", "job_id", help="Only those of this job.")
@click.option("--host", help="Only those to this receiver.")
@click.option("--verdict", type=click.Choice(["delivered", "retry", "give up"]), help="Only those.")
@click.option("--error", "error_class", metavar="CLASS", help="Only those that failed so: dns, refused, …")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
def deliveries(
    url: str | None,
    as_json: bool,
    job_id: str | None,
    host: str | None,
    verdict: str | None,
    error_class: str | None,
    limit: int,
) -> None:
    """Print the last POSTs of webhooks: when, where to, how they were answered. Newest first."""
    from penelope.terminal import ledger

    filters = {"job_id": job_id, "host": host, "verdict": verdict, "error_class": error_class, "limit": limit}

    async def run(client: "AsyncClient") -> bool:
        await ledger.show(client, filters, as_json=as_json)
        return True

    at_worker(url, run)


@click.command()
@click.argument("body", metavar="[FILE]", default="-")
@click.option(
    "--headers", metavar="FILE", help="The headers, a line each or a JSON object; FILE is the body then."
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    help="How old it may be, seconds.",
)
@click.option("--any-age", is_flag=True, help="However old; then X-Penelope-Signature alone will do.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def verify(body: str, headers: str | None, tolerance: float, any_age: bool, as_json: bool) -> None:
    """Check a webhook that somebody kept: is it the worker's, and of now?

    FILE is the whole request as it came over the wire, or the body alone with --headers; - or nothing reads from
    standard input. The keys are PENELOPE_KEY and, where it is set, PENELOPE_KEY_PREVIOUS. No worker is asked. The exit
    code is 0 when it is to be believed, 1 when it is not.
    """
    from penelope.settings import verifying_keys
    from penelope.terminal import verifying
    from penelope.terminal.client import Trouble

    try:
        keys = verifying_keys()
        if not keys:
            raise Trouble("PENELOPE_KEY is not set: it is the key that the worker signs with")
        found = verifying.verdict(*verifying.read(body, headers), keys, None if any_age else tolerance)
    except (Trouble, StartError) as error:
        _say(str(error))
        sys.exit(EXIT_FAILED)
    for line in [jsontext.dumps(found)] if as_json else verifying.in_lines(found):
        click.echo(line)
    sys.exit(0 if found["verified"] else EXIT_FAILED)


ALL: Final = (call, tree, jobs, deliveries, verify)


def at_worker(
    url: str | None,
    run: "Callable[[AsyncClient], Awaitable[bool]]",
    left: str = "left",
    *,
    patient: bool = False,
) -> None:
    """Run a command that talks to a worker, and end with its exit code.

    Args:
        run: whether the worker did what it was asked.
        left: what to say when it is interrupted.
        patient: what fails for a while is tried again; else it fails at once.
    """
    import trio

    from penelope.client import PenelopeClientError
    from penelope.terminal.client import AT_ONCE, PATIENT, Trouble, in_a_line, open_client

    found = ""

    async def within() -> bool:
        nonlocal found
        async with open_client(url, PATIENT if patient else AT_ONCE) as client:
            found = client.url
            return await run(client)

    interrupted = done = False
    try:
        done = trio.run(within)
    except* (Trouble, PenelopeClientError) as group:
        for error in _leaves(group):
            _say(in_a_line(error, found) if isinstance(error, PenelopeClientError) else str(error))
    except* KeyboardInterrupt:
        interrupted = True
    if interrupted:
        _say(left)
    sys.exit(0 if done else EXIT_FAILED)


def _say(words: str) -> None:
    from penelope.terminal import plain

    click.echo(f"penelope: {plain.one_line(words)}", err=True)  # it may have a page's own words


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
