"""What the routes read of a request, each with its own refusal: of the request's own plain values, or of the framework.

Source: contract, section 1 ("A malformed body … is 422").
"""

import json
import re
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, unquote_to_bytes

from pydantic import BaseModel
from quart import g, request

from penelope import jsontext
from penelope.errors import BadParameter, MalformedBody
from penelope.http import auth
from penelope.http.asked import Asked
from penelope.registry import checked

_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_Model = TypeVar("_Model", bound=BaseModel)


def asked() -> Asked:
    """The request as plain values."""
    found: Asked = g.asked
    return found


async def body() -> bytes:
    """The request's body; the framework bounds its size, and the time that it may take."""
    data = await request.get_data(cache=False, as_text=False)
    assert isinstance(data, bytes)
    return data


async def json_object() -> dict[str, Any]:
    """The request's body as a JSON object: see `object_of`."""
    return object_of(await body())


def object_of(body: bytes) -> dict[str, Any]:
    """A body as a JSON object; an empty body is `{}`.

    Raises:
        MalformedBody: it is not JSON, not UTF-8, or no object.
    """
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


def query_in(raw: bytes) -> dict[str, list[str]]:
    """A query string's values by name, repeated ones in order.

    Raises:
        BadParameter: one is not UTF-8, which would be read as something else.
    """
    if not raw:
        return {}
    for pair in raw.split(b"&"):
        try:
            unquote_to_bytes(pair).decode()
        except UnicodeDecodeError:
            name = unquote(pair.partition(b"=")[0].decode("ascii", "replace"))
            raise BadParameter(f"parameter {name[:100]!a} is not UTF-8") from None
    given: dict[str, list[str]] = {}
    for name, value in parse_qsl(raw.decode(), keep_blank_values=True):
        given.setdefault(name, []).append(value)
    return given


def checked_query(model: type[_Model]) -> _Model:
    """The query string as a model, each parameter once.

    Raises:
        BadParameter: a value is bad, missing, unknown or given twice; the message names it.
    """
    given = query_in(asked().query)
    for name, values in given.items():
        if len(values) > 1:
            raise BadParameter(f"parameter {name} is given more than once")
    return checked(model, {name: values[0] for name, values in given.items()})


def lease_token() -> str | None:
    return lease_in(asked())


def lease_in(asked: Asked) -> str | None:
    """The token of a request's `X-Lease`; None: it has none.

    Raises:
        BadHeader: see `auth.checked_lease`.
    """
    return auth.checked_lease(asked.all("x-lease"))


def request_id() -> str:
    return str(g.handled.request_id)
