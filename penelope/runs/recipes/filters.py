"""What a template may do with its values: Jinja's own harmless filters, and ours where its could make too much.

A value is JSON's: text, number, true, false, null, list, object. Each filter pays for what it makes; those that could
make much of little pay before. Left out are the ones that reach into Python (`attr`), that draw lots (`random`), and
that pad or repeat without measure.
"""

import functools
import html
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast

from jinja2 import pass_environment
from jinja2.environment import Environment
from jinja2.filters import FILTERS as DEFAULT_FILTERS
from jinja2.filters import do_batch, do_round, do_sum, make_attrgetter
from jinja2.tests import TESTS as DEFAULT_TESTS

from penelope import jsontext
from penelope.runs.recipes.budget import counted, few, spend
from penelope.runs.recipes.values import kind, plain, small, text, written

Filter = Callable[..., Any]

MAX_DIGITS: Final = 20  # `round` to more, and a batch or a `%` of more than 999, is nobody's intention
MAX_WIDTH: Final = 999
MAX_INDENT: Final = 8
_CONVERSION: Final = re.compile(r"%(?:%|[-+ 0#]{0,5}(\d{0,3})(?:\.(\d{1,3}))?[sdifeEgGxXo])")


@pass_environment
def _join(
    environment: Environment, items: Iterable[Any], between: str = "", attribute: str | int | None = None
) -> str:
    """Texts after one another. `~` is this, too."""
    if attribute is not None:
        items = map(make_attrgetter(environment, attribute), items)
    parts = [text(item) for item in counted(items)]
    spend(sum(map(len, parts)) + len(between) * len(parts))
    return str(between).join(parts)


def _replace(whole: Any, old: str, new: str, count: int | None = None) -> str:
    source, old, new = text(whole), str(old), str(new)
    found = source.count(old) if count is None else min(source.count(old), count)
    spend(len(source) + found * len(new))
    return source.replace(old, new, -1 if count is None else count)


def _split(whole: Any, by: str | None = None, most: int = -1) -> list[str]:
    """The parts of a text; without `by`, of any white space."""
    parts: list[str] = few(text(whole).split(by, most))
    return parts


def _format(pattern: Any, *values: Any) -> str:
    """`"%03d" | format(7)`; conversions of texts and numbers, none wider than 999."""
    pattern = text(pattern)
    left = _CONVERSION.sub("", pattern)
    if "%" in left:
        raise ValueError(f"format: {pattern[:40]!r} has a conversion that is not taken")
    spend(len(pattern) + pattern.count("%") * MAX_WIDTH + sum(len(text(value)) for value in values))
    made: str = pattern % values
    return made


def _tojson(value: Any, indent: int | None = None) -> str:
    if indent is not None and not 0 <= indent <= MAX_INDENT:
        raise ValueError(f"tojson: indent is from 0 to {MAX_INDENT}")
    return jsontext.dumps(plain(value)) if indent is None else written(plain(value), indent)


def _escape(value: Any) -> str:
    """For HTML."""
    return html.escape(text(value))


def _round(value: Any, precision: int = 0, method: Any = "common") -> float:
    if abs(precision) > MAX_DIGITS:
        raise ValueError(f"round: to more than {MAX_DIGITS} digits")
    return float(do_round(value, precision, method))


@pass_environment
def _sum(
    environment: Environment, items: Iterable[Any], attribute: str | int | None = None, start: Any = 0
) -> Any:
    if not isinstance(start, int | float):
        raise TypeError("sum: only numbers can be summed")  # lists would be copied again for each
    return do_sum(environment, counted(items), attribute, start)


def _batch(items: Iterable[Any], size: int, fill: Any = None) -> Iterator[list[Any]]:
    if not 1 <= size <= MAX_WIDTH:
        raise ValueError(f"batch: the size is from 1 to {MAX_WIDTH}")
    return do_batch(counted(items), size, fill)


def cut(items: Any, start: Any, stop: Any, step: Any) -> Any:
    """`items[start:stop:step]`, paid for."""
    if not isinstance(items, str | list | tuple | range):
        raise TypeError(f"{kind(items)} has no part [{start}:{stop}]")
    part = items[start:stop:step]
    spend(len(part))
    return part


def _made(value: Any) -> Any:
    """A filter's result, paid for."""
    match value:
        case str() | list() | tuple() | dict():
            spend(len(value))
        case int():
            return small(value)
        case Iterator():
            return list(counted(value))  # so that each list can be counted, indexed and used twice
    return value


def _guarded(function: Filter, *, looks: Callable[[Any], Any]) -> Filter:
    """The filter, with its value looked at before and its result paid for after."""
    at = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        before = list(args)
        if len(before) > at:
            before[at] = looks(before[at])
        return _made(function(*before, **kwargs))

    return guarded


def _as_text(value: Any) -> Any:
    """Pay for the text that a filter goes through."""
    if isinstance(value, str):
        spend(len(value))
    return value


def _tested(function: Filter) -> Filter:
    """The test, paid for: `select` asks it of each item, and hands on none that fails."""

    @functools.wraps(function)
    def tested(*args: Any, **kwargs: Any) -> Any:
        spend(1 + sum(len(arg) for arg in args if isinstance(arg, list)))
        return function(*args, **kwargs)

    return tested


_OF_TEXTS: Final = "capitalize float int lower title trim truncate upper urlencode wordcount".split()
_OF_LISTS: Final = (
    "dictsort groupby items list map max min reject rejectattr reverse select selectattr sort unique".split()
)
_OF_ANY: Final = "abs count d default first last length".split()
_OWN: Final[dict[str, Filter]] = {
    "batch": _batch,
    "cut": cut,
    "e": _escape,
    "escape": _escape,
    "format": _format,
    "join": _join,
    "replace": _replace,
    "round": _round,
    "split": _split,
    "string": text,
    "sum": _sum,
    "tojson": _tojson,
}

FILTERS: Final[dict[str, Filter]] = {
    **{name: _guarded(DEFAULT_FILTERS[name], looks=_as_text) for name in _OF_TEXTS},
    **{name: _guarded(DEFAULT_FILTERS[name], looks=few) for name in _OF_LISTS},
    **{name: _guarded(DEFAULT_FILTERS[name], looks=lambda value: value) for name in _OF_ANY},
    **{name: _guarded(function, looks=lambda value: value) for name, function in _OWN.items()},
    "counted": counted,
}

TESTS: Final[dict[str, Filter]] = {
    **{
        name: _tested(function)
        for name, function in cast("dict[str, Filter]", DEFAULT_TESTS).items()
        if name not in {"callable", "escaped", "filter", "test"}
    },
    "startswith": _tested(lambda value, start: text(value).startswith(str(start))),
    "endswith": _tested(lambda value, end: text(value).endswith(str(end))),
}
