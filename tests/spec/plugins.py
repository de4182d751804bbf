"""The plugins of these tests, Trio-flavoured (see `fakes`)."""

from typing import Any

import trio

from penelope import Call, PluginError, errors, plugin
from penelope.registry import Registry, read_plugin


@plugin("test/echo")
async def echo(call: Call, text: str = "hello", n: int = 0) -> dict[str, Any]:
    """Give back what was given."""
    return {"text": text, "n": n, "job": call.job_id is not None}


@plugin("test/work")
async def work(call: Call, seconds: float = 1.0, tag: str = "work") -> dict[str, str]:
    """Work for so long; the page sees the beginning and the end, or the cancel."""
    call.page.seen.append(f"{tag} began")  # type: ignore[attr-defined]  # a FakePage
    try:
        await trio.sleep(seconds)
    except trio.Cancelled:
        call.page.seen.append(f"{tag} cut off")  # type: ignore[attr-defined]
        raise
    call.page.seen.append(f"{tag} ended")  # type: ignore[attr-defined]
    return {"tag": tag}


@plugin("test/stubborn")
async def stubborn(call: Call, seconds: float = 3.0, says: str = "a result", size: int = 0) -> dict[str, str]:
    """Work on for so long after the cancel, and then swallow it, unless it says nothing."""
    await call.checkpoint({"done": 7, **({"text": "x" * size} if size else {})})
    try:
        await trio.sleep_forever()
    except trio.Cancelled:
        with trio.CancelScope(shield=True):
            await trio.sleep(seconds)
        if says == "nothing":
            raise
    if says == "an error":
        raise PluginError("as if it were the plugin's own", status=409)
    return {"said": says}


@plugin("test/fail")
async def fail(call: Call, how: str, status: int = 500) -> None:
    """Fail in one of the ways that there are."""
    await trio.lowlevel.checkpoint()
    if how == "word":
        raise PluginError("the account is private", status=status)
    if how == "group":
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stumble)
            await trio.sleep_forever()
    if how == "bug":
        raise ZeroDivisionError("in /somewhere/secret/plugin.py")
    if how == "kept":
        await call.checkpoint({"done": 3})
        await trio.sleep_forever()
    raise getattr(errors, how)(f"{how}, said the driver")


async def _stumble() -> None:
    raise KeyError("a helper of the plugin's")


@plugin("test/result")
async def result(call: Call, what: str) -> dict[str, Any]:
    """A result of that kind."""
    made: dict[str, Any] = {
        "nan": {"n": float("nan")},
        "object": {"n": object()},
        "surrogate": {"title": "\ud800"},
        "emoji": {"a": "😀/<é", "b": 1e-7, "c": 1.0, "d": 2**63, "e": ""},
        "big": {"a": "x" * 1_000_000},
        "envelope": {"success": False},
    }
    return dict(made[what])


@plugin("test/late")
async def late(call: Call, seconds: float) -> dict[str, str]:
    """A large result after so long."""
    await trio.sleep(seconds)
    return {"a": "x" * 1_000_000}


@plugin("test/file")
async def file(
    call: Call, size: int = 10, filename: str = "a.csv", content_type: str = "text/csv", then_s: float = 0.0
) -> dict[str, Any]:
    """Hand over a file of so many bytes, then work on."""
    content = bytes(n % 251 for n in range(size))
    link = await call.media(content, filename=filename, content_type=content_type)
    await trio.sleep(then_s)
    return {"media": dict(link)}


@plugin("test/report")
async def report(call: Call, steps: int = 3, fraction: float | None = None) -> dict[str, int]:
    """Say how far the work is, a step a second, each step a checkpoint."""
    for step in range(steps):
        await call.progress((step + 1) / steps if fraction is None else fraction, f"step {step + 1}")
        await call.checkpoint({"step": step + 1, "text": "é😀"})
        await trio.sleep(1)
    return {"steps": steps}


@plugin("test/chatter")
async def chatter(call: Call, calls: int, then_s: float = 0.0) -> dict[str, int]:
    """Say how far the work is, so often and without a pause."""
    for n in range(calls):
        await call.progress((n + 1) / calls, f"call {n + 1}")
    await trio.sleep(then_s)
    return {"calls": calls}


@plugin("test/mumble")
async def mumble(call: Call) -> None:
    """Say how far it is in words that UTF-8 does not have, and fail."""
    await call.progress(0.5, "half \ud800")
    raise PluginError("the rest of it \udc00")


FUNCTIONS: list[Any] = [echo, work, stubborn, fail, result, late, file, report, chatter, mumble]
REGISTRY = Registry({found.name: found for found in map(read_plugin, FUNCTIONS)})
