"""How each server is asked to open a page and to evaluate an expression, for the load client; no sockets here.

A dialect is made for one caller, who has a page of its own. What it asks is a generator, see `bench.wire`, that returns
the page's title or the value, and raises `Refused` when the answer is an error.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from bench.wire import Asked, request

_TITLE: Final = re.compile(r"^- Page Title: (.*)$", re.MULTILINE)
_RESULT: Final = re.compile(r"^### Result\n(.*)$", re.MULTILINE)


class Refused(Exception):
    """Not what was asked for; the message has the status and the answer's beginning."""


class Dialect(Protocol):
    """One caller's way of asking."""

    def open(self, url: str) -> Asked: ...

    def evaluate(self, expression: str) -> Asked: ...


@dataclass(frozen=True, slots=True)
class Penelope:
    """`at` is the page's id."""

    port: int
    key: str
    at: str

    def open(self, url: str) -> Asked:
        path = f"/api/v1/{self.at}/plugin/web/open"
        return _posted(self.port, self.key, path, {"url": url}, lambda said: said["title"])

    def evaluate(self, expression: str) -> Asked:
        path = f"/api/v1/{self.at}/evaluate"
        return _posted(self.port, self.key, path, {"expression": expression}, lambda said: said["result"])


@dataclass(frozen=True, slots=True)
class WebDriver:
    """`at` is the session's id: each caller has one, which is a browser."""

    port: int
    key: str
    at: str

    def open(self, url: str) -> Asked:
        """Two requests: the first answers nothing."""
        yield from _posted(self.port, "", f"/session/{self.at}/url", {"url": url}, str)
        status, body = yield request(self.port, "", {"method": "GET", "path": f"/session/{self.at}/title"})
        return _checked(status, body, lambda said: said["value"])

    def evaluate(self, expression: str) -> Asked:
        script = {"script": f"return {expression}", "args": []}
        path = f"/session/{self.at}/execute/sync"
        return _posted(self.port, "", path, script, lambda said: said["value"])


@dataclass(frozen=True, slots=True)
class Mcp:
    """`at` is the MCP session's id; answers are one event of a stream."""

    port: int
    key: str
    at: str

    def open(self, url: str) -> Asked:
        """The answer tells the title where it is not as it was; else it is asked for."""
        said = yield from self._tool("browser_navigate", {"url": url})
        found = _TITLE.search(said)
        if found is not None:
            return found[1]
        return (yield from self.evaluate("document.title"))

    def evaluate(self, expression: str) -> Asked:
        said = yield from self._tool("browser_evaluate", {"function": f"() => {expression}"})
        found = _RESULT.search(said)
        if found is None:
            raise Refused(f"no result: {said[:300]!r}")
        return str(json.loads(found[1]))

    def _tool(self, name: str, arguments: dict[str, str]) -> Asked:
        """The text of its answer."""
        params = {"name": name, "arguments": arguments}
        order = {
            "method": "POST",
            "path": "/mcp",
            "json": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
            "headers": {"Accept": "application/json, text/event-stream", "Mcp-Session-Id": self.at},
        }
        status, body = yield request(self.port, "", order)
        _, _, data = body.partition(b"data: ")
        return _checked(status, data, lambda said: said["result"]["content"][0]["text"])


@dataclass(frozen=True, slots=True)
class Browserless:
    """`at` is the name of the caller's context."""

    port: int
    key: str
    at: str

    def open(self, url: str) -> Asked:
        body = {"context": self.at, "url": url}
        return _posted(self.port, "", "/title", body, lambda said: said["result"])

    def evaluate(self, expression: str) -> Asked:
        body = {"context": self.at, "expression": expression}
        return _posted(self.port, "", "/evaluate", body, lambda said: said["result"])


DIALECTS: Final[dict[str, Callable[[int, str, str], Dialect]]] = {
    "penelope": Penelope,
    "webdriver": WebDriver,
    "mcp": Mcp,
    "browserless": Browserless,
}


def _posted(port: int, key: str, path: str, body: dict[str, Any], found: Callable[[Any], Any]) -> Asked:
    status, answer = yield request(port, key, {"method": "POST", "path": path, "json": body})
    return _checked(status, answer, found)


def _checked(status: int, body: bytes, found: Callable[[Any], Any]) -> str:
    """What `found` takes out of the JSON of an answer."""
    if 200 <= status < 300:
        try:
            return str(found(json.loads(body)))
        except (ValueError, KeyError, TypeError, IndexError):
            pass
    raise Refused(f"{status}: {body[:300]!r}")
