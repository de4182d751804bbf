"""What 500 jobs to a bad receiver cost a healthy one: from a job's end to its POST, for each kind of bad one.

python -m bench.hostile                  about six minutes
python -m bench.hostile --jobs 100 --only "hangs,never reads"

For each kind a fresh worker; jobs go to the bad receiver until all wait on it, and then, while they do, one after
another to a healthy one. Names that nobody answers for need root and `unshare`: the worker then gets a mount namespace
whose resolv.conf names a silent server.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError

import psutil

from bench.bad import KINDS
from bench.numbers import median, p95
from bench.processes import Worker, line_of, process, worker
from bench.telling import machine

JOBS = 500
HEALTHY = 60
PAUSE_S = 0.05
MIB = 2**20
NO_NAME = "is a name that no server answers for"
NO_TLS = "never answers a TLS handshake"
NOBODY = "refuses connections"
SILENT = "127.9.9.9"  # where nobody answers questions for names


class Watched:
    """The most that a worker took while the block lasted: MiB resident, and threads."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.before = self.rss = self._process.memory_info().rss / MIB
        self.threads = 0
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch)

    def __enter__(self) -> "Watched":
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            self.rss = max(self.rss, self._process.memory_info().rss / MIB)
            self.threads = max(self.threads, self._process.num_threads())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.hostile", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="that wait on the bad one")
    parser.add_argument("--only", default="", help="comma-separated kinds")
    given = parser.parse_args()
    print(*machine("bench.hostile"), sep="\n")
    print(
        f"\n| while {given.jobs} jobs wait on one that … | end to POST, median | p95 | worst | memory | threads |"
    )
    print("|---|---|---|---|---|---|")
    for kind in ["(nobody waits)", *KINDS, NOBODY, NO_TLS, NO_NAME]:
        if given.only and kind not in given.only.split(","):
            continue
        with tempfile.TemporaryDirectory(prefix="penelope-hostile-") as name:
            print(measured(Path(name), kind, given.jobs), flush=True)


def measured(folder: Path, kind: str, jobs: int) -> str:
    """A row of the table."""
    with ExitStack() as stack:
        prefix = stack.enter_context(nobody_answers(folder)) if kind == NO_NAME else ()
        if prefix is None:
            return f"| {kind} | not measured: needs root and `unshare` | | | | |"
        healthy = stack.enter_context(
            process("-m", "bench.receiver", cwd=folder, log=folder / "receiver.log")
        )
        good = f"http://127.0.0.1:{line_of(healthy)}/hook"
        stack.callback(healthy.kill)
        one = stack.enter_context(worker(folder, prefix))
        stack.callback(one.process.kill)  # its stop would wait for the POSTs under way
        warm_up(one, good, healthy)
        with Watched(one.process.pid) as watched:
            if kind != "(nobody waits)":
                begin(one, jobs, stack.enter_context(bad(folder, kind)))
            taken = []
            for _ in range(HEALTHY):
                taken.append(delivered(one, good, healthy))
                time.sleep(PAUSE_S)
            waiting = one.get("/activity")["deliveries_pending"]
    kind = f"{kind} ({waiting} left at the end)" if waiting < jobs and kind != "(nobody waits)" else kind
    return (
        f"| {kind} | {median(taken):.1f} ms | {p95(taken):.1f} ms | {max(taken):.1f} ms "
        f"| {watched.before:.0f} → {watched.rss:.0f} MB | {watched.threads} |"
    )


def begin(one: Worker, count: int, url: str) -> None:
    """Webhook jobs one after another on one page, each asked for again until it is taken."""
    begun = 0
    while begun < count:
        try:
            one.post("/main/plugin/bench/nothing", {}, {"X-Callback-Url": url})
        except HTTPError as error:
            if error.code != HTTPStatus.CONFLICT:
                raise
        else:
            begun += 1


def warm_up(one: Worker, good: str, healthy: "subprocess.Popen[str]") -> None:
    for _ in range(10):
        delivered(one, good, healthy)


def delivered(one: Worker, good: str, healthy: "subprocess.Popen[str]") -> float:
    """Milliseconds from the end of a job to the arrival of its POST at the healthy receiver."""
    begin(one, 1, good)
    found = json.loads(line_of(healthy))
    return float((found["arrived"] - found["finished_at"]) * 1000)


@contextmanager
def bad(folder: Path, kind: str) -> Iterator[str]:
    """The URL of a bad receiver."""
    match kind:
        case _ if kind == NO_NAME:
            yield "http://nobody.penelope.test/hook"
        case _ if kind == NOBODY:
            with socket.socket() as unheard:  # bound, so that nobody else gets the port; nobody listens
                unheard.bind(("127.0.0.1", 0))
                yield f"http://127.0.0.1:{unheard.getsockname()[1]}/hook"
        case _:
            scheme, behaviour = ("https", "never reads") if kind == NO_TLS else ("http", kind)
            with process("-m", "bench.bad", behaviour, cwd=folder, log=folder / "bad.log") as running:
                yield f"{scheme}://127.0.0.1:{line_of(running)}/hook"


@contextmanager
def nobody_answers(folder: Path) -> Iterator[tuple[str, ...] | None]:
    """The words before a command that has it ask a silent server for names; None where that cannot be done."""
    settings = folder / "resolv.conf"
    settings.write_text(f"nameserver {SILENT}\n")
    script = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
    words = ("unshare", "--mount", "sh", "-c", script, str(settings))
    able = os.geteuid() == 0 and shutil.which("unshare") is not None
    if not able or subprocess.run([*words, "true"], check=False).returncode:
        yield None
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind((SILENT, 53))
        yield words


if __name__ == "__main__":
    main()
