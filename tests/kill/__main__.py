"""The long run: `python -m tests.kill --kills 1000 --seed 1`, or `nox -s kill -- --kills 1000 --seed 1`.

Prints each life, then the table of `docs/reliability.md`. The same seed makes the same stops and asks for the same
jobs; what the machine makes of the moments between them is its own.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

import trio

from tests.kill.record import Broken
from tests.kill.run import Run
from tests.kill.table import table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kill", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="how many lives; 1000 unless given")
    parser.add_argument("--seed", type=int, help="of the stops and the jobs; drawn and shown unless given")
    parser.add_argument("--minutes", type=float, help="begin no new life after so long")
    chosen = parser.parse_args()
    seed = random.randrange(10**6) if chosen.seed is None else chosen.seed
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penelope-kill-") as folder:
        run = Run(Path(folder) / "home", seed, chosen.kills, say=_say)
        if chosen.minutes is not None:
            run.until = began + 60 * chosen.minutes
        try:
            trio.run(run.run)
        except Broken as exc:
            _say(f"BROKEN: {exc}")
            return 1
        _say(f"seed {seed}, {(time.monotonic() - began) / 60:.1f} min")
        _say(table(run))
    return 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
