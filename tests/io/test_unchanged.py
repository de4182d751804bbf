"""What was read stays for as long as nothing is committed, on a real store."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from penelope.errors import StoreFull
from penelope.store.database import Database, open_database
from penelope.store.unchanged import MOST, SMALL_CHARS, Unchanged


class Table:
    """A table of names and texts, and its reads counted."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.reads = 0
        self._unchanged = Unchanged[str](database, len)

    async def put(self, name: str, text: str) -> None:
        await self.database.write(lambda c: c.execute("INSERT OR REPLACE INTO t VALUES (?, ?)", (name, text)))

    async def get(self, name: str) -> str | None:
        def get(connection: sqlite3.Connection) -> str | None:
            self.reads += 1
            row = connection.execute("SELECT text FROM t WHERE name = ?", (name,)).fetchone()
            return None if row is None else str(row["text"])

        return await self._unchanged.read(name, get)


@asynccontextmanager
async def table(folder: Path) -> AsyncGenerator[Table]:
    async with open_database(folder / "t.db") as database:
        await database.write(
            lambda c: c.execute("CREATE TABLE IF NOT EXISTS t (name TEXT PRIMARY KEY, text TEXT)")
        )
        yield Table(database)


async def test_it_is_read_once_until_a_commit(tmp_path: Path) -> None:
    async with table(tmp_path) as there:
        await there.put("a", "1")
        assert ["1"] * 3 == [await there.get("a") for _ in range(3)]
        assert 1 == there.reads
        await there.put("b", "2")  # of another row: nobody knows which rows a transaction touched
        assert "1" == await there.get("a")
        assert 2 == there.reads


async def test_what_is_not_there_or_large_is_read_each_time(tmp_path: Path) -> None:
    async with table(tmp_path) as there:
        await there.put("large", "x" * (SMALL_CHARS + 1))
        for name in ("nobody", "large"):
            there.reads = 0
            await there.get(name)
            await there.get(name)
            assert 2 == there.reads, name


async def test_no_more_than_so_many_are_kept(tmp_path: Path) -> None:
    async with table(tmp_path) as there:
        for number in range(MOST + 5):
            await there.put(f"{number}", "x")
        for _ in range(2):
            for number in range(MOST + 5):
                await there.get(f"{number}")
        assert MOST + 5 + 5 == there.reads


async def test_a_write_that_failed_changes_nothing(tmp_path: Path) -> None:
    async with table(tmp_path) as there:
        await there.put("a", "1")

        def fails(connection: sqlite3.Connection) -> None:
            connection.execute("UPDATE t SET text = '2'")
            raise StoreFull("no room")

        with pytest.raises(StoreFull):
            await there.database.write(fails)
        assert "1" == await there.get("a")


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from(["read", "write", "both"]), min_size=1, max_size=12))
def test_nobody_sees_less_than_was_committed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    """Each read that begins after a write was told done sees it, or a later one, whatever runs beside it."""

    async def run() -> None:
        async with table(tmp_path_factory.mktemp("t")) as there:
            done = 0
            await there.put("a", "0")

            async def read() -> None:
                least = done
                found = await there.get("a")
                assert found is not None
                assert int(found) >= least

            async def write(number: int) -> None:
                nonlocal done
                await there.put("a", f"{number}")
                done = max(done, number)

            for number, step in enumerate(steps, 1):
                async with trio.open_nursery() as nursery:
                    for _ in range(3):
                        if step != "write":
                            nursery.start_soon(read)
                    if step != "read":
                        nursery.start_soon(write, number)
                    if step == "both":
                        nursery.start_soon(read)
                await read()

    trio.run(run)
