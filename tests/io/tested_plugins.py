"""The plugins that the worker processes of these tests have: a copy of this file is in their plugin folder."""

import asyncio
import gc
import os
import sys
import time
from pathlib import Path
from typing import Any

from penelope import Call, PluginError, plugin


@plugin("tested/echo")
async def echo(call: Call, value: Any = None) -> dict[str, Any]:
    """Answer what was given."""
    return {"value": value}


@plugin("tested/large")
async def large(call: Call, mib: int) -> dict[str, Any]:
    """Answer much text."""
    return {"text": "é" * (mib * 2**19)}


@plugin("tested/mark")
async def mark(call: Call, file: str, seconds: float = 0.0, checkpoint: Any = None) -> dict[str, Any]:
    """Note in a file that it began, wait, and note that it ended."""
    _note(file, f"begin {call.job_id}")
    if checkpoint is not None:
        await call.checkpoint(checkpoint)
    await asyncio.sleep(seconds)
    _note(file, f"end {call.job_id}")
    return {}


@plugin("tested/look")
async def look(call: Call) -> dict[str, Any]:
    """Work the page."""
    return {"sum": await call.page.evaluate("1 + 1")}


@plugin("tested/say")
async def say(call: Call, text: str) -> dict[str, Any]:
    """Say something in the worker's log."""
    call.log.info(text)
    return {}


@plugin("tested/environment")
async def environment(call: Call) -> dict[str, Any]:
    """What a child process of a plugin's would inherit."""
    return {"environment": dict(os.environ)}


@plugin("tested/interpreter")
async def interpreter(call: Call) -> dict[str, Any]:
    """What the start left of its haste."""
    imported = [name for name in ("rich", "pygments") if name in sys.modules]
    return {"collects": gc.isenabled(), "spared": gc.get_freeze_count(), "imported": imported}


@plugin("tested/fail")
async def fail(call: Call, text: str, status: int = 409) -> dict[str, Any]:
    """Fail in words of its own."""
    raise PluginError(text, status=status)


@plugin("tested/block")
async def block(call: Call, file: str, seconds: float) -> dict[str, Any]:
    """Block the thread, as code does that was not written for this place."""
    _note(file, "begin")
    time.sleep(seconds)  # noqa: ASYNC251  # on purpose
    _note(file, "end")
    return {}


@plugin("tested/swallow")
async def swallow(call: Call, file: str) -> dict[str, Any]:
    """Go on for ever, whatever is thrown into it."""
    await call.checkpoint({"done": 3})
    _note(file, "begin")
    while True:
        try:
            await call.page.evaluate("1 + 1")
            await asyncio.sleep(0.05)
        except BaseException:  # what no plugin should do
            _note(file, "swallowed")
        _note(file, "tick")


@plugin("tested/spin")
async def spin(call: Call, file: str) -> dict[str, Any]:
    """Never give the thread back."""
    await call.checkpoint({"done": 4})
    _note(file, "begin")
    while True:
        pass


@plugin("tested/steps")
async def steps(call: Call, seconds: float, note: str = "half") -> dict[str, Any]:
    """Say that half is done, and do the other half."""
    await call.progress(0.5, note)
    await asyncio.sleep(seconds)
    return {}


@plugin("tested/chatter")
async def chatter(call: Call, calls: int, then_s: float = 0.0) -> dict[str, Any]:
    """Say how far it is, so often and without a pause; how long that took."""
    began = time.monotonic()
    for n in range(calls):
        await call.progress((n + 1) / calls, f"call {n + 1}")
    took = time.monotonic() - began
    await asyncio.sleep(then_s)
    return {"took": took}


@plugin("tested/until")
async def until(call: Call, file: str, note: str = "half") -> dict[str, Any]:
    """Say that half is done, and end when there is such a file."""
    await call.progress(0.5, note)
    while not Path(file).exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.02)
    return {}


@plugin("tested/files")
async def files(call: Call, filenames: list[str], content: str = "content") -> dict[str, Any]:
    """Hand over a file of each name."""
    return {"files": [await call.media(content.encode(), filename=name) for name in filenames]}


@plugin("tested/file")
async def file(call: Call, path: str) -> dict[str, Any]:
    """Hand over the file at a path."""
    return {"media": await call.media(path, filename="large.bin")}


def _note(file: str, line: str) -> None:
    with Path(file).open("a") as notes:
        notes.write(line + "\n")
