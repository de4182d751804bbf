"""All recipes of the folders, and the plan of a run of one.

For whoever queues runs: `load` at the start, `Recipes.plan` at each submit, and again for a run that waited in the
store over a restart, since its `Work` is not in the store. A plan depends on its arguments and on the files alone.

Source: contract, section 10 ("A recipe is …"; "An unknown recipe, a bad input: `422` at submit").
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penelope.errors import BadRecipe, RunRefused
from penelope.registry import Registry
from penelope.runs.recipes import checking, inputs
from penelope.runs.recipes.document import Fault
from penelope.runs.recipes.model import FILE_NAME, Event, Recipe, Scope
from penelope.runs.recipes.reading import Read, read
from penelope.runs.recipes.templates import Runner, thread_runner
from penelope.runs.recipes.work import RecipeWork

_MEANT: Final = frozenset({FILE_NAME.lower(), FILE_NAME.lower().replace(".yaml", ".yml")})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRecipe:
    """A run of a recipe that can be queued, and the recipe's own defaults for it.

    Attributes:
        work: what the engine runs.
        timeout_s: its limit, unless the request names one; None: the worker's own default.
        webhook_url: where its end is posted, unless the request names a URL; None: nowhere. Not screened yet.
        idempotency_scope: of its key, unless the request names one; None: `none`.
        events: the ends that are posted: `completed` (succeeded), `failed`, `cancelled`.
    """

    work: RecipeWork
    timeout_s: float | None
    webhook_url: str | None
    idempotency_scope: Scope | None
    events: tuple[Event, ...]


class Recipes(Mapping[str, Recipe]):
    """All recipes by name. A name is looked up here and nowhere else: it is never part of a path."""

    def __init__(self, recipes: Iterable[Recipe], render: Runner | None = None) -> None:
        """Args: render: runs the templates; None: threads. Tests on the mock clock hand in one that runs in place."""
        self._recipes = {recipe.name: recipe for recipe in sorted(recipes, key=lambda recipe: recipe.name)}
        self._checks = {name: inputs.checking(recipe.input) for name, recipe in self._recipes.items()}
        self._render = render or thread_runner()

    def __getitem__(self, name: str) -> Recipe:
        return self._recipes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._recipes)

    def __len__(self) -> int:
        return len(self._recipes)

    def plan(
        self,
        name: str,
        prompt: str,
        config: Mapping[str, Any] | None = None,
        recipe_config: Mapping[str, Any] | None = None,
    ) -> PlannedRecipe:
        """The plan of a run. Quick, and touches nothing.

        Args:
            name, prompt, config, recipe_config: of the request's body, as they are; `recipe_config` wins over `config`.

        Raises:
            RunRefused: no such recipe, one that is not enabled, or an input that does not fit; the message is the
                answer's `detail`.
        """
        recipe = self._recipes.get(name)
        if recipe is None:
            raise RunRefused(f"there is no recipe {name[:80]!r}: {self._there()}")
        if not recipe.job.enabled:
            raise RunRefused(f"recipe {name} is not enabled: runtime.job.enabled is false")
        given = {**(config or {}), **(recipe_config or {})}
        declared = inputs.properties(recipe.input)
        value = inputs.read_prompt(prompt, name, declared)
        value = inputs.with_defaults(recipe.input, inputs.overridden(value, given, declared))
        self._checks[name](value, name)
        return PlannedRecipe(
            work=RecipeWork(recipe, value, {**recipe.config, **given}, self._render),
            timeout_s=recipe.job.timeout_sec,
            webhook_url=recipe.job.webhook_url,
            idempotency_scope=recipe.job.idempotency_scope,
            events=recipe.job.events,
        )

    def _there(self) -> str:
        if not self._recipes:
            return "PENELOPE_RECIPES names no folder with recipes"
        return f"there are {', '.join(list(self._recipes)[:20])[:500]}"


def read_all(
    folders: Iterable[Path], registry: Registry, environ: Mapping[str, str]
) -> tuple[list[Recipe], list[Fault]]:
    """All recipes of the folders, and all that is wrong in them.

    Args:
        environ: what `${VAR}` in a `runtime` block is taken from.

    Raises:
        BadRecipe: a folder that is none.
    """
    found: dict[str, Recipe] = {}
    faults: list[Fault] = []
    for folder in folders:
        for file in _files(folder):
            if file.name != FILE_NAME:
                faults.append(Fault(file, 1, f"is no recipe's file: that is called {FILE_NAME}"))
                continue
            one = read(file, environ)
            faults += one.faults
            if one.recipe is None:
                continue
            faults += checking.faults(one, registry)
            other = found.setdefault(one.recipe.name, one.recipe)
            if other is not one.recipe:
                faults.append(Fault(file, _name_line(one), f"recipe {other.name} is in {other.file} already"))
    return list(found.values()), faults


def load(folders: Iterable[Path], registry: Registry, environ: Mapping[str, str]) -> Recipes:
    """All recipes, as `serve` has them.

    Raises:
        BadRecipe: a folder that is none, or anything wrong in a file; the message has the file and the line.
    """
    recipes, faults = read_all(folders, registry, environ)
    if faults:
        more = f" (and {len(faults) - 1} more: penelope recipes check)" if len(faults) > 1 else ""
        raise BadRecipe(f"{faults[0]}{more}")
    return Recipes(recipes)


def _files(folder: Path) -> Iterator[Path]:
    """The files of recipes, and what is meant to be one: nobody should have to find out why his is not there.

    Raises:
        BadRecipe: the folder is none, or is a recipe's own.
    """
    if not folder.is_dir():
        raise BadRecipe(f"PENELOPE_RECIPES names {folder}, which is no folder")
    if any(file.is_file() for file in _meant(folder)):
        raise BadRecipe(
            f"PENELOPE_RECIPES names {folder}, which is a recipe's own folder: name the one around it"
        )
    for below in sorted(folder.iterdir()):
        if below.is_dir() and not below.name.startswith("."):
            yield from sorted(file for file in _meant(below) if file.is_file())


def _meant(folder: Path) -> Iterator[Path]:
    return (file for file in folder.iterdir() if file.name.lower() in _MEANT)


def _name_line(one: Read) -> int:
    assert one.document is not None
    return one.document.line(("name",))
