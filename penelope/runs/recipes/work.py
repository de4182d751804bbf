"""A run of a recipe: its steps, one after another, on one page.

Trio-flavoured. A run that is cancelled has nothing to clean up: what its step had begun is ended by the desk.

Source: contract, section 10 ("All steps run under one claim; …").
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog
import trio

from penelope.errors import PenelopeError
from penelope.runs.port import Desk, OnProgress, RunFailed, StepFailed
from penelope.runs.recipes import files, templates
from penelope.runs.recipes.budget import TooMuch
from penelope.runs.recipes.model import MAX_ROUNDS, Kind, Recipe, Step
from penelope.runs.recipes.templates import Runner, TemplateFailed, paid, templates_of
from penelope.runs.recipes.values import kind

SKIPPED: Final = None  # the result of a step that was not run
# What may be otherwise a moment later. A plugin's own word (no kind) can: of a site behind it, or of a time limit.
_PASSING_KINDS: Final = frozenset({"timeout", "site", "proxy", "page", "browser"})
_PASSING_WORDS: Final = frozenset({408, 502, 503, 504})

log = structlog.get_logger("penelope.runs")

Names = Mapping[str, Any]


def can_pass(error: StepFailed) -> bool:
    """Whether a failure may be gone at a second try."""
    if error.fault is None:
        return error.answered in _PASSING_WORDS
    return error.fault in _PASSING_KINDS and (error.answered >= 500 or error.answered == 408)


@dataclass(frozen=True, slots=True)
class RecipeWork:
    """A `Work`: one run of a recipe, with an input that was checked."""

    recipe: Recipe
    input: Mapping[str, Any]
    config: Mapping[str, Any]
    render: Runner

    @property
    def page(self) -> str | None:
        return self.recipe.page

    @property
    def agent_id(self) -> str:
        return f"recipe:{self.recipe.name}"

    async def run(self, desk: Desk) -> Any:
        """Run all steps; the recipe's `output`, else the results of the steps that have a name.

        Raises:
            RunFailed: a step failed; the message names it.
        """
        names: dict[str, Any] = {"input": self.input, "config": self.config}
        meter = _Meter(desk, len(self.recipe.steps))
        for step in self.recipe.steps:
            await meter.begin(step)
            result = await _Running(step, names, desk, meter, self.render).run()
            if step.name is not None:
                names[step.name] = result
        await meter.done()
        if self.recipe.output is None:
            return {step.name: names[step.name] for step in self.recipe.steps if step.name is not None}
        try:
            return await _rendered(self.render, self.recipe.output, names)
        except TemplateFailed as exc:
            raise RunFailed(exc.message) from exc


class _Meter:
    """How far the whole run is; it never goes back, whatever a plugin says of itself."""

    def __init__(self, desk: Desk, total: int) -> None:
        self._desk = desk
        self._total = total
        self._completed = 0
        self._far = 0.0

    async def begin(self, step: Step) -> None:
        self._completed = step.number - 1
        await self.tell(0.0, step.label)

    async def tell(self, share: float, words: str) -> None:
        """Args: share: of the present step, 0.0 to 1.0."""
        self._far = max(self._far, (self._completed + share) / self._total)
        await self._desk.progress(self._far, words, completed=self._completed, total=self._total)

    async def done(self) -> None:
        self._completed = self._total
        await self.tell(0.0, "done")


@dataclass(frozen=True, slots=True)
class _Running:
    """One step at work."""

    step: Step
    names: Names
    desk: Desk
    meter: _Meter
    render: Runner

    async def run(self) -> Any:
        """The step's result; of a `for_each` a list of them.

        Raises:
            RunFailed: it failed.
        """
        step = self.step
        if not step.each_time and not await self._wanted(self.names, ""):
            await self.meter.tell(1.0, f"{step.label}: skipped")
            return SKIPPED
        if step.for_each is None:
            return await self._once(self.names, "", self._told(0, 1, ""))
        items = await self._value(step.for_each, self.names, "")
        if not isinstance(items, list):
            raise self._failed("", f"for_each gives {kind(items)}, not a list")
        if len(items) > MAX_ROUNDS:
            raise self._failed("", f"for_each gives {len(items)} items: at most {MAX_ROUNDS}")
        return [await self._round(item, at, len(items)) for at, item in enumerate(items)]

    async def _round(self, item: Any, at: int, rounds: int) -> Any:
        which = f"{at + 1} of {rounds}"
        names = {**self.names, "item": item, "index": at}
        told = self._told(at, rounds, which)
        if self.step.each_time and not await self._wanted(names, which):
            await told(1.0, "skipped")
            return SKIPPED
        await told(0.0, "")
        return await self._once(names, which, told)

    async def _once(self, names: Names, which: str, told: OnProgress) -> Any:
        """Do it, again where that may help; only the doing is tried again, with the same arguments."""
        arguments = await self._value(self.step.arguments, names, which)
        retry = self.step.retry
        for tries_left in range(retry.count, -1, -1):
            try:
                return await self._do(arguments, told)
            except StepFailed as exc:
                if not tries_left or not can_pass(exc):
                    raise self._failed(which, exc.message) from exc
                log.info("step failed; tried again", step=self.step.label, error=exc.message)
                await told(0.0, f"failed, tried again in {retry.delay:g} s")
            except PenelopeError as exc:
                raise self._failed(which, exc.message) from exc
            await trio.sleep(retry.delay)
        raise AssertionError("a loop that returns or raises")

    async def _do(self, arguments: dict[str, Any], told: OnProgress) -> Any:
        match self.step.kind:
            case Kind.PLUGIN:
                return await self.desk.plugin(self.step.what, arguments, told)
            case Kind.PRIMITIVE:
                return await self.desk.primitive(self.step.what, arguments)
            case Kind.FILE:
                return await self._write(arguments)

    async def _write(self, arguments: dict[str, Any]) -> Any:
        try:
            file = await paid(self.render, lambda: files.made(arguments))
        except (ValueError, TypeError, TooMuch) as exc:
            raise RunFailed(f"the file {exc}" if isinstance(exc, TooMuch) else str(exc)) from exc
        return dict(await self.desk.media(file.content, file.name, file.content_type))

    async def _wanted(self, names: Names, which: str) -> bool:
        return self.step.when is None or bool(await self._value(self.step.when, names, which))

    async def _value(self, tree: Any, names: Names, which: str) -> Any:
        try:
            return await _rendered(self.render, tree, names)
        except TemplateFailed as exc:
            raise self._failed(which, exc.message) from exc

    def _told(self, at: int, rounds: int, which: str) -> OnProgress:
        """What takes a plugin's own progress, and the step's words about itself."""

        async def told(share: float, note: str) -> None:
            label = f"{self.step.label} {which}".rstrip()
            await self.meter.tell((at + share) / rounds, f"{label}: {note}" if note else label)

        return told

    def _failed(self, which: str, message: str) -> RunFailed:
        step = self.step
        name = f"{step.name}, {step.what}" if step.name else step.what
        number = f"{step.number}, {which}" if which else str(step.number)
        return RunFailed(f"step {number} ({name}): {message}")


async def _rendered(render: Runner, tree: Any, names: Names) -> Any:
    if not any(templates_of(tree)):
        return tree
    snapshot = dict(names)
    return await paid(render, lambda: templates.rendered(tree, snapshot))
