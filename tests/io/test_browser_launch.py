"""Which browser is run, and how: real files and processes, no browser."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from penelope.errors import BadSettings, NoBrowser, StoreHeld
from penelope.pages.browser import persona
from penelope.pages.browser.find import find_browser
from penelope.pages.browser.launch import launch_arguments, write_launcher
from penelope.pages.browser.node import environment
from penelope.pages.browser.persona import BrowserOptions
from penelope.pages.browser.profile import Place, browsers_on, hold_profile

OFF = "RenderDocument,WebUIOmniboxPopup,WebUIOmniboxAimPopup"


def script(path: Path, text: str = "exit 0") -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_the_setting_comes_first(tmp_path: Path) -> None:
    mine, bundled = script(tmp_path / "mine"), script(tmp_path / "bundled")
    assert mine == find_browser(mine, bundled=bundled)
    assert bundled == find_browser(None, bundled=bundled)


def test_then_the_systems_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    chrome = script(tmp_path / "google-chrome")
    assert chrome == find_browser(None, bundled=tmp_path / "none")
    chromium = script(tmp_path / "chromium")
    assert chromium == find_browser(None)


def test_none_is_one_line_with_the_command_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoBrowser, match=r"^no browser found: get one with `.*install chromium`[^\n]*$"):
        find_browser(None, bundled=tmp_path / "none")


def test_a_setting_that_is_no_executable_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x")
    with pytest.raises(NoBrowser, match=r"PENELOPE_BROWSER is .*text: it is not an executable"):
        find_browser(tmp_path / "text")
    with pytest.raises(NoBrowser, match=r"PENELOPE_BROWSER is .*none: there is no such file"):
        find_browser(tmp_path / "none")
    with pytest.raises(NoBrowser, match="PENELOPE_BROWSER"):
        find_browser(tmp_path)


def test_the_launcher_merges_the_features_and_leaves_its_pid(tmp_path: Path) -> None:
    place = Place(tmp_path, tmp_path)
    browser = script(tmp_path / "a browser", 'for word do echo "$word"; done')
    launcher = write_launcher(place, browser, os.getpid())
    words = ["--a=b c", "--disable-features=X,Y", "--user-data-dir=it's", ""]
    said = subprocess.run([launcher, *words], capture_output=True, text=True, check=True).stdout.split("\n")
    assert ["--a=b c", f"--disable-features=X,Y,{OFF}", "--user-data-dir=it's", "", ""] == said
    assert place.browser_pid()
    said = subprocess.run([launcher, "--x"], capture_output=True, text=True, check=True).stdout.split("\n")
    assert ["--x", f"--disable-features={OFF}", ""] == said


@pytest.mark.skipif(sys.platform != "linux", reason="the signal of a parent's death is Linux's")
def test_the_browser_does_not_start_for_a_driver_that_is_gone(tmp_path: Path) -> None:
    """The parent may have died before the signal was armed."""
    place = Place(tmp_path, tmp_path)
    browser = script(tmp_path / "browser", "echo started")
    launcher = write_launcher(place, browser, os.getpid() + 1)
    assert "" == subprocess.run([launcher], capture_output=True, text=True, check=False).stdout


def test_keys_are_not_in_the_browsers_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENELOPE_KEY", "hush")
    monkeypatch.setenv("PENELOPE_PROXY", "http://me:hush@127.0.0.1")
    made = environment(tmp_path)
    assert "hush" not in "".join(made.values())
    assert str(tmp_path) == made["TMPDIR"]


def test_a_proxys_password_goes_only_into_playwrights_option(tmp_path: Path) -> None:
    options = BrowserOptions(profile=tmp_path, proxy="socks5://me:p%40ss@[::1]:1080")
    made = launch_arguments(options, Place(tmp_path, tmp_path), tmp_path / "x", sandboxed=True)
    assert {"server": "socks5://[::1]:1080", "username": "me", "password": "p@ss"} == made["proxy"]
    assert "p@ss" not in str(made["args"])
    assert "--webrtc-ip-handling-policy=disable_non_proxied_udp" in made["args"]


@pytest.mark.parametrize("proxy", ["http://", "http://a:hush@b:port", "http://[::1", "://"])
def test_a_bad_proxy_is_refused_without_repeating_it(tmp_path: Path, proxy: str) -> None:
    options = BrowserOptions(profile=tmp_path, proxy=proxy)
    with pytest.raises(BadSettings, match="PENELOPE_PROXY") as caught:
        launch_arguments(options, Place(tmp_path, tmp_path), tmp_path / "x", sandboxed=True)
    assert "hush" not in caught.value.message


def test_a_profile_has_one_owner_and_an_empty_temp_folder(tmp_path: Path) -> None:
    with hold_profile(tmp_path / "p") as place:
        assert 0o700 == place.temp.stat().st_mode & 0o777
        assert [] == list(place.temp.iterdir())
        with pytest.raises(StoreHeld, match=f"pid {os.getpid()}"), hold_profile(tmp_path / "p"):
            raise AssertionError("held twice")
        (place.temp / "rest").write_text("of a killed worker")
        temp = place.temp
    assert not temp.exists()
    temp.mkdir()
    (temp / "rest").write_text("of a killed worker")
    with hold_profile(tmp_path / "p") as place:
        assert temp == place.temp
        assert [] == list(place.temp.iterdir())


def test_a_temp_folder_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    with hold_profile(tmp_path / "p") as place:
        temp = place.temp
    temp.symlink_to(tmp_path)
    try:
        with hold_profile(tmp_path / "p") as place:
            assert temp != place.temp
            assert not place.temp.is_symlink()
        assert (tmp_path / "p").exists()
    finally:
        temp.unlink()


def test_orphans_on_the_profile_are_ended_and_stale_locks_removed(tmp_path: Path) -> None:
    """Exactly this profile's; one that was opened by hand is not ours to end."""
    profile = tmp_path / "p"
    sleep = "import sys, time; time.sleep(60)"
    ours = subprocess.Popen(
        [sys.executable, "-c", sleep, f"--user-data-dir={profile}", "--remote-debugging-pipe"]
    )
    other = subprocess.Popen(
        [sys.executable, "-c", sleep, f"--user-data-dir={profile}2", "--remote-debugging-pipe"]
    )
    try:
        _wait_for(lambda: [ours.pid] == [process.pid for process in browsers_on(profile)])
        with hold_profile(profile) as place:
            (profile / "SingletonLock").symlink_to("another-host-1")
            place.clear()
            assert not (profile / "SingletonLock").is_symlink()
        assert -9 == ours.wait(2)
        assert other.poll() is None
    finally:
        for process in (ours, other):
            process.kill()
            process.wait()
    by_hand = subprocess.Popen([sys.executable, "-c", sleep, f"--user-data-dir={profile}"])
    try:
        _wait_for(lambda: browsers_on(profile))
        with hold_profile(profile) as place, pytest.raises(StoreHeld, match=f"by hand, pid {by_hand.pid}"):
            place.clear()
        assert psutil.Process(by_hand.pid).is_running()
    finally:
        by_hand.kill()
        by_hand.wait()


def _wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("user_agent", "platform", "allowed"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0.0.0 Safari/537.36", "linux", True),
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "linux", True),
        ("me/1.0", "linux", True),
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/140.0.0.0 Safari/537.36", "linux", False),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/18 Safari/605.1.15", "linux", False),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Mobile Safari/604.1", "linux", False),
        ("Mozilla/5.0 (Linux; Android 15; Pixel 9) Chrome/140.0.0.0 Mobile Safari/537.36", "linux", False),
        ("Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) Chrome/140.0.0.0 Safari/537.36", "linux", False),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Chrome/140.0.0.0", "darwin", True),
        ("Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0.0.0", "darwin", False),
    ],
)
def test_a_user_agent_names_no_other_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user_agent: str, platform: str, allowed: bool
) -> None:
    """`navigator.platform` is the real one in every worker: what contradicts it is refused at the start."""
    monkeypatch.setattr(sys, "platform", platform)
    options = BrowserOptions(profile=tmp_path, user_agent=user_agent)
    if allowed:
        persona.check(options)
    else:
        with pytest.raises(BadSettings, match="PENELOPE_USER_AGENT names another system"):
            persona.check(options)


def test_features_to_enable_are_merged_too(tmp_path: Path) -> None:
    """Of two `--enable-features` the last one counts."""
    browser = script(tmp_path / "browser", 'for word do echo "$word"; done')
    launcher = write_launcher(Place(tmp_path, tmp_path), browser, os.getpid(), ("A", "B"))
    for words, said in ((["--enable-features=X"], "--enable-features=X,A,B"), ([], "--enable-features=A,B")):
        out = subprocess.run([launcher, *words], capture_output=True, text=True, check=True).stdout.split()
        assert {said, f"--disable-features={OFF}"} == set(out)
