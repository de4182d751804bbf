"""When two starts ask for the same."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from penelope.jobs.model import Polling, Webhook
from penelope.jobs.options import JobOptions
from penelope.jobs.starts import Asked, asked
from tests.core import values

OPTIONS = JobOptions(way=Polling(60.0), limit_s=5.0, key="k")


class Colour(Enum):
    RED = "red"


class Inner(BaseModel):
    n: int
    secret: SecretStr


def made(
    options: JobOptions = OPTIONS, page_id: str = "main", plugin: str = "a/b", **arguments: Any
) -> Asked:
    what = asked(options, page_id, plugin, arguments)
    assert what is not None
    return what


@given(st.dictionaries(st.text("ab", min_size=1), values.JSON, max_size=4), st.randoms())
def test_the_order_of_parameters_is_nothing(arguments: dict[str, Any], dice: Any) -> None:
    """The same request is the same, however it was written down."""
    pairs = list(arguments.items())
    dice.shuffle(pairs)
    other = asked(OPTIONS, "main", "a/b", dict(pairs))
    assert other is not None
    assert other.is_of(made_of(arguments).start())


def made_of(arguments: dict[str, Any]) -> Asked:
    what = asked(OPTIONS, "main", "a/b", arguments)
    assert what is not None
    return what


ONE: dict[str, Any] = {
    "names": {"x", "y", "z"},
    "inner": Inner(n=1, secret=SecretStr("s")),
    "n": 1,
    "day": date(2027, 1, 2),
}


@pytest.mark.parametrize(
    "other",
    [
        made(page_id="second", **ONE),
        made(plugin="a/c", **ONE),
        made(replace(OPTIONS, way=Polling(61.0)), **ONE),
        made(replace(OPTIONS, way=Webhook("http://h/")), **ONE),
        made(replace(OPTIONS, limit_s=None), **ONE),
        made(**{**ONE, "n": 2}),
        made(**{**ONE, "n": "1"}),
        made(**{**ONE, "names": {"x", "y"}}),
        made(**{**ONE, "day": date(2027, 1, 3)}),
        made(**{**ONE, "inner": Inner(n=2, secret=SecretStr("s"))}),
        made(**{**ONE, "inner": Inner(n=1, secret=SecretStr("another"))}),
    ],
)
def test_anything_else_that_differs_is_another_request(other: Asked) -> None:
    """Page, plugin, parameters, way and limit are what was asked; same key, other request: `422`."""
    assert not other.is_of(made(**ONE).start())
    assert made(**ONE).is_of(made(**ONE).start())
    assert made().key == other.key


def test_every_kind_of_parameter_can_be_told() -> None:
    """Whatever a plugin's parameters may be."""
    kinds: dict[str, Any] = {
        "e": Colour.RED,
        "d": Decimal("1.10"),
        "b": b"\xff\x00",
        "t": (1, 2.5),
        "none": None,
        "nan": float("nan"),
    }
    assert made(**kinds).is_of(made(**kinds).start())
    assert not made(**kinds).is_of(made(**{**kinds, "b": b"\xff\x01"}).start())


def test_hashes_alone_are_kept() -> None:
    """Neither the key nor anything of the request is stored; two starts of the same do not look alike."""
    one, two = made(**ONE).start(), made(**ONE).start()
    assert one.key == two.key
    assert one.request != two.request
    assert (32, 16, 32) == (len(one.key), len(one.salt), len(one.request))


def test_a_start_without_a_key_is_a_new_one() -> None:
    """Without the header a job behaves exactly as before."""
    assert asked(replace(OPTIONS, key=None), "main", "a/b", {}) is None
