"""Values as JSON has them: what goes into a template, and what comes out."""

import json
import math
from typing import Any

from jinja2 import Undefined

from penelope import jsontext
from penelope.runs.recipes.budget import counted, joined, spend


def plain(value: Any) -> Any:
    """A value as JSON has it, a copy; ranges and tuples as lists.

    Raises:
        TypeError: a value that JSON has not; or one that is not there.
        ValueError: a number that JSON has not.
        TooMuch: it is larger than what is left of the budget.
    """
    match value:
        case Undefined():
            raise TypeError(value._undefined_message)
        case None | bool():
            return value
        case int():
            return small(value)
        case float():
            if not math.isfinite(value):
                raise ValueError("the number is not finite")
            return value
        case str():
            spend(len(value))
            return str(value)
        case dict():
            spend(len(value))
            return {_key(key): plain(part) for key, part in value.items()}
        case list() | tuple():
            spend(len(value))
            return [plain(part) for part in value]
        case range():
            return [plain(part) for part in counted(value)]
    raise TypeError(f"{kind(value)} is no value")


def kind(value: Any) -> str:
    """What a value is, in words of JSON's."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list() | tuple() | range():
            return "a list"
        case dict():
            return "an object"
    return f"a {type(value).__name__}"


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"the key {key!r:.40} is no text")
    spend(len(key))
    return key


def small(number: int) -> int:
    """Raises: ValueError: it has more digits than anybody needs; such numbers grow by themselves."""
    if number.bit_length() > 512:
        raise ValueError("the number is too large")
    return number


def text(value: Any) -> str:
    """A value inside of a text: a text as it is, anything else as JSON.

    Raises:
        TypeError, ValueError, TooMuch: as `plain`.
    """
    if isinstance(value, str):
        return str(value)
    made = jsontext.dumps(plain(value))
    spend(len(made))
    return made


def written(value: Any, indent: int) -> str:
    """A value as JSON in lines; what is deep is indented by its depth, so it is paid for as it grows.

    Raises:
        TooMuch: it is larger than what is left of the budget.
    """
    return joined(json.JSONEncoder(ensure_ascii=False, allow_nan=False, indent=indent).iterencode(value))
