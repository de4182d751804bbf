"""One worker process: whether it is really ours, its end, and what is left of it.

Source: contract, section 9 ("by pid, start time and a token, never a stranger's process").
"""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil
import trio

TOKEN: Final = "PENELOPE_WAKER_TOKEN"  # noqa: S105  # a variable's name
LOOK_AGAIN_S: Final = 0.5  # where the kernel tells no end
LEFT_S: Final = 5.0  # what a worker leaves behind ends by itself in this time


def birth(pid: int) -> str | None:
    """When a process began, as the kernel counts: no clock that is set changes it. None: there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}:{stat.rpartition(')')[2].split()[19]}"
    except OSError:
        with suppress(psutil.Error):
            return str(psutil.Process(pid).create_time())
        return None


def has_token(pid: int, token: str) -> bool:
    """Was this process, which may be anybody's, started with the token in its environment?"""
    try:
        return psutil.Process(pid).environ().get(TOKEN) == token
    except (psutil.Error, OSError):
        return False


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
    except psutil.Error:
        return False


def find_by_token(token: str) -> int | None:
    """The worker that was started with it, if it runs; its browser has the token in its environment too."""
    found = [process for process in psutil.process_iter() if has_token(process.pid, token)]
    pids = {process.pid for process in found}
    for process in found:
        with suppress(psutil.Error):
            if process.ppid() not in pids and runs(process.pid):
                return process.pid
    return None


class Child:
    """A worker's process, of this waker or of an earlier one. `process` None: of an earlier one."""

    def __init__(self, pid: int, process: trio.Process | None = None) -> None:
        self.pid = pid
        self._process = process
        self._how: str | None = None
        self._waiting = trio.Lock()  # two tasks cannot wait for one descriptor
        self._fd: int | None = None
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):
                self._fd = os.pidfd_open(pid)

    async def ended(self) -> str:
        """Wait for its end, however long; how it ended, a clause."""
        async with self._waiting:
            if self._how is None:
                self._how = await self._end()
            return self._how

    async def _end(self) -> str:
        if self._process is not None:
            code = await self._process.wait()
            return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        if self._fd is not None:
            await trio.lowlevel.wait_readable(self._fd)
        else:
            while runs(self.pid):  # noqa: ASYNC110  # another's child: nothing tells
                await trio.sleep(LOOK_AGAIN_S)
        return "ended"

    def send(self, number: signal.Signals) -> None:
        """Signal it, and no process that got its number since."""
        with suppress(ProcessLookupError):
            if self._process is not None:
                self._process.send_signal(number)
            elif self._fd is not None:
                signal.pidfd_send_signal(self._fd, number)
            elif runs(self.pid):
                os.kill(self.pid, number)

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def family(pid: int) -> list[psutil.Process]:
    """All below a process. Blocking."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def with_profile(store: Path) -> list[psutil.Process]:
    """The browsers that have the store's profile on their command line. Blocking."""
    named = f"--user-data-dir={store / 'profile'}"
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(word == named for word in process.info["cmdline"] or ())
    ]


async def bury(left: list[psutil.Process]) -> int:
    """Wait for processes whose worker has ended; kill those that stay. How many were killed."""
    with trio.move_on_after(LEFT_S):
        while left := [process for process in left if _lives(process)]:  # noqa: ASYNC110  # no event
            await trio.sleep(0.05)
    for process in left:
        with suppress(psutil.Error):  # psutil looks at the time of birth: a reused number is not hit
            process.kill()
    return len(left)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
