"""What held jobs cost: workers with 10, 100 and almost 1,000 of them, asked in turns."""

import statistics
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.numbers import Aim, Row, Section, median, middle_half
from bench.plot import bars
from bench.processes import Client, Worker, environment, worker

HELD = (10, 100, 980)  # of 1,000: the starts that are measured need room
GOAL = 1.2
RESTARTS = 3
TTL = "600"  # longer than all this takes
BRIEF = "0.05"
LISTED = 10  # as many as the least has
POLL, LIST, START = "a poll", f"a list of {LISTED}", "a start, from its request to its `202`"
SWEEP, RESTART = "a sweep that finds nothing to do", "a start of the worker on this store, until ready"


@dataclass(slots=True)
class Side:
    """One of the workers, and what was measured of it, in milliseconds, by name."""

    held: int
    folder: Path
    worker: Worker
    job: str = ""
    taken: dict[str, list[float]] = field(default_factory=dict)

    def note(self, what: str, *values: float) -> None:
        self.taken.setdefault(what, []).extend(values)


def measure(folder: Path, client: Client, *, rounds: int) -> Section:
    """Fill all, ask them in turns, then sweep their stores and start them again."""
    folder.mkdir()
    with ExitStack() as stack:
        sides = [_side(stack, folder / str(held), held) for held in HELD]
        for side in sides:
            side.job = fill(client, side.worker, side.held)
        for number in range(rounds + 1):
            for at in range(len(sides)):
                side = sides[(at + number) % len(sides)]
                _ask(side, client)
                if not number:  # it warms up
                    side.taken.clear()
        counted = [side.worker.get("/activity")["jobs_held"] for side in sides]
    for side in sides:
        side.note(SWEEP, *_sweeps_ms(side.folder / "store" / "penelope.db"))
    for _ in range(RESTARTS):
        for side in sides:
            with worker(side.folder) as again:
                side.note(RESTART, again.ready_s * 1000)
    rows = [_row(what, sides) for what in (START, POLL, LIST, SWEEP, RESTART)]
    title = f"Growth with {', '.join(f'{number:,}' for number in counted[:-1])} and {counted[-1]:,} held jobs"
    groups = {
        what: {f"{side.held}": median(side.taken[what]) / median(sides[0].taken[what]) for side in sides}
        for what in sides[0].taken
    }
    return Section("growth", title, rows, {"growth.svg": bars(groups, f"times with {HELD[0]}")})


def _side(stack: ExitStack, folder: Path, held: int) -> Side:
    folder.mkdir()
    return Side(held, folder, stack.enter_context(worker(folder)))


def fill(client: Client, one: Worker, count: int) -> str:
    """So many jobs, one after another on one page, that keep their results; the last one's id."""
    order = {"pages": ["main"], "rest": 0.0, "ttl": TTL, "count": count}
    return str(client.order(one.port, one.key, starts=order)["job_id"])


def _ask(side: Side, client: Client) -> None:
    port, key = side.worker.port, side.worker.key
    polls = client.order(port, key, method="GET", path=f"/api/v1/jobs/{side.job}", count=100)
    side.note(POLL, *polls["ms"])
    lists = client.order(port, key, method="GET", path=f"/api/v1/jobs?limit={LISTED}", count=30)
    side.note(LIST, *lists["ms"])
    order = {"pages": ["main"], "rest": 0.0, "ttl": BRIEF, "count": 15}
    side.note(START, *client.order(port, key, starts=order)["asked_ms"])


def _sweeps_ms(store: Path) -> list[float]:
    """In a process of its own, on the store that a stop left; nothing in it is due."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.sweeping", str(store)],
        env=environment(),
        check=True,
        capture_output=True,
        text=True,
    )
    return [float(line) for line in done.stdout.split()]


def _row(what: str, sides: list[Side]) -> Row:
    """The most against the least: medians, since each met the same machine in turns."""
    medians = [statistics.median(side.taken[what]) for side in sides]
    spread = "; ".join(
        "middle half {:.2f} to {:.2f}".format(*middle_half(side.taken[what])) for side in sides
    )
    figure = f"{', '.join(f'{value:,.2f}' for value in medians)} ms"
    return Row(what, figure, spread, Aim(medians[-1] / medians[0], "<", GOAL, "×"))
