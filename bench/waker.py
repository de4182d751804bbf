"""The waker: from nothing to an answer, what its gateway costs a call and a file, and what sleeping personas cost.

The call to a sleeping persona and a worker's start without a waker are taken in turns, on stores that are there.
"""

import json
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.numbers import Aim, Row, Section, median, ms, ratio_row, spread_ms
from bench.processes import PLUGINS, cpu_s, environment, process, worker

GOAL_S = 3.0
GOAL_MB = 100.0
MIB = 2**20
KEY = "the-key-of-the-bench-0123456789"
START_S = 60.0
MANY = 50
AT_ONCE = 10
REST_S = 10.0


@dataclass(frozen=True, slots=True)
class Waker:
    """A waker that runs."""

    pid: int
    url: str

    def ask(self, method: str, path: str, body: object = None) -> tuple[float, bytes]:
        """Milliseconds to the whole answer, and the answer."""
        asked = urllib.request.Request(
            f"{self.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
        )
        began = time.perf_counter()
        with urllib.request.urlopen(asked, timeout=120) as answer:
            said = answer.read()
        return (time.perf_counter() - began) * 1000, said


@contextmanager
def waker(folder: Path, personas: str) -> Iterator[Waker]:
    """A waker with a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "personas.toml").write_text(personas)
    log = folder / "log"
    env = environment(PENELOPE_KEY=KEY, PENELOPE_PLUGINS=str(PLUGINS), PENELOPE_LOG="json")
    words = ("-m", "penelope", "waker", "--port", "0")
    with process(*words, cwd=folder, log=log, env=env) as running:
        until = time.monotonic() + START_S
        while '"event": "ready"' not in log.read_text():
            if time.monotonic() > until or running.poll() is not None:
                raise SystemExit(f"the waker did not start:\n{log.read_text()}")
            time.sleep(0.01)
        said = next(line for line in log.read_text().splitlines() if '"event": "ready"' in line)
        yield Waker(running.pid, json.loads(said)["url"])


def wakes(folder: Path, *, rounds: int) -> Section:
    """From nothing to an answer, beside a worker's start without a waker."""
    asleep: list[float] = []
    alone: list[float] = []
    (folder / "alone").mkdir(parents=True)
    with waker(folder / "wakes", "[personas.a]\n") as one:
        for number in range(rounds + 1):  # the first has a fresh store
            took, _ = one.ask(
                "POST", "/p/a/api/v1/main/plugin/web/open", {"url": "data:text/html,<title>x</title>"}
            )
            one.ask("POST", "/api/v1/personas/a/stop")
            with worker(folder / "alone") as direct:
                ready = direct.ready_s * 1000
            if number:
                asleep.append(took)
                alone.append(ready)
    rows = (
        Row(
            "a call to a sleeping persona, from nothing to its answer",
            *_seconds(asleep),
            Aim(median(asleep) / 1000, "<", GOAL_S, "s"),
        ),
        Row("`penelope serve` until ready, without a waker", *_seconds(alone)),
        ratio_row("that call ÷ that start", asleep, alone),
    )
    return Section("waking", "Waking", rows)


def _seconds(values: list[float]) -> tuple[str, str]:
    """Of milliseconds."""
    low, high = min(values) / 1000, max(values) / 1000
    return f"{median(values) / 1000:.2f} s", f"{low:.2f} to {high:.2f} in {len(values)} rounds"


def crowd(folder: Path) -> Section:
    """Ten sleeping personas that are called at once."""
    names = [f"p{number}" for number in range(AT_ONCE)]
    with (
        waker(folder, "".join(f"[personas.{name}]\n" for name in names)) as many,
        ThreadPoolExecutor(AT_ONCE) as threads,
    ):
        path = "/p/{}/api/v1/main/plugin/bench/nothing"
        took = list(threads.map(lambda name: many.ask("POST", path.format(name), {})[0], names))
    row = Row(
        f"first calls to {AT_ONCE} sleeping personas at once, until the last is answered",
        f"{max(took) / 1000:.1f} s",
        f"the first after {min(took) / 1000:.1f} s",
    )
    return Section("crowd", "Waking many", [row])


def passes(folder: Path, *, turns: int, mib: int) -> Section:
    """What the gateway costs a call and a file of which nothing may be held."""
    through: list[float] = []
    direct: list[float] = []
    with waker(folder, "[personas.a]\n") as one:
        one.ask("POST", "/api/v1/personas/a/start")
        port = json.loads(one.ask("GET", "/api/v1/personas/a")[1])["port"]
        behind = Waker(0, f"http://127.0.0.1:{port}")
        for number in range(turns + 10):
            pair = (
                one.ask("POST", "/p/a/api/v1/main/plugin/bench/nothing", {})[0],
                behind.ask("POST", "/api/v1/main/plugin/bench/nothing", {})[0],
            )
            if number >= 10:
                through.append(pair[0])
                direct.append(pair[1])
        before, most, seconds = _download(one, folder, mib)
    added = [a - b for a, b in zip(through, direct, strict=True)]
    rows = (
        Row("a call that does nothing, through the gateway", ms(through), spread_ms(through)),
        Row("the same, to the worker itself", ms(direct), spread_ms(direct)),
        Row("what the gateway adds", ms(added), spread_ms(added)),
        Row(f"a file of {mib} MiB through the gateway", f"{mib / seconds:,.0f} MiB/s"),
        Row("the waker's memory before it, and at most while it passes", f"{before:.0f} and {most:.0f} MiB"),
    )
    return Section("gateway", "The gateway", rows)


def _download(one: Waker, folder: Path, mib: int) -> tuple[float, float, float]:
    """Memory before and at most, MiB; seconds."""
    made = json.loads(
        one.ask("POST", "/p/a/api/v1/main/plugin/bench/file", {"folder": str(folder), "mib": mib})[1]
    )
    resident = psutil.Process(one.pid).memory_info
    before = most = resident().rss
    began = time.perf_counter()
    with urllib.request.urlopen(f"{one.url}/p/a{made['file']['url']}", timeout=300) as answer:
        while answer.read(4 * MIB):
            most = max(most, resident().rss)
    return before / MIB, most / MIB, time.perf_counter() - began


def sleepers(folder: Path) -> Section:
    """What personas cost that sleep."""
    with waker(folder, "".join(f"[personas.p{number}]\n" for number in range(MANY))) as one:
        one.ask("GET", "/api/v1/personas")
        time.sleep(1)
        began = cpu_s(one.pid)
        time.sleep(REST_S)
        used = cpu_s(one.pid) - began
        resident = psutil.Process(one.pid).memory_info().rss / MIB
    rows = (
        Row(
            f"memory of a waker with {MANY} sleeping personas",
            f"{resident:.0f} MiB",
            "",
            Aim(resident, "<", GOAL_MB, "MB"),
        ),
        Row(f"its CPU in {REST_S:.0f} s", f"{used * 1000:.0f} ms"),
    )
    return Section("sleepers", "Sleeping", rows)
