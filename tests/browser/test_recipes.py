"""The shipped recipe on a real page of the stand-in site, with the real plugins.

Source: contract, section 10; docs/recipes.md.
"""

import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio

from penelope import Call, PluginError, registry
from penelope.demo.accounts import following
from penelope.demo.site import serve_site
from penelope.pages.driver import Tab
from penelope.pages.primitives.table import PRIMITIVES
from penelope.plugin import Crossing, MediaLink
from penelope.runs.port import OnProgress, RunFailed, StepFailed
from penelope.runs.recipes import book
from tests.browser.browsers import opened

PLUGINS = registry.load(())
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "recipes"


class PageDesk:
    """A desk on one real page, without a worker around it."""

    run_id = "run_0123456789ab"
    page_id = "main"

    def __init__(self, tab: Tab) -> None:
        self._tab = tab
        self._on_progress: OnProgress | None = None
        self.files: dict[str, bytes] = {}
        self.told: list[tuple[float, str]] = []

    async def plugin(
        self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress | None = None
    ) -> dict[str, Any]:
        plugin = PLUGINS[name]
        checked = plugin.arguments(arguments)
        host = _Host(self, on_progress)

        async def body(page: Any, crossing: Crossing) -> str:
            call = Call(
                page=page,
                page_id=self.page_id,
                job_id=None,
                request_id="r",
                family=plugin.family,
                log=structlog.get_logger(),
                host=host,
                crossing=crossing,
            )
            return plugin.answer(self.page_id, await plugin.function(call, **checked))

        try:
            return _fields(await self._tab.run(body, name=name))
        except PluginError as exc:
            raise StepFailed(exc.message, answered=exc.status) from exc

    async def primitive(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        primitive = PRIMITIVES[name]
        checked = registry.checked(primitive.options, options)

        async def body(page: Any, crossing: Crossing) -> dict[str, Any]:
            return (await primitive.function(page, _Host(self, None), crossing, checked)).model_dump()

        return await self._tab.run(body, name=name)

    async def media(
        self, source: "bytes | str | os.PathLike[str]", filename: str, content_type: str
    ) -> MediaLink:
        content = source if isinstance(source, bytes) else await trio.Path(source).read_bytes()
        self.files[filename] = content
        return MediaLink(
            url="/x", filename=filename, content_type=content_type, size=len(content), expires_at=1.0
        )

    async def progress(
        self, fraction: float, step: str, *, completed: int = 0, total: int | None = None
    ) -> None:
        self.told.append((fraction, step))


class _Host:
    """The worker's side of a call."""

    def __init__(self, desk: PageDesk, on_progress: OnProgress | None) -> None:
        self._desk = desk
        self._on_progress = on_progress
        self.media = desk.media

    async def progress(self, fraction: float, note: str) -> None:
        if self._on_progress is not None:
            await self._on_progress(fraction, note)

    async def checkpoint(self, text: str) -> None: ...


def _fields(text: str) -> dict[str, Any]:
    return {name: value for name, value in json.loads(text).items() if name not in registry.ENVELOPE}


@asynccontextmanager
async def desk_on_the_site(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[PageDesk]:
    async with trio.open_nursery() as nursery, opened(folder / "profile") as (_, tab):
        url = await nursery.start(partial(serve_site, 0, list_latency_s=0.02))
        monkeypatch.setenv("PENELOPE_INSTAGRAM_BASE_URL", url)
        yield PageDesk(tab)
        nursery.cancel_scope.cancel(reason="the test is over")


async def test_the_shipped_recipe_works_on_the_stand_in_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An account, whom it follows, and a CSV."""
    recipes = book.load([EXAMPLES], PLUGINS, {})

    async with desk_on_the_site(tmp_path, monkeypatch) as desk:
        result = await recipes.plan("follow-report", "{'handle': 'bob'}").work.run(desk)

        people = following("bob")
        csv = "".join(f"{handle}\r\n" for handle in ["handle", *people]).encode()
        assert {"bob-follows.csv": csv} == desk.files
        report = result.pop("report")
        assert ("bob-follows.csv", len(csv)) == (report["filename"], report["size"])
        assert {
            "handle": "bob",
            "name": "Bob Brandt",
            "follows": 12,
            "listed": 12,
            "complete": True,
        } == result
        assert (1.0, "done") == desk.told[-1]
        assert any(words.startswith("list: 12 of 12") for _, words in desk.told)
        assert [far for far, _ in desk.told] == sorted(far for far, _ in desk.told)

        with pytest.raises(
            RunFailed, match=r"^step 1 \(account, instagram/open-account\): there is no account"
        ):
            await recipes.plan("follow-report", "{'handle': 'missing-one'}").work.run(desk)


async def test_a_recipe_of_primitives_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "recipes" / "look"
    folder.mkdir(parents=True)
    (folder / "TEMPLATE.yaml").write_text("""
name: look
steps:
  - primitive: goto
    with: {url: "{{ input.url }}"}
  - as: title
    primitive: evaluate
    with: {expression: "document.title"}
  - as: shots
    for_each: [true, false]
    primitive: screenshot
    with: {full_page: "{{ item }}"}
output: "{{ title.result }}: {{ shots | length }}"
""")

    async with desk_on_the_site(tmp_path, monkeypatch) as desk:
        plan = book.load([folder.parent], PLUGINS, {}).plan(
            "look", '{"url": "data:text/html,<title>Hello</title>"}'
        )
        assert "Hello: 2" == await plan.work.run(desk)
