"""An answer that came in pieces, as server-sent events, put together; pure.

Source: the wire format's streaming: `data: {…chunk…}`, ended by `data: [DONE]`.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Final

from penelope.client.sse import Reader
from penelope.runs.agent import wire
from penelope.runs.agent.wire import BadAnswer, Said, ToolCall, Usage

DONE: Final = "[DONE]"
_DONE_LINE: Final = re.compile(rb"^data: ?\[DONE\]", re.MULTILINE)
_LOOK_BACK: Final = 16


def is_done(data: bytes | bytearray, piece: int) -> bool:
    """Whether the end is among what came, of which the last `piece` bytes are new."""
    return _DONE_LINE.search(data, max(0, len(data) - piece - _LOOK_BACK)) is not None


def read(data: bytes) -> Said:
    """An answer of all its pieces.

    Raises:
        BadAnswer: it is none, or broke off.
    """
    whole = _Whole()
    for message in Reader().feed(data + b"\n\n"):
        if message.data.strip() == DONE:
            whole.ended = True
            break
        if message.data.strip():
            whole.add(wire.loaded(message.data))
    if not whole.seen:
        raise BadAnswer("its stream has no pieces")
    if not whole.ended and whole.finish is None:
        raise BadAnswer("its stream broke off")
    return whole.said()


@dataclass(slots=True)
class _Call:
    """A call on its way."""

    key: Any
    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Whole:
    text: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    finish: str | None = None
    usage: Usage | None = None
    seen: bool = False
    ended: bool = False

    def add(self, chunk: dict[str, Any]) -> None:
        self.seen = True
        self.usage = wire.usage(chunk.get("usage")) or self.usage
        choice = wire.first(chunk.get("choices"))
        self.finish = wire.word(choice.get("finish_reason")) or self.finish
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            return
        self.text.append(wire.text(delta.get("content")))
        self.refusal.append(wire.text(delta.get("refusal")))
        calls = delta.get("tool_calls") or []
        if not isinstance(calls, list):
            raise BadAnswer("its tool_calls are no list")
        for part in calls:
            self._add_call(part)

    def _add_call(self, part: Any) -> None:
        if not isinstance(part, dict):
            raise BadAnswer("one of its tool_calls is no object")
        call = self._call(part)
        function = part.get("function")
        if not isinstance(function, dict):
            return
        name = function.get("name")
        if isinstance(name, str) and not call.name:  # some say it again in each piece
            call.name = name[: wire.NAME_CHARS]
        call.arguments.append(wire.arguments(function.get("arguments")))

    def _call(self, part: dict[str, Any]) -> _Call:
        """The call that a piece belongs to: by its index, else by its id; without both, the last one."""
        call_id = part.get("id") if isinstance(part.get("id"), str) else ""
        key = part.get("index", call_id or None)
        found = next((call for call in self.calls if call.key == key), None)
        if key is None and self.calls:
            found = self.calls[-1]
        if found is None:
            if len(self.calls) >= wire.MAX_READ_CALLS:
                raise BadAnswer(f"it has more than {wire.MAX_READ_CALLS} tool_calls")
            found = _Call(key)
            self.calls.append(found)
        found.call_id = found.call_id or str(call_id)
        return found

    def said(self) -> Said:
        return Said(
            text="".join(self.text),
            calls=tuple(ToolCall(one.call_id, one.name, "".join(one.arguments)) for one in self.calls),
            refusal="".join(self.refusal) or None,
            finish=self.finish,
            usage=self.usage,
        )
