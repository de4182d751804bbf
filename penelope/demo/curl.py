"""One request, both as the `curl` line that a newcomer would type and as what is really sent.

The line is in terms of three variables of the shell, which `preamble` sets.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to the worker.

    Attributes:
        path: below `$BASE`, e.g. `/main`; one that begins with `/api/` is below the worker's address itself.
        with_key: False for what needs no key.
        body: sent as JSON, by POST; None for a GET.
        save_as: the file that curl would write to.
    """

    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    with_key: bool = True
    save_as: str | None = None

    @property
    def method(self) -> str:
        return "GET" if self.body is None else "POST"

    def url(self, origin: str) -> str:
        return origin + (self.path if self.path.startswith("/api/") else "/api/v1" + self.path)

    def sent_headers(self, key: str) -> dict[str, str]:
        auth = {"Authorization": f"Bearer {key}"} if self.with_key else {}
        kind = {} if self.body is None else {"Content-Type": "application/json"}
        return {**auth, **self.headers, **kind}

    def content(self) -> bytes | None:
        return None if self.body is None else json.dumps(self.body).encode()

    def line(self) -> str:
        """To paste into a shell after `preamble`; several lines when it has much to say."""
        base = "$ORIGIN" if self.path.startswith("/api/") else "$BASE"
        start = "curl -s" + (f" -o {shlex.quote(self.save_as)}" if self.save_as else "")
        parts = [f'{start} "{base}{self.path}"' + (' -H "$AUTH"' if self.with_key else "")]
        parts += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in self.headers.items()]
        if (content := self.content()) is not None:
            parts.append(f"-H 'Content-Type: application/json' -d {shlex.quote(content.decode())}")
        return " \\\n    ".join(parts)


def preamble(origin: str, key: str) -> str:
    """The shell's variables that the lines use. `origin` is the worker's address, e.g. `http://127.0.0.1:5000`."""
    return "\n".join(
        (
            f"export PENELOPE_KEY={shlex.quote(key)}",
            f"ORIGIN={shlex.quote(origin)} BASE={shlex.quote(origin + '/api/v1')}",
            'AUTH="Authorization: Bearer $PENELOPE_KEY"',
        )
    )
