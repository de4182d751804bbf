"""What a client submits, and the plan that is made of it.

Source: contract, section 10 (`POST /api/v1/runs`); the owner's documents on runs.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Protocol

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from penelope.errors import BadOptions, RunRefused
from penelope.jobs import options
from penelope.runs.model import MAX_TIMEOUT_S
from penelope.runs.port import Work

MAX_KEY_CHARS: Final = 255
MAX_SESSION_CHARS: Final = 255
MAX_DEPTH: Final = 100  # of a configuration: what reads and writes it again calls itself for each level
NO_AGENT: Final = (
    "prompt: there is no agent here to do it: set PENELOPE_AGENT_URL and PENELOPE_AGENT_MODEL "
    "(and PENELOPE_AGENT_KEY, if the endpoint wants one), or name a recipe in recipe_name"
)
SCOPES: Final = ("none", "session", "global")
EVENTS: Final = ("completed", "failed", "cancelled")
_PRINTABLE: Final = re.compile(r"[^\x00-\x1f\x7f]+")


def _whole(value: Any) -> Any:
    """A number of seconds may come as text; `true` is none."""
    if isinstance(value, bool):
        raise ValueError("must be a whole number of seconds")
    return value


def _shallow(value: Any) -> Any:
    """Raises:
    ValueError: it is nested too deeply.
    """
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inside for part in level for inside in _inside(part) if isinstance(inside, dict | list)]
        if not level:
            return value
    raise ValueError(f"is nested more than {MAX_DEPTH} deep")


def _inside(part: Any) -> Iterable[Any]:
    return part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()


Configuration = Annotated[dict[str, Any], BeforeValidator(_shallow)]


class Submission(BaseModel):
    """The body of a submit. What it has besides is ignored: the public client's next version may send more."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    prompt: str
    recipe_name: str | None = None
    recipe_config: Configuration | None = None
    config: Configuration | None = None
    agent_yaml: str | None = None
    agent_file: str | None = None
    framework: str | None = None
    webhook_url: str | None = None
    timeout: Annotated[int, BeforeValidator(_whole), Field(ge=0, le=int(MAX_TIMEOUT_S))] | None = None
    session_id: Annotated[str, Field(max_length=MAX_SESSION_CHARS)] | None = None
    idempotency_key: str | None = None
    idempotency_scope: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What a submission comes to, where its recipe has a say.

    Attributes:
        timeout_s, webhook, scope: of the recipe, where the submission names none.
        events: of which ends the webhook is told; None: of all.
    """

    work: Work
    timeout_s: float | None = None
    webhook: str | None = None
    scope: str | None = None
    events: tuple[str, ...] | None = None


class Planner(Protocol):
    """Makes the work of a submission."""

    def __call__(self, submission: Submission) -> Planned:
        """
        Raises:
            PenelopeError: there is nothing that could run it; the message says what is wrong.
        """
        ...


def read(body: Any) -> Submission:
    """The body of a submit, read from JSON.

    Raises:
        RunRefused: a value is bad or missing; the message names it.
    """
    if not isinstance(body, dict):
        raise RunRefused("the body is not a JSON object")
    try:
        return Submission.model_validate(body)
    except ValidationError as error:
        raise RunRefused("; ".join(_said(error))) from error


def _said(error: ValidationError) -> Iterator[str]:
    for fault in error.errors(include_input=False, include_url=False, include_context=False)[:5]:
        where = ".".join(str(part) for part in fault["loc"])[:100]
        yield f"{where}: {fault['msg'].removeprefix('Value error, ')}"


def key_of(submission: Submission, headers: Sequence[str], scope: str | None) -> tuple[str, str] | None:
    """The key of a repeatable submit, and its scope; None: it has none. The header wins over the body's field.

    Args:
        headers: the values of all `Idempotency-Key` headers.
        scope: the recipe's, where the submission names none.

    Raises:
        RunRefused: the key or the scope is none that is known.
    """
    if len(headers) > 1:
        raise RunRefused("Idempotency-Key is given more than once")
    scope = submission.idempotency_scope or scope or "none"
    if scope not in SCOPES:
        raise RunRefused(f"idempotency_scope: {scope[:50]!r} is none of {', '.join(SCOPES)}")
    key = (headers[0] if headers else "") or submission.idempotency_key or ""
    if not key:
        return None
    if len(key) > MAX_KEY_CHARS or not _PRINTABLE.fullmatch(key):
        raise RunRefused(f"idempotency_key: 1 to {MAX_KEY_CHARS} characters are taken, no control characters")
    if scope == "session" and not submission.session_id:
        raise RunRefused("idempotency_scope: session needs a session_id")
    return key, scope


def webhook_of(submission: Submission, planned: Planned) -> str | None:
    """Where the end is POSTed; None: nowhere.

    Raises:
        RunRefused: not an address that can be called.
    """
    url = submission.webhook_url or planned.webhook
    if not url:
        return None
    try:
        return options.checked_url(url, "webhook_url")
    except BadOptions as error:
        raise RunRefused(error.message) from error


def timeout_of(submission: Submission, planned: Planned, most_s: float) -> float:
    """Seconds that the work may take: what the submission says, else its recipe, else the worker; never more than the
    worker allows.
    """
    wanted = submission.timeout or planned.timeout_s or most_s
    return min(float(wanted), most_s)
