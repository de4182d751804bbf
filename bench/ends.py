"""From the end of a job to its client having the result: told by webhook, waiting, watching; or looking each second."""

import http.client
import json
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bench.numbers import Aim, Row, Section, median, ms, p95, spread_ms
from bench.plot import bars
from bench.processes import Worker, line_of, process, worker

GOAL_MS = 20.0
WARM_UP = 3
LENGTHS_S = (0.05, 0.15)  # of a job
LOOK_S = 1.0
LOOKED_S = (0.05, 1.05)  # of one that is looked for: looks at full seconds fall anywhere after its end
RECEIVED = "webhook: the whole POST is at its receiver"
Way = Callable[[], float]


def measure(folder: Path, *, jobs: int, looks: int) -> Section:
    """The ways in turns, one job after another; `looks`: how many jobs of the slow way."""
    folder.mkdir()
    with (
        worker(folder) as one,
        process("-m", "bench.receiver", cwd=folder, log=folder / "receiver.log") as receiver,
    ):
        hook = f"http://127.0.0.1:{line_of(receiver)}/hook"
        ways: dict[str, Way] = {
            RECEIVED: lambda: _told(one, receiver, hook),
            "wait: the answer to `Prefer: wait` is there": lambda: _waited(one),
            "stream: the event `end` is there": lambda: _watched(one),
        }
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(-WARM_UP, jobs):
            for name, way in ways.items():
                found = way()
                if number >= 0:
                    taken[name].append(found)
        looked = [_looked(one) for _ in range(looks)]
    rows = [Row(name, ms(values), spread_ms(values), _aim(values)) for name, values in taken.items()]
    rows.append(Row("a client that polls each second", ms(looked), spread_ms(looked)))
    rows += [
        Row(f"{name.partition(':')[0]} ÷ polling each second", f"1/{median(looked) / median(values):,.0f}")
        for name, values in taken.items()
    ]
    return Section(
        "ends", "From a job's end to its client", rows, {"ends.svg": _plot(taken | {rows[3].what: looked})}
    )


def _aim(values: list[float]) -> Aim:
    return Aim(p95(values), "<", GOAL_MS, "ms at p95")


def _plot(taken: dict[str, list[float]]) -> str:
    short = {name.partition(":")[0]: values for name, values in taken.items()}
    return bars(
        {
            "median": {name: median(values) for name, values in short.items()},
            "p95": {name: p95(values) for name, values in short.items()},
        },
        "ms",
    )


def _start(one: Worker, headers: dict[str, str], lengths: tuple[float, float] = LENGTHS_S) -> str:
    """The job's id."""
    body = {"seconds": random.uniform(*lengths)}
    return str(one.post("/main/plugin/bench/rest", body, headers)["job_id"])


def _told(one: Worker, receiver: "subprocess.Popen[str]", hook: str) -> float:
    _start(one, {"X-Callback-Url": hook})
    found = json.loads(line_of(receiver))
    return float((found["arrived"] - found["finished_at"]) * 1000)


def _waited(one: Worker) -> float:
    job = _start(one, {"X-Result-Ttl": "30"})
    _, arrived, finished = _got(one, f"/api/v1/jobs/{job}", {"Prefer": "wait=30"})
    return (arrived - finished) * 1000


def _looked(one: Worker) -> float:
    """From its start on it looks each second."""
    job = _start(one, {"X-Result-Ttl": "30"}, LOOKED_S)
    while True:
        time.sleep(LOOK_S)
        state, arrived, finished = _got(one, f"/api/v1/jobs/{job}", {})
        if state != "running":
            return (arrived - finished) * 1000


def _got(one: Worker, path: str, headers: dict[str, str]) -> tuple[str, float, float]:
    """The job's state, when its answer was there, and when it ended (0.0: not yet); epoch seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=60)
    connection.request("GET", path, headers={"Authorization": f"Bearer {one.key}", **headers})
    body = connection.getresponse().read()
    arrived = time.time()
    connection.close()
    said = json.loads(body)
    return said["state"], arrived, said["finished_at"] or 0.0


def _watched(one: Worker) -> float:
    job = _start(one, {"X-Result-Ttl": "30"})
    connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=60)
    connection.request("GET", f"/api/v1/jobs/{job}/events", headers={"Authorization": f"Bearer {one.key}"})
    answer = connection.getresponse()
    ended = False
    while line := answer.readline():
        ended = ended or line.strip() == b"event: end"
        if ended and line.startswith(b"data:"):
            arrived = time.time()
            said = json.loads(line[5:])
            connection.close()
            return float((arrived - said["finished_at"]) * 1000)
    raise SystemExit("the stream ended without the job's end")
