"""Every test here runs on a mock clock, which jumps to the next thing that is due: nothing really sleeps."""

from collections.abc import AsyncGenerator, Callable, Iterator
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
from structlog.testing import LogCapture
from trio.testing import MockClock
from werkzeug.routing import Rule

from penelope.store import request_log
from tests.spec.receiver import Receiver
from tests.spec.world import Life, World, live

HERE = Path(__file__).parent


def run_on_mock_clock(function: Callable[[], Any], **more: Any) -> Any:
    """What pytest-trio's `autojump_clock` does, for the whole folder; that one works only where a test names it."""
    return trio.run(function, **{**more, "clock": MockClock(autojump_threshold=0)})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and iscoroutinefunction(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.trio(run=run_on_mock_clock), append=False)


async def _in_place(
    sync_fn: Callable[..., Any],
    *args: Any,
    limiter: object = None,
    abandon_on_cancel: bool = False,
    thread_name: str | None = None,
) -> Any:
    await trio.lowlevel.checkpoint()
    return sync_fn(*args)


def _builds_no_urls(_rule: Rule, _append_unknown: bool = True) -> Callable[..., Any]:
    """For each route Werkzeug compiles two functions that build its URL, which nobody here asks for: a third of the
    time that a test takes.
    """

    def build(*_values: Any) -> Any:
        raise NotImplementedError("tests/spec/conftest.py left the building of URLs out")

    return build


def fit_for_mock_clock(patch: pytest.MonkeyPatch) -> None:
    """The mock clock is blind to threads: what has no seam of its own (`trio.open_file`, psutil) runs in place too."""
    patch.setattr(trio.to_thread, "run_sync", _in_place)
    # Two wake-ups a second would be most of what an hour on the mock clock costs.
    patch.setattr(request_log, "FLUSH_EVERY_S", 10.0)
    patch.setattr(Rule, "_compile_builder", _builds_no_urls, raising=False)


@pytest.fixture(autouse=True)
def _fit(monkeypatch: pytest.MonkeyPatch) -> None:
    fit_for_mock_clock(monkeypatch)


@pytest.fixture(autouse=True)
def logged() -> Iterator[list[Any]]:
    """The log's lines, as dictionaries."""
    lines = LogCapture()
    shared = [structlog.contextvars.merge_contextvars, structlog.processors.add_log_level]
    structlog.configure(processors=[*shared, lines])
    yield lines.entries
    structlog.reset_defaults()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "store")


@pytest.fixture
def receiver(world: World) -> Receiver:
    return world.receiver


@pytest.fixture
async def life(world: World) -> AsyncGenerator[Life]:
    """A worker that runs while the test does."""
    async with live(world) as one:
        yield one
