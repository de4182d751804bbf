"""What has to be so when a worker starts again on the store of one that died in the play (`play.py`)."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import trio

from tests.kill.play import ANSWERS, RUNS, RUNS_KEEP_S, SETTINGS, Receivers, Witness, end_of_run
from tests.spec.world import Life, World, live

REST_S: Final = 1000.0


def sound(store: Path) -> bool:
    """Of the file as it was left; a look that writes nothing."""
    with closing(sqlite3.connect(f"file:{store / 'penelope.db'}?mode=ro", uri=True)) as connection:
        (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
        assert "ok" == verdict
        assert [] == connection.execute("PRAGMA foreign_key_check").fetchall()
    return True


async def next_life(home: Path) -> None:
    """The next start takes up all that was accepted, and brings it to its end."""
    before = Witness.read(home / "witness")
    after = Witness(home / "witness")
    receivers: Any = Receivers(after, dict.fromkeys(ANSWERS, 200))
    world = World(home / "store", receiver=receivers, settings=dict(SETTINGS))
    world.skew = max((saw["at"] for saw in before), default=0.0)
    async with live(world) as life:
        started = await life.call("echo", headers={"X-Result-Ttl": "60"})
        while " run_" in started.text:  # that was in the queue, and goes on
            await trio.sleep(1)
            started = await life.call("echo", headers={"X-Result-Ttl": "60"})
        assert 202 == started.status_code, "the page is claimed"
        for job_id, ttl in accepted(before).items():
            answer = await life.poll(job_id)
            if answer.status_code == 404:
                seen = Witness.read(home / "witness")  # it may be delivered by now
                assert is_over(seen, job_id, ttl, life.now()), f"{job_id} is lost: {of(seen, job_id)}"
                continue
            shown = answer.json()
            ends = [saw["end"] for saw in of(before, job_id) if "end" in saw]
            now_is = [shown[name] for name in ("state", "status", "result", "finished_at")]
            assert "running" != shown["state"]
            assert [now_is] * len(ends) == ends, "a second end"
        for run_id in submitted(before):
            await check_run(life, run_id, before)
        for saw in before:
            if saw["saw"] == "file" and not said(before, "download", url=saw["url"]):
                await check_file(life, saw)
        await trio.sleep(REST_S)
        activity = (await life.http.get("/api/v1/activity")).json()
        assert (0, 0) == (activity["jobs_held"], activity["deliveries_pending"])
        await life.stop()
    check_all(home, Witness.read(home / "witness"))


async def check_run(life: Life, run_id: str, before: list[dict[str, Any]]) -> None:
    """There, with the end that was seen, if one was; or gone because it was deleted, or its time was over."""
    ends = [saw for saw in before if saw.get("run_id") == run_id and saw["saw"] == "result"]
    ends += [saw for saw in before if saw.get("job_id") == run_id]  # what a receiver was told
    answer = await life.http.get(f"{RUNS}/{run_id}/result", headers={"Prefer": "wait=60"})
    if answer.status_code == 404:
        old = any(saw["at"] + RUNS_KEEP_S <= trio.current_time() + life.world.skew for saw in ends)
        assert old or said(before, "delete", run_id=run_id), f"{run_id} is lost"
        return
    assert 200 == answer.status_code, answer.text
    now_is = end_of_run(answer.json())
    assert [now_is] * len(ends) == [saw["end"] for saw in ends], "a second end"


async def check_file(life: Life, saw: dict[str, Any]) -> None:
    """Whole, or gone because its time was over."""
    answer = await life.http.get(saw["url"])
    if life.now() < saw["until"]:
        assert 200 == answer.status_code, f"a file is lost: {saw}"
        assert bytes(n % 251 for n in range(saw["size"])) == answer.content
    else:
        assert 404 == answer.status_code


def check_all(home: Path, seen: list[dict[str, Any]]) -> None:
    """Once everything has had its time: nothing was lost, nothing is left."""
    for job_id, ttl in accepted(seen).items():
        posts = [saw for saw in of(seen, job_id) if saw["saw"] == "post"]
        if ttl is not None:
            assert [] == posts
            continue
        assert posts, f"{job_id} was never POSTed"
        numbers = [post["attempt"] for post in posts]
        assert sorted(numbers) == numbers
        assert set(numbers) <= {1, 2, 3, 4}
        assert (
            len(numbers) - len(set(numbers)) <= 2
        )  # two lives were cut off: this play's first, and by the kill
        assert len(numbers) <= 4 + 2
        assert [posts[0]["end"]] * len(posts) == [post["end"] for post in posts], "a second end"
        assert posts[-1]["answer"] != 500 or numbers[-1] == 4
    for run_id, webhook in submitted(seen).items():
        posts = [saw for saw in of(seen, run_id) if saw["saw"] == "post"]
        assert webhook is None or posts, f"the end of {run_id} was never POSTed"
        assert [posts[0]["end"]] * len(posts) == [post["end"] for post in posts] if posts else True
        assert len(posts) <= 4 + 2
    with closing(sqlite3.connect(home / "store" / "penelope.db")) as connection:
        (jobs,) = connection.execute("SELECT count(*) FROM jobs").fetchone()
        files = {file for (file,) in connection.execute("SELECT file FROM media")}
    assert 0 == jobs
    assert files == {path.name for path in (home / "store" / "media").iterdir()}
    assert set() == files


def accepted(seen: list[dict[str, Any]]) -> dict[str, float | None]:
    return {saw["job_id"]: saw["ttl"] for saw in seen if saw["saw"] == "accepted"}


def submitted(seen: list[dict[str, Any]]) -> dict[str, str | None]:
    """The runs that were submitted, and whom their end is told."""
    return {saw["run_id"]: saw["webhook"] for saw in seen if saw["saw"] == "submitted"}


def of(seen: list[dict[str, Any]], job_id: str) -> list[dict[str, Any]]:
    return [saw for saw in seen if saw.get("job_id") == job_id]


def said(seen: list[dict[str, Any]], what: str, **more: Any) -> bool:
    return any(saw["saw"] == what and more.items() <= saw.items() for saw in seen)


def is_over(seen: list[dict[str, Any]], job_id: str, ttl: float | None, now: float) -> bool:
    """May it be gone? Delivered, refused, POSTed four times; or its hold is over."""
    if ttl is None:
        answers = Counter(saw["answer"] for saw in of(seen, job_id) if saw["saw"] == "post")
        return bool(answers[200] or answers[404] or answers[500] >= 4)
    ends = [saw["end"] for saw in of(seen, job_id) if saw["saw"] == "shown"]
    return any(now >= finished_at + ttl for *_, finished_at in ends)
