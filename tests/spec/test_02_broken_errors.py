"""Contract, section 2: "any other exception gives `500`", however broken it is; no plugin ends the worker."""

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
import trio

from penelope import Call, PluginError, errors, plugin
from penelope.registry import Registry, read_plugin
from tests.spec.plugins import REGISTRY
from tests.spec.world import Life


class _Unreadable(Exception):
    """Breaks whoever looks at it."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def _with(error: PluginError, **attributes: Any) -> PluginError:
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


BROKEN: dict[str, Callable[[], Exception]] = {
    "an exception as message": lambda: PluginError(ValueError("private"), status=409),
    "status not whole": lambda: PluginError("x", status=404.5),  # type: ignore[arg-type]
    "status as text": lambda: PluginError("x", status="404"),  # type: ignore[arg-type]
    "status set later": lambda: _with(PluginError("x"), status=999),
    "message set later": lambda: _with(PluginError("x"), message=object()),
    "message unreadable": lambda: _with(PluginError("x"), message=_Unreadable()),
    "unreadable": _Unreadable,
    "one of the worker's own, without text": lambda: errors.Conflict(object()),  # type: ignore[arg-type]
    "a start error": lambda: errors.StartError("x"),
}


@plugin("test/broken")
async def broken(call: Call, how: str) -> None:
    """Raise something that is hard to read."""
    error = BROKEN[how]()
    raise error


@pytest.fixture
def breaking(life: Life) -> Life:
    life.worker.registry = Registry({**REGISTRY, "test/broken": read_plugin(broken)})
    return life


@pytest.mark.parametrize("how", BROKEN)
async def test_whatever_a_plugin_raises_is_an_outcome_and_the_worker_goes_on(
    breaking: Life, how: str
) -> None:
    """Plain and as a job the same, in the envelope."""
    plain = await breaking.call("broken", how=how)
    assert plain.status_code in {409, 500}
    assert plain.json()["success"] is False
    assert isinstance(plain.json()["error"], str)

    job = await breaking.start("broken", ttl=60, how=how)
    await trio.sleep(0.1)
    shown = await breaking.shown(job)
    assert "done" == shown["state"]
    assert plain.status_code == shown["status"]
    assert shown["result"].keys() == plain.json().keys()

    assert 200 == (await breaking.call("echo")).status_code


async def test_an_exception_given_as_the_message_is_its_text(breaking: Life) -> None:
    """`PluginError("…", status=409)` gives the error envelope with that status."""
    answer = await breaking.call("broken", how="an exception as message")
    assert 409 == answer.status_code
    assert "private" == answer.json()["error"]


async def test_a_result_that_the_store_can_never_take_is_a_500(life: Life) -> None:
    """A job whose end cannot be written still ends, and no other job with it."""
    life.database._writer.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100_000)
    job_id = await life.start("result", ttl=60, what="big")
    await trio.sleep(0.1)
    shown = await life.shown(job_id)
    assert ("done", 500) == (shown["state"], shown["status"])
    assert "could not be stored" in shown["result"]["error"]
    assert 200 == (await life.call("echo")).status_code


async def test_a_page_that_cannot_be_healed_costs_nobody_anything(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failing heal is logged; the call has its outcome."""

    async def heal() -> None:
        raise RuntimeError("said the driver")

    monkeypatch.setattr(life.tab, "heal", heal)
    assert 500 == (await life.call("fail", how="bug")).status_code
    assert 200 == (await life.call("echo")).status_code


async def test_cookies_that_cannot_be_read_cost_nobody_anything(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cookies() -> str:
        raise RuntimeError("said the driver")

    monkeypatch.setattr(life.driver, "cookies", cookies)
    assert 200 == (await life.call("echo")).status_code
