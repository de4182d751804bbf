"""What the routes read of a request, each with its own refusal.

Source: contract, section 1 ("A malformed body … is 422").
"""

import json
import re
from typing import Any

from quart import g, request

from penelope import jsontext
from penelope.errors import MalformedBody
from penelope.http import auth

_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


async def json_object() -> dict[str, Any]:
    """The body as a JSON object; an empty body is `{}`.

    Raises:
        MalformedBody: it is not JSON, not UTF-8, or no object.
    """
    body = await request.get_data(cache=False, as_text=False)
    assert isinstance(body, bytes)
    if not body.strip():
        return {}
    try:
        value = jsontext.loads(body)
    except ValueError as exc:
        raise MalformedBody(f"the body is not JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise MalformedBody("the body is not a JSON object")
    if _ESCAPED_SURROGATE.search(body) and not _is_text(value):
        raise MalformedBody("the body has half a surrogate pair, which is no text")
    return value


def _is_text(value: object) -> bool:
    """Can every string in it be written in UTF-8? Neither the browser nor the store takes one that cannot."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def query() -> dict[str, list[str]]:
    """The query string's values by name, repeated ones in order."""
    return request.args.to_dict(flat=False)


def lease_token() -> str | None:
    return auth.checked_lease(request.headers.getlist("X-Lease"))


def request_id() -> str:
    return str(g.handled.request_id)
