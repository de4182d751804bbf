"""The envelope."""

import inspect
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penelope import errors, outcome
from tests.core import values

FIELDS = st.dictionaries(
    values.TEXT.filter(lambda name: name not in {"success", "page_id"}), values.JSON, max_size=4
)
ERRORS = [
    kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.PenelopeError)
]


@given(FIELDS, st.none() | st.just("main"))
def test_success_comes_first(fields: dict[str, Any], page_id: str | None) -> None:
    """`{"success": true, "page_id": "main", ...}`, `page_id` where a page is meant."""
    seen = json.loads(outcome.success(page_id, fields).text)
    own = {"success": True} if page_id is None else {"success": True, "page_id": "main"}
    assert {**own, **fields} == seen
    assert list(own) == list(seen)[: len(own)]


@pytest.mark.parametrize("taken", ["success", "page_id"])
def test_a_result_cannot_write_over_the_envelope(taken: str) -> None:
    """A client must be able to trust the envelope."""
    with pytest.raises(ValueError, match=taken):
        outcome.success("main", {taken: False})


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_has_its_envelope(kind: type[errors.PenelopeError]) -> None:
    """Failures that are not the plugin's own word also carry `kind`; the message is shown as it is."""
    made = outcome.from_error(kind("a sentence \ud800 😀"), "main")
    seen = json.loads(made.text.encode())
    assert ["success", "error", "page_id"] == list(seen)[:3]
    assert (False, "a sentence \ufffd 😀", "main") == (seen["success"], seen["error"], seen["page_id"])
    assert kind.kind == seen.get("kind")
    assert kind.status == made.status
    assert 400 <= made.status <= 599
    assert not made.ok
