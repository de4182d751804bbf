"""How many commits and syncs of the disk a run is, when 1, 16 and 64 clients wait: what waits commits together.

Counted and not timed, by `strace`, which is told only of syncs; so the rates are those of a worker that is traced.
"""

import time
from collections.abc import Iterator
from pathlib import Path

from bench.numbers import Row, Section
from bench.processes import Client
from bench.runs import CLIENTS, worker_of_runs
from tests.kill.power import strace

PER_RUN = 3  # its submit, its beginning, its end: as many as one alone commits
SETTLE_S = 0.7  # the request log is written twice a second


def measure(folder: Path, client: Client, *, seconds: float) -> Section:
    folder.mkdir()
    program = strace()
    title = "Commits and syncs of a run"
    if program is None:
        return Section("commits", title, [Row("syncs", "not counted", "needs `strace`")])
    log = folder / "syncs"
    prefix = (program, "-D", "-f", "-y", "--seccomp-bpf", "-e", "trace=fsync,fdatasync", "-o", str(log))
    with worker_of_runs(folder, prefix) as one:
        order = {"recipe": "nothing", "waits": True}
        client.order(one.port, one.key, runs=order, connections=16, seconds=1.0)
        rows = []
        for clients in CLIENTS:
            time.sleep(SETTLE_S)
            before = list(_synced(log))
            found = client.order(one.port, one.key, runs=order, connections=clients, seconds=seconds)
            after = list(_synced(log))
            wal = after.count("wal") - before.count("wal")
            other = len(after) - len(before) - wal
            rows.append(
                Row(
                    f"{clients} waiting",
                    f"{wal / found['seconds']:,.0f} commits/s, {found['count'] / found['seconds']:,.1f} runs/s",
                    f"{(wal + other) / max(1, found['count']):.2f} syncs a run, of which {other} in all were no "
                    f"commit's; alone a run commits {PER_RUN} times",
                )
            )
    return Section("commits", title, rows)


def _synced(log: Path) -> Iterator[str]:
    """`wal` or `other` for each sync of a file of the store's database so far."""
    for line in log.read_text("utf-8", "replace").splitlines():
        if "penelope.db" in line and "sync(" in line:
            yield "wal" if "penelope.db-wal" in line else "other"
