"""Plays that die, one process each: forked from one that has imported everything, which takes 20 ms instead of 1 s.

Reads requests, a line of JSON each: `{"point": "…" or null, "home": folder}`; answers with the process's exit code.
"""

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.kill.play import Witness, fitted, play, run
from tests.kill.points import Point, arm

ROOT: Final = Path(__file__).parents[2]


class Zygote:
    """The other end."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def play(self, home: Path, point: Point | None) -> int:
        """Play in a process of its own, in that folder; its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"point": point and str(point), "home": str(home)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def zygote() -> Iterator[Zygote]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.kill.zygote"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        yield Zygote(process)
        process.communicate("")


def _child(request: dict[str, Any]) -> None:
    home = Path(request["home"])
    witness = Witness(home / "witness")
    if request["point"] is not None:
        arm(Point.read(request["point"]), last=lambda: witness.saw("death"))
    with fitted():
        run(play, home / "store", witness)


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                _child(json.loads(line))
                code = 0
            finally:
                if code:
                    traceback.print_exc()
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
