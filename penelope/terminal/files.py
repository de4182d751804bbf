"""Media links of an answer, saved next to the caller: under safe names, and never over a file that is there."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import trio

from penelope.terminal.client import Remote, Trouble
from penelope.terminal.plain import harmless

MEDIA: Final = "/api/v1/media/"
LONGEST: Final = 150  # characters of a name, so that a number and an ending fit
TRIES: Final = 1000
SILENCE_S: Final = 60.0


def links(value: object) -> Iterator[dict[str, Any]]:
    """Each media link in an answer, wherever it stands."""
    if isinstance(value, dict):
        url = value.get("url")
        if isinstance(url, str) and url.startswith(MEDIA) and isinstance(value.get("filename"), str):
            yield value
            return
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from links(item)


async def save(remote: Remote, link: dict[str, Any], folder: Path) -> Path:
    """Fetch a file once, into `folder`; where it is now.

    Raises:
        Trouble: it could not be fetched or written. What came of it is removed; a link not used up still works.
    """
    path: Path | None = None
    try:
        async with remote.http.stream(
            "GET", link["url"], timeout=httpx.Timeout(SILENCE_S), headers={"Authorization": ""}
        ) as answer:
            if answer.status_code != 200:
                await answer.aread()
                remote.envelope(answer)
                raise Trouble(f"the file {harmless(link['filename'])} was answered {answer.status_code}")
            path = await trio.to_thread.run_sync(_reserve, folder, link["filename"])
            async with await trio.open_file(path, "wb") as file:
                async for piece in answer.aiter_bytes():
                    await file.write(piece)
        return path
    except httpx.TransportError as exc:
        _drop(path)
        raise Trouble(f"the file {harmless(link['filename'])} did not arrive: {type(exc).__name__}") from exc
    except OSError as exc:
        _drop(path)
        raise Trouble(f"cannot write {path or folder}: {exc.strerror}") from exc
    except BaseException:
        _drop(path)
        raise


def _reserve(folder: Path, filename: str) -> Path:
    """Make an empty file of that name, or of that name with a number, that was not there before."""
    name = safe_name(filename)
    stem, dot, ending = name.rpartition(".")
    stem, dot, ending = (stem, dot, ending) if stem else (name, "", "")
    for number in range(1, TRIES):
        path = folder / (name if number == 1 else f"{stem}-{number}{dot}{ending}")
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            continue
        return path
    raise Trouble(f"there are {TRIES} files called {name} in {folder}")


def safe_name(filename: str) -> str:
    """A name that stays in its folder, hides nothing and needs no quoting for its control characters."""
    last = re.split(r"[/\\]", harmless(filename))[-1].replace("\n", " ").replace("\t", " ")
    name = re.sub('[\N{REPLACEMENT CHARACTER}:*?"<>|]', "_", last).strip().lstrip(".-")
    if len(name) > LONGEST:
        stem, dot, ending = name.rpartition(".")
        tail = f"{dot}{ending}"[-20:] if stem else ""
        name = name[: LONGEST - len(tail)] + tail
    while len(name.encode()) > 200:  # of the 255 that file systems take
        stem, dot, ending = name.rpartition(".")
        name = f"{stem[:-1]}{dot}{ending}" if len(stem) > 1 else name[:-1]
    return name or "file"


def _drop(path: Path | None) -> None:
    if path is not None:
        path.unlink(missing_ok=True)
