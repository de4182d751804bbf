"""What runs do in these tests: the name of the "recipe" says what; its input, as JSON, how."""

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from penelope import jsontext
from penelope.errors import RunRefused
from penelope.runs.port import Desk, RunFailed
from penelope.runs.submission import Planned, Submission

Do = Callable[[Desk, dict[str, Any]], Awaitable[Any]]


class TestWork:
    """Work that a function does."""

    __test__ = False

    def __init__(self, name: str, do: Do, given: dict[str, Any]) -> None:
        self._name, self._do, self._given = name, do, given

    @property
    def page(self) -> str | None:
        return self._given.get("page")

    @property
    def agent_id(self) -> str:
        return f"recipe:{self._name}"

    async def run(self, desk: Desk) -> Any:
        return await self._do(desk, self._given)


async def echo(desk: Desk, given: dict[str, Any]) -> Any:
    await trio.lowlevel.checkpoint()
    return {"said": given.get("say"), "page_id": desk.page_id}


async def work(desk: Desk, given: dict[str, Any]) -> Any:
    """So many seconds, with progress each."""
    seconds = int(given.get("seconds", 3))
    for done in range(seconds):
        await desk.progress(done / seconds, f"second {done + 1}", completed=done, total=seconds)
        await trio.sleep(1)
    return {"worked": seconds}


async def steps(desk: Desk, given: dict[str, Any]) -> Any:
    """A plugin, which may fail."""
    return await desk.plugin(given["plugin"], given.get("with", {}), desk.progress)


async def fail(_desk: Desk, given: dict[str, Any]) -> Any:
    await trio.lowlevel.checkpoint()
    if given.get("bug"):
        raise LookupError("a bug")
    raise RunFailed(given.get("words", "it did not work"))


async def huge(_desk: Desk, given: dict[str, Any]) -> Any:
    await trio.lowlevel.checkpoint()
    return "x\n\"\\'" * int(given["times"])


async def filed(desk: Desk, given: dict[str, Any]) -> Any:
    return await desk.media(given["text"].encode(), "a.txt", "text/plain")


WORKS: dict[str, Do] = {
    "echo": echo,
    "work": work,
    "steps": steps,
    "fail": fail,
    "huge": huge,
    "filed": filed,
}


def plan(submission: Submission) -> Planned:
    """A recipe that is one of these; `prompt` is its input, a JSON object."""
    do = WORKS.get(submission.recipe_name or "")
    if do is None:
        raise RunRefused(f"recipe_name: there is no recipe {submission.recipe_name!r}")
    try:
        given = jsontext.loads(submission.prompt or "{}")
    except ValueError:
        given = {"say": submission.prompt}
    events = given.get("events")
    return Planned(
        work=TestWork(submission.recipe_name or "", do, given),
        timeout_s=given.get("timeout_s"),
        webhook=given.get("webhook"),
        scope=given.get("scope"),
        events=None if events is None else tuple(events),
    )
