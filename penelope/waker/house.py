"""All personas: a keeper each, in one nursery; what the file says now, and the end of all.

Source: contract, section 9.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog
import trio

from penelope.errors import NotFound, Stopping
from penelope.waker.keeper import Keeper, Tools
from penelope.waker.model import Life, Persona

STRANGERS_STOP_S = 60.0

log = structlog.get_logger("penelope.waker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """What a new reading of the file changed, by name. `restarting`: those of `changed` whose workers run, and start
    anew at their next quiet moment.
    """

    added: list[str]
    removed: list[str]
    changed: list[str]
    restarting: list[str]


class House:
    """The keepers by their personas' names, in the order of the file."""

    def __init__(self, nursery: trio.Nursery, tools: Tools, read: Callable[[], list[Persona]]) -> None:
        """
        Args:
            read: reads the file; raises BadPersonas.
        """
        self._nursery = nursery
        self._tools = tools
        self._read = read
        self._keepers: dict[str, Keeper] = {}
        self._leaving: dict[str, Keeper] = {}
        self._closed = False

    def __iter__(self) -> Iterator[Keeper]:
        return iter(list(self._keepers.values()))

    def find(self, name: str) -> Keeper | None:
        return self._keepers.get(name)

    def get(self, name: str) -> Keeper:
        """Raises NotFound."""
        if (keeper := self._keepers.get(name)) is None:
            raise NotFound(f"there is no persona {ascii(name)[:100]}")
        return keeper

    async def move_in(self) -> None:
        """A keeper for each persona of the file, and the workers that an earlier waker left to theirs."""
        lives = dict(await self._tools.driver.status())
        for persona in self._read():
            self._add(persona, lives.pop(persona.name, None))
        for name in lives:
            log.warning("a worker's persona is not in the file any more; stopped", persona=name)
            self._nursery.start_soon(self._tools.driver.stop, name, STRANGERS_STOP_S, name=f"stop of {name}")

    def reload(self) -> Reloaded:
        """Read the file again; only what it changed is renewed, each when nothing of it is in flight. Immediate.

        Raises:
            BadPersonas: it is not good; nothing changed.
            Stopping: the waker stops.
        """
        if self._closed:
            raise Stopping("the waker stops")
        wanted = {persona.name: persona for persona in self._read()}
        before = self._keepers
        removed = [name for name in before if name not in wanted]
        added = [name for name in wanted if name not in before]
        changed = [name for name, one in wanted.items() if name in before and before[name].persona != one]
        for name in removed:
            self._leaving[name] = before[name]
            before[name].remove()
        restarting = [name for name in changed if before[name].change(wanted[name])]
        for name in added:
            leaving = self._leaving.pop(name, None)
            if leaving is not None and leaving.remain():
                before[name] = leaving
                leaving.change(wanted[name])
            else:
                self._add(wanted[name], None)
        self._keepers = {name: self._keepers[name] for name in wanted}
        found = Reloaded(added=added, removed=removed, changed=changed, restarting=restarting)
        log.info("personas reloaded", added=added, removed=removed, changed=changed, restarting=restarting)
        return found

    async def close(self) -> None:
        """Stop all workers, side by side, and return when they are gone."""
        self._closed = True
        keepers = [*self._keepers.values(), *self._leaving.values()]
        for keeper in keepers:
            keeper.close()
        for keeper in keepers:
            await keeper.gone.wait()

    def _add(self, persona: Persona, life: Life | None) -> None:
        keeper = self._keepers[persona.name] = Keeper(persona, self._tools, life)
        self._nursery.start_soon(keeper.run, name=f"persona {persona.name}")


@asynccontextmanager
async def open_house(tools: Tools, read: Callable[[], list[Persona]]) -> AsyncGenerator[House]:
    """Keep the personas while the block lasts. Left without `close`, it leaves the workers as they are.

    Raises:
        BadPersonas: the file is not good.
    """
    async with trio.open_nursery() as nursery:
        house = House(nursery, tools, read)
        await house.move_in()
        yield house
        nursery.cancel_scope.cancel(reason="the waker ends")
