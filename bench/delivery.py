"""From the end of a job to the arrival of its first POST at the receiver."""

import json
from pathlib import Path

from bench.numbers import Row, Section, ms, p95, spread_ms
from bench.processes import Client, Worker, line_of, process

GOAL_MS = 20.0
WARM_UP = 5


def measure(worker: Worker, client: Client, folder: Path, *, jobs: int) -> Section:
    """Jobs one after another, each to the same receiver."""
    taken: list[float] = []
    with process("-m", "bench.receiver", cwd=folder, log=folder / "receiver.log") as receiver:
        port = int(line_of(receiver))
        for number in range(-WARM_UP, jobs):
            client.order(
                worker.port,
                worker.key,
                method="GET",
                path="/api/v1/main/plugin/bench/nothing",
                headers={"X-Callback-Url": f"http://127.0.0.1:{port}/hook"},
                count=1,
            )
            found = json.loads(line_of(receiver))
            if number >= 0:
                taken.append((found["arrived"] - found["finished_at"]) * 1000)
    rows = (
        Row("from `finished_at` to the whole POST at its receiver", ms(taken), spread_ms(taken)),
        Row("the same, p95", f"{p95(taken):.2f} ms", "", f"< {GOAL_MS:g} ms"),
    )
    return Section("Delivery", rows)
