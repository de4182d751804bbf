"""How a call ended: the status and the very text that a plain call answers and a job keeps.

The text is made once, so "exactly what the plain call would have answered" (contract, section 5) holds by
construction.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penelope import jsontext
from penelope.errors import PenelopeError


@dataclass(frozen=True, slots=True)
class Outcome:
    """Attributes:
    status: the HTTP status.
    text: the whole envelope, a JSON object.
    """

    status: int
    text: str

    @property
    def ok(self) -> bool:
        return self.status < 400


def success(page_id: str | None, fields: Mapping[str, Any], status: int = 200) -> Outcome:
    """The success envelope.

    Args:
        page_id: None where no page is meant; it is then left out.
        fields: what follows `success` and `page_id`.

    Raises:
        ValueError: fields that are no JSON, or that would write over the envelope's own.
    """
    own = {"success": True} if page_id is None else {"success": True, "page_id": page_id}
    if taken := own.keys() & fields.keys():
        raise ValueError(f"the result has a field of the envelope's own: {', '.join(sorted(taken))}")
    return Outcome(status, jsontext.dumps({**own, **fields}))


def failure(
    status: int, error: str, *, page_id: str | None = None, kind: str | None = None, **more: Any
) -> Outcome:
    """The error envelope; `kind` says whose fault it was where it was not the plugin's own word."""
    body: dict[str, Any] = {"success": False, "error": error}
    if page_id is not None:
        body["page_id"] = page_id
    if kind is not None:
        body["kind"] = kind
    return Outcome(status, jsontext.dumps({**body, **more}))


def from_error(error: PenelopeError, page_id: str | None = None) -> Outcome:
    """One of Penelope's own errors as an envelope."""
    return failure(error.status, error.message, page_id=page_id, kind=error.kind)
