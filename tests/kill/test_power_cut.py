"""J15: the power goes at any moment, and every `202` that was seen is there.

The whole worker but for its browser plays a day with jobs of every kind; each call to the kernel that touches its store
is written down. Then the disk is put together as it may be at each moment, and opened.
"""

import json
import os
import random
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penelope import jsontext
from penelope.store import opening
from tests.kill.judge import accepted, is_over, next_life, of
from tests.kill.play import fitted, run
from tests.kill.power import Disk, Event, strace, traced
from tests.spec.world import EPOCH

ROOT = Path(__file__).parents[2]
SEED = 15
LIVES = 16


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    program = strace()
    if program is None:
        pytest.skip("there is no strace here that may trace: it tells what was synced")
    home = tmp_path_factory.mktemp("power")
    (home / "disk").mkdir()
    command = [sys.executable, "-m", "tests.kill.powered", str(home)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return traced(
        program, command, home / "trace", home / "disk", home / "witness", cwd=ROOT, env=environment
    )


def root_of(events: list[Event]) -> str:
    return next(event.path for event in events if event.what == "mkdir").rpartition("/")[0]


def cuts(events: list[Event]) -> Iterator[tuple[int, Disk]]:
    """Before and after each sync, and after each mark: between these, nothing changes that a sync has made sure of."""
    disk = Disk(root_of(events))
    telling = {"sync", "mark"}
    for number, event in enumerate(events):
        if event.what in telling or (number and events[number - 1].what in telling):
            yield number, disk
        disk.play(event)
    yield len(events), disk


def seen_by(events: list[Event], number: int) -> tuple[list[dict[str, Any]], float]:
    """What was seen before the cut, and the latest that it can have been, in Trio's time."""
    marks = [json.loads(event.data) for event in events[:number] if event.what == "mark"]
    after = [json.loads(event.data) for event in events[number:] if event.what == "mark"]
    return marks, after[0]["at"] if after else float("inf")


def check_store(store: Path, seen: list[dict[str, Any]], now: float) -> None:
    """Open it as a start does: it is sound, and has all that was answered."""
    path = store / "penelope.db"
    if not store.exists():
        assert not seen, f"the store is gone, with {seen}"
        return
    assert path.exists() or not seen, f"the database is gone, with {seen}"
    writer, readers = opening.open_all(path, busy_timeout_s=1.0, readers=1)
    try:
        assert "ok" == writer.execute("PRAGMA integrity_check").fetchone()[0]
        found = writer.execute("SELECT * FROM jobs LEFT JOIN results USING (job_id)").fetchall()
        rows = {row["job_id"]: row for row in found}
        for job_id, ttl in accepted(seen).items():
            if job_id not in rows:
                assert is_over(seen, job_id, ttl, EPOCH + now), f"{job_id} is forgotten: {of(seen, job_id)}"
                continue
            check_end(rows[job_id], of(seen, job_id))
    finally:
        opening.close(writer, readers)


def check_end(row: sqlite3.Row, seen: list[dict[str, Any]]) -> None:
    """An end that somebody was told is the one that it has."""
    for end in (saw["end"] for saw in seen if "end" in saw):
        assert end == [row["state"], row["status"], jsontext.loads(row["body"]), row["finished_at"]]


@pytest.mark.parametrize("keeps", ["nothing", "something"])
def test_every_202_is_there(recorded: list[Event], keeps: str, tmp_path: Path) -> None:
    """Whether the disk keeps nothing of what was not synced, or parts of it, torn and out of order."""
    dice = random.Random(SEED) if keeps == "something" else None
    checked = 0
    for number, disk in cuts(recorded):
        here = tmp_path / str(number)
        disk.cut(here, dice)
        seen, now = seen_by(recorded, number)
        check_store(here / "store", seen, now)
        checked += 1
    assert checked > 100


def test_the_next_life_goes_on(recorded: list[Event], tmp_path: Path) -> None:
    """At some of the moments, with all that a start does: ends, deliveries, files."""
    dice = random.Random(SEED)
    moments = [number for number, _ in cuts(recorded) if seen_by(recorded, number)[1] < float("inf")]
    chosen = {*dice.sample(moments, LIVES)}
    for number, disk in cuts(recorded):
        if number not in chosen:
            continue
        chosen.discard(number)
        home = tmp_path / str(number)
        disk.cut(home, dice if number % 2 else None)
        marks, now = seen_by(recorded, number)
        lines = [json.dumps(mark) for mark in [*marks, {"saw": "death", "at": now}]]
        (home / "witness").write_text("".join(f"{line}\n" for line in lines))
        with fitted():
            run(next_life, home)


@pytest.mark.parametrize("forgets", ["penelope.db-wal", "store", "disk"])
def test_the_model_notices_a_sync_that_is_not_made(
    recorded: list[Event], forgets: str, tmp_path: Path
) -> None:
    """Of the log, of the store's folder, of the folder that has it: without any one of them, a start is forgotten."""
    without = [event for event in recorded if event.what != "sync" or not event.path.endswith(f"/{forgets}")]
    assert len(without) < len(recorded)
    disk = Disk(root_of(without))
    for event in without:
        disk.play(event)
        if b'"accepted"' in event.data and event.what == "mark":
            break
    disk.cut(tmp_path / "cut", None)
    number = without.index(event) + 1
    with pytest.raises(AssertionError, match=r"is gone|is forgotten"):
        check_store(tmp_path / "cut" / "store", *seen_by(without, number))


def test_the_whole_disk_is_the_store(recorded: list[Event], tmp_path: Path) -> None:
    """Played to its end, the model has the very database that the process left: it knows all that was written."""
    disk = Disk(root_of(recorded))
    for event in recorded:
        disk.play(event)
    disk.cut(tmp_path / "cut", None)
    real = Path(root_of(recorded)) / "store" / "penelope.db"
    assert real.read_bytes() == (tmp_path / "cut" / "store" / "penelope.db").read_bytes()
    with closing(sqlite3.connect(real)) as connection:
        assert ("wal",) == connection.execute("PRAGMA journal_mode").fetchone()
