"""What the routes read of a request, each with its own refusal.

Source: contract, section 1 ("A malformed body … is 422").
"""

import json
import re
from typing import Any, TypeVar
from urllib.parse import unquote, unquote_to_bytes

from pydantic import BaseModel
from quart import g, request

from penelope import jsontext
from penelope.errors import BadParameter, MalformedBody
from penelope.http import auth
from penelope.registry import checked

_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_Model = TypeVar("_Model", bound=BaseModel)


async def json_object() -> dict[str, Any]:
    """The body as a JSON object; an empty body is `{}`.

    Raises:
        MalformedBody: it is not JSON, not UTF-8, or no object.
    """
    body = await request.get_data(cache=False, as_text=False)
    assert isinstance(body, bytes)
    return object_of(body)


def object_of(body: bytes) -> dict[str, Any]:
    """As `json_object`, of a body that is there."""
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
    """The query string's values by name, repeated ones in order.

    Raises:
        BadParameter: one is not UTF-8, which the framework would read as something else.
    """
    for pair in request.query_string.split(b"&"):
        try:
            unquote_to_bytes(pair).decode()
        except UnicodeDecodeError:
            name = unquote(pair.partition(b"=")[0].decode("ascii", "replace"))
            raise BadParameter(f"parameter {name[:100]!a} is not UTF-8") from None
    return request.args.to_dict(flat=False)


def checked_query(model: type[_Model]) -> _Model:
    """The query string as a model, each parameter once.

    Raises:
        BadParameter: a value is bad, missing, unknown or given twice; the message names it.
    """
    given = query()
    for name, values in given.items():
        if len(values) > 1:
            raise BadParameter(f"parameter {name} is given more than once")
    return checked(model, {name: values[0] for name, values in given.items()})


def lease_token() -> str | None:
    return auth.checked_lease(request.headers.getlist("X-Lease"))


def request_id() -> str:
    return str(g.handled.request_id)
