"""Peers are installed once, into a folder of their own; one that cannot be had says why, and stops nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.peers import installing
from bench.peers.installing import NotHere
from penelope.pages.browser.launch import DISABLED_FEATURES, FLAGS


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENELOPE_BENCH_CACHE", str(tmp_path / "peers"))
    return tmp_path / "peers"


def writes(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", f"open('log', 'a').write({text!r})")


def test_what_is_installed_is_not_installed_again(cache: Path) -> None:
    assert cache / "it" == installing._made("it", writes("a"))
    installing._made("it", writes("a"))

    assert "a" == (cache / "it" / "log").read_text()


def test_another_version_is_installed_over_it(cache: Path) -> None:
    installing._made("it", writes("a"))
    installing._made("it", writes("b"))

    assert "ab" == (cache / "it" / "log").read_text()


def test_what_fails_says_why_and_is_tried_again(cache: Path) -> None:
    fails = (sys.executable, "-c", "import sys; sys.exit('npm error: no such package')")
    for _ in range(2):
        with pytest.raises(NotHere, match="it could not be installed: npm error: no such package"):
            installing._made("it", fails)
    installing._made("it", writes("a"))


def test_a_missing_installer_says_so() -> None:
    with pytest.raises(NotHere, match="no-such-program"):
        installing._made("it", ("no-such-program",))


def told(program: Path, *words: str) -> list[str]:
    """The words that the browser behind it would be started with."""
    spoken = program.read_text().replace("exec ", "exec printf '%s\\n' ")
    program.write_text(spoken)
    return subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout.splitlines()


def test_all_browsers_get_the_flags_that_penelope_gives_its_own() -> None:
    found = told(installing.chromium(), "--headless", "a b")

    assert set(FLAGS) <= set(found)
    assert ["--headless", "a b", f"--disable-features={','.join(DISABLED_FEATURES)}"] == found[-3:]


def test_what_others_leave_out_of_the_browser_stays_left_out() -> None:
    found = told(installing.chromium(), "--disable-features=Theirs", "x")

    assert [f"--disable-features=Theirs,{','.join(DISABLED_FEATURES)}", "x"] == found[-2:]
