"""Playwright's driver, a Node, as a process: its command, its environment, and one that is started ahead of its use.

Belongs to no event loop, and is light: it is imported before all that a worker needs.

Source: docs/architecture.md, "Start and stop".
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final

VERB: Final = "run-driver"
TEMP_LENGTH: Final = 40  # a socket's path has 107 characters; the browser adds about 55 to its TMPDIR

# The parent may have died before setpriv ran, and then no signal ever comes: look once it is armed.
_UNLESS_ORPHANED: Final = '[ "$PPID" = "$0" ] || exit 1; exec "$@"'


@lru_cache(maxsize=1)
def dies_with_parent() -> tuple[str, ...]:
    """The words before a command that end it when the thread that started it ends; () where there are none.

    Linux has PR_SET_PDEATHSIG for it, which util-linux's setpriv sets. It is tied to the parent's thread, not to its
    process: the main thread, the browser's thread and node's main thread live as long as they are needed.
    """
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    if setpriv is None:
        return ()
    words = (setpriv, "--pdeathsig", "KILL", "--")
    tried = subprocess.run([*words, "/bin/true"], capture_output=True, check=False)
    return words if tried.returncode == 0 else ()


def command(program: str, arguments: Sequence[str]) -> list[str]:
    """The words that start the driver, so that it ends with the thread that starts it."""
    words = dies_with_parent()
    if words:
        words = (*words, "/bin/sh", "-c", _UNLESS_ORPHANED, str(os.getpid()))
    return [*words, program, *arguments]


def environment(temp: Path) -> dict[str, str]:
    """For driver and browser: this process's, without Penelope's own settings (keys, passwords); with our TMPDIR."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("PENELOPE_")}
    return kept | {"TMPDIR": str(temp)}


def of_playwright(variables: Mapping[str, str]) -> dict[str, str]:
    """Of what Playwright would give its driver, what is its own."""
    return {name: value for name, value in variables.items() if name.startswith(("PW_", "PLAYWRIGHT_"))}


def temp_folder(profile: Path) -> Path:
    """Where the browser on that profile has its temporary files, the same at each start; whether it is there or not."""
    name = f"penelope-{os.getuid()}-{hashlib.sha256(os.fsencode(profile)).hexdigest()[:10]}"
    base = Path(tempfile.gettempdir())
    if len(str(base / name)) > TEMP_LENGTH and os.access("/tmp", os.W_OK | os.X_OK):  # noqa: S108
        base = Path("/tmp")  # noqa: S108
    return base / name


class HeadStart:
    """A driver that runs before anybody is there to speak to it: it takes a quarter of a second to be able to listen.

    Attributes:
        words, variables: what it was started with.
        process: it; not to be spoken to but by whoever took it.
    """

    def __init__(self, words: Sequence[str], variables: Mapping[str, str]) -> None:
        self.words, self.variables = list(words), dict(variables)
        self._taken = False
        self.process = subprocess.Popen(
            self.words,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            env=self.variables,
            start_new_session=True,  # a Ctrl-C is ours to answer
        )

    def take(self, words: Sequence[str], variables: Mapping[str, str]) -> "subprocess.Popen[bytes] | None":
        """The process, once, if it is the one that would be started now; else None, and it has ended."""
        first, self._taken = not self._taken, True
        if not first:
            return None
        if self.words == list(words) and self.variables == dict(variables) and self.process.poll() is None:
            return self.process
        self.end()
        return None

    def end(self) -> None:
        """End it, if it runs still."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def head_start(profile: Path) -> Iterator[HeadStart | None]:
    """Start the driver that a browser on that profile will want; it does not outlive the block.

    None where it cannot be told how: whoever wants one finds out then, and says so.
    """
    ahead = _begin(profile)
    try:
        yield ahead
    finally:
        if ahead is not None:
            ahead.end()


def _begin(profile: Path) -> HeadStart | None:
    try:
        # Not public, and so light: Playwright itself is imported while it starts.
        from playwright._impl._driver import compute_driver_executable, get_driver_env

        program, *arguments = compute_driver_executable()
        words = command(program, [*arguments, VERB])
        variables = environment(temp_folder(profile)) | of_playwright(get_driver_env())
        return HeadStart(words, variables)
    except Exception:  # another Playwright, one without a Node, no process to be had
        return None
