"""Runs that do nothing, from their submit to their end; and what it costs to look at them.

python -m bench.runs                               a worker alone, about two minutes
python -m bench.runs --peer /path/to/bin/python    beside the public PraisonAI jobs server on SQLite, in turns

The peer's Python is one that has it: `pip install 'praisonai[api]>=4.7.19'` in an environment of its own. A run of the
worker's is a recipe of one plugin that does nothing on a page of a real Chromium; a job of the peer's is a coroutine
that returns.
"""

import argparse
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.__main__ import load, machine, show
from bench.numbers import Row, Section, median, p95, rate, ratio, spread_rate
from bench.peer import ADMITTED, CONCURRENT
from bench.processes import START_S, Client, client, end, free_port, worker

CLIENTS = (1, 16, 64)
RECIPE = "name: nothing\nsteps: [{plugin: bench/nothing}]\n"
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Server:
    """`waits`: it knows `Prefer: wait`."""

    name: str
    port: int
    key: str
    pid: int
    waits: bool


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.runs", description=__doc__)
    parser.add_argument("--peer", help="the Python of an environment with the public server")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    given = parser.parse_args()
    print(*machine("bench.runs"), sep="\n")
    with tempfile.TemporaryDirectory(prefix="penelope-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        servers = [stack.enter_context(_worker(folder))]
        if given.peer:
            servers.append(stack.enter_context(_peer(folder, given.peer)))
        load_client = stack.enter_context(client(folder))
        show(_ends(servers, load_client, given.rounds, given.seconds))
        show(_looks(servers, load_client, given.rounds, given.seconds))
        show(_memory(servers))
    print(f"\nLoad at the end: {load()}.")


@contextmanager
def _worker(folder: Path) -> Iterator[Server]:
    (folder / "recipes" / "nothing").mkdir(parents=True)
    (folder / "recipes" / "nothing" / "TEMPLATE.yaml").write_text(RECIPE)
    settings = {
        "PENELOPE_RECIPES": str(folder / "recipes"),
        "RUNS_MAX_CONCURRENT": str(CONCURRENT),
        "RUNS_MAX_QUEUED": str(ADMITTED),
    }
    with worker(folder, (), **settings) as one:
        yield Server("Penelope", one.port, one.key, one.process.pid, waits=True)


@contextmanager
def _peer(folder: Path, python: str) -> Iterator[Server]:
    port, script = free_port(), Path(__file__).with_name("peer.py")
    with (folder / "peer.log").open("w") as log:
        running = subprocess.Popen(
            [python, "-I", str(script), str(folder / "peer.db"), str(port)],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=log,
            text=True,
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health")
        yield Server("PraisonAI jobs", port, "", running.pid, waits=False)
    finally:
        end(running)


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _ends(servers: list[Server], load_client: Client, rounds: int, seconds: float) -> Section:
    """Each client submits a run, learns of its end, and submits the next; who polls, does so ten times a second."""
    ways = [(server, waits) for server in servers for waits in ([True, False] if server.waits else [False])]
    rates: dict[tuple[str, bool, int], list[float]] = {}
    times: dict[tuple[str, bool, int], list[float]] = {}
    for number in range(rounds + 1):  # the first warms up
        for clients in CLIENTS:
            for server, waits in ways:
                order = {"recipe": "nothing", "waits": waits}
                found = load_client.order(
                    server.port, server.key, runs=order, connections=clients, seconds=seconds
                )
                if number:
                    at = (server.name, waits, clients)
                    rates.setdefault(at, []).append(found["count"] / found["seconds"])
                    times.setdefault(at, []).extend(found["ends_ms"])
    rows = [
        Row(
            f"{name}, {'waiting' if waits else 'polling'}, {clients} client{'s' if clients > 1 else ''}",
            f"{rate(found)}, {median(times[name, waits, clients]):.0f} ms",
            f"{spread_rate(found)}, p95 {p95(times[name, waits, clients]):.0f} ms",
        )
        for (name, waits, clients), found in rates.items()
        if times[name, waits, clients]  # none ended in time: the seconds are too few
    ]
    if len(servers) == 2:
        rows += [
            Row(
                f"Penelope waiting ÷ the peer, {clients}",
                ratio(rates[servers[0].name, True, clients], rates[servers[1].name, False, clients]),
            )
            for clients in CLIENTS
        ]
    return Section("Runs, from submit to end", rows)


def _looks(servers: list[Server], load_client: Client, rounds: int, seconds: float) -> Section:
    """The status of a run that is over, and the list's first page."""
    rows = []
    for what, path in (("status", "/api/v1/runs/{}"), ("list of 20", "/api/v1/runs")):
        rates: dict[tuple[str, int], list[float]] = {}
        paths = {server.name: path.format(_ended(server, load_client)) for server in servers}
        for number in range(rounds + 1):
            for clients in CLIENTS:
                for server in servers:
                    found = load_client.order(
                        server.port,
                        server.key,
                        method="GET",
                        path=paths[server.name],
                        connections=clients,
                        seconds=seconds / 2,
                    )
                    if number:
                        rates.setdefault((server.name, clients), []).append(found["count"] / found["seconds"])
        rows += [
            Row(f"{name}, {what}, {clients} at once", rate(found), spread_rate(found))
            for (name, clients), found in rates.items()
        ]
    return Section("Looking at runs", rows)


def _ended(server: Server, load_client: Client) -> str:
    """The id of a run that is over."""
    order = {"recipe": "nothing", "waits": server.waits, "count": 1}
    found = load_client.order(server.port, server.key, runs=order, connections=1, seconds=30)
    return str(found["run_id"])


def _memory(servers: list[Server]) -> Section:
    rows = [
        Row(f"{server.name}, its process", f"{psutil.Process(server.pid).memory_info().rss / MIB:.0f} MiB")
        for server in servers
    ]
    return Section("Resident memory after all that, the browser's apart", rows)


if __name__ == "__main__":
    main()
