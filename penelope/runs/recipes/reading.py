"""A file as a recipe, with all that is wrong in it: each fault has its line.

Source: contract, section 10; issue "parse errors name file and line".
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from penelope.pages.manager import RESERVED
from penelope.runs.recipes import inputs, templates
from penelope.runs.recipes.document import Document, Fault, Unreadable, Where, parse
from penelope.runs.recipes.model import NAME, TAKEN, Kind, Recipe, RecipePart, Retry, Step, StepPart
from penelope.runs.recipes.templates import BadTemplate, Template

OWN_VARIABLES: Final = "PENELOPE_"  # the worker's: its keys are among them
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)
_BASE: Final = frozenset({"input", "config"})
_OF_ITEM: Final = frozenset({"item", "index"})


@dataclass(frozen=True, slots=True)
class Read:
    """A file that was read: a recipe if nothing is wrong with it.

    Attributes:
        document: None where the file is no YAML.
    """

    file: Path
    recipe: Recipe | None
    document: Document | None
    faults: tuple[Fault, ...]


def read(file: Path, environ: Mapping[str, str]) -> Read:
    """Read a recipe's file, `<name>/TEMPLATE.yaml`.

    Args:
        environ: what `${VAR}` in `runtime` is taken from.
    """
    try:
        document = parse(file.read_bytes())
    except Unreadable as exc:
        return Read(file, None, None, (Fault(file, exc.line, exc.message),))
    except OSError as exc:
        return Read(file, None, None, (Fault(file, 1, f"cannot be read: {exc.strerror}"),))
    reading = _Reading(file, document)
    recipe = reading.recipe(environ)
    faults = tuple(sorted(reading.faults, key=lambda fault: fault.line))
    return Read(file, None if faults else recipe, document, faults)


@dataclass(slots=True)
class _Reading:
    """One file on its way; faults are gathered, so that its author sees all of them at once."""

    file: Path
    document: Document
    faults: list[Fault] = field(default_factory=list)

    def wrong(self, where: Where, message: str, *, line: int | None = None) -> None:
        known = self.document.known(where)
        named = ".".join(map(str, where))
        self.faults.append(
            Fault(self.file, line or self.document.line(known), f"{named}: {message}" if named else message)
        )

    def recipe(self, environ: Mapping[str, str]) -> Recipe | None:
        value = self.document.value
        if not isinstance(value, dict):
            self.wrong((), "is no mapping of keys")
            return None
        if isinstance(value.get("runtime"), dict):
            value = {**value, "runtime": self._with_variables(value["runtime"], ("runtime",), environ)}
        try:
            part = RecipePart.model_validate(value)
        except ValidationError as exc:
            there = {
                fault.line for fault in self.faults
            }  # a variable that is not set: its value says nothing more
            for where, message in _explained(exc):
                if self.document.line(where) not in there:
                    self.wrong(where, message)
            return None
        self._check_name(part.name)
        if part.page in RESERVED:
            self.wrong(("page",), f"{part.page} is a word of the API's and no page")
        for where, message in inputs.faults_of_schema(part.input):
            self.wrong(("input", *where), message)
        steps, scope = self._steps(part.steps)
        has_output = "output" in part.model_fields_set
        return Recipe(
            name=part.name,
            file=str(self.file),
            description=part.description,
            input=part.input,
            config=part.config,
            page=part.page,
            steps=tuple(steps),
            output=self._tree(part.output, ("output",), scope) if has_output else None,
            job=part.runtime.job,
        )

    def _check_name(self, name: str) -> None:
        folder = self.file.absolute().parent.name
        if not NAME.fullmatch(name):
            self.wrong(
                ("name",), f"{name!r:.80} is no name of letters, digits, dots, hyphens and underscores"
            )
        elif name != folder:
            self.wrong(("name",), f"{name} is in the folder {folder}: they have one name")

    def _with_variables(self, value: Any, where: Where, environ: Mapping[str, str]) -> Any:
        """`${VAR}` in all texts below, as the environment has it."""
        match value:
            case dict():
                return {
                    key: self._with_variables(part, (*where, key), environ) for key, part in value.items()
                }
            case list():
                return [self._with_variables(part, (*where, at), environ) for at, part in enumerate(value)]
            case str():
                return _VARIABLE.sub(lambda match: self._variable(match[1], where, environ), value)
        return value

    def _variable(self, name: str, where: Where, environ: Mapping[str, str]) -> str:
        if name.upper().startswith(OWN_VARIABLES):
            self.wrong(where, f"${{{name}}} is the worker's own and not for recipes")
        elif name not in environ:
            self.wrong(where, f"${{{name}}} is not set in the environment")
        return environ.get(name, "")

    def _steps(self, parts: list[StepPart]) -> tuple[list[Step], frozenset[str]]:
        """The steps, and the names that are there after them."""
        scope, steps = _BASE, []
        for at, part in enumerate(parts):
            steps.append(self._step(part, at, scope))
            if part.as_ is not None:
                if part.as_ in TAKEN:
                    self.wrong(("steps", at, "as"), f"{part.as_} means something else in templates")
                elif part.as_ in scope:
                    self.wrong(("steps", at, "as"), f"{part.as_} is the name of a step before")
                scope |= {part.as_}
        return steps, scope

    def _step(self, part: StepPart, at: int, before: frozenset[str]) -> Step:
        where: Where = ("steps", at)
        scope = before if part.for_each is None else before | _OF_ITEM
        kind, what = _what(part)
        arguments = self._tree(part.with_, (*where, "with"), scope)
        if kind is Kind.FILE:
            if "name" in arguments:
                self.wrong((*where, "with", "name"), "the file's name stands at `file`")
            arguments = {**arguments, "name": self._tree(part.file, (*where, "file"), scope)}
        when = self._when(part.when, (*where, "when"), scope)
        return Step(
            number=at + 1,
            kind=kind,
            what=what,
            name=part.as_,
            arguments=arguments,
            when=when,
            each_time=isinstance(when, Template) and bool(when.names & _OF_ITEM),
            for_each=self._for_each(part.for_each, (*where, "for_each"), before),
            retry=part.retry or Retry(count=0),
        )

    def _when(self, value: Any, where: Where, scope: frozenset[str]) -> Any:
        match value:
            case None | bool():
                return value
            case str():
                return self._template(value, where, scope, is_expression=True)
        self.wrong(where, "is true, false or an expression")
        return None

    def _for_each(self, value: Any, where: Where, scope: frozenset[str]) -> Any:
        match value:
            case None:
                return None
            case list():
                return self._tree(value, where, scope)
            case str():
                return self._template(value, where, scope, is_expression=True)
        self.wrong(where, "is a list or an expression")
        return None

    def _tree(self, value: Any, where: Where, scope: frozenset[str]) -> Any:
        match value:
            case dict():
                return {key: self._tree(part, (*where, key), scope) for key, part in value.items()}
            case list():
                return [self._tree(part, (*where, at), scope) for at, part in enumerate(value)]
            case str() if templates.is_template(value):
                return self._template(value, where, scope)
        return value

    def _template(
        self, text: str, where: Where, scope: frozenset[str], *, is_expression: bool = False
    ) -> Template | None:
        begins = self.document.text_line(where)
        named = ".".join(map(str, where))
        compiled = templates.compiled_expression if is_expression else templates.compiled
        try:
            template = compiled(text, named)
        except BadTemplate as exc:
            self.wrong(where, exc.message, line=begins + exc.line - 1)
            return None
        for name in sorted(template.names - scope):
            there = ", ".join(sorted(scope))
            self.wrong(where, f"nothing is called {name} here; there are {there}", line=begins)
        return replace(template, where=f"{named} (line {begins})")


def _what(part: StepPart) -> tuple[Kind, str]:
    if part.plugin is not None:
        return Kind.PLUGIN, part.plugin
    if part.primitive is not None:
        return Kind.PRIMITIVE, part.primitive
    return Kind.FILE, "file"


def _explained(error: ValidationError) -> Iterator[tuple[Where, str]]:
    for fault in error.errors(include_input=False, include_url=False, include_context=False):
        match fault["type"]:
            case "extra_forbidden":
                yield fault["loc"], "there is no such key"
            case "missing":
                yield fault["loc"], "is missing"
            case _:
                yield fault["loc"], fault["msg"].removeprefix("Value error, ")
