"""What was read, for as long as it cannot be otherwise: until the next commit.

Clients that wait for a job ask for the same row again and again, and a read is a visit to a thread, a third of what a
poll costs. This process is the store's only writer (`store.lock`), so what was read is what there is until it commits.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import trio

from penelope.store.database import Database, Transaction

MOST: Final = 64
SMALL_CHARS: Final = 16 * 1024

_Value = TypeVar("_Value")


class Unchanged(Generic[_Value]):
    """The rows of one kind that were read since the last commit: `MOST` of them, each of `SMALL_CHARS` at most.

    Args:
        size: of a row, characters.
    """

    def __init__(self, database: Database, size: Callable[[_Value], int]) -> None:
        self._database = database
        self._size = size
        self._rows: dict[str, _Value] = {}
        self._as_of = database.commits

    async def read(self, key: str, function: Transaction[_Value | None]) -> _Value | None:
        """What `function` reads, from memory where nothing was committed since it was read under this key.

        Raises:
            StoreBusy, StoreFull: as `Database.read`.
        """
        # Before the read: what is committed meanwhile makes what was read old, and is never taken for old itself.
        commits = self._database.commits
        if commits != self._as_of:
            self._rows.clear()
            self._as_of = commits
        if (row := self._rows.get(key)) is not None:
            await trio.lowlevel.checkpoint_if_cancelled()
            return row
        row = await self._database.read(function)
        has_room = self._as_of == commits and len(self._rows) < MOST
        if row is not None and has_room and self._size(row) <= SMALL_CHARS:
            self._rows[key] = row
        return row
