"""The plugins of the workers that are killed: a copy of this file is in their plugin folder.

Each answers what it was given, so that a result that reaches a client can be told from another job's.
"""

import asyncio
import time
from typing import Any

from penelope import Call, PluginError, plugin

STEP_S = 0.1


@plugin("kill/now")
async def now(call: Call, value: str) -> dict[str, str]:
    """End at once."""
    return {"value": value}


@plugin("kill/page")
async def page(call: Call, value: str) -> dict[str, str]:
    """Work the page."""
    return {"value": await call.page.evaluate("value => value", value)}


@plugin("kill/long")
async def long(call: Call, value: str, seconds: float) -> dict[str, str]:
    """Take a while."""
    await asyncio.sleep(seconds)
    return {"value": value}


@plugin("kill/fail")
async def fail(call: Call, value: str, seconds: float) -> dict[str, str]:
    """Fail in words of its own."""
    await asyncio.sleep(seconds)
    raise PluginError(value, status=409)


@plugin("kill/bug")
async def bug(call: Call, value: str) -> dict[str, str]:
    """Fail for want of care."""
    raise ZeroDivisionError(value)


@plugin("kill/steps")
async def steps(call: Call, value: str, count: int) -> dict[str, str]:
    """Keep a checkpoint each step."""
    for step in range(count):
        await call.checkpoint({"value": value, "step": step})
        await call.progress((step + 1) / count)
        await asyncio.sleep(STEP_S)
    return {"value": value}


@plugin("kill/files")
async def files(call: Call, value: str, count: int) -> dict[str, Any]:
    """Hand over files; each holds what was given."""
    links = [await call.media(value.encode(), filename=f"{n}.txt") for n in range(count)]
    return {"value": value, "files": [dict(link) for link in links]}


@plugin("kill/large")
async def large(call: Call, value: str, kib: int) -> dict[str, str]:
    """Answer much."""
    return {"value": value, "text": "é" * (kib * 512)}


@plugin("kill/deaf")
async def deaf(call: Call, value: str, seconds: float) -> dict[str, str]:
    """Ignore being cancelled until its time is over."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            await asyncio.sleep(until - time.monotonic())
        except asyncio.CancelledError:
            continue
    return {"value": value}
