"""The run of `python -m tests.kill`, a short one."""

import time
from pathlib import Path

from tests.kill.plan import WEBHOOK_MOMENTS_S, How, stops
from tests.kill.run import Run
from tests.kill.table import table

SEED = 25
KILLS = 8
ENOUGH_S = 35.0  # then it begins no new life, on a machine that is busy
AT_LEAST = 3


async def test_a_short_run(tmp_path: Path) -> None:
    """J6, J12, J13: every accepted job has its end, whenever and however the worker is stopped."""
    run = Run(tmp_path / "home", SEED, KILLS, hanging=False, longest_s=2.0, executed=False)
    run.until, run.at_least = time.monotonic() + ENOUGH_S, AT_LEAST
    await run.run()
    lives = sum(run.ends[how.value] for how in How)
    assert AT_LEAST <= lives <= KILLS
    assert lives + len(WEBHOOK_MOMENTS_S) == run.record.counts["nothing left"]
    assert run.checks > lives  # but of one that died before it had a store
    accepted = [story for story in run.record.jobs.values() if story.accepted]
    assert len(accepted) > 2 * lives
    assert any(story.delivered for story in accepted)
    assert any(story.shown for story in accepted)


def test_a_seed_makes_the_same_stops() -> None:
    first, second, other = stops(1), stops(1), stops(2)
    some = [next(first) for _ in range(200)]
    assert some == [next(second) for _ in range(200)]
    assert some != [next(other) for _ in range(200)]
    assert set(How) == {stop.how for stop in some}


def test_the_docs_have_the_table(tmp_path: Path) -> None:
    """Row for row what a run prints; how it went is the run's to say."""
    page = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text()
    for line in table(Run(tmp_path, 1, 1)).splitlines()[2:]:
        label = line.split("|")[1].strip()
        assert f"| {label} |" in page
