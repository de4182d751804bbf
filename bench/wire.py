"""HTTP/1.1 as the load client speaks it: requests as bytes, answers as they come in; standard library only."""

import json
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

Request = bytes
Answer = tuple[int, bytes]
# It yields requests, and is sent the answer's status and body; or seconds to rest.
Script = Generator[Request | float, Answer, None]
# The same, for one thing that is asked of a server; it returns what the server said in the end.
Asked = Generator[Request | float, Answer, str]
_END = b"\r\n\r\n"


def request(port: int, key: str, order: dict[str, Any]) -> Request:
    """One request; `order` has `method`, `path`, and maybe `json` and `headers`; `key` "" is none."""
    body = json.dumps(order["json"]).encode() if "json" in order else b""
    headers = {"Host": f"127.0.0.1:{port}"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    headers |= order.get("headers", {})
    if "json" in order:
        headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    lines = [f"{order['method']} {order['path']} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass(slots=True)
class Incoming:
    """Answers out of what a connection received; `closing`: the last whole one said it is the connection's last."""

    buffer: bytearray = field(default_factory=bytearray)
    closing: bool = False

    def feed(self, received: bytes) -> Answer | None:
        """The next answer, once it is whole: its status, and its body."""
        self.buffer += received
        end = self.buffer.find(_END)
        if end < 0:
            return None
        head = bytes(self.buffer[: end + 2]).lower()
        if b"\r\ntransfer-encoding: chunked\r\n" in head:
            found = self._chunks(end + len(_END))
        else:
            found = self._counted(end + len(_END), head)
        if found is None:
            return None
        body, after = found
        del self.buffer[:after]
        self.closing = b"\r\nconnection: close\r\n" in head
        return int(head[9:12]), body

    def _counted(self, begin: int, head: bytes) -> tuple[bytes, int] | None:
        """The body, and where it ends; without a length there is none."""
        _, name, rest = head.partition(b"\r\ncontent-length:")
        length = int(rest.split(b"\r\n", 1)[0]) if name else 0
        if len(self.buffer) < begin + length:
            return None
        return bytes(self.buffer[begin : begin + length]), begin + length

    def _chunks(self, at: int) -> tuple[bytes, int] | None:
        """The same of a body in chunks; no trailers."""
        body = b""
        while (line := self.buffer.find(b"\r\n", at)) >= 0:
            length = int(self.buffer[at:line].split(b";")[0], 16)
            begin, end = line + 2, line + 2 + length
            if len(self.buffer) < end + 2:
                return None
            if length == 0:
                return body, end + 2
            body += self.buffer[begin:end]
            at = end + 2
        return None
