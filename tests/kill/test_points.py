"""SIGKILL at every commit that the worker makes: before it, in its transaction, after it; and what is so afterwards.

The process that dies is real, and so is its store. The browser and the network are not there, so that the clock can
jump and every point is reached: `test_run.py` has them.
"""

import ast
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kill.judge import accepted, next_life, sound
from tests.kill.play import Witness, fitted, run
from tests.kill.points import COMMITS, STEPS, Moment, Point, every_point
from tests.kill.zygote import Zygote, zygote

PACKAGE = Path(__file__).parents[2] / "penelope"


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


def test_a_point_has_its_text() -> None:
    point = Point("JobStore.save", Moment.OPEN, 2)
    assert point == Point.read(str(point))
