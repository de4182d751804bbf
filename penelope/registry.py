"""Finds the plugins, and reads each one's signature as models of its parameters and its result.

Source: contract, section 2 ("Plugins are found through …").
"""

import hashlib
import importlib.metadata
import importlib.util
import inspect
import math
import sys
import types
import typing
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from typing_extensions import is_typeddict  # pydantic's own; before 3.12 it knows only this TypedDict

from penelope.errors import BadParameter, BadPlugin, PluginFailed
from penelope.outcome import success
from penelope.plugin import PLUGIN_MARK, Mark

ENTRY_POINTS: Final = "penelope.plugins"
ENVELOPE: Final = frozenset({"success", "page_id"})
_MANY: Final = (list, tuple, set, frozenset)

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A plugin, ready to be called.

    Attributes:
        name: `family/name`.
        function: asyncio-flavoured; its first parameter is the `Call`.
        source: the file that it comes from.
        description: its docstring.
        parameters: the model of its parameters, by their own names as aliases.
        result: of its return annotation; None when it returns nothing.
        lists: the parameters that a query string may repeat.
    """

    name: str
    function: Callable[..., Awaitable[Any]]
    source: str
    description: str
    parameters: type[BaseModel]
    result: TypeAdapter[Any] | None
    lists: frozenset[str]

    @property
    def family(self) -> str:
        return self.name.partition("/")[0]

    @property
    def parameters_schema(self) -> dict[str, Any]:
        return self.parameters.model_json_schema(by_alias=True)

    @property
    def result_schema(self) -> dict[str, Any]:
        if self.result is None:
            return {"type": "object", "properties": {}}
        return self.result.json_schema(mode="serialization")

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments for `function`.

        Raises:
            BadParameter: one is bad, missing or unknown; the message names each.
        """
        try:
            checked = self.parameters.model_validate(given)
        except ValidationError as exc:
            raise BadParameter("; ".join(explained(exc))) from exc
        fields = type(checked).model_fields
        return {str(fields[name].alias): getattr(checked, name) for name in fields}

    def from_query(self, pairs: Mapping[str, list[str]]) -> dict[str, Any]:
        """A query string's values, one each, or a list where the parameter is one.

        Raises:
            BadParameter: one that is no list is given more than once.
        """
        given: dict[str, Any] = {}
        for name, values in pairs.items():
            if name in self.lists:
                given[name] = values
            elif len(values) > 1:
                raise BadParameter(f"parameter {name} is given more than once")
            else:
                given[name] = values[0]
        return given

    def answer(self, page_id: str, result: object) -> str:
        """The success envelope around a result, as JSON text. Slow for a large one: it belongs on the plugin's side.

        Raises:
            PluginFailed: the result is not what the annotation says, or no JSON.
        """
        try:
            text = success(page_id, self._fields(result)).text
            if "null" in text and not _is_finite(result):
                raise ValueError("NaN and infinities are not JSON")
            return text
        except (ValueError, TypeError) as exc:  # pydantic's errors are ValueErrors
            reason = "; ".join(explained(exc)) if isinstance(exc, ValidationError) else str(exc)
            raise PluginFailed(f"plugin {self.name}: its result is no valid result: {reason}") from exc

    def _fields(self, result: object) -> Mapping[str, Any]:
        if self.result is None:
            if result is not None:
                raise ValueError("it is annotated to return nothing")
            return {}
        fields = self.result.dump_python(self.result.validate_python(result), mode="json", by_alias=True)
        if not isinstance(fields, dict):
            raise ValueError("it is not an object")
        return fields


class Registry(Mapping[str, Plugin]):
    """All plugins by name."""

    def __init__(self, plugins: Mapping[str, Plugin]) -> None:
        self._plugins = dict(sorted(plugins.items()))

    def __getitem__(self, name: str) -> Plugin:
        return self._plugins[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._plugins)

    def __len__(self) -> int:
        return len(self._plugins)


def load(folders: typing.Iterable[Path]) -> Registry:
    """Import every plugin: those of installed packages, and every `*.py` of the folders.

    Raises:
        BadPlugin: a folder that is none, a file that does not import, a signature that cannot be read, or two plugins
            of one name; the message names the file.
    """
    found: dict[str, Plugin] = {}
    for module in (*_installed(), *_in_folders(folders)):
        for plugin in _plugins_of(module):
            other = found.get(plugin.name)
            if other is not None:
                raise BadPlugin(f"plugin {plugin.name} is in {other.source} and in {plugin.source}")
            found[plugin.name] = plugin
    return Registry(found)


def read_plugin(function: Callable[..., Awaitable[Any]]) -> Plugin:
    """The plugin that a decorated function is.

    Raises:
        BadPlugin: its signature cannot be read.
    """
    mark: Mark = getattr(function, PLUGIN_MARK)
    source = inspect.getsourcefile(inspect.unwrap(function)) or "<unknown>"
    try:
        if not inspect.iscoroutinefunction(function):
            raise TypeError("it is not a coroutine function (async def)")
        hints = typing.get_type_hints(function, include_extras=True)
        fields = dict(_fields(function, hints))
        read = Plugin(
            name=mark.name,
            function=function,
            source=source,
            description=inspect.getdoc(function) or "",
            parameters=create_model(
                f"{mark.name} parameters",
                __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False),
                **fields,
            ),
            result=_result(hints),
            lists=frozenset(name for name, hint in hints.items() if _is_list(hint)),
        )
        # Made once for nothing: a type that has no JSON schema stops the start here, not the API's description later.
        _ = read.parameters_schema, read.result_schema
    except (TypeError, NameError, ValueError, PydanticUserError) as exc:
        reason = exc.message if isinstance(exc, PydanticUserError) else str(exc)  # without pydantic's link
        raise BadPlugin(f"plugin {mark.name} in {source}: {_one_line(reason)}") from exc
    return read


def _fields(function: Callable[..., Any], hints: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """A model field for each parameter after the call. The field has a name of its own, since a model reserves some."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise TypeError("its first parameter must be the Call")
    for parameter in parameters[1:]:
        if parameter.kind not in {
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            inspect.Parameter.KEYWORD_ONLY,
        }:
            raise TypeError(
                f"parameter {parameter.name}: only plain and keyword-only parameters can be called"
            )
        if parameter.name not in hints:
            raise TypeError(f"parameter {parameter.name} has no annotation")
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        annotated: Any = typing.Annotated
        yield f"p_{parameter.name}", (annotated[hints[parameter.name], Field(alias=parameter.name)], default)


def _result(hints: Mapping[str, Any]) -> TypeAdapter[Any] | None:
    if "return" not in hints:
        raise TypeError("it has no return annotation: a pydantic model, a dict, or None")
    hint = hints["return"]
    if hint is type(None):
        return None
    adapter: TypeAdapter[Any] = TypeAdapter(hint)
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        names = {field.serialization_alias or name for name, field in hint.model_fields.items()}
        if taken := ENVELOPE & names:
            raise TypeError(f"its result has a field of the envelope's own: {', '.join(sorted(taken))}")
    elif not (hint is dict or typing.get_origin(hint) is dict or is_typeddict(hint)):
        raise TypeError("its return annotation must be a pydantic model, a dict, or None")
    return adapter


def _is_finite(value: object) -> bool:
    """Whether no number in it is NaN or infinite: where a type is `Any`, pydantic writes those as null."""
    match value:
        case float():
            return math.isfinite(value)
        case BaseModel():
            return all(_is_finite(field) for _, field in value)
        case dict():
            return all(map(_is_finite, value.values()))
        case list() | tuple() | set() | frozenset():
            return all(map(_is_finite, value))
        case _:
            return True


def _is_list(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return _is_list(typing.get_args(hint)[0])
    if origin in {typing.Union, types.UnionType}:
        return any(_is_list(part) for part in typing.get_args(hint))
    return hint in _MANY or origin in _MANY


def _installed() -> Iterator[types.ModuleType]:
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            yield importlib.import_module(point.module)
        except Exception as exc:
            raise BadPlugin(_does_not_import(point.module, exc)) from exc


def _in_folders(folders: typing.Iterable[Path]) -> Iterator[types.ModuleType]:
    for folder in folders:
        if not folder.is_dir():
            raise BadPlugin(f"PENELOPE_PLUGINS names {folder}, which is no folder")
        for file in sorted(folder.glob("*.py")):
            yield _import_file(file)


def _import_file(file: Path) -> types.ModuleType:
    # A name of its own: two folders may each have a `shop.py`, and none may shadow an installed module.
    digest = hashlib.sha256(str(file.absolute()).encode()).hexdigest()[:8]
    name = f"penelope_plugin_{file.stem.replace('-', '_')}_{digest}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None, file
    assert spec.loader is not None, file
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as exc:
        del sys.modules[name]
        raise BadPlugin(_does_not_import(str(file), exc)) from exc
    return module


def _does_not_import(what: str, exc: BaseException) -> str:
    return f"plugin file {what} does not import: {type(exc).__name__}: {_one_line(str(exc))}"


def _one_line(text: str) -> str:
    """The start's message is one line, whatever a syntax error or pydantic brings."""
    return " ".join(text.split())


def _plugins_of(module: types.ModuleType) -> Iterator[Plugin]:
    for value in vars(module).values():
        # Only what the module defines: it may import another's plugin to use it.
        if inspect.isfunction(value) and hasattr(value, PLUGIN_MARK) and value.__module__ == module.__name__:
            yield read_plugin(value)


def checked(model: type[_Model], given: Mapping[str, Any]) -> _Model:
    """`given` as a model.

    Raises:
        BadParameter: a value is bad, missing or unknown; the message names it.
    """
    try:
        return model.model_validate(given)
    except ValidationError as exc:
        raise BadParameter("; ".join(explained(exc))) from exc


def explained(error: ValidationError) -> Iterator[str]:
    """What is wrong with a client's parameters, a clause each; never the values themselves."""
    for fault in error.errors(include_input=False, include_url=False, include_context=False)[:5]:
        yield clause(fault["type"], fault["loc"], fault["msg"])


def clause(kind: str, loc: tuple[int | str, ...], message: str) -> str:
    """One of pydantic's faults in our words."""
    where = _short(".".join(str(part) for part in loc))  # keys may be the client's own words
    match kind:
        case "missing":
            return f"parameter {where} is missing"
        case "extra_forbidden":
            return f"parameter {where} is unknown"
    said = message.removeprefix("Value error, ")
    return f"parameter {where}: {said}" if where else said


def _short(text: str) -> str:
    return ascii(text[:80])[1:-1]
