"""A question and an answer, as an OpenAI-compatible endpoint speaks them; pure.

Endpoints differ: what is missing or of another kind where it does not matter is taken as not there, and an answer that
says nothing at all is no answer.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from penelope import jsontext

MAX_READ_CALLS: Final = 64  # of one answer; more is a fault of the endpoint's
_MOST_TOKENS: Final = 10**9
NAME_CHARS: Final = 200


class BadAnswer(Exception):
    """What the endpoint sent is no chat completion; the message says why."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Attributes:
    call_id: "" where the endpoint gave none.
    name: as the model wrote it.
    arguments: JSON, if the model wrote any.
    """

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens."""

    prompt: int
    completion: int

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.prompt + other.prompt, self.completion + other.completion)

    @property
    def total(self) -> int:
        return self.prompt + self.completion


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One answer.

    Attributes:
        text: "" where it is none.
        refusal: why the model does not answer; None: it does.
        finish: why it ended, in the endpoint's words; None: it did not say.
        usage: None: the endpoint does not count.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    refusal: str | None = None
    finish: str | None = None
    usage: Usage | None = None


def question(
    *,
    model: str,
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]],
    may_call: bool,
    max_tokens: int | None,
    stream: bool,
) -> bytes:
    """The body of a question.

    Args:
        may_call: False: it shall answer now.
    """
    body: dict[str, Any] = {"model": model, "messages": messages}
    if tools:
        body |= {"tools": tools, "tool_choice": "auto" if may_call else "none"}
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return jsontext.dumps(body).encode()


def read(data: bytes) -> Said:
    """An answer in one piece.

    Raises:
        BadAnswer: it is none.
    """
    whole = loaded(data)
    choice = first(whole.get("choices"))
    message = choice.get("message")
    if not isinstance(message, dict):
        raise BadAnswer("it has no choices[0].message")
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list) or len(calls) > MAX_READ_CALLS:
        raise BadAnswer(f"its tool_calls are no list of at most {MAX_READ_CALLS}")
    return Said(
        text=text(message.get("content")),
        calls=tuple(_call(call) for call in calls),
        refusal=text(message.get("refusal")) or None,
        finish=word(choice.get("finish_reason")),
        usage=usage(whole.get("usage")),
    )


def loaded(data: bytes | str) -> dict[str, Any]:
    """A JSON object that is no error.

    Raises:
        BadAnswer: it is none.
    """
    try:
        value = jsontext.loads(data)
    except ValueError as exc:
        raise BadAnswer(f"it is no JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise BadAnswer("it is no JSON object")
    if value.get("error"):
        raise BadAnswer(f"it is an error: {complaint(value) or 'without words'}")
    return value


def complaint(value: Any) -> str:
    """The words of an error, as endpoints put them; "" where there are none."""
    if not isinstance(value, dict):
        return ""
    for part in (value.get("error"), value.get("message"), value.get("detail")):
        said = part.get("message") if isinstance(part, dict) else part
        if isinstance(said, str) and said.strip():
            return " ".join(said.split())[:300]
    return ""


def first(choices: Any) -> dict[str, Any]:
    """The first choice; {} where there is none."""
    choice = choices[0] if isinstance(choices, list) and choices else {}
    return choice if isinstance(choice, dict) else {}


def text(content: Any) -> str:
    """A message's content: a text, or a list of parts, of which the texts count."""
    match content:
        case str():
            return content
        case list():
            return "".join(
                part["text"]
                for part in content
                if isinstance(part, dict) and isinstance(part.get("text"), str)
            )
    return ""


def word(value: Any) -> str | None:
    return value[:50] if isinstance(value, str) and value else None


def usage(value: Any) -> Usage | None:
    """What an answer says of its tokens; None: nothing that can be counted."""
    if not isinstance(value, dict):
        return None
    prompt, completion = value.get("prompt_tokens"), value.get("completion_tokens", 0)
    if not _counts(prompt) or not _counts(completion):
        return None
    return Usage(prompt, completion)


def arguments(value: Any) -> str:
    """The wire format has a text of JSON; some send the object itself, or nothing."""
    match value:
        case str():
            return value
        case dict():
            return jsontext.dumps(value)
    return ""


def _call(value: Any) -> ToolCall:
    function = value.get("function") if isinstance(value, dict) else None
    if not isinstance(function, dict):
        raise BadAnswer("one of its tool_calls is no function")
    call_id, name = value.get("id"), function.get("name")
    return ToolCall(
        call_id if isinstance(call_id, str) else "",
        name[:NAME_CHARS] if isinstance(name, str) else "",
        arguments(function.get("arguments")),
    )


def _counts(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
