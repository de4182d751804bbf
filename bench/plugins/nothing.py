"""A plugin that does nothing: what is left of a call is the worker."""

from pydantic import BaseModel

from penelope import Call, plugin


class Nothing(BaseModel):
    """No result."""


@plugin("bench/nothing")
async def nothing(call: Call) -> Nothing:  # noqa: ARG001  every plugin is given its call
    """Return at once."""
    return Nothing()
