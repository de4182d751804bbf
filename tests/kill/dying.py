"""Runs `penelope` so that it sends itself SIGKILL at a point: `python dying.py "JobStore.insert committed 1" serve`.

The points are between two steps of a job, where no signal from outside could hit.
"""

import sys

from penelope import cli
from penelope.jobs import sweep
from tests.kill.points import Point, arm

SWEEP_EVERY_S = 0.7  # so that what a sweep writes comes in the short lives of these tests

if __name__ == "__main__":
    arm(Point.read(sys.argv.pop(1)))
    sweep.SWEEP_EVERY_S = SWEEP_EVERY_S  # type: ignore[misc]  # Final, but for here
    cli.main(prog_name="penelope")
