"""Process trees: whether one lives, and its certain end.

Everything here is immediate or bounded, and belongs to no event loop.
"""

import os
import select
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

END_S = 1.0  # after SIGKILL


class Process:
    """One process, told from a later one that got its number.

    Attributes:
        pid: its number.
    """

    def __init__(self, pid: int) -> None:
        """Raises ProcessLookupError when there is none."""
        self.pid = pid
        self._fd: int | None = None
        try:
            self._psutil = psutil.Process(pid)
        except psutil.NoSuchProcess:
            raise ProcessLookupError(pid) from None
        if hasattr(os, "pidfd_open"):
            try:
                self._fd = os.pidfd_open(pid)
            except ProcessLookupError:
                raise
            except OSError:  # a kernel, or a sandbox, without it
                self._fd = None

    @property
    def alive(self) -> bool:
        """Whether it runs; a zombie does not. Costs microseconds."""
        if self._fd is not None:
            poll = select.poll()
            poll.register(self._fd, select.POLLIN)
            return not poll.poll(0)
        try:
            return self._psutil.is_running() and self._psutil.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def tree(self) -> list[psutil.Process]:
        """It and all below it that run."""
        try:
            return [self._psutil, *self._psutil.children(recursive=True)] if self.alive else []
        except psutil.NoSuchProcess:
            return []

    def release(self) -> None:
        """Give its descriptor back."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def command_line(pid: int) -> list[str]:
    """The words of a process; [] where there is none, or they are not to be seen.

    Where it is a file, that is read: all processes in a millisecond, each start looks at them.
    """
    try:
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).split("\0")[:-1]
    except OSError:
        if Path("/proc/self/cmdline").exists():
            return []
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []


def group(pgid: int) -> list[psutil.Process]:
    """The processes of a process group that run: those of a leader, whether it still lives or not."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == pgid and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, ProcessLookupError, PermissionError):
            continue
    return found


def end_all(processes: Iterable[psutil.Process]) -> None:
    """SIGKILL them and wait, at most a second, until they are gone."""
    left = list(processes)
    for process in left:
        try:
            process.kill()  # psutil looks at the creation time: a reused number is not hit
        except psutil.Error:
            continue
    until = time.monotonic() + END_S
    while left and time.monotonic() < until:
        left = [process for process in left if _runs(process)]
        if left:
            time.sleep(0.005)


def reap(processes: Iterable[psutil.Process]) -> None:
    """Take note of the end of dead ones: as process 1 of a container we inherit what lost its parent, and a zombie
    stays until we do.
    """
    for process in processes:
        with suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)


def inherited(name: str) -> list[psutil.Process]:
    """The children of this process whose name begins so, zombies included: as process 1 it gets those of a browser that
    had left its group.
    """
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if child.name().startswith(name):
                found.append(child)
    return found


def reap_group(pgid: int) -> None:
    """As `reap`, of all of a process group that we inherited: most ended with their parent, before anybody looked."""
    with suppress(ChildProcessError):
        while os.waitpid(-pgid, os.WNOHANG) != (0, 0):
            pass


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
