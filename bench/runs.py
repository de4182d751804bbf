"""Runs that do nothing, from their submit to their end, and looks at them; beside the public PraisonAI jobs server.

A run of the worker's is a recipe of one plugin that does nothing, on a page of a real Chromium; a job of the peer's is
a coroutine that returns. Both keep all in SQLite, synced before they answer. The peer's clients poll, that is its way;
how often suits it depends on how many they are, so they do it at several paces, and what is compared is its best.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.numbers import Row, Section, Sign, median, p95, rate, ratio_row, spread_rate
from bench.peers import installing
from bench.peers.here import wait_for
from bench.peers.installing import NotHere
from bench.peers.jobs_server import ADMITTED, CONCURRENT
from bench.plot import bars
from bench.processes import Client, Worker, free_port, program, worker

CLIENTS = (1, 16, 64)
LOOKERS = 16
TIMES = {16: 2.0, 64: 4.0}  # the peer's rate, at that many clients
PACES_S = (0.1, 0.02, 0.005)  # at which the peer's clients poll; ours, where they poll, do it at the first
RECIPE = "name: nothing\nsteps: [{plugin: bench/nothing}]\n"
PEER, FOLDER = "PraisonAI jobs", "praisonai"
# Its SQLite store, and what its server is quicker with.
PACKAGES = ("praisonai[api]==4.7.19", "httpx", "uvloop", "httptools")
MIB = 2**20
# A server's name, how long its clients rest between two polls (None: they wait instead), how many they are.
Ways = tuple[str, float | None, int]


@dataclass(frozen=True, slots=True)
class Server:
    """`waits`: it knows `Prefer: wait`."""

    name: str
    port: int
    key: str
    pid: int
    waits: bool


def measure(folder: Path, client: Client, *, rounds: int, seconds: float) -> Iterator[Section]:
    """Runs, and looks at them, the servers in turns."""
    folder.mkdir()
    missing = []
    with ExitStack() as stack:
        one = stack.enter_context(worker_of_runs(folder))
        servers = [Server("Penelope", one.port, one.key, one.process.pid, waits=True)]
        try:
            servers.append(stack.enter_context(_peer(folder)))
        except (NotHere, OSError, SystemExit) as why:
            missing.append(Row(PEER, "not measured", str(why)))
        yield _ends(servers, client, rounds, seconds, missing)
        yield _looks(servers, client, rounds, seconds / 2, missing)


@contextmanager
def worker_of_runs(folder: Path, prefix: tuple[str, ...] = ()) -> Iterator[Worker]:
    """A worker that has the recipe, with the peer's limits; `prefix`: see `bench.processes.process`."""
    (folder / "recipes" / "nothing").mkdir(parents=True)
    (folder / "recipes" / "nothing" / "TEMPLATE.yaml").write_text(RECIPE)
    settings = {
        "PENELOPE_RECIPES": str(folder / "recipes"),
        "RUNS_MAX_CONCURRENT": str(CONCURRENT),
        "RUNS_MAX_QUEUED": str(ADMITTED),
    }
    with worker(folder, prefix, **settings) as one:
        yield one


@contextmanager
def _peer(folder: Path) -> Iterator[Server]:
    python = installing.python(FOLDER, *PACKAGES)
    port, script = free_port(), Path(__file__).with_name("peers") / "jobs_server.py"
    words = (str(python), "-I", str(script), str(folder / "peer.db"), str(port))
    with program(*words, cwd=folder, log=folder / "peer.log") as running:
        wait_for(f"http://127.0.0.1:{port}/health")
        yield Server(PEER, port, "", running.pid, waits=False)


def _ends(
    servers: Sequence[Server], client: Client, rounds: int, seconds: float, missing: list[Row]
) -> Section:
    """Each client submits a run, learns of its end, and submits the next."""
    ways = [(server, pace) for server in servers for pace in _paces(server)]
    rates: dict[Ways, list[float]] = {}
    times: dict[Ways, list[float]] = {}
    for number in range(rounds + 1):  # the first warms up
        for clients in CLIENTS:
            for server, pace in ways:
                order = {"recipe": "nothing", "waits": pace is None, "rests": pace or 0.0}
                length = seconds if number else min(seconds, 0.7)
                found = client.order(server.port, server.key, runs=order, connections=clients, seconds=length)
                if number:
                    at = (server.name, pace, clients)
                    rates.setdefault(at, []).append(found["count"] / found["seconds"])
                    times.setdefault(at, []).extend(found["ends_ms"])
    rows = [_row(at, found, times[at]) for at, found in rates.items()]
    if len(servers) == 2:
        rows += [_against(rates, servers, clients) for clients in CLIENTS]
    resident = [f"{server.name} {_resident(server):.0f} MiB" for server in servers]
    rows.append(Row("resident after all that, the browser's apart", "; ".join(resident)))
    groups = {
        f"{clients} client{'s' if clients > 1 else ''}": {
            f"{server.name}, {_how(pace)}": median(rates[server.name, pace, clients]) for server, pace in ways
        }
        for clients in CLIENTS
    }
    return Section("runs", "Runs, from submit to end", [*rows, *missing], {"runs.svg": bars(groups, "/s")})


def _paces(server: Server) -> tuple[float | None, ...]:
    return (None, PACES_S[0]) if server.waits else PACES_S


def _how(pace: float | None) -> str:
    return "waiting" if pace is None else f"polling every {pace * 1000:g} ms"


def _row(at: Ways, found: Sequence[float], times: Sequence[float]) -> Row:
    name, pace, clients = at
    what = f"{name}, {clients} {_how(pace)}"
    if not times:
        return Row(what, "none ended in time")
    return Row(
        what, f"{rate(found)}, {median(times):.0f} ms", f"{spread_rate(found)}, p95 {p95(times):.0f} ms"
    )


def _against(rates: dict[Ways, list[float]], servers: Sequence[Server], clients: int) -> Row:
    """Ours that wait, and the peer's at the pace that suits it best with so many."""
    ours, peer = rates[servers[0].name, None, clients], servers[1].name
    pace = max(PACES_S, key=lambda pace: median(rates[peer, pace, clients]))
    theirs = rates[peer, pace, clients]
    what = f"Penelope waiting ÷ {PEER} {_how(pace)}, its best, {clients}"
    if min(theirs) == 0:
        return Row(what, "none of the peer's ended in time")
    wanted = TIMES.get(clients)
    return ratio_row(what, ours, theirs, None if wanted is None else ("≥", wanted))


def _resident(server: Server) -> float:
    return float(psutil.Process(server.pid).memory_info().rss / MIB)


def _looks(
    servers: Sequence[Server], client: Client, rounds: int, seconds: float, missing: list[Row]
) -> Section:
    """The status of a run that is over, and the list's first page, asked for at 16 connections."""
    rows: list[Row] = []
    for what, path in (("status", "/api/v1/runs/{}"), ("list of 20", "/api/v1/runs")):
        rates: dict[str, list[float]] = {server.name: [] for server in servers}
        paths = {server.name: path.format(_ended(server, client)) for server in servers}
        for number in range(rounds + 1):
            for server in servers:
                order = {"method": "GET", "path": paths[server.name], "connections": LOOKERS}
                found = client.order(
                    server.port, server.key, **order, seconds=seconds if number else min(seconds, 0.4)
                )
                if number:
                    rates[server.name].append(found["count"] / found["seconds"])
        rows += [
            Row(f"{name}, {what}, {LOOKERS} at once", rate(found), spread_rate(found))
            for name, found in rates.items()
        ]
        if len(servers) == 2:
            wanted: tuple[Sign, float] | None = ("≥", 1.0) if what == "status" else None
            rows.append(ratio_row(f"Penelope ÷ {PEER}, {what}", rates["Penelope"], rates[PEER], wanted))
    return Section("looks", "Looking at runs", [*rows, *missing])


def _ended(server: Server, client: Client) -> str:
    """The id of a run that is over."""
    order = {"recipe": "nothing", "waits": server.waits, "count": 1}
    found = client.order(server.port, server.key, runs=order, connections=1, seconds=30)
    return str(found["run_id"])
