"""What keeps a start short."""

import importlib
import sys

import pytest

from penelope import startup


def test_without_a_module_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    with startup.without("this"), pytest.raises(ModuleNotFoundError):
        importlib.import_module("this")
    assert "this" not in sys.modules


def test_what_is_there_already_stays() -> None:
    there = sys.modules["pytest"]
    with startup.without("pytest"):
        assert there is importlib.import_module("pytest")
    assert there is sys.modules["pytest"]


def test_an_error_hides_nothing_for_good() -> None:
    with pytest.raises(ZeroDivisionError), startup.without("no_such_module"):
        raise ZeroDivisionError
    assert "no_such_module" not in sys.modules
