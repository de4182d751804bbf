"""Server-sent events, read from bytes as they come in; pure.

Source: the HTML standard, "Server-sent events", "Interpreting an event stream".
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_LINE_END: Final = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Message:
    """Attributes:
    event: its type; `message` where the stream named none.
    data: its lines, joined by line feeds.
    last_id: the last id that the stream has set up to here; "" before the first.
    """

    event: str
    data: str
    last_id: str


class Reader:
    """What a stream says, piece by piece; however it is cut, the messages are the same.

    Attributes:
        last_id: to ask the server to go on from there.
        retry_s: for how long the server asks to wait before that; None: it did not say.
    """

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id
        self.retry_s: float | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text: list[str] = []  # of a line whose end has not come
        self._at_start = True
        self._after_cr = False
        self._event = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> Iterator[Message]:
        """The messages that this piece completes. What follows the last empty line waits for more, or is lost with the
        stream, as the standard has it.
        """
        text = self._decoder.decode(piece)
        if not text:
            return
        if self._at_start:
            self._at_start = False
            text = text.removeprefix("\ufeff")
        if self._after_cr:  # the end of a line came in two pieces
            text = text.removeprefix("\n")
        self._after_cr = text.endswith("\r")
        begin = 0
        for end in _LINE_END.finditer(text):
            self._text.append(text[begin : end.start()])
            begin = end.end()
            line = "".join(self._text)
            self._text.clear()
            yield from self._line(line)
        if begin < len(text):
            self._text.append(text[begin:])

    def _line(self, line: str) -> Iterator[Message]:
        if not line:
            yield from self._dispatch()
            return
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
            case "id" if "\0" not in value:
                self.last_id = value
            case "retry" if value.isascii() and value.isdecimal():
                self.retry_s = int(value[:9]) / 1000
            case _:  # a comment has an empty name; unknown fields mean nothing
                pass

    def _dispatch(self) -> Iterator[Message]:
        event, data = self._event, self._data
        self._event, self._data = "", []
        if data:
            yield Message(event or "message", "\n".join(data), self.last_id)
