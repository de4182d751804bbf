"""Files behind media links: found in an answer, fetched once, resumed where it broke off, under safe names.

Source: contract, section 6.
"""

import os
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from penelope.client.asking import Answer, Ask, How, Trying, comes_back, said
from penelope.client.errors import PenelopeClientError, UnexpectedAnswer
from penelope.client.models import Media, shown

MEDIA: Final = "/api/v1/media/"
SILENCE_S: Final = 60.0
LONGEST: Final = 150  # characters of a name, so that a number and an ending fit
TRIES: Final = 1000


def media_links(value: object) -> Iterator[Media]:
    """Each media link in an answer, wherever it stands."""
    if isinstance(value, Mapping):
        if is_link(value):
            yield shown(Media, value)
            return
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from media_links(item)


def is_link(value: Mapping[str, Any]) -> bool:
    url = value.get("url")
    return isinstance(url, str) and url.startswith(MEDIA) and isinstance(value.get("filename"), str)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file goes: written beside its name, and moved there when it is whole.

    Attributes:
        path: its name; `ours` when it was made for this, and is to go if nothing comes of it.
    """

    path: Path
    part: Path
    ours: bool

    def keep(self) -> None:
        self.part.replace(self.path)

    def drop(self) -> None:
        self.part.unlink(missing_ok=True)
        if self.ours:
            self.path.unlink(missing_ok=True)


def place(to: "str | os.PathLike[str]", filename: str) -> Place:
    """Prepare for a file; blocking.

    Args:
        to: a folder: the file gets its own name there, made safe, with a number if that is taken. Else the file's path,
            and what is there is replaced.

    Raises:
        OSError: the folder cannot be written to.
    """
    path = Path(to)
    ours = path.is_dir()
    if ours:
        path = _reserve(path, filename)
    place = Place(path, path.with_name(f".{secrets.token_hex(6)}.part"), ours)
    try:
        place.part.touch(exist_ok=False)
    except OSError:
        place.drop()
        raise
    return place


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
    raise FileExistsError(f"there are {TRIES} files called {name} in {folder}")


def safe_name(filename: str) -> str:
    """A name that stays in its folder, hides nothing and has no characters that steer a terminal or a shell."""
    last = " ".join(re.split(r"[/\\]", filename)[-1].split())
    printable = "".join(one if one.isprintable() else "_" for one in last)
    name = re.sub('[\N{REPLACEMENT CHARACTER}:*?"<>|]', "_", printable).strip().lstrip(".-")
    if len(name) > LONGEST:
        stem, dot, ending = name.rpartition(".")
        tail = f"{dot}{ending}"[-20:] if stem else ""
        name = name[: LONGEST - len(tail)] + tail
    while len(name.encode()) > 200:  # of the 255 that file systems take
        stem, dot, ending = name.rpartition(".")
        name = f"{stem[:-1]}{dot}{ending}" if len(stem) > 1 else name[:-1]
    return name or "file"


class Fetching:
    """One download: what to ask, and where the next bytes go; without a socket.

    Attributes:
        received: bytes so far.
    """

    def __init__(self, how: How, link: Media) -> None:
        if not link.url.startswith(MEDIA):
            raise UnexpectedAnswer(f"{link.url!r} is no media link")
        self.received = 0
        self._furthest = 0
        self._link = link
        self._trying = Trying(how)

    def ask(self) -> Ask:
        """For the rest of the file. The token is all that it needs: the key stays here."""
        headers = {"Accept-Encoding": "identity"}
        if self.received:
            headers["Range"] = f"bytes={self.received}-"
        return Ask(method="GET", path=self._link.url, headers=headers, answer_s=SILENCE_S, keyless=True)

    def starts(self, status: int, headers: Mapping[str, str]) -> bool:
        """Does the answer bring the bytes that were asked for? `received` is where they go: 0 when all come anew."""
        if status == 200:
            self.received = 0
            return True
        return status == 206 and headers.get("content-range", "").startswith(f"bytes {self.received}-")

    def got(self, count: int) -> None:
        self.received += count
        if (
            self.received > self._furthest
        ):  # else it would go on for ever with a server that always begins anew
            self._furthest = self.received
            self._trying.again()

    def broke(self, error: httpx.TransportError) -> float:
        """The pause after a break.

        Raises:
            Unreachable: enough was tried.
        """
        return self._trying.failed(self.ask(), error)

    def refused(self, answer: Answer) -> float:
        """The pause after an answer that brings nothing.

        Raises:
            PenelopeClientError: nor will it later, or enough was tried.
        """
        busy = answer.status == 409 and answer.retry_after is not None  # another download of it is under way
        wait = self._trying.refused(answer) if busy or comes_back(self.ask(), answer) else None
        if wait is None:
            said(answer)
            raise PenelopeClientError(f"the file was answered {answer.status}", status=answer.status)
        return wait
