"""What the waker keeps on the disk between its lives: who may use the folder, and a record for each worker.

A record is written before its process is started, so that a waker that is killed at any moment finds what it left. It
has no key: what a worker was told is in it as a digest.

Source: contract, section 9 ("The waker's own crash leaves workers running").
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from penelope.errors import StartError, WakerHeld

log = structlog.get_logger("penelope.waker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A worker that was started.

    Attributes:
        token: in the environment of its process, and of no other.
        pid, birth: None while it is being started; `birth` tells its process from a later one of that number.
        address: None until it is ready.
        log_from: where in its log file this life begins, bytes.
        digest: of its order, salted with the token.
    """

    name: str
    token: str
    pid: int | None
    birth: str | None
    address: str | None
    started_at: float
    log_from: int
    digest: str
    store: str


class Records:
    """The folder's `NAME.json`; blocking, each call well under a millisecond."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, record: Record) -> None:
        path = self._path(record.name)
        fresh = path.with_suffix(".new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(asdict(record), file)
        fresh.replace(path)

    def drop(self, name: str) -> None:
        with _said("a record of the waker's cannot be removed", name):
            self._path(name).unlink(missing_ok=True)

    def all(self) -> list[Record]:
        """Those that can be read; one that cannot is named in the log, and is nobody's."""
        found = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                found.append(Record(**json.loads(path.read_text("utf-8"))))
            except (OSError, ValueError, TypeError) as exc:
                log.warning("a record of the waker's cannot be read", file=path.name, error=repr(exc))
        return found

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"


class Owed:
    """Which personas have to be started again although nobody asks: their workers ended with something in flight, or
    nobody knows how. A file each, which a clean stop removes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note(self, name: str) -> None:
        with _said("what is owed cannot be noted", name):
            (self._folder / f"{name}.up").touch()

    def forget(self, name: str) -> None:
        with _said("what is owed cannot be noted", name):
            (self._folder / f"{name}.up").unlink(missing_ok=True)

    def is_noted(self, name: str) -> bool:
        return (self._folder / f"{name}.up").exists()


@contextlib.contextmanager
def _said(words: str, name: str) -> Iterator[None]:
    """A disk that takes nothing is told, and ends nobody's worker."""
    try:
        yield
    except OSError as exc:
        log.warning(words, persona=name, error=str(exc))


@contextlib.contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Make the folder if it is not there, and hold it while the block lasts: one waker for one set of workers.

    Raises:
        WakerHeld: another waker holds it; the message names its pid.
        StartError: it cannot be made or written.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / "waker.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise StartError(f"the waker's folder {folder} is not writable: {exc.strerror}") from exc
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            pid = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise WakerHeld(f"the waker's folder {folder} is in use by the waker with pid {pid}") from exc
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)  # of no child's: it is closed when one is started
