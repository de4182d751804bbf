"""`penelope call`: one call of a plugin, with its progress while it works, then its answer and its files."""

import difflib
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trio
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from penelope import jsontext
from penelope.client import AsyncClient, Failure, Media, PenelopeClientError, media_links
from penelope.client.files import is_link
from penelope.terminal import shown, values
from penelope.terminal.client import Trouble
from penelope.terminal.plain import harmless, is_terminal, note, one_line, say

LOOK_EVERY_S: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be called.

    Attributes:
        words: `key=value` and the like.
        lease: the token of `X-Lease`; None without one.
    """

    page_id: str
    name: str
    words: tuple[str, ...]
    lease: str | None


async def call(client: AsyncClient, wanted: Wanted, folder: Path) -> None:
    """Call a plugin, print its answer, and save its files into `folder`.

    Raises:
        PenelopeClientError, Trouble: whatever went wrong.
    """
    fields = await _watched(client, wanted, await _body(client, wanted))
    saved = [await save(client, link, folder) for link in media_links(fields)]
    say(shown.answer(without_links(fields), all_of_it=not is_terminal()))
    for path in saved:
        note(f"saved {path}")


async def call_as_json(client: AsyncClient, wanted: Wanted) -> bool:
    """Call a plugin and print the envelope; was it a success? Its files wait behind their links.

    Raises:
        PenelopeClientError, Trouble: there was no answer of a worker's.
    """
    body = await _body(client, wanted)
    try:
        fields = await _watched(client, wanted, body)
    except Failure as failure:
        sys.stdout.write(f"{failure.text}\n")
        return False
    envelope = {"success": True, "page_id": wanted.page_id, **fields}
    sys.stdout.write(f"{jsontext.dumps(envelope)}\n")
    return True


async def start_job(client: AsyncClient, wanted: Wanted, ttl: float) -> None:
    """Start a polling job and print its id.

    Raises:
        PenelopeClientError, Trouble: it did not start.
    """
    body = await _body(client, wanted)
    job = await client.start(wanted.page_id, wanted.name, body, ttl=ttl, lease=wanted.lease)
    sys.stdout.write(f"{job.job_id}\n")
    note(f"`penelope jobs watch {job.job_id}` follows it; its result is kept {ttl:g} s after its end")


async def _body(client: AsyncClient, wanted: Wanted) -> dict[str, Any]:
    """The parameters, once the plugin is known to be there."""
    plugins = {one["name"]: one for one in (await client.get("/api/v1/plugins"))["plugins"]}
    found = plugins.get(wanted.name)
    if found is None:
        raise Trouble(f"there is no plugin {wanted.name}; {_near(wanted.name, plugins)}")
    return values.parse(wanted.words, found["parameters"])


def _near(name: str, plugins: Iterable[str]) -> str:
    known = sorted(plugins)
    by_last = {one.partition("/")[2]: one for one in known}
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.55)
    near += [by_last[last] for last in difflib.get_close_matches(name.rpartition("/")[2], by_last, n=2)]
    if near:
        return f"did you mean {' or '.join(dict.fromkeys(near))}?"
    return f"there are {', '.join(known)}"


async def _watched(client: AsyncClient, wanted: Wanted, body: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a plain call; in a terminal its progress is shown meanwhile."""
    request_id = secrets.token_hex(8)

    async def answer() -> dict[str, Any]:
        return await client.call(wanted.page_id, wanted.name, body, lease=wanted.lease, request_id=request_id)

    if not sys.stderr.isatty():
        return await answer()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[said]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"{wanted.name} on {harmless(wanted.page_id)}", total=None, said="")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_follow, client, request_id, lambda call: _show(progress, task, call))
            try:  # its failure leaves as itself, not in a group
                fields, failure = await answer(), None
            except PenelopeClientError as exc:
                fields, failure = {}, exc
            nursery.cancel_scope.cancel(reason="answered")
    if failure is not None:
        raise failure
    return fields


async def _follow(client: AsyncClient, request_id: str, on_look: Callable[[dict[str, Any]], None]) -> None:
    """Ask the worker how far the call is, again and again; what goes wrong there is no matter of the call's."""
    while True:
        await trio.sleep(LOOK_EVERY_S)
        try:
            calls = (await client.get("/api/v1/activity"))["calls"]
        except PenelopeClientError:
            continue
        for call in calls:
            if call.get("request_id") == request_id:
                on_look(call)


def _show(progress: Progress, task: TaskID, call: dict[str, Any]) -> None:
    if call["state"] == "waiting":
        progress.update(task, said="waits for the page")
        return
    fraction = call["progress"]
    said = one_line(call["note"])[:60]
    if not fraction:  # it never said: the bar only moves
        progress.update(task, said=said)
    else:
        progress.update(task, total=1.0, completed=fraction, said=f"{fraction:4.0%}  {said}")


async def save(client: AsyncClient, link: Media, folder: Path) -> Path:
    """Fetch a file into a folder, never over another; where it is now.

    Raises:
        PenelopeClientError, Trouble: it could not be fetched or written; nothing of it is left.
    """
    try:
        return await client.download(link, folder)
    except OSError as exc:
        raise Trouble(f"cannot write to {folder}: {exc.strerror or exc}") from exc


def without_links(value: Any) -> Any:
    """The answer with each media link as what is left of it once it is used up: name, type and size."""
    if isinstance(value, dict):
        if is_link(value):
            kept = ("filename", "content_type", "size")
            return {name: value[name] for name in kept if name in value}
        return {name: without_links(one) for name, one in value.items()}
    return [without_links(one) for one in value] if isinstance(value, list) else value
