"""`penelope call`: one call of a plugin, with its progress while it works, then its answer and its files."""

import difflib
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import trio
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from penelope.terminal import files, shown, values
from penelope.terminal.client import Remote, Trouble
from penelope.terminal.plain import harmless, is_terminal, note, one_line, say

LOOK_EVERY_S: Final = 0.25
ENVELOPE: Final = frozenset({"success", "page_id"})


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


async def call(remote: Remote, wanted: Wanted, folder: Path) -> None:
    """Call a plugin, print its answer, and save its files into `folder`.

    Raises:
        Trouble: whatever went wrong, in a line.
    """
    body = await _body(remote, wanted)
    envelope = remote.envelope(await _watched(remote, wanted, body))
    fields = {name: value for name, value in envelope.items() if name not in ENVELOPE}
    saved = [await files.save(remote, link, folder) for link in files.links(envelope)]
    say(shown.answer(_without_links(fields), all_of_it=not is_terminal()))
    for path in saved:
        note(f"saved {path}")


async def call_as_json(remote: Remote, wanted: Wanted) -> bool:
    """Call a plugin and print the envelope as it is; was it a success? Its files wait behind their links.

    Raises:
        Trouble: there was no answer of a worker's.
    """
    answer = await _watched(remote, wanted, await _body(remote, wanted))
    sys.stdout.write(f"{answer.text}\n")
    return bool(answer.is_success)


async def start_job(remote: Remote, wanted: Wanted, ttl: float) -> None:
    """Start a polling job and print its id.

    Raises:
        Trouble: it did not start.
    """
    body = await _body(remote, wanted)
    answer = await remote.send(
        "POST", _path(wanted), json=body, headers={**_headers(wanted), "X-Result-Ttl": f"{ttl:f}"}
    )
    accepted = remote.envelope(answer)
    sys.stdout.write(f"{accepted['job_id']}\n")
    note(f"its result is at {remote.url}{accepted['status_url']}, for {ttl:g} s after its end")


async def _body(remote: Remote, wanted: Wanted) -> dict[str, Any]:
    """The parameters, once the plugin is known to be there."""
    plugins = {one["name"]: one for one in (await remote.get("/api/v1/plugins"))["plugins"]}
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


async def _watched(remote: Remote, wanted: Wanted, body: Mapping[str, Any]) -> httpx.Response:
    """The answer of a plain call; in a terminal its progress is shown meanwhile."""
    request_id = secrets.token_hex(8)
    headers = {**_headers(wanted), "X-Request-Id": request_id}
    if not sys.stderr.isatty():
        return await remote.send("POST", _path(wanted), json=body, headers=headers)
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
            nursery.start_soon(_follow, remote, request_id, lambda call: _show(progress, task, call))
            answer = await remote.send("POST", _path(wanted), json=body, headers=headers)
            nursery.cancel_scope.cancel(reason="answered")
    return answer


async def _follow(remote: Remote, request_id: str, on_look: Callable[[dict[str, Any]], None]) -> None:
    """Ask the worker how far the call is, again and again; what goes wrong there is no matter of the call's."""
    while True:
        await trio.sleep(LOOK_EVERY_S)
        try:
            calls = (await remote.get("/api/v1/activity"))["calls"]
        except Trouble:
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


def _path(wanted: Wanted) -> str:
    return f"/api/v1/{quote(wanted.page_id, safe='')}/plugin/{wanted.name}"


def _headers(wanted: Wanted) -> dict[str, str]:
    return {} if wanted.lease is None else {"X-Lease": wanted.lease}


def _without_links(value: Any) -> Any:
    """The answer with each media link as what is left of it once it is used up: name, type and size."""
    if isinstance(value, dict):
        if list(files.links(value)) == [value]:
            kept = ("filename", "content_type", "size")
            return {name: value[name] for name in kept if name in value}
        return {name: _without_links(one) for name, one in value.items()}
    return [_without_links(one) for one in value] if isinstance(value, list) else value
