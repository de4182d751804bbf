"""What held jobs cost: a worker with a thousand of them, each waiting for its next attempt, beside one with ten.

python -m bench.held              about three minutes
python -m bench.held --many 300

All of them are webhook jobs whose receiver answers 500, so each waits for its attempts. Both workers run at the same
time and are asked in turns; what is measured ends before the attempts at 5 minutes begin.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError

from bench.__main__ import machine, show
from bench.numbers import Row, Section, median, middle_half
from bench.processes import Client, Worker, client, environment, line_of, process, worker

FEW = 10
MANY = 980  # of 1,000: the starts that are measured need room
SECOND_ATTEMPTS_S = 90.0  # by then those at one minute are over


@dataclass(slots=True)
class Side:
    """One of the two workers, and what was measured of it, in milliseconds, by name."""

    held: int
    folder: Path
    worker: Worker
    jobs: list[str] = field(default_factory=list)
    taken: dict[str, list[float]] = field(default_factory=dict)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.held", description=__doc__)
    parser.add_argument("--many", type=int, default=MANY, help="jobs held by the one")
    parser.add_argument("--rounds", type=int, default=8)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penelope-held-") as name:
        print(*machine("bench.held"), sep="\n")
        show(measured(Path(name), given.many, given.rounds))


def measured(folder: Path, many: int, rounds: int) -> Section:
    """Fill both, wait for the attempts at one minute, measure in turns, then stop and start both."""
    with ExitStack() as stack:
        load_client = stack.enter_context(client(folder))
        receiver = stack.enter_context(
            process("-m", "bench.receiver", "500", cwd=folder, log=folder / "receiver.log")
        )
        url = f"http://127.0.0.1:{line_of(receiver)}/hook"
        stack.callback(receiver.kill)
        threading.Thread(target=list, args=[receiver.stdout], daemon=True).start()  # else its pipe fills up
        sides = [_side(stack, folder / str(held), held) for held in (FEW, many)]
        began = time.monotonic()
        for side in sides:
            side.jobs = fill(side.worker, side.held, url)
        time.sleep(max(0.0, began + SECOND_ATTEMPTS_S - time.monotonic()))
        for _ in range(rounds):
            for side in sides:
                _ask(side, load_client)
        memory = [side.worker.get("/activity")["rss_mb"] for side in sides]
        held = [side.worker.get("/activity")["jobs_held"] for side in sides]
    for _ in range(3):
        for side in sides:
            with worker(side.folder) as again:
                side.taken.setdefault("a start on this store, until ready", []).append(again.ready_s * 1000)
            _note(side, "a sweep that finds nothing to do", _sweep_ms(side.folder / "store" / "penelope.db"))
    few, much = sides
    rows = [_row(what, few.taken[what], much.taken[what]) for what in few.taken]
    rows.append(
        Row("memory, `rss_mb`", f"{memory[0]:.1f} and {memory[1]:.1f} MB", f"{memory[1] - memory[0]:+.1f} MB")
    )
    return Section(f"{held[0]:,} held jobs, and {held[1]:,}", rows)


def _side(stack: ExitStack, folder: Path, held: int) -> Side:
    folder.mkdir()
    return Side(held, folder, stack.enter_context(worker(folder)))


def fill(one: Worker, count: int, url: str) -> list[str]:
    """Webhook jobs one after another on one page, each asked for again until it is taken; their ids."""
    made: list[str] = []
    while len(made) < count:
        try:
            found = one.post("/main/plugin/bench/nothing", {}, {"X-Callback-Url": url})
        except HTTPError as error:
            if error.code != HTTPStatus.CONFLICT:
                raise
        else:
            made.append(str(found["job_id"]))
    return made


def _ask(side: Side, load_client: Client) -> None:
    port, key = side.worker.port, side.worker.key
    job = side.jobs[len(side.jobs) // 2]
    polls = load_client.order(port, key, method="GET", path=f"/api/v1/jobs/{job}", count=100)
    _note(side, "a poll", *polls["ms"])
    lists = load_client.order(port, key, method="GET", path="/api/v1/jobs?limit=20", count=20)
    _note(side, "a list of 20", *lists["ms"])
    starts = load_client.order(port, key, pages=["main"], seconds=1.0, ttl="0.05")
    _note(side, "start, run and end of a job", starts["seconds"] * 1000 / starts["count"])


def _note(side: Side, what: str, *values: float) -> None:
    side.taken.setdefault(what, []).extend(values)


def _sweep_ms(store: Path) -> float:
    """In a process of its own, on the store that a stop left; nothing in it is due."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.sweeping", str(store)],
        env=environment(),
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout)


def _row(what: str, few: list[float], much: list[float]) -> Row:
    spread = "; ".join("middle half {:.2f} to {:.2f}".format(*middle_half(values)) for values in (few, much))
    return Row(
        what, f"{median(few):.2f} and {median(much):.2f} ms: {median(much) / median(few):.2f} times", spread
    )


if __name__ == "__main__":
    main()
