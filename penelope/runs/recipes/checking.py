"""Steps held against the plugins and primitives that there are: names, parameters, and values that are no templates.

Source: contract, section 10 (`penelope recipes check`).
"""

from collections.abc import Iterator
from typing import Final

from pydantic import BaseModel, ValidationError

from penelope.errors import RequestError
from penelope.pages.primitives.table import PRIMITIVES
from penelope.registry import Registry, clause
from penelope.runs.recipes.document import Fault, Where
from penelope.runs.recipes.model import FileOptions, Kind, Step
from penelope.runs.recipes.reading import Read
from penelope.runs.recipes.templates import templates_of

_LATER: Final = object()  # in place of a value that a template will give: of no type at all
# Of a file it is known what it will be, so that its rules can be held too.
_OF_A_FILE: Final[dict[str, object]] = {"name": "-", "text": "-", "json": None, "csv": [], "columns": []}


def faults(read: Read, registry: Registry) -> Iterator[Fault]:
    """What is wrong with a recipe's steps here."""
    if read.recipe is None or read.document is None:
        return
    for at, step in enumerate(read.recipe.steps):
        for where, message in _faults_of(step, registry):
            full: Where = ("steps", at, *where)
            named = ".".join(map(str, full))
            yield Fault(read.file, read.document.line(full), f"{named}: {message}")


def _faults_of(step: Step, registry: Registry) -> Iterator[tuple[Where, str]]:
    model = _model(step, registry)
    if model is None:
        yield (step.kind.value,), f"there is no {step.kind.value} {step.what:.140}"
        return
    later = {name for name, part in step.arguments.items() if any(templates_of(part))}
    later_as = _OF_A_FILE if step.kind is Kind.FILE else {}
    given = {
        name: later_as.get(name, _LATER) if name in later else part for name, part in step.arguments.items()
    }
    try:
        model.model_validate(given)
    except RequestError as exc:  # e.g. of a URL that no page may go to; it begins with the parameter's name
        yield _place(step, exc.message.partition(" ")[0]), exc.message
    except ValidationError as exc:
        for fault in exc.errors(include_input=False, include_url=False, include_context=False):
            name = str(fault["loc"][0]) if fault["loc"] else ""
            if name not in later or fault["type"] == "extra_forbidden":
                yield _place(step, name), clause(fault["type"], fault["loc"], fault["msg"])


def _place(step: Step, name: str) -> Where:
    return ("file",) if step.kind is Kind.FILE and name == "name" else ("with", name) if name else ("with",)


def _model(step: Step, registry: Registry) -> type[BaseModel] | None:
    match step.kind:
        case Kind.PLUGIN:
            plugin = registry.get(step.what)
            return None if plugin is None else plugin.parameters
        case Kind.PRIMITIVE:
            primitive = PRIMITIVES.get(step.what)
            return None if primitive is None else primitive.options
        case Kind.FILE:
            return FileOptions
