"""A prompt as a recipe's input, and what is wrong with it.

A client of the public kind sends `str(input)`, so an object arrives as Python's `repr` of one.

Source: contract, section 10 ("`prompt` is the input: …").
"""

import ast
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry, Resource
from referencing.exceptions import PointerToNowhere, Unresolvable
from referencing.jsonschema import DRAFT202012

from penelope import jsontext
from penelope.errors import RunRefused

if TYPE_CHECKING:
    from referencing._core import Resolver  # public by what it is returned from, not by its name

# An input is read and checked where it is submitted, between other requests: what is larger belongs behind a URL.
MAX_OBJECT_CHARS: Final = 128 * 1024  # of a prompt that is read as an object
MAX_DEPTH: Final = 50
MAX_VALUES: Final = 5000  # of a whole input
MAX_SHOWN: Final = 5  # faults named at once
MAX_SHOWN_CHARS: Final = 200  # of each: a client's own value may be in it
_MAX_MARKS: Final = 4 * MAX_VALUES  # commas, colons and brackets; some of them may stand in texts
_NO_INPUT: Final = "Execute recipe: {name}"  # what the public client says for "no input"
_NOWHERE: Final[Registry[Any]] = Registry()  # refers to nothing outside, above all not over the network


def read_prompt(prompt: str, recipe: str, declared: Mapping[str, Any]) -> dict[str, Any]:
    """The object that a prompt is: JSON's, or Python's `repr` of one; else `{"prompt": …}`.

    Args:
        declared: the properties of the recipe's input. Where `prompt` is none of them, no input at all is an empty one.

    Raises:
        RunRefused: it is an object that is too long, too deep, or has values that JSON has not.
    """
    stripped = prompt.strip()
    if stripped.startswith("{") and stripped.endswith("}"):
        if len(stripped) > MAX_OBJECT_CHARS:
            raise RunRefused(
                f"the prompt is an object of {len(stripped)} characters: at most {MAX_OBJECT_CHARS}"
            )
        found = _object(stripped)
        if found is not None:
            return found
    if "prompt" not in declared and stripped in ("", _NO_INPUT.format(name=recipe)):
        return {}
    return {"prompt": prompt}


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = jsontext.loads(text)
    except ValueError:
        found = _literal(text)
    return {str(key): _plain(value, 1) for key, value in found.items()} if isinstance(found, dict) else None


def _literal(text: str) -> Any:
    """Python's value; None where the text is no literal.

    Raises:
        RunRefused: it may have more values than Python reads in a moment.
    """
    if sum(map(text.count, ",:[({")) > _MAX_MARKS:
        raise RunRefused(f"the prompt is an object of more than {MAX_VALUES} values")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # `repr` writes nothing that Python warns of
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, Warning):
        return None


def _plain(value: Any, depth: int) -> Any:
    """The value as JSON has it: Python's tuples are lists, and its keys texts."""
    if depth > MAX_DEPTH:
        raise RunRefused(f"the prompt is nested more than {MAX_DEPTH} deep")
    match value:
        case None | bool() | int() | str():
            return value
        case float() if math.isfinite(value):
            return value
        case list() | tuple():
            return [_plain(part, depth + 1) for part in value]
        case dict() if all(isinstance(key, str | int) for key in value):
            return {str(key): _plain(part, depth + 1) for key, part in value.items()}
    raise RunRefused(f"the prompt has a {type(value).__name__} in it that is no JSON: {value!r:.40}")


def overridden(
    given: Mapping[str, Any], config: Mapping[str, Any], declared: Mapping[str, Any]
) -> dict[str, Any]:
    """The input with those fields of a configuration that the recipe's input declares."""
    return {**given, **{key: value for key, value in config.items() if key in declared}}


def with_defaults(schema: Any, value: Any) -> Any:
    """The value with the `default`s of its schema's properties where it has none, in objects below too."""
    if not isinstance(schema, Mapping) or not isinstance(value, Mapping):
        return value
    filled = dict(value)
    for name, part in properties(schema).items():
        if name in filled:
            filled[name] = with_defaults(part, filled[name])
        elif isinstance(part, Mapping) and "default" in part:
            filled[name] = part["default"]
    return filled


def properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The properties that a schema declares."""
    declared = schema.get("properties", {})
    return declared if isinstance(declared, Mapping) else {}


def check(schema: Mapping[str, Any], value: Mapping[str, Any], recipe: str) -> None:
    """Hold an input against its schema; see `checking`."""
    checking(schema)(value, recipe)


def checking(schema: Mapping[str, Any]) -> Callable[[Mapping[str, Any], str], None]:
    """What holds inputs against a schema, made once for all of them: that is dearer than most inputs are.

    Raises, when it is called with an input and the name of its recipe:
        RunRefused: the input does not fit, or is too large; the message names each field.
    """
    validator = Draft202012Validator(
        schema, format_checker=Draft202012Validator.FORMAT_CHECKER, registry=_NOWHERE
    )
    return partial(_check, validator)


def _check(validator: Draft202012Validator, value: Mapping[str, Any], recipe: str) -> None:
    """
    Raises:
        RunRefused: see `checking`.
    """
    if _is_large(value):
        raise RunRefused(
            f"recipe {recipe}: the input has more than {MAX_VALUES} values, or is nested too deeply"
        )
    try:
        faults = sorted(
            validator.iter_errors(dict(value)), key=lambda fault: [*map(str, fault.absolute_path)]
        )
    except RecursionError as exc:  # a schema that refers to itself without end
        raise RunRefused(f"recipe {recipe}: its input schema goes round in circles") from exc
    if faults:
        raise RunRefused(f"recipe {recipe}: {'; '.join(map(_said, faults[:MAX_SHOWN]))}")


def _is_large(value: Any) -> bool:
    """Whether it has too many values, or is deeper than anybody's schema; a configuration may have any size."""
    waiting: list[tuple[Any, int]] = [(value, 0)]
    seen = 0
    while waiting:
        part, depth = waiting.pop()
        seen += 1
        if seen > MAX_VALUES or depth > 2 * MAX_DEPTH:
            return True
        inside = part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ()
        if seen + len(waiting) + len(inside) > MAX_VALUES:
            return True
        waiting.extend((one, depth + 1) for one in inside)
    return False


def _said(fault: ValidationError) -> str:
    where = ".".join(["input", *map(str, fault.absolute_path)])
    message = " ".join(fault.message.split())
    cut = message if len(message) <= MAX_SHOWN_CHARS else message[:MAX_SHOWN_CHARS] + "…"
    return f"{where[:MAX_SHOWN_CHARS]}: {cut}"


def faults_of_schema(schema: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What is wrong with a recipe's `input`, and where."""
    try:
        Draft202012Validator.check_schema(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    except SchemaError as exc:
        yield tuple(exc.absolute_path), exc.message[:MAX_SHOWN_CHARS]
    else:
        if schema.get("type", "object") != "object":
            yield ("type",), "the input is an object, whatever else it is"
        resource: Resource[Any] = DRAFT202012.create_resource(dict(schema))
        yield from _lost_references(schema, (), _NOWHERE.with_resource("", resource).resolver())


def _lost_references(
    schema: Any, where: tuple[str | int, ...], resolver: "Resolver[Any]"
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    match schema:
        case Mapping():
            for key, part in schema.items():
                if key in {"$ref", "$dynamicRef"} and isinstance(part, str):
                    try:
                        resolver.lookup(part)
                    except (Unresolvable, PointerToNowhere):
                        yield (*where, key), f"{part[:MAX_SHOWN_CHARS]} is not in this schema"
                yield from _lost_references(part, (*where, key), resolver)
        case list():
            for at, part in enumerate(schema):
                yield from _lost_references(part, (*where, at), resolver)
