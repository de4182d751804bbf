"""Polls a second of a job that has ended, against what the server alone and the framework alone can do."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.numbers import Row, Section, median, ms, rate, ratio_row, spread_ms, spread_rate
from bench.processes import Client, Worker, cpu_s, line_of, process, worker

CONNECTIONS = (1, 16)
POLL, QUART, ASGI = "a poll", "an empty Quart-Trio route", "a bare Hypercorn/Trio answer"
OWN = "the same on the worker's own connections"


def measure(folder: Path, client: Client, *, rounds: int, seconds: float) -> Section:
    """Each of them at each number of connections, in rounds."""
    rates: dict[tuple[str, int], list[float]] = {}
    times: list[float] = []
    costs: dict[tuple[str, int], list[float]] = {}
    folder.mkdir()
    with ExitStack() as stack:
        one = stack.enter_context(worker(folder))
        servers = {
            POLL: (one.process.pid, one.port),
            QUART: stack.enter_context(_floor("quart", folder)),
            ASGI: stack.enter_context(_floor("asgi", folder)),
            OWN: stack.enter_context(_floor("connections", folder)),
        }
        path = _ended_job(one, client)
        for number in range(rounds + 1):  # the first warms up
            for connections in CONNECTIONS:
                for what, (pid, port) in servers.items():
                    before = cpu_s(pid)
                    found = client.order(
                        port, one.key, method="GET", path=path, connections=connections, seconds=seconds
                    )
                    if number:
                        rates.setdefault((what, connections), []).append(found["count"] / found["seconds"])
                        cost = (cpu_s(pid) - before) * 1e6 / found["count"]
                        costs.setdefault((what, connections), []).append(cost)
                        if (what, connections) == (POLL, 1):
                            times += found["ms"]
    single = Row("one poll, at 1 connection", ms(times), spread_ms(times))
    return Section("polls", "Polls", (*_rows(rates, costs), single))


def _rows(
    rates: dict[tuple[str, int], list[float]], costs: dict[tuple[str, int], list[float]]
) -> Iterator[Row]:
    """`costs` are microseconds of the server's CPU per answer."""
    for connections in CONNECTIONS:
        at = f"at {connections} connection{'s' if connections > 1 else ''}"
        for what in (ASGI, OWN, QUART, POLL):
            found = rates[what, connections]
            cost = f"{median(costs[what, connections]):.0f} µs of CPU each"
            yield Row(f"{what}, {at}", f"{rate(found)}, {cost}", spread_rate(found))
        yield ratio_row(f"polls ÷ bare answers, {at}", rates[POLL, connections], rates[ASGI, connections])
        yield ratio_row(f"polls ÷ empty routes, {at}", rates[POLL, connections], rates[QUART, connections])


@contextmanager
def _floor(which: str, folder: Path) -> Iterator[tuple[int, int]]:
    """Its pid and its port."""
    with process("-m", "bench.floors", which, cwd=folder, log=folder / f"{which}.log") as running:
        yield running.pid, int(line_of(running))


def _ended_job(one: Worker, client: Client) -> str:
    """The path of a job that has ended and stays for ten minutes."""
    started = client.order(
        one.port,
        one.key,
        method="GET",
        path="/api/v1/main/plugin/bench/nothing",
        headers={"X-Result-Ttl": "600"},
        count=1,
    )
    time.sleep(0.5)
    return str(json.loads(started["last"])["status_url"])
