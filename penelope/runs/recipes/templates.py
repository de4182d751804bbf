"""Templates in a tree of values, and what they give.

A text that is one `{{ expression }}` gives that expression's value, with its type; any other gives a text. Not Jinja's
native environment: that reads each text anew as Python's, so that a page's "123" would become a number and its
"[1, 2]" a list.

Trio-flavoured, as far as it waits.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import trio
from jinja2 import Template as Compiled
from jinja2 import TemplateError, TemplateSyntaxError, nodes
from jinja2.environment import TemplateExpression

from penelope.errors import PenelopeError
from penelope.runs.recipes import sandbox as language
from penelope.runs.recipes.budget import Budget, TooMuch, joined, spending
from penelope.runs.recipes.sandbox import Sandbox
from penelope.runs.recipes.values import plain

_Result = TypeVar("_Result")

MARKS: Final = ("{{", "{%", "{#")
THREADS: Final = 2  # they share one interpreter: more would only take its time from the worker's loop
_SANDBOX: Final = Sandbox()


class TemplateFailed(PenelopeError):
    """A template gave no value: what it needs is not there, or is of another kind, or it made too much."""

    status = 500


class BadTemplate(Exception):
    """A text is no template of ours. `line` counts from 1, within the text."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(frozen=True, slots=True)
class Template:
    """A template, compiled.

    Attributes:
        where: what it is the value of, and on which line, for its errors.
        names: what it takes from outside.
    """

    where: str
    names: frozenset[str]
    _compiled: Compiled
    _is_value: bool

    def value(self, names: Mapping[str, Any]) -> Any:
        """What it gives, of JSON's types; paid for from the current budget.

        Raises:
            TemplateFailed: it gives nothing; the message has `where`.
        """
        try:
            if self._is_value:
                return plain(TemplateExpression(self._compiled, undefined_to_none=False)(**names))
            return joined(self._compiled.root_render_func(self._compiled.new_context(dict(names))))
        except (RecursionError, MemoryError) as exc:
            raise TemplateFailed(f"{self.where}: is nested too deeply, or too large") from exc
        except TooMuch as exc:
            raise TemplateFailed(f"{self.where}: {exc}") from exc
        except Exception as exc:  # whatever an operation says of values that it cannot take
            raise TemplateFailed(f"{self.where}: {' '.join(str(exc).split())[:300]}") from exc


# A value of JSON's, with templates in place of texts.
Tree = Any


def compiled(source: str, where: str) -> Template:
    """A text with templates in it.

    Raises:
        BadTemplate: it is none.
    """
    return _compiled(language.parsed, source, where)


def compiled_expression(source: str, where: str) -> Template:
    """One expression, with or without its braces.

    Raises:
        BadTemplate: it is none.
    """
    return _compiled(language.parsed_expression, source, where)


def _compiled(parsed: Callable[[Sandbox, str], nodes.Template], source: str, where: str) -> Template:
    try:
        tree = parsed(_SANDBOX, source)
        is_value = language.expression(tree) is not None
        names = frozenset(language.names(tree) - language.CALLABLE)
        template = _SANDBOX.from_string(language.finished(_SANDBOX, tree))
    except TemplateSyntaxError as exc:
        raise BadTemplate(exc.message or "is no template", exc.lineno) from exc
    except (TemplateError, SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        raise BadTemplate(f"is no template that can be compiled: {exc}", 1) from exc
    return Template(where, names, template, is_value)


def is_template(text: str) -> bool:
    return any(mark in text for mark in MARKS)


def templates_of(tree: Tree) -> Iterator[Template]:
    """All templates of a tree."""
    match tree:
        case Template():
            yield tree
        case dict():
            for part in tree.values():
                yield from templates_of(part)
        case list():
            for part in tree:
                yield from templates_of(part)


def rendered(tree: Tree, names: Mapping[str, Any]) -> Any:
    """The tree with each template's value in its place.

    Raises:
        TemplateFailed: as `Template.value`.
    """
    match tree:
        case Template():
            return tree.value(names)
        case dict():
            return {key: rendered(part, names) for key, part in tree.items()}
        case list():
            return [rendered(part, names) for part in tree]
    return tree


class Runner(Protocol):
    """Runs a blocking function and waits for it. A seam: Trio's autojump clock does not see threads."""

    def __call__(self, function: Callable[[], _Result], /) -> Awaitable[_Result]: ...


def thread_runner() -> Runner:
    """Threads of the templates' own: the worker's loop goes on meanwhile, and theirs stop nobody else's.

    A rendering touches nothing, and ends by itself when its time is over: one whose run is cancelled is left alone.
    """
    limiter = trio.CapacityLimiter(THREADS)

    async def run(function: Callable[[], _Result], /) -> _Result:
        return await trio.to_thread.run_sync(function, limiter=limiter, abandon_on_cancel=True)

    return run


async def paid(run: Runner, function: Callable[[], _Result]) -> _Result:
    """Run a function that renders, with a budget of its own."""

    def within() -> _Result:
        with spending(Budget()):
            return function()

    return await run(within)
