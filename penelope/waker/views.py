"""A persona as the API shows it.

Source: contract, section 9 (`GET /personas/{name}`).
"""

from typing import Any

import httpx
import trio

from penelope.waker.keeper import Keeper
from penelope.waker.model import Activity


def persona(keeper: Keeper, said: Activity | None) -> dict[str, Any]:
    """Args:
    said: by its worker just now; None where none runs, or one that says nothing.
    """
    life = keeper.life
    address = None if life is None or life.address is None else httpx.URL(life.address)
    return {
        "name": keeper.name,
        "mode": keeper.persona.policy.mode.value,
        "state": keeper.state.value,
        "pid": None if life is None else life.pid,
        "port": keeper.persona.order.port or None if address is None else address.port,
        "started_at": None if life is None else life.started_at,
        "idle_for_s": None if said is None else round(keeper.idle_for(said), 3),
        "in_flight": None if said is None else said.in_flight,
        "last_error": keeper.last_error,
    }


async def activities(keepers: list[Keeper]) -> dict[str, Activity]:
    """What the workers that run say, asked side by side: two seconds at most."""
    found: dict[str, Activity] = {}

    async def ask(keeper: Keeper) -> None:
        if (said := await keeper.activity()) is not None:
            found[keeper.name] = said

    async with trio.open_nursery() as nursery:
        for keeper in keepers:
            nursery.start_soon(ask, keeper)
    return found
