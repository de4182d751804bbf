"""What is held, and what it takes: jobs, viewers, sleeping personas; many of each beside ten of each."""

import http.client
import time
from contextlib import ExitStack
from pathlib import Path

import psutil

from bench.held import fill
from bench.numbers import Aim, Row, Section
from bench.processes import Client, Worker, worker
from bench.waker import waker

FEW = 10
MANY_JOBS = 980  # of 1,000: those that are watched need room
MANY_VIEWERS = 100
MANY_PERSONAS = 50
GOAL_MB = 20.0
GOAL_IDLE_MB = 90.0
IDLE_S = 3.0
WATCHED_S = 60.0
MIB = 2**20


def measure(folder: Path, client: Client) -> Section:
    folder.mkdir()
    with worker(folder) as one:
        time.sleep(IDLE_S)
        idle = _resident(one)
        parts = memory(one.process.pid)
        browser = one.get("/activity")["browser_rss_mb"]
        fill(client, one, FEW)
        before = _resident(one)
        fill(client, one, MANY_JOBS - FEW)
        jobs = (before, _resident(one))
        viewers = _viewers(one)
    personas = (_asleep(folder / "few", FEW), _asleep(folder / "many", MANY_PERSONAS))
    rows = (
        Row(
            "a worker at rest, its browser left out",
            f"{idle:.1f} MB",
            f"{parts['Private_Dirty']:.0f} MB of it its own and written; beside it {browser:.0f} MB of browser and "
            "driver",
            Aim(idle, "<", GOAL_IDLE_MB, "MB", 1),
        ),
        _row(f"{MANY_JOBS} held jobs, beside {FEW}", jobs),
        _row(f"{MANY_VIEWERS} viewers of a job, beside {FEW}", viewers),
        _row(f"a waker with {MANY_PERSONAS} personas asleep, beside {FEW}", personas),
    )
    return Section("memory", "Memory", rows)


def _row(what: str, pair: tuple[float, float]) -> Row:
    more = pair[1] - pair[0]
    told = f"{pair[0]:.1f} → {pair[1]:.1f} MB"
    return Row(what, f"{more:+.1f} MB", told, Aim(more, "<", GOAL_MB, "MB", 1))


def _resident(one: Worker) -> float:
    return psutil.Process(one.process.pid).memory_info().rss / MIB


def _viewers(one: Worker) -> tuple[float, float]:
    """With few of them, and with many: each has been sent the job's state."""
    made = one.post("/main/plugin/bench/rest", {"seconds": WATCHED_S}, {"X-Result-Ttl": "60"})
    path = f"/api/v1/jobs/{made['job_id']}/events"
    taken = []
    with ExitStack() as stack:
        for count in (FEW, MANY_VIEWERS - FEW):
            for _ in range(count):
                _watch(stack, one, path)
            time.sleep(0.3)
            taken.append(_resident(one))
    one.delete(f"/jobs/{made['job_id']}")
    return taken[0], taken[1]


def _watch(stack: ExitStack, one: Worker, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=60)
    stack.callback(connection.close)
    connection.request("GET", path, headers={"Authorization": f"Bearer {one.key}"})
    answer = connection.getresponse()
    stack.callback(answer.close)
    while b"state" not in answer.readline():
        pass


def _asleep(folder: Path, count: int) -> float:
    with waker(folder, "".join(f"[personas.p{number}]\n" for number in range(count))) as one:
        one.ask("GET", "/api/v1/personas")
        time.sleep(1)
        return psutil.Process(one.pid).memory_info().rss / MIB


def memory(pid: int) -> dict[str, float]:
    """MiB by the kernel's names."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines}
