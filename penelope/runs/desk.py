"""One claimed page and the steps that a run's work asks for: each is run as a plain call's work is, on the same engine.

Source: contract, section 10 ("All steps run under one claim"); the port, `runs.port`.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import structlog
import trio

from penelope import jsontext
from penelope.errors import NotFound, TimedOut
from penelope.jobs.calls import Live, MakeBody, Planned, plugin_body, primitive_body
from penelope.jobs.supervisor import Parts
from penelope.outcome import Outcome, from_error
from penelope.pages.driver import Tab
from penelope.pages.manager import Page
from penelope.pages.primitives.table import PRIMITIVES
from penelope.pages.work import mend, work
from penelope.plugin import Host, MediaLink
from penelope.registry import Registry, checked
from penelope.runs.model import Far, Run
from penelope.runs.port import StepFailed
from penelope.runs.views import RUNS_PATH

LIMIT_SLACK_S: Final = 1.0  # a primitive's own limit comes first
MAX_STEP_CHARS: Final = 200

log = structlog.get_logger("penelope.runs")


class PageDesk:
    """The desk of one run, on the page that it has claimed.

    Attributes:
        page_in_doubt: the last step may have left a page that does not answer.
    """

    def __init__(
        self,
        run: Run,
        page: Page,
        tab: Tab,
        *,
        parts: Parts,
        registry: Registry,
        on_progress: Callable[[Far], None],
    ) -> None:
        self.page_in_doubt = False
        self._run = run
        self._page = page
        self._tab = tab
        self._pages = parts.pages
        self._registry = registry
        self._media = parts.media
        self._clock = parts.clock
        self._on_progress = on_progress

    @property
    def run_id(self) -> str:
        return self._run.run_id

    @property
    def page_id(self) -> str:
        return self._page.page_id

    async def plugin(
        self,
        name: str,
        arguments: Mapping[str, Any],
        on_progress: Callable[[float, str], Awaitable[None]] | None = None,
    ) -> dict[str, Any]:
        plugin = self._registry.get(name)
        if plugin is None:
            raise NotFound(f"there is no plugin {name!r}")
        body = plugin_body(plugin, plugin.arguments(dict(arguments)))
        return await self._step(name, "plugin", body, None, on_progress)

    async def primitive(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        primitive = PRIMITIVES.get(name)
        if primitive is None:
            raise NotFound(f"there is no primitive {name!r}")
        given = checked(primitive.options, dict(options))
        return await self._step(
            name, "primitive", primitive_body(primitive, given), given.timeout_ms / 1000, None
        )

    async def media(
        self, source: "bytes | str | os.PathLike[str]", filename: str, content_type: str
    ) -> MediaLink:
        return await self._media.put(source, filename, content_type, self.run_id)

    async def progress(
        self, fraction: float, step: str, *, completed: int = 0, total: int | None = None
    ) -> None:
        far = Far(
            percentage=100.0 * min(max(fraction, 0.0), 1.0),
            step=step[:MAX_STEP_CHARS],
            completed=completed,
            total=total,
        )
        self._on_progress(far)
        # No turn is given away: under load a turn is what a run waits for longest, and it says this twice a step.
        await trio.lowlevel.checkpoint_if_cancelled()

    async def _step(
        self,
        what: str,
        kind: str,
        make_body: MakeBody,
        limit_s: float | None,
        on_progress: Callable[[float, str], Awaitable[None]] | None,
    ) -> dict[str, Any]:
        call = Planned(
            page=self._page,
            what=what,
            kind=kind,
            method="POST",
            route=RUNS_PATH,
            request_id=self._run.request_id,
            lease=None,
            make_body=make_body,
            limit_s=limit_s,
        )
        live = Live(call=call, since=self._clock.now(), job_id=self.run_id)
        if limit_s is not None:
            live.work.deadline = trio.current_time() + limit_s + LIMIT_SLACK_S
        host = _StepHost(self, on_progress)
        self.page_in_doubt = True
        done = await work(self._tab, make_body(live, host), name=what, scope=live.work)
        self.page_in_doubt = done.page_in_doubt
        outcome = done.outcome
        if outcome is None:
            outcome = from_error(TimedOut(f"{what} took longer than {limit_s:g} s"), self.page_id)
        await self.tidy(noted=outcome.ok and self._tab.cookies_noted)
        return _fields(outcome)

    async def tidy(self, *, noted: bool = False) -> None:
        """What comes after a step, and after one that was cut off: a page that answers, and the cookies on the disk."""
        if self.page_in_doubt:
            self.page_in_doubt = False
            await mend(self._tab)
        if noted or self._pages.driver.health.up:
            await self._pages.save_cookies(noted=noted)


class _StepHost(Host):
    """The worker's side of one step: its files are the run's, its checkpoints nobody's."""

    def __init__(self, desk: PageDesk, on_progress: Callable[[float, str], Awaitable[None]] | None) -> None:
        self._desk = desk
        self._on_progress = on_progress

    async def progress(self, fraction: float, note: str) -> None:
        if self._on_progress is not None:
            await self._on_progress(fraction, note[:MAX_STEP_CHARS])
        await trio.lowlevel.checkpoint_if_cancelled()

    async def checkpoint(self, text: str) -> None:  # as of a plain call
        await trio.lowlevel.checkpoint_if_cancelled()

    async def media(
        self, source: "bytes | str | os.PathLike[str]", filename: str, content_type: str
    ) -> MediaLink:
        return await self._desk.media(source, filename, content_type)


def _fields(outcome: Outcome) -> dict[str, Any]:
    """The fields of a result.

    Raises:
        StepFailed: it is a failure.
    """
    said: dict[str, Any] = jsontext.loads(outcome.text)
    if not outcome.ok:
        raise StepFailed(str(said["error"]), answered=outcome.status, kind=said.get("kind"))
    return {name: value for name, value in said.items() if name not in ("success", "page_id")}
