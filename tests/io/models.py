"""A scripted model behind a real socket: it speaks the wire format, in one piece or streamed, as it is asked to.

What it says is a list of answers, each a receiver's behaviour; the last one is said again and again.
"""

import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import trio

from tests.io.receivers import Behaviour, Received, Receiver, Stream, serve_receiver

PIECE = 7  # characters of a streamed text or of arguments
Calls = tuple[tuple[str, Any], ...]


@dataclass(eq=False)
class Model:
    """Attributes:
    receiver: what it was asked.
    """

    receiver: Receiver

    @property
    def url(self) -> str:
        return f"{self.receiver.scheme}://127.0.0.1:{self.receiver.port}/v1"

    @property
    def questions(self) -> list[dict[str, Any]]:
        return [received.job for received in self.receiver.received]

    @property
    def told(self) -> list[str]:
        """What the tools' messages of the last question say."""
        return [message["content"] for message in self.questions[-1]["messages"] if message["role"] == "tool"]


async def serve_model(
    answers: list[Behaviour],
    tls: ssl.SSLContext | None = None,
    *,
    task_status: "trio.TaskStatus[Model]" = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer until cancelled; started with the `Model`."""
    left = list(answers)

    async def behave(stream: Stream, received: Received) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(stream, received)

    async with trio.open_nursery() as nursery:
        receiver: Receiver = await nursery.start(serve_receiver, behave, tls)
        task_status.started(Model(receiver))


def says(
    text: str | None, *calls: tuple[str, Any], finish: str | None = None, usage: Any = None
) -> Behaviour:
    """An answer of text, of calls (a name, and arguments: an object, or a text as it is), or of both."""

    async def answer(stream: Stream, received: Received) -> None:
        ended = finish or ("tool_calls" if calls else "stop")
        counted = (
            {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15} if usage is None else usage
        )
        if received.job.get("stream"):
            await _send_stream(stream, _pieces(text, calls, ended, counted))
        else:
            await _send(stream, 200, _whole(text, calls, ended, counted))

    return answer


def refuses(status: int, message: str = "", *headers: str) -> Behaviour:
    """An error, as endpoints put it."""

    async def answer(stream: Stream, _: Received) -> None:
        await _send(stream, status, {"error": {"message": message, "type": "x", "code": None}}, *headers)

    return answer


def raw(status: int, body: bytes, *headers: str) -> Behaviour:
    async def answer(stream: Stream, _: Received) -> None:
        await _send_bytes(stream, status, body, *headers)

    return answer


def looks(make: Callable[[Received], Behaviour]) -> Behaviour:
    """An answer that is made of the question."""

    async def answer(stream: Stream, received: Received) -> None:
        await make(received)(stream, received)

    return answer


def _arguments(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given)


def _whole(text: str | None, calls: Calls, finish: str, usage: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call{at}",
                "type": "function",
                "function": {"name": name, "arguments": _arguments(given)},
            }
            for at, (name, given) in enumerate(calls)
        ]
    return {
        "id": "x",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": usage,
    }


def _pieces(text: str | None, calls: Calls, finish: str, usage: Any) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": part} for part in _cut(text or "")]
    for at, (name, given) in enumerate(calls):
        head = {
            "index": at,
            "id": f"call{at}",
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        deltas.append({"tool_calls": [head]})
        deltas += [
            {"tool_calls": [{"index": at, "function": {"arguments": part}}]}
            for part in _cut(_arguments(given))
        ]
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return [*chunks, {"choices": [], "usage": usage}]


def _cut(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


async def _send(stream: Stream, status: int, value: Any, *headers: str) -> None:
    await _send_bytes(stream, status, json.dumps(value).encode(), "Content-Type: application/json", *headers)


async def _send_bytes(stream: Stream, status: int, body: bytes, *headers: str) -> None:
    lines = (f"HTTP/1.1 {status} Word", f"Content-Length: {len(body)}", "Connection: close", *headers, "", "")
    await stream.send_all("\r\n".join(lines).encode() + body)


async def _send_stream(stream: Stream, chunks: list[dict[str, Any]]) -> None:
    """As events; the connection stays open after the last, as some leave it."""
    await stream.send_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n: hello\n\n"
    )
    for chunk in chunks:
        await stream.send_all(f"data: {json.dumps(chunk)}\n\n".encode())
    await stream.send_all(b"data: [DONE]\n\n")
    await trio.sleep_forever()


Start = Callable[..., Awaitable[Model]]
