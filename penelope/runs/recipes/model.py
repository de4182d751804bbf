"""What a recipe is, and how its file looks.

Source: contract, section 10 ("A recipe is …"); the seed's `runtime.job` block.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,63}", re.ASCII)
FILE_NAME: Final = "TEMPLATE.yaml"
MAX_STEPS: Final = 100
MAX_ROUNDS: Final = 1000  # of a `for_each`
MAX_RETRIES: Final = 10
MAX_DELAY_S: Final = 3600.0
MAX_TIMEOUT_S: Final = 7 * 86400.0
# Names that mean something else in every template.
TAKEN: Final = frozenset(
    "input config item index range loop self true false none True False None "
    "and or not in is if else elif for set".split()
)

Scope = Literal["none", "session", "global"]
Event = Literal["completed", "failed", "cancelled"]
EVENTS: Final[tuple[Event, ...]] = ("completed", "failed", "cancelled")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Retry(_Part):
    """How often a step is tried again, and after how many seconds; only after failures that can pass."""

    count: Annotated[int, Field(ge=0, le=MAX_RETRIES)]
    delay: Annotated[float, Field(ge=0, le=MAX_DELAY_S)] = 1.0


class StepPart(_Part):
    """A step as it is written. `when`, `for_each`, `file` and `with` are templates, which are read later."""

    plugin: str | None = None
    primitive: str | None = None
    file: str | None = None
    with_: Annotated[dict[str, Any], Field(alias="with")] = {}
    as_: Annotated[str | None, Field(alias="as", pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$")] = None
    when: Any = None
    for_each: Any = None
    retry: Retry | None = None

    @model_validator(mode="after")
    def _does_one_thing(self) -> "StepPart":
        if sum(what is not None for what in (self.plugin, self.primitive, self.file)) != 1:
            raise ValueError("a step has exactly one of plugin, primitive and file")
        return self


class Job(_Part):
    """The seed's block: defaults of a run of the recipe."""

    enabled: bool = True
    timeout_sec: Annotated[float | None, Field(gt=0, le=MAX_TIMEOUT_S)] = None
    webhook_url: Annotated[str | None, Field(pattern="^https?://")] = None
    idempotency_scope: Scope | None = None
    events: tuple[Event, ...] = EVENTS


class Runtime(_Part):
    job: Job = Job()


class RecipePart(_Part):
    """A recipe as it is written."""

    name: str
    description: str = ""
    input: dict[str, Any] = {}
    config: dict[str, Any] = {}
    page: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] = None
    steps: Annotated[list[StepPart], Field(min_length=1, max_length=MAX_STEPS)]
    output: Any = None
    runtime: Runtime = Runtime()


class FileOptions(_Part):
    """What a `file:` step takes under `with`, and the file's name."""

    name: Annotated[str, Field(min_length=1)]
    text: str = ""
    json_: Annotated[Any, Field(alias="json")] = None
    csv: list[Any] = []
    columns: list[str] | None = None
    spreadsheet: bool = False
    content_type: Annotated[str | None, Field(pattern=r"^[\w.+-]+/[\w.+-]+(?:; ?[\w-]+=[\w.-]+)?$")] = None

    @model_validator(mode="after")
    def _has_one_content(self) -> "FileOptions":
        if len(self.model_fields_set & {"text", "json_", "csv"}) != 1:
            raise ValueError("give exactly one of text, json and csv")
        if "csv" not in self.model_fields_set and (self.model_fields_set & {"columns", "spreadsheet"}):
            raise ValueError("columns and spreadsheet belong to csv")
        return self


class Kind(Enum):
    PLUGIN = "plugin"
    PRIMITIVE = "primitive"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step, ready to be run.

    Attributes:
        number: from 1.
        what: the plugin's or primitive's name; of a file "file".
        name: of its result, its `as`; None: nobody needs it.
        arguments: a tree of values and templates; of a file with its `name`.
        when: None: always.
        each_time: `when` depends on the item.
        for_each: a tree that gives a list; None: it is run once.
    """

    number: int
    kind: Kind
    what: str
    name: str | None
    arguments: Mapping[str, Any]
    when: Any = None
    each_time: bool = False
    for_each: Any = None
    retry: Retry = field(default_factory=lambda: Retry(count=0))

    @property
    def label(self) -> str:
        """How people know it: its name, else what it does."""
        return self.name or self.what


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A recipe, ready to be planned.

    Attributes:
        file: its path, as it was found.
        input: a JSON Schema of an object.
        config: defaults of the template's `config`.
        page: the page that it works; None: any that is idle.
        output: a tree; None: the results of all steps that have a name.
    """

    name: str
    file: str
    description: str
    input: Mapping[str, Any]
    config: Mapping[str, Any]
    page: str | None
    steps: tuple[Step, ...]
    output: Any
    job: Job
