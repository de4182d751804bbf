"""A plugin that takes as long as it is told: someone has to wait for its end."""

import asyncio

from pydantic import BaseModel

from penelope import Call, plugin


class Rested(BaseModel):
    """No result."""


@plugin("bench/rest")
async def rest(call: Call, seconds: float) -> Rested:  # noqa: ARG001  every plugin is given its call
    """Return after so many seconds."""
    await asyncio.sleep(seconds)
    return Rested()
