"""The media folder and its table belong together at every moment, whoever is cancelled; on a real store."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio

from penelope.clock import Clock
from penelope.errors import MediaFull
from penelope.store.database import Database, Runner, open_database, thread_runner
from penelope.store.folders import make_folder
from penelope.store.media import MEDIA_KEEP_S, MediaStore

STEPS = 8  # more than any of these takes
Act = Callable[["Folder"], Awaitable[object]]

_Result = TypeVar("_Result")


@dataclass
class Cancelling:
    """Runs blocking work in threads, and cancels `scope` at one of its steps.

    Attributes:
        at: the step, from 1 on; 0: none.
        after: the step is done by then; else it is cancelled as it is asked for.
    """

    at: int = 0
    after: bool = False
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    steps: int = 0
    run: Runner = field(default_factory=lambda: thread_runner(4))

    async def __call__(self, function: Callable[[], _Result], /) -> _Result:
        self.steps += 1
        here = self.steps == self.at
        if here and not self.after:
            self.scope.cancel()
        result = await self.run(function)
        if here and self.after:
            self.scope.cancel()
        return result


@dataclass
class Folder:
    """A store with a media folder."""

    path: Path
    database: Database
    media: MediaStore
    runner: Cancelling
    wall: float = 1_800_000_000.0

    async def rows(self) -> dict[str, int]:
        return await self.database.read(
            lambda c: {row["file"]: row["size"] for row in c.execute("SELECT file, size FROM media")}
        )

    def files(self) -> dict[str, int]:
        return {entry.name: entry.stat().st_size for entry in os.scandir(self.path)}

    async def check(self) -> None:
        """Each row has its file, each file its row, and what is counted is what there is."""
        rows = await self.rows()
        assert rows == self.files()
        assert sum(rows.values()) == self.media.unclaimed


@asynccontextmanager
async def folder(tmp_path: Path) -> AsyncGenerator[Folder]:
    runner = Cancelling()
    make_folder(tmp_path)
    async with open_database(tmp_path / "penelope.db", run=runner) as database:
        there: Any = None
        clock = Clock(lambda: there.wall if there else 1_800_000_000.0)
        media = MediaStore(database, tmp_path / "media", cap_bytes=10_000, clock=clock, run=runner)
        there = Folder(tmp_path / "media", database, media, runner)
        await media.recover()
        yield there


async def put(there: Folder) -> None:
    await there.media.put(b"x" * 100, "a.txt", "text/plain", None)


async def put_a_file(there: Folder) -> None:
    source = there.path.with_name("source")
    source.write_bytes(b"y" * 200)
    await there.media.put(source, "b.txt", "text/plain", "0123456789abcdef")


async def hand_over(there: Folder) -> None:
    link = await there.media.put(b"z" * 50, "c.txt", "text/plain", None)
    file = await there.media.find(link["url"].rpartition("/")[2])
    assert file is not None
    await there.media.sent(file, 0, 20)
    await there.media.sent(file, 20, 50)


async def sweep(there: Folder) -> None:
    await put(there)
    await put(there)
    await there.media.sweep(there.wall + MEDIA_KEEP_S + 1)


async def too_large(there: Folder) -> None:
    with pytest.raises(MediaFull):
        await there.media.put(b"x" * 10_001, "d.txt", "text/plain", None)


@pytest.mark.parametrize("after", [False, True], ids=["as it is asked for", "once it is done"])
@pytest.mark.parametrize("act", [put, put_a_file, hand_over, sweep, too_large], ids=lambda act: act.__name__)
async def test_a_cancel_at_any_step_leaves_no_file_alone_and_no_row(
    act: Act, after: bool, tmp_path: Path
) -> None:
    """A plugin's limit, its client's cancel, a stop: each may come between a commit and what follows it."""
    reached = 0
    for at in range(STEPS):
        async with folder(tmp_path / f"{at}") as there:
            await put(there)
            there.runner.steps, there.runner.at, there.runner.after = 0, at, after
            with there.runner.scope:
                await act(there)
            reached = max(reached, there.runner.steps)
            there.runner.at = 0
            await there.check()
    assert reached < STEPS, "there are steps that nobody was cancelled at"
