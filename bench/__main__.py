"""Measures Penelope and its peers in turns, prints it as Markdown, and writes docs/performance.md and its plots.

python -m bench                         all of it but the hour, under ten minutes at rest
python -m bench --quick                 a minute or two for a look; writes nothing
python -m bench --only opens,runs       some of it; the rest of the page stays
python -m bench --only soak --minutes 60
python -m bench --install               only gets the peers
python -m bench --page                  makes the page anew of what was measured

What is measured stays in docs/performance.json, from which the page's tables are made, between marks; what is written
by hand around them stays.
"""

import argparse
import datetime as dt
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bench import (
    birth,
    calls,
    commits,
    ends,
    endurance,
    held,
    memory,
    opens,
    page,
    polls,
    record,
    runs,
    starts,
    waker,
)
from bench.numbers import Section
from bench.peers.installing import NotHere
from bench.peers.listed import PEERS
from bench.processes import ROOT, Client, client
from bench.record import Record
from bench.telling import load, on, show

PAGE = ROOT / "docs" / "performance.md"
RECORDS = ROOT / "docs" / "performance.json"
PLOTS = ROOT / "docs" / "plots"
SOAK_MINUTES = 0.5
_N = TypeVar("_N", int, float)


@dataclass(frozen=True, slots=True)
class Run:
    """What a measurement is given.

    Attributes:
        folder: for stores and logs, of its own.
        minutes: of the soak.
    """

    folder: Path
    client: Client
    quick: bool
    minutes: float

    def few(self, full: _N, quick: _N) -> _N:
        return quick if self.quick else full


Measure = Callable[[Run], Iterator[Section]]


def _opens(run: Run) -> Iterator[Section]:
    yield from opens.measure(run.folder, run.client, rounds=run.few(3, 1), seconds=run.few(2.0, 1.0))


def _calls(run: Run) -> Iterator[Section]:
    yield calls.measure(run.folder, run.client, turns=run.few(40, 15))


def _runs(run: Run) -> Iterator[Section]:
    yield from runs.measure(run.folder, run.client, rounds=run.few(3, 1), seconds=run.few(1.5, 1.0))


def _polls(run: Run) -> Iterator[Section]:
    yield polls.measure(run.folder, run.client, rounds=run.few(3, 1), seconds=run.few(0.8, 0.5))


def _starts(run: Run) -> Iterator[Section]:
    yield starts.measure(run.folder, run.client, rounds=run.few(3, 1), seconds=run.few(2.5, 1.0))


def _commits(run: Run) -> Iterator[Section]:
    yield commits.measure(run.folder, run.client, seconds=run.few(3.0, 1.0))


def _ends(run: Run) -> Iterator[Section]:
    yield ends.measure(run.folder, jobs=run.few(40, 10), looks=run.few(12, 3))


def _birth(run: Run) -> Iterator[Section]:
    run.folder.mkdir()
    yield birth.starts(run.folder, rounds=run.few(4, 1))
    yield birth.imports(run.folder, rounds=run.few(3, 2))


def _waker(run: Run) -> Iterator[Section]:
    yield waker.wakes(run.folder, rounds=run.few(4, 1))


def _gateway(run: Run) -> Iterator[Section]:
    yield waker.passes(run.folder / "passes", turns=run.few(200, 40), mib=run.few(2048, 256))
    yield waker.crowd(run.folder / "crowd")
    yield waker.sleepers(run.folder / "sleepers")


def _memory(run: Run) -> Iterator[Section]:
    yield memory.measure(run.folder, run.client)


def _growth(run: Run) -> Iterator[Section]:
    yield held.measure(run.folder, run.client, rounds=run.few(6, 1))


def _soak(run: Run) -> Iterator[Section]:
    yield endurance.measure(run.folder, minutes=run.minutes)


# Of the most weight first: a busy machine has no time for the last.
ALWAYS: dict[str, Measure] = {
    "opens": _opens,
    "runs": _runs,
    "starts": _starts,
    "ends": _ends,
    "memory": _memory,
    "growth": _growth,
    "birth": _birth,
    "waker": _waker,
    "commits": _commits,
    "calls": _calls,
    "polls": _polls,
    "soak": _soak,
}
# Longer, and about nothing that something was promised of.
ASKED_FOR: dict[str, Measure] = {"gateway": _gateway}
MEASURES = ALWAYS | ASKED_FOR


def main() -> None:
    given = _arguments()
    if given.install:
        sys.exit(_install())
    if given.page:
        write_page({})
        return
    wanted = [name for name in given.only.split(",") if name] or list(ALWAYS)
    if unknown := [name for name in wanted if name not in MEASURES]:
        sys.exit(f"there is no {', '.join(unknown)}; there are {', '.join(MEASURES)}")
    writes = given.write or not given.quick
    words = " ".join(["python -m bench", *sys.argv[1:]])
    print(f"`{words}`, {_now()} UTC\n\n{on()}", flush=True)
    failed = []
    with (
        tempfile.TemporaryDirectory(dir=given.folder, prefix="penelope-bench-") as name,
        client(Path(name)) as load_client,
    ):
        began = time.monotonic()
        for what in wanted:
            if time.monotonic() - began > (given.within - 1) * 60:
                failed.append(f"{what} (no time is left)")
                continue
            run = Run(Path(name) / what, load_client, given.quick, given.minutes)
            found, whole = _measured(what, run, words)
            failed += [] if whole else [what]
            if writes:
                write_page(found)
    if failed:
        sys.exit(f"not measured: {', '.join(failed)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and nothing is written")
    parser.add_argument("--write", action="store_true", help="write the page even so")
    parser.add_argument("--only", default="", help=f"comma-separated: {', '.join(MEASURES)}")
    parser.add_argument("--minutes", type=float, default=SOAK_MINUTES, help="of the soak")
    parser.add_argument("--folder", type=Path, help="where the stores are made; default: a temporary folder")
    parser.add_argument(
        "--within", type=float, default=10, help="minutes; in the last one nothing more is begun"
    )
    parser.add_argument("--install", action="store_true", help="get the peers, and measure nothing")
    parser.add_argument("--page", action="store_true", help="make the page of what was measured")
    return parser.parse_args()


def _measured(what: str, run: Run, words: str) -> tuple[dict[str, Record], bool]:
    """The records of one measurement by their names, and whether it came to its end."""
    found: dict[str, Record] = {}
    began, before = time.monotonic(), load()
    try:
        for section in MEASURES[what](run):
            show(section)
            found[section.name] = Record(section, words, _now(), on(), (before, load()))
    except (Exception, SystemExit):  # the others are measured all the same
        traceback.print_exc()
        return found, False
    finally:
        print(f"\n({what}: {time.monotonic() - began:.0f} s)", flush=True)
    return found, True


def _now() -> str:
    return f"{dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M}"


def _install() -> int:
    """How many of the peers cannot be had."""
    missing = 0
    for name, install in PEERS.items():
        try:
            print(f"{name}: {install()}")
        except NotHere as why:
            missing += 1
            print(f"{name}: {why}")
    return missing


def write_page(found: dict[str, Record]) -> None:
    """Keep what was found, and make the page of all that is kept."""
    records = record.read(RECORDS) | found
    for one in found.values():
        for name, svg in one.section.plots.items():
            PLOTS.mkdir(exist_ok=True)
            (PLOTS / name).write_text(svg, "utf-8")
    record.write(RECORDS, records)
    text = PAGE.read_text("utf-8")
    made = page.blocks(records, page.order(text), PLOTS.name)
    PAGE.write_text(page.written(text, made), "utf-8")


if __name__ == "__main__":
    main()
