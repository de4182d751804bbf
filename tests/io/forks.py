"""`penelope` as a fork of a process that has imported all of it, which takes 20 ms of CPU instead of a second.

What is forked is a process like any other: pid, signals, descriptors, folder, environment and end are its own. Two
things are not as an operator has them: nothing is imported any more, and `/proc` shows the command line and the
environment of the one it was forked from. Where a test is about these, it has the real command: `executed`.

Run as a program it is that process. It reads requests from the socket whose number it is given, a message each: a JSON
object, and with it the descriptors of a pipe to answer on and of standard input, output and error. It answers with the
pid in a line, and with the exit code in another when it has ended.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Final, TextIO

import trio

ROOT: Final = Path(__file__).parents[2]
REQUEST_BYTES: Final = 2**17
DESCRIPTORS: Final = 4
PRELOADED: Final = ("penelope", "tests.kill.points")
INTERPRETERS: Final = ("PYTHON", "LC_", "LANG")


@dataclass(frozen=True, kw_only=True)
class Request:
    """
    Attributes:
        program: `penelope`, to be run as `-m` does it; or the path of a file.
        environment: all of it.
    """

    program: str
    words: Sequence[str]
    environment: Mapping[str, str]
    folder: str


class Forked:
    """What `subprocess.Popen` is, as far as the tests want it.

    Attributes:
        returncode: as Popen has it; None while it was not seen to have ended.
    """

    def __init__(self, request: Request, stdin: int, stdout: int, stderr: int) -> None:
        """Start it; it has those descriptors, which stay open here."""
        for name in {*os.environ, *request.environment}:
            same = request.environment.get(name) == _given().get(name)
            assert same or not name.startswith(INTERPRETERS), (
                f"{name} is read at a start: run the real command"
            )
        self.returncode: int | None = None
        self._status, theirs = os.pipe()
        try:
            _mother().ask(request, [theirs, stdin, stdout, stderr])
        finally:
            os.close(theirs)
        self._said = b""
        while b"\n" not in self._said:
            self._read()
        self.pid = int(self._said.partition(b"\n")[0])

    def _read(self) -> None:
        piece = os.read(self._status, 64)
        assert piece, f"the process that forks has ended: {self._said!r}"
        self._said += piece

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Raises:
        TimeoutError: it runs still.
        """
        code = self._look(None if timeout is None else timeout * 1000)
        if code is None:
            raise TimeoutError
        return code

    def _look(self, for_ms: float | None) -> int | None:
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._status, select.POLLIN)
            while self._said.count(b"\n") < 2:
                if not poll.poll(for_ms):
                    return None
                self._read()
            os.close(self._status)
            self.returncode = int(self._said.split()[1])
        return self.returncode

    async def ended(self) -> int:
        """Its exit code, as soon as it has one."""
        while self.poll() is None:
            await trio.lowlevel.wait_readable(self._status)
        return self.wait()

    def send_signal(self, number: int) -> None:
        """Nothing, if it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Mother:
    """The process that forks, one for each process of the tests."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.io.forks", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=ROOT,
                env=_given(),
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self._end)

    def ask(self, request: Request, descriptors: list[int]) -> None:
        message = json.dumps(asdict(request)).encode()
        socket.send_fds(self._socket, [message], descriptors)

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


def _given() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENELOPE_")}
    return kept | {"PYTHONPATH": str(ROOT)}


_one: dict[int, _Mother] = {}


def _mother() -> _Mother:
    """Of this process; a fork of it gets one of its own."""
    if os.getpid() not in _one:
        _one[os.getpid()] = _Mother()
    return _one[os.getpid()]


def _import_all() -> None:
    for name in PRELOADED:
        module = importlib.import_module(name)
        for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}."):
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)


def _say(descriptor: int, number: int) -> None:
    with suppress(BrokenPipeError):  # nobody wants to know any more
        os.write(descriptor, f"{number}\n".encode())


class _Children:
    """Forks, and tells how each ends."""

    def __init__(self, requests: int) -> None:
        self._requests = requests
        self._status: dict[int, int] = {}  # by pid, where to say its end

    def serve(self) -> tuple[Request, list[int]] | None:
        """In each child what it is to become; in the mother None, when nobody asks any more."""
        awake, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: it is for the tests
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        poll = select.poll()
        for descriptor in (self._requests, awake):
            poll.register(descriptor, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poll.poll()]
            if awake in ready:
                os.read(awake, 512)
                self._reap()
            if self._requests in ready:
                found = self._receive()
                if found is None or self._fork(found[1]):
                    return found

    def _receive(self) -> tuple[Request, list[int]] | None:
        requests = socket.socket(fileno=self._requests)
        try:
            message, descriptors, *_ = socket.recv_fds(requests, REQUEST_BYTES, DESCRIPTORS)
        finally:
            requests.detach()
        return (Request(**json.loads(message)), descriptors) if message else None

    def _fork(self, descriptors: list[int]) -> bool:
        """Whether this is the child."""
        status, *others = descriptors
        pid = os.fork()
        if pid == 0:
            return True
        self._status[pid] = status
        _say(status, pid)
        for descriptor in others:
            os.close(descriptor)
        return False

    def _reap(self) -> None:
        while self._status:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            _say(self._status[pid], os.waitstatus_to_exitcode(status))
            os.close(self._status.pop(pid))


def _opened(number: int, like: TextIO) -> IO[str]:
    """A stream of the interpreter's own; whether it is a terminal's is found out anew."""
    mode, lines = "w" if number else "r", 1 if number == 2 else -1
    return open(number, mode, lines, like.encoding, like.errors, closefd=False)


def _become(request: Request, stdio: Sequence[int]) -> None:
    """As the interpreter does it at its start, so that nothing of the mother's is left but what it has imported."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(stdio):
        os.dup2(descriptor, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = _opened(number, getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    if request.program.endswith(".py"):
        sys.argv = [request.program, *request.words]
        sys.path[0] = str(Path(request.program).parent)
        runpy.run_path(request.program, run_name="__main__")
    else:
        sys.argv = ["-m", *request.words]
        sys.path[0] = request.folder
        runpy.run_module(request.program, run_name="__main__", alter_sys=True)


def main() -> None:
    _import_all()
    gc.collect()
    gc.freeze()
    assert 1 == threading.active_count()
    found = _Children(int(sys.argv[1])).serve()
    if found is not None:
        request, descriptors = found
        _become(request, descriptors[1:])


if __name__ == "__main__":
    main()
