"""The real commands against a real worker: in a pipe, as a script has them, and in a terminal."""

import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import trio

from tests.io.worker_process import KEY, ROOT, WorkerProcess

ESCAPE: Final = "\x1b"


def environment(worker: WorkerProcess | None, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENELOPE_")}
    url = "http://127.0.0.1:1" if worker is None else worker.base_url
    port = url.rpartition(":")[2]
    given = {"PENELOPE_KEY": KEY, "PENELOPE_PORT": port, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    return {**kept, **given, **more}


async def run(
    *words: str, worker: WorkerProcess | None, cwd: Path, stdin: bytes | str = "", **more: str
) -> "subprocess.CompletedProcess[bytes]":
    """Run the command in a pipe, as a script does."""
    with trio.fail_after(60):
        return await trio.run_process(
            [sys.executable, "-m", "penelope", *words],
            cwd=cwd,
            env=environment(worker, **more),
            stdin=stdin if isinstance(stdin, bytes) else stdin.encode(),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )


async def printed(*words: str, worker: WorkerProcess, cwd: Path) -> str:
    done = await run(*words, worker=worker, cwd=cwd)
    assert 0 == done.returncode, done.stderr.decode()
    return done.stdout.decode()


async def refused(*words: str, worker: WorkerProcess | None, cwd: Path, **more: str) -> str:
    """The one line of a command that failed."""
    done = await run(*words, worker=worker, cwd=cwd, **more)
    assert 1 == done.returncode, done
    assert b"" == done.stdout
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("penelope: ")
    return line


async def printed_until(
    *words: str, worker: WorkerProcess, cwd: Path, seen: str, then: Callable[[], object]
) -> str:
    """What a command prints; as soon as it has printed `seen`, `then` is called."""
    with trio.fail_after(60):
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "penelope", *words],
            cwd=cwd,
            env=environment(worker),
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        text = b""
        async for piece in process.stdout:
            before, text = text, text + piece
            if seen.encode() in text and seen.encode() not in before:
                then()
        assert 0 == await process.wait()
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
    process = subprocess.Popen(
        [sys.executable, "-m", "penelope", *words],
        cwd=cwd,
        env=environment(worker, COLUMNS="100", LINES="40"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
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
