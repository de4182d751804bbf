"""The profile folder: one owner at a time, no orphan on it, no stale lock, and a temp folder of its own.

Source: contract, section 3 ("No Chromium process outlives the worker …"); design, section 7 (10).
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import structlog

from penelope.errors import StartError, StoreHeld
from penelope.pages.browser.node import temp_folder
from penelope.pages.browser.processes import command_line, end_all, group

LOCK_NAME = "penelope.lock"
CHROMIUM_LOCKS = ("SingletonLock", "SingletonCookie", "SingletonSocket")

log = structlog.get_logger("penelope.browser")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a browser lives, held by this process.

    Attributes:
        profile: the browser's user data; absolute.
        temp: TMPDIR of browser and driver; mode 0700, empty at the start.
    """

    profile: Path
    temp: Path

    @property
    def browser_pid_file(self) -> Path:
        """Where the launcher leaves the browser's pid."""
        return self.temp / "browser.pid"

    def browser_pid(self) -> int | None:
        """The pid of the browser that was started last; None when there was none."""
        try:
            return int(self.browser_pid_file.read_text())
        except (OSError, ValueError):
            return None

    def clear(self) -> None:
        """End what still runs on the profile from an earlier life, and remove the locks it left.

        Raises:
            StoreHeld: a browser that is not ours, e.g. one that was opened by hand, runs on the profile.
        """
        _end_orphans(self.profile)
        for name in CHROMIUM_LOCKS:
            (self.profile / name).unlink(missing_ok=True)
        self.browser_pid_file.unlink(missing_ok=True)


@contextmanager
def hold_profile(profile: Path) -> Iterator[Place]:
    """Hold the profile for this process, for as long as the block.

    Raises:
        StoreHeld: another process holds it.
        StartError: the folder cannot be made or written.
    """
    profile = profile.absolute()
    try:
        profile.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(profile / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartError(f"browser profile {profile} cannot be used: {error.strerror}") from error
    try:
        _lock(fd, profile)
        temp = _temp_folder(profile)
        try:
            yield Place(profile, temp)
        finally:
            shutil.rmtree(temp, ignore_errors=True)
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)  # a child process that has only just begun may still have it, too
        os.close(fd)


def _lock(fd: int, profile: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(fd, 20).decode("ascii", "replace").strip() or "unknown"
        raise StoreHeld(f"browser profile {profile} is held by another worker, pid {owner}") from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)


def _temp_folder(profile: Path) -> Path:
    """An empty folder of ours; under the same name at each start, so that a killed worker's is emptied."""
    folder = temp_folder(profile)
    try:
        _remove(folder)
        folder.mkdir(mode=0o700)
    except OSError:  # somebody else's, in a folder that is open to all
        folder = Path(tempfile.mkdtemp(prefix="penelope-", dir=folder.parent))
    return folder


def _remove(folder: Path) -> None:
    """Remove what an earlier life left; OSError when it is not ours."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(folder)
    shutil.rmtree(folder)


def _end_orphans(profile: Path) -> None:
    for process in browsers_on(profile):
        try:
            ours = "--remote-debugging-pipe" in process.cmdline()
            tree = [process, *process.children(recursive=True), *group(process.pid)]
        except psutil.Error:
            continue
        if not ours:
            raise StoreHeld(
                f"browser profile {profile} is in use by a browser opened by hand, pid {process.pid}"
            )
        log.warning("ending a browser left on this profile by an earlier start", pid=process.pid)
        end_all(tree)


def browsers_on(profile: Path) -> list[psutil.Process]:
    """The browser processes (not their children) that run on exactly this profile."""
    wanted = f"--user-data-dir={profile}"
    found = []
    for pid in psutil.pids():
        words = command_line(pid)
        if wanted in words and not any(word.startswith("--type=") for word in words):
            with suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(pid))
    return found
