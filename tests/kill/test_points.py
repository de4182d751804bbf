"""SIGKILL at every commit that the worker makes: before it, in its transaction, after it; and what is so afterwards.

The process that dies is real, and so is its store. The browser and the network are not there, so that the clock can
jump and every point is reached: `test_run.py` has them.
"""

import ast
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.kill.play import ANSWERS, Receivers, Witness, fitted, run
from tests.kill.points import COMMITS, STEPS, Moment, Point, every_point
from tests.kill.zygote import Zygote, zygote
from tests.spec.world import World, live

PACKAGE = Path(__file__).parents[2] / "penelope"
REST_S = 1000.0


def functions(module: Path) -> Iterator[tuple[str, ast.AST]]:
    """Each function of a module that no other holds, with its class's name."""
    for statement in ast.parse(module.read_text()).body:
        if isinstance(statement, ast.ClassDef):
            for inner in statement.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{statement.name}.{inner.name}", inner
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement.name, statement


def writes(function: ast.AST) -> bool:
    """Does it ask a database to write?"""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "write"
        and ast.unparse(node.func.value).rpartition(".")[2].lstrip("_").endswith("database")
        for node in ast.walk(function)
    )


def commits(function: ast.AST) -> bool:
    """Does it say COMMIT itself?"""
    return any(
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and "COMMIT" in node.value.replace("COMMIT waits", "")
        and node is not _docstring(function)
        for node in ast.walk(function)
    )


def _docstring(function: ast.AST) -> ast.AST | None:
    first = getattr(function, "body", [None])[0]
    return first.value if isinstance(first, ast.Expr) else None


def test_the_table_has_every_write() -> None:
    """A new one without a kill does not pass."""
    found = {
        name for module in PACKAGE.rglob("*.py") for name, function in functions(module) if writes(function)
    }
    assert set(COMMITS) == found


def test_every_transaction_is_the_databases_or_the_openings() -> None:
    """So that there is no other way to commit than those that die here."""
    found = {
        f"{module.stem}.{name}"
        for module in PACKAGE.rglob("*.py")
        for name, function in functions(module)
        if commits(function)
    }
    assert {"database.Database._commit", "opening._create", "opening._migrate", "opening._tune"} == found
    assert {"opening._create", "opening._migrate", "opening._tune"} <= set(STEPS)


@pytest.fixture(scope="module")
def mother() -> Iterator[Zygote]:
    with zygote() as one:
        yield one


def test_the_play_comes_to_its_end(mother: Zygote, tmp_path: Path) -> None:
    """When nothing kills it: so a play that does not end was killed where it was meant to be."""
    assert 0 == mother.play(tmp_path, None)
    assert sound(tmp_path / "store")


AGAIN = ("JobStore.insert", "JobStore.save", "JobStore.finish_all", "JobStore.settle", "MediaStore.recover")


@pytest.mark.parametrize("name", [*COMMITS, *STEPS])
def test_killed_at(name: str, mother: Zygote, tmp_path: Path) -> None:
    """At each moment of the point's first time; of the second, too, where that is another matter."""
    for nth in (1, 2) if name in AGAIN else (1,):
        for point in every_point(nth):
            if point.name == name:
                killed_at(point, mother, tmp_path / f"{point.moment.value} {nth}")


def killed_at(point: Point, mother: Zygote, home: Path) -> None:
    home.mkdir()
    assert -signal.SIGKILL == mother.play(home, point), f"not reached: {point}"
    if (home / "store" / "penelope.db").exists():
        assert sound(home / "store")
    else:
        assert not accepted(Witness.read(home / "witness")), "answered without a store"
    with fitted():
        run(next_life, home)


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
    world = World(home / "store", receiver=Receivers(after, dict.fromkeys(ANSWERS, 200)))  # type: ignore[arg-type]
    world.skew = max((saw["at"] for saw in before), default=0.0)
    async with live(world) as life:
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
        for saw in before:
            if saw["saw"] == "file" and not said(before, "download", url=saw["url"]):
                await check_file(life.http, saw)
        await trio.sleep(REST_S)
        activity = (await life.http.get("/api/v1/activity")).json()
        assert (0, 0) == (activity["jobs_held"], activity["deliveries_pending"])
        await life.stop()
    check_all(home, Witness.read(home / "witness"))


async def check_file(http: Any, saw: dict[str, Any]) -> None:
    """Whole, or gone because its time was over."""
    answer = await http.head(saw["url"])
    assert answer.status_code in {200, 404}
    if answer.status_code == 200:
        assert str(saw["size"]) == answer.headers["Content-Length"]


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
    with closing(sqlite3.connect(home / "store" / "penelope.db")) as connection:
        (jobs,) = connection.execute("SELECT count(*) FROM jobs").fetchone()
        files = {file for (file,) in connection.execute("SELECT file FROM media")}
    assert 0 == jobs
    assert files == {path.name for path in (home / "store" / "media").iterdir()}
    assert set() == files


def accepted(seen: list[dict[str, Any]]) -> dict[str, float | None]:
    return {saw["job_id"]: saw["ttl"] for saw in seen if saw["saw"] == "accepted"}


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


def test_a_point_has_its_text() -> None:
    point = Point("JobStore.save", Moment.OPEN, 2)
    assert point == Point.read(str(point))
