"""`personas.toml`: which personas there are, and how each one's worker is started and kept.

Source: contract, section 9.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from penelope.errors import BadPersonas
from penelope.settings import Settings, variable
from penelope.waker.lines import line_of, lines_of
from penelope.waker.model import Mode, Order, Persona, Policy

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
RESERVED: Final = frozenset({"reload"})
TOP: Final = frozenset({"state", "defaults", "personas"})
# What a persona says under these names is a setting of its worker's, which judges it.
SETTINGS: Final = ("proxy", "locale", "timezone", "viewport", "user_agent", "geolocation")
NOT_IN_DEFAULTS: Final = frozenset({"port", "store", "key"})
ALWAYS_ONLY: Final = ("recycle_after_h", "recycle_above_mb")
# Of the worker's settings, those that the waker says itself.
WAKERS: Final = ("key", "host", "port", "store", "log")
KILL_MARGIN_S: Final = 30.0  # a worker's stop takes its grace, a POST under way, and its way out


class Table(BaseModel):
    """What `[personas.NAME]` may say."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    mode: Literal["sleepy", "always"] = "sleepy"
    port: int = Field(0, ge=0, le=65535, description="0: a free one.")
    idle_timeout_s: float = Field(60.0, gt=0, allow_inf_nan=False)
    recycle_after_h: float | None = Field(None, gt=0, allow_inf_nan=False)
    recycle_above_mb: float | None = Field(None, gt=0, allow_inf_nan=False)
    start_within_s: float = Field(60.0, gt=0, allow_inf_nan=False)
    kill_after_s: float | None = Field(None, gt=0, allow_inf_nan=False)
    proxy: str | None = None
    locale: str | None = None
    timezone: str | None = None
    viewport: str | None = None
    user_agent: str | None = None
    geolocation: str | None = None
    env: dict[str, str | int | float] = Field(default_factory=dict)
    store: str | None = Field(None, min_length=1)
    key: SecretStr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Personas:
    """A file, read and found good.

    Attributes:
        state: the folder of what the waker itself keeps: its lock, its records, the workers' logs.
    """

    state: Path
    by_name: Mapping[str, Persona]


class _Bad(Exception):
    """A fault at a key; `path` as in the file, e.g. `("personas", "alice", "port")`."""

    def __init__(self, path: tuple[str, ...], words: str) -> None:
        super().__init__(words)
        self.path, self.words = path, words


def load(file: Path, settings: Settings, held: Path | None = None) -> Personas:
    """Read the file.

    Args:
        settings: the waker's own: its key, its port, and the defaults of what a persona does not say.
        held: the state folder that a waker which runs holds: it cannot take another.

    Raises:
        BadPersonas: it cannot be read, or is not good; the message names file, line and key.
    """
    try:
        text = file.read_text("utf-8")
    except OSError as exc:
        raise BadPersonas(f"{file.name} cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise BadPersonas(f"{file.name} is not UTF-8") from exc
    try:
        parsed = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as exc:
        raise BadPersonas(f"{file.name} is no TOML: {exc}") from exc
    try:
        found = _personas(parsed, file.absolute().parent, settings)
        if held is not None and found.state != held:
            raise _Bad(("state",), "is another folder now, which takes a restart of the waker")
        return found
    except _Bad as exc:
        line = line_of(lines_of(text), exc.path)
        where = ".".join(exc.path) or "the file"
        raise BadPersonas(f"{file.name}, line {line}: {where} {exc.words}") from exc


def _personas(parsed: dict[str, Any], folder: Path, settings: Settings) -> Personas:
    for name in parsed:
        if name not in TOP:
            raise _Bad((name,), f"is unknown: there are {', '.join(sorted(TOP))}")
    state = parsed.get("state", "waker")
    if not isinstance(state, str) or not state or "\0" in state:
        raise _Bad(("state",), "must be the path of a folder")
    defaults = _table_of(parsed, "defaults")
    for name in NOT_IN_DEFAULTS & defaults.keys():
        raise _Bad(("defaults", name), "is no default: each persona has one of its own")
    _checked(defaults, ("defaults",))
    found = [
        _persona(name, given, defaults, folder, settings)
        for name, given in _table_of(parsed, "personas").items()
    ]
    _refuse_twins(found, settings)
    by_name = MappingProxyType({persona.name: persona for persona in found})
    return Personas(state=folder / state, by_name=by_name)


def _table_of(parsed: dict[str, Any], name: str) -> dict[str, Any]:
    table = parsed.get(name, {})
    if not isinstance(table, dict):
        raise _Bad((name,), "must be a table")
    return table


def _persona(name: str, given: Any, defaults: dict[str, Any], folder: Path, settings: Settings) -> Persona:
    path = ("personas", name)
    if not NAME.fullmatch(name) or name in RESERVED:
        raise _Bad(path, "is no name of a persona: 1 to 64 letters, digits, _ and -, and not `reload`")
    if not isinstance(given, dict):
        raise _Bad(path, "must be a table")
    merged = {**defaults, **given}
    if isinstance(defaults.get("env"), dict) and isinstance(given.get("env"), dict):
        merged["env"] = {**defaults["env"], **given["env"]}
    table = _checked(merged, path)
    _refuse_nul(table, path)
    if table.mode == "sleepy":
        for only in ALWAYS_ONLY:
            if only in given:
                raise _Bad((*path, only), 'is for mode = "always": a sleepy worker ends by itself')
    key = table.key or settings.key
    worker = _workers_settings(table, key, path, settings)
    kill_after_s = table.kill_after_s or worker.stop_grace_s + KILL_MARGIN_S
    order = Order(
        name=name,
        port=table.port,
        store=(folder / (table.store or Path("stores", name))).resolve(),
        key=worker.key.get_secret_value(),
        variables=MappingProxyType(_variables(table)),
        start_within_s=table.start_within_s,
        kill_after_s=kill_after_s,
    )
    before = worker.key_previous if table.key is not None or worker.key_previous else settings.key_previous
    return Persona(
        order=order,
        policy=_policy(table),
        own_key=table.key is not None,
        previous_key=None if before is None else before.get_secret_value(),
    )


def _checked(given: dict[str, Any], path: tuple[str, ...]) -> Table:
    try:
        return Table.model_validate(given)
    except ValidationError as exc:
        fault = exc.errors(include_input=False, include_url=False)[0]
        where = tuple(str(part) for part in fault["loc"] if part not in {"str", "int", "float"})
        words = fault["msg"]
        if fault["type"] == "extra_forbidden":
            words = f"is unknown: there are {', '.join(Table.model_fields)}"
        raise _Bad((*path, *where), words[:1].lower() + words[1:]) from exc


def _refuse_nul(table: Table, path: tuple[str, ...]) -> None:
    """Neither a path nor a variable of the environment can have one, whatever else may be in it."""
    for name in ("store", *SETTINGS):
        if "\0" in (getattr(table, name) or ""):
            raise _Bad((*path, name), "has a NUL character")


def _policy(table: Table) -> Policy:
    return Policy(
        mode=Mode(table.mode),
        idle_timeout_s=table.idle_timeout_s,
        recycle_after_s=None if table.recycle_after_h is None else table.recycle_after_h * 3600,
        recycle_above_mb=table.recycle_above_mb,
    )


def _variables(table: Table) -> dict[str, str]:
    """The worker's settings that this persona has of its own, by their names in the environment."""
    own = {variable(field): str(value) for field in SETTINGS if (value := getattr(table, field)) is not None}
    # A key of its own is not in rotation because the waker's is.
    none = {variable("key_previous"): ""} if table.key is not None else {}
    return none | {name: _text(value) for name, value in table.env.items()} | own


def _text(value: str | float) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _workers_settings(table: Table, key: SecretStr, path: tuple[str, ...], settings: Settings) -> Settings:
    """The persona's settings as its worker would read them, which must take them."""
    values: dict[str, Any] = {"key": key, "stop_grace_s": settings.stop_grace_s, "host": settings.host}
    came_from: dict[str, tuple[str, ...]] = {"key": (*path, "key")}
    for field in SETTINGS:
        if (value := getattr(table, field)) is not None:
            values[field], came_from[field] = value, (*path, field)
    for name, value in table.env.items():
        named = _field(name)
        if named in WAKERS or named in SETTINGS:
            raise _Bad((*path, "env", name), f"is not said here: {_instead(named)}")
        if "\0" in f"{name}{value}" or "=" in name or not name:
            raise _Bad((*path, "env", name), "cannot be a variable of the environment")
        if named is not None:
            values[named], came_from[named] = _text(value), (*path, "env", name)
    try:
        # With the waker's own host: whoever may reach the waker may reach each persona through it.
        return Settings.model_validate(values)
    except ValidationError as exc:
        fault = exc.errors(include_input=False, include_url=False)[0]
        named = _field(str(fault["loc"][0])) if fault["loc"] else "key"
        words = fault["msg"].removeprefix("Value error, ")
        words = words.removeprefix("PENELOPE_KEY ") if named == "key" else words
        raise _Bad(came_from.get(named or "", path), words[:1].lower() + words[1:]) from exc


def _field(name: str) -> str | None:
    """The field of Settings that a variable, an alias or a field's own name stands for; None: it is none of ours."""
    for field in Settings.model_fields:
        bare = variable(field).removeprefix("PENELOPE_")
        if name.upper() in {variable(field), f"PENELOPE_{bare}"} or name == field:
            return field
    return None


def _instead(field: str) -> str:
    if field in SETTINGS or field in {"key", "port", "store"}:
        return f"say `{field}` in the persona's table"
    return "the waker says it to each worker"


def _refuse_twins(found: list[Persona], settings: Settings) -> None:
    ports: dict[int, str] = {settings.port: "the waker"}
    seen: list[Persona] = []
    for persona in found:
        path, order = ("personas", persona.name), persona.order
        if order.port and (other := ports.setdefault(order.port, persona.name)) != persona.name:
            raise _Bad((*path, "port"), f"is {order.port}, which {other} has")
        for one in seen:
            if _overlap(order.store, one.order.store):
                raise _Bad((*path, "store"), f"is the store of {one.name}, or one lies in the other")
        seen.append(persona)


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def loose_files(file: Path, personas: Personas) -> Iterator[str]:
    """What others of the machine may read and should not, in words for the log."""
    if any(persona.own_key for persona in personas.by_name.values()) and file.stat().st_mode & 0o077:
        yield f"{file.name} has keys and can be read by other users: chmod 600"
