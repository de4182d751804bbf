"""The real commands against a real worker: in a pipe, as a script has them, and in a terminal."""

import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

import trio

from tests.io.forks import ROOT, Forked, Request
from tests.io.worker_process import KEY, WorkerProcess

ESCAPE: Final = "\x1b"


def environment(worker: WorkerProcess | None, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENELOPE_")}
    url = "http://127.0.0.1:1" if worker is None else worker.base_url
    port = url.rpartition(":")[2]
    given = {"PENELOPE_KEY": KEY, "PENELOPE_PORT": port, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    return {**kept, **given, **more}


def _start(
    words: Sequence[str], environment: dict[str, str], cwd: Path, stdin: int, stdout: int, stderr: int
) -> Forked:
    request = Request(program="penelope", words=words, environment=environment, folder=os.fspath(cwd))
    return Forked(request, stdin, stdout, stderr)


async def run(
    *words: str,
    worker: WorkerProcess | None,
    cwd: Path,
    stdin: bytes | str = "",
    executed: bool = False,
    **more: str,
) -> "subprocess.CompletedProcess[bytes]":
    """Run the command in pipes, as a script does.

    Args:
        executed: whether it is the command as a script starts it, with all of its imports; else a fork (`forks.py`).
    """
    given = stdin if isinstance(stdin, bytes) else stdin.encode()
    variables = environment(worker, **more)
    with trio.fail_after(60):
        if executed:
            return await trio.run_process(
                [sys.executable, "-m", "penelope", *words],
                cwd=cwd,
                env=variables,
                stdin=given,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
        return await run_fork(words, variables, cwd, given)


def run_alone(
    *words: str, cwd: Path, executed: bool = False, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run the command as a user does: no key, no setting but those given; blocking."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENELOPE_")}
    given = {**kept, "PYTHONPATH": str(ROOT), **environment}
    with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
        files = (stdin.fileno(), stdout.fileno(), stderr.fileno())
        if executed:
            command = [sys.executable, "-m", "penelope", *words]
            code = subprocess.run(
                command,
                cwd=cwd,
                env=given,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                timeout=60,
                check=False,
            ).returncode
        else:
            process = _start(words, given, cwd, *files)
            try:
                code = process.wait(60)
            finally:
                process.kill()
        said = []
        for file in (stdout, stderr):
            file.seek(0)
            said.append(file.read().decode())
    return subprocess.CompletedProcess(["penelope", *words], code, *said)


async def run_fork(
    words: Sequence[str], environment: dict[str, str], cwd: Path, given: bytes = b""
) -> "subprocess.CompletedProcess[bytes]":
    (stdin, feed), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
    try:
        process = _start(words, environment, cwd, stdin, stdout, stderr)
    finally:
        for end in (stdin, stdout, stderr):
            os.close(end)
    said = [b"", b""]

    async def write() -> None:
        async with trio.lowlevel.FdStream(feed) as stream:
            with suppress(trio.BrokenResourceError):  # it reads no further
                await stream.send_all(given)

    async def read(number: int, end: int) -> None:
        async with trio.lowlevel.FdStream(end) as stream:
            said[number] = b"".join([piece async for piece in stream])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        nursery.start_soon(read, 0, out)
        nursery.start_soon(read, 1, err)
    return subprocess.CompletedProcess(["penelope", *words], await process.ended(), *said)


async def printed(*words: str, worker: WorkerProcess, cwd: Path) -> str:
    done = await run(*words, worker=worker, cwd=cwd)
    assert 0 == done.returncode, done.stderr.decode()
    return done.stdout.decode()


async def refused(
    *words: str, worker: WorkerProcess | None, cwd: Path, executed: bool = False, **more: str
) -> str:
    """The one line of a command that failed."""
    done = await run(*words, worker=worker, cwd=cwd, executed=executed, **more)
    assert 1 == done.returncode, done
    assert b"" == done.stdout
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("penelope: ")
    return line


async def printed_until(
    *words: str, worker: WorkerProcess, cwd: Path, seen: str, then: Callable[[], object]
) -> str:
    """What a command prints; as soon as it has printed `seen`, `then` is called."""
    out, stdout = os.pipe()
    with trio.fail_after(60):
        try:
            process = _start(words, environment(worker), cwd, 0, stdout, 2)
        finally:
            os.close(stdout)
        text = b""
        async with trio.lowlevel.FdStream(out) as stream:
            async for piece in stream:
                before, text = text, text + piece
                if seen.encode() in text and seen.encode() not in before:
                    then()
        assert 0 == await process.ended()
    return text.decode()


def in_a_terminal(
    words: Sequence[str],
    worker: WorkerProcess,
    cwd: Path,
    seen_first: str = "",
    then: Callable[[], object] = lambda: None,
) -> str:
    """What a terminal of 100 columns gets to see; blocking.

    Args:
        then: is called as soon as it has seen `seen_first`.
    """
    ours, theirs = pty.openpty()
    variables = environment(worker, COLUMNS="100", LINES="40")
    process = _start(words, variables, cwd, theirs, theirs, theirs)
    os.close(theirs)
    seen = bytearray()
    killer = threading.Timer(60, process.kill)
    killer.start()
    try:
        while piece := _read(ours):
            before = without_colours(seen.decode(errors="replace"))
            seen += piece
            if seen_first in without_colours(seen.decode(errors="replace")) and seen_first not in before:
                then()
        assert 0 == process.wait(), seen.decode()
    finally:
        killer.cancel()
        os.close(ours)
    return seen.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


async def terminal(
    *words: str,
    worker: WorkerProcess,
    cwd: Path,
    seen: str = "",
    then: Callable[[], object] = lambda: None,
) -> str:
    return await trio.to_thread.run_sync(in_a_terminal, words, worker, cwd, seen, then)


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
