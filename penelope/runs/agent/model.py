"""What an agent is, how its YAML looks, and its bounds.

Source: contract, section 10 ("`instructions`, `tools`, `model`, `max_steps`"); docs/agent.md.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from penelope.errors import PenelopeError

MAX_STEPS: Final = 200
DEFAULT_STEPS: Final = 25
MAX_TOTAL_TOKENS: Final = 20_000_000
DEFAULT_TOTAL_TOKENS: Final = 500_000
MAX_PROMPT_CHARS: Final = 100_000
MAX_INSTRUCTIONS_CHARS: Final = 50_000
MAX_TOOLS: Final = 128  # what public endpoints take
MAX_CALLS: Final = 16  # of one answer
MAX_USELESS: Final = 5  # answers in a row of which nothing could be done

# What an agent may do that was given no list: read pages and use them as a visitor does. Neither scripts nor what the
# browser keeps (cookies, storage), neither uploads nor downloads: those have to be given.
DEFAULT_TOOLS: Final = (
    "web/open",
    "web/read",
    "web/collect",
    "web/screenshot",
    "back",
    "click",
    "fill",
    "press",
    "select",
    "check",
    "scroll",
)


class AgentFailed(PenelopeError):
    """The model's endpoint gave no answer that can be used; the message is what the run's client reads."""

    status = 502


class AgentPart(BaseModel):
    """An agent as it is written."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] = None
    description: str = ""
    instructions: Annotated[str, Field(max_length=MAX_INSTRUCTIONS_CHARS)] = ""
    tools: Annotated[list[str] | None, Field(max_length=MAX_TOOLS)] = None
    model: Annotated[str | None, Field(min_length=1, max_length=200)] = None
    page: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] = None
    max_steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] = DEFAULT_STEPS
    max_tokens: Annotated[int | None, Field(ge=1, le=MAX_TOTAL_TOKENS)] = None
    max_total_tokens: Annotated[int, Field(ge=1, le=MAX_TOTAL_TOKENS)] = DEFAULT_TOTAL_TOKENS
    stream: bool = False


# What a request's `config` may say over an agent's own: nothing of what it may do.
OF_CONFIG: Final = frozenset({"model", "page", "max_steps", "max_tokens", "max_total_tokens", "stream"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """What a model may call.

    Attributes:
        name: the plugin's or primitive's.
        wire: the same as the wire format allows it.
        parameters: a JSON Schema.
    """

    name: str
    wire: str
    is_plugin: bool
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent that can work: everything is chosen, and nothing of it changes while it does.

    Attributes:
        page: None: any that is idle.
        max_tokens: of one answer; None: the endpoint's own.
        max_total_tokens: of a run, questions and answers.
    """

    name: str
    instructions: str
    tools: tuple[Tool, ...]
    model: str
    page: str | None
    max_steps: int
    max_tokens: int | None
    max_total_tokens: int
    stream: bool


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where models are asked.

    Attributes:
        url: the base, e.g. `https://models.example/v1`.
        model: for agents that name none; None: they must.
        key: sent as a bearer token; None: it needs none.
    """

    url: str
    model: str | None = None
    key: SecretStr | None = None

    @property
    def address(self) -> str:
        """The URL that is POSTed to."""
        base = self.url.rstrip("/")
        return base if base.endswith("/chat/completions") else f"{base}/chat/completions"
