"""A worker's log: a file that the worker itself appends to, so that a waker that dies breaks nothing.

Blocking functions.

Source: contract, section 9 (`GET /personas/{name}/logs`).
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import structlog

MAX_BYTES: Final = 16 * 2**20  # then it becomes `NAME.log.1`, of which there is one
TAIL_BYTES: Final = 512 * 1024
MAX_LINE_CHARS: Final = 4000

log = structlog.get_logger("penelope.waker")


def open_to_append(path: Path) -> tuple[BinaryIO, int]:
    """The file for a new worker, and where in it that worker's part begins."""
    trim(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    file = os.fdopen(descriptor, "ab", buffering=0)
    return file, os.fstat(descriptor).st_size


def trim(path: Path) -> None:
    """Put a file that has grown too large aside. It may be written to: appended bytes begin at 0 again.

    On a disk that takes no copy it goes on growing: that is told, and nobody's end.
    """
    try:
        if path.stat().st_size <= MAX_BYTES:
            return
        shutil.copyfile(path, path.with_suffix(".log.1"))
        os.truncate(path, 0)
    except FileNotFoundError:
        return
    except OSError as exc:
        log.warning("a worker's log cannot be put aside", file=path.name, error=str(exc))


def tail(path: Path, lines: int) -> list[str]:
    """The last lines, oldest first; empty where there is no file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = max(0, size - TAIL_BYTES)
            file.seek(begin)
            found = file.read().decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []
    whole = found[1:] if begin else found
    return [line[:MAX_LINE_CHARS] for line in whole[-lines:]]


class Reader:
    """Reads what is appended, line by line."""

    def __init__(self, path: Path, begin: int) -> None:
        self._path, self._at, self._rest = path, begin, b""

    def events(self) -> Iterator[dict[str, Any]]:
        """The new lines that are JSON objects; a line that is not whole yet waits."""
        with self._path.open("rb") as file:
            file.seek(self._at)
            new = file.read()
        self._at += len(new)
        *whole, self._rest = (self._rest + new).split(b"\n")
        for line in whole:
            if line.startswith(b"{"):
                try:
                    yield json.loads(line)
                except ValueError:
                    continue


def said_last(lines: list[str]) -> str | None:
    """The one line that a worker ends with when it does not start, without its prefix; None where there is none."""
    for line in reversed(lines):
        if line.startswith("penelope: "):
            return line.removeprefix("penelope: ")
    return None
