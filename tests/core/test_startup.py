"""What keeps a start short."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penelope import startup
from penelope.settings import Settings


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


@pytest.mark.parametrize(
    ("given", "variables", "file"),
    [
        ({}, {}, None),
        ({}, {"PENELOPE_STORE": "here"}, None),
        ({}, {"penelope_store": "/there"}, None),
        ({}, {}, "PENELOPE_STORE='in a file'\nPENELOPE_PORT=1\n"),
        ({}, {}, "export penelope_store=${HOME}/x # a remark\n"),
        ({}, {}, "PENELOPE_KEY=of-a-file-0123456789\n"),
        ({}, {"PENELOPE_STORE": "wins"}, "PENELOPE_STORE=loses\n"),
        ({"store": Path("given")}, {"PENELOPE_STORE": "loses"}, "PENELOPE_STORE=loses\n"),
        ({"port": 1}, {"PENELOPE_STORE": "here"}, None),
        ({}, {"PENELOPE_STORE": ""}, "PENELOPE_STORE=loses\n"),
    ],
)
def test_the_profile_is_where_the_settings_will_have_it(
    given: dict[str, object],
    variables: dict[str, str],
    file: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENELOPE_STORE", raising=False)
    monkeypatch.setenv("PENELOPE_KEY", "of-the-tests-0123456789")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if file is not None:
        Path(".env").write_text(file)
    settings = Settings.from_environ(given)
    assert startup.browser_options(settings, None).profile == startup.likely_profile(given)


@pytest.mark.parametrize("file", [b"PENELOPE_STORE=\xff\n", b"PENELOPE_STORE\n", b"= PENELOPE_STORE '"])
def test_a_bad_file_is_for_the_settings_to_find(
    file: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And to speak of, once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENELOPE_STORE", raising=False)
    Path(".env").write_bytes(file)
    assert tmp_path / "store" / "profile" == startup.likely_profile({})
    assert [] == caplog.records
    if b"\xff" not in file:
        Settings.from_environ({"key": "of-the-tests-0123456789"})
        assert [] != caplog.records or b"'" not in file


def test_a_file_that_is_a_pipe_is_for_the_settings_to_read(tmp_path: Path) -> None:
    """Who writes it may do so once."""
    os.mkfifo(tmp_path / ".env")
    code = "from penelope import startup; print(startup.likely_profile({}))"
    kept = {name: value for name, value in os.environ.items() if name.upper() != "PENELOPE_STORE"}
    env = kept | {"PYTHONPATH": str(Path(startup.__file__).parents[1])}
    words = [sys.executable, "-c", code]
    done = subprocess.run(
        words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=20, check=True
    )
    assert f"{tmp_path}/store/profile\n" == done.stdout
