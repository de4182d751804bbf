"""The life of a real browser: deaths of its parts, its profile, and its end without a trace."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio
from structlog.testing import capture_logs

from penelope.errors import BrowserLost, NoBrowser, ProxyFailed, StartError, StoreHeld
from penelope.pages.browser import keeper
from penelope.pages.browser.driver import open_browser
from penelope.pages.browser.persona import BrowserOptions
from penelope.pages.browser.session import Session
from tests.browser.browsers import evaluate, goto, kill, mentions, opened, running, tree, until
from tests.browser.sites import Site, running_site

ROOT = Path(__file__).parents[2]


@pytest.fixture
def site() -> Iterator[Site]:
    with running_site() as site:
        yield site


@pytest.mark.parametrize("victim", [0, 1], ids=["driver", "browser"])
async def test_a_death_during_a_call_is_told_and_the_next_call_works(
    tmp_path: Path, site: Site, victim: int
) -> None:
    """B2, B6, B48: the driver's and the browser's."""
    async with opened(tmp_path / "p") as (driver, tab):
        await goto(tab, f"{site.url}/good")
        before = tree(driver.health.pids)

        async def shoot() -> None:
            await trio.sleep(0.2)
            kill(driver.health.pids[victim])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(shoot)
            with trio.fail_after(3), pytest.raises(BrowserLost):
                await evaluate(tab, "new Promise(() => 0)")
        assert "good" == await evaluate(tab, "document.title")  # the page came back where it was
        assert driver.health.up
        await until(lambda: not any(running(pid) for pid in before))


@pytest.mark.parametrize("victim", [0, 1], ids=["driver", "browser"])
async def test_a_death_while_idle_is_noticed_without_a_call(tmp_path: Path, site: Site, victim: int) -> None:
    """B6: no event fires."""
    async with opened(tmp_path / "p") as (driver, tab):
        await goto(tab, f"{site.url}/good")
        pids = driver.health.pids
        kill(pids[victim])
        await until(lambda: not driver.health.up, 1)
        await until(lambda: driver.health.up, 10)
        assert not set(pids) & set(driver.health.pids)
        assert f"{site.url}/good" == tab.url


async def test_a_dead_browser_is_not_handed_out(tmp_path: Path, site: Site) -> None:
    """B28: kill it while idle, then call at once."""
    async with opened(tmp_path / "p") as (driver, tab):
        await goto(tab, f"{site.url}/good")
        kill(driver.health.pids[1])
        await until(lambda: not driver.health.up, 1)
        with trio.fail_after(10):
            assert "good" == await goto(tab, f"{site.url}/good")


async def test_a_browser_killed_in_the_middle_of_its_restart_is_tried_again_soon(
    tmp_path: Path, site: Site
) -> None:
    """Again and again: who calls waits 15 s for it, and meets a try of that time however often it died before."""
    assert max(keeper.BACK_OFF_S) < keeper.READY_S
    async with opened(tmp_path / "p") as (driver, tab):
        await goto(tab, f"{site.url}/good")
        seen = set(driver.health.pids)
        kill(driver.health.pids[1])
        await until(lambda: not driver.health.up, 1)
        with capture_logs() as logs:
            for _ in range(3):
                await until(lambda: not seen.issuperset(_browsers()), 15)
                for pid in set(_browsers()) - seen:
                    seen.add(pid)
                    with suppress(ProcessLookupError):
                        kill(pid)
            await until(lambda: driver.health.up, 15)
        failed = [line["error"] for line in logs if line["event"] == "the browser could not be started again"]
        assert 1 <= len(failed) <= 3, failed  # of one try more than one process may be seen, and killed
        assert all("\n" not in error and "--disable" not in error for error in failed), failed
        assert "good" == await evaluate(tab, "document.title")


def _browsers() -> list[int]:
    """The browsers of this process, and what is about to become one."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            words = process.cmdline()
            if "--remote-debugging-pipe" in words and not any("--type=" in word for word in words):
                found.append(process.pid)
    return found


async def test_a_browser_that_has_started_but_answers_nothing_is_given_up(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "FIRST_WORDS_S", 0.5)
    restore, deaf = Session.restore, True

    async def ask(self: Session, cookies: str) -> None:
        if deaf:
            await asyncio.sleep(60)
        await restore(self, cookies)

    async with opened(tmp_path / "p") as (driver, tab):
        await goto(tab, f"{site.url}/login")
        await driver.cookies()
        monkeypatch.setattr(Session, "restore", ask)
        kill(driver.health.pids[1])
        await until(lambda: "not answered" in driver.keeper.reason, 15)
        deaf = False
        await until(lambda: driver.health.up, 15)
        assert "kept=1; session=2" == await goto(tab, f"{site.url}/who")


async def test_a_stopped_browser_process_is_replaced(tmp_path: Path, site: Site) -> None:
    """Alive, but it answers nothing: healing finds out, and the keeper starts another."""
    async with opened(tmp_path / "p") as (driver, tab):
        await goto(tab, f"{site.url}/good")
        old = driver.health.pids
        os.kill(old[1], signal.SIGSTOP)
        with trio.move_on_after(0.5):
            await evaluate(tab, "1")
        began = trio.current_time()
        with pytest.raises(BrowserLost):
            await tab.heal()
        assert trio.current_time() - began < 12
        await until(lambda: driver.health.up and driver.health.pids[1] != old[1], 20)
        assert "good" == await goto(tab, f"{site.url}/good")
        assert not running(old[1])


async def test_cookies_survive_a_stop_and_a_death(tmp_path: Path, site: Site) -> None:
    """B9: a persistent and a session cookie."""
    async with opened(tmp_path / "p") as (driver, tab):
        await goto(tab, f"{site.url}/login")
        cookies = await driver.cookies()
        assert ["kept", "session"] == [cookie["name"] for cookie in json.loads(cookies)]
        assert cookies == await driver.cookies()
        kill(driver.health.pids[1])
        await until(lambda: not driver.health.up)
        assert "kept=1; session=2" == await goto(tab, f"{site.url}/who")
    async with opened(tmp_path / "p", cookies) as (_, tab):
        assert "kept=1; session=2" == await goto(tab, f"{site.url}/who")
    async with opened(
        tmp_path / "q", '[{"name": "bad"}, {"name": "a", "value": "b", "url": "http://127.0.0.1"}]'
    ) as (
        driver,
        tab,
    ):
        assert ["a"] == [cookie["name"] for cookie in json.loads(await driver.cookies())]


async def test_nothing_is_left_after_a_stop(tmp_path: Path, site: Site) -> None:
    """B53: pid by pid; with a call that hangs, and a cancelled block too."""
    async with opened(tmp_path / "p") as (driver, tab):
        await goto(tab, f"{site.url}/good")
        pids = tree(driver.health.pids)
        temp = driver.place.temp
        assert len(pids) > 4
        assert 0o700 == temp.stat().st_mode & 0o777
        assert [] == [pid for pid in pids if _shows_the_browsers_own(pid)]
    assert [] == [pid for pid in pids if running(pid)]
    assert not temp.exists()

    pids = []
    began = trio.current_time()
    with trio.CancelScope() as scope:
        async with opened(tmp_path / "p") as (driver, tab):
            pids = tree(driver.health.pids)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(evaluate, tab, "while (1) {}")
                await trio.sleep(0.3)
                began = trio.current_time()
                scope.cancel()
    assert scope.cancelled_caught
    assert trio.current_time() - began < 5
    assert len(pids) > 4
    assert [] == [pid for pid in pids if running(pid)]


def _shows_the_browsers_own(pid: int) -> bool:
    """A page of the browser's own window, which nobody sees; half of what a start costs."""
    return "--top-chrome-webui" in psutil.Process(pid).cmdline()


async def test_a_start_can_be_cancelled_at_any_time(tmp_path: Path) -> None:
    for delay in (0.0, 0.1, 0.3, 0.6):
        with trio.move_on_after(delay):
            async with open_browser(BrowserOptions(profile=tmp_path / "p"), None):
                await trio.sleep_forever()
        assert [] == mentions(str(tmp_path / "p"))
        assert [] == [
            child
            for child in psutil.Process().children()
            if "run-driver" in child.cmdline() and running(child.pid)
        ]
    async with opened(tmp_path / "p") as (driver, _):
        assert driver.health.up


WORKER = """
    import sys, trio
    from pathlib import Path
    from penelope.pages.browser.driver import open_browser
    from penelope.pages.browser.persona import BrowserOptions

    async def main():
        async with open_browser(BrowserOptions(profile=Path(sys.argv[1])), None) as driver:
            tab = await driver.open_tab("main", sys.argv[2])
            print("ready", *driver.health.pids, file=sys.stderr, flush=True)
            async def busy(page, cross):
                await page.evaluate("while (1) {}")
            await tab.run(busy, name="test/busy")
    trio.run(main)
"""


@pytest.mark.parametrize("after", ["ready", 0.1, 0.35, 0.5, 0.7])
async def test_nothing_outlives_a_killed_worker(tmp_path: Path, site: Site, after: str | float) -> None:
    """kill -9 at any moment: no Chromium and no node after 5 s, and the profile opens again."""
    profile = tmp_path / "p"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MARK_OF_TEST": str(tmp_path)}
    worker = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WORKER), str(profile), f"{site.url}/good"],
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert worker.stderr is not None
    try:
        if after == "ready":
            line = ""
            while not line.startswith("ready"):
                line = await trio.to_thread.run_sync(worker.stderr.readline)
                assert line
            assert len(_marked(str(tmp_path))) > 4
            await trio.sleep(0.3)
        else:
            await until(lambda: len(_marked(str(tmp_path))) > 1, 10)  # node has begun
            await trio.sleep(float(after))
    finally:
        worker.kill()
        worker.stderr.close()
        worker.wait(5)
    await until(lambda: not _marked(str(tmp_path)), 5)
    async with opened(profile) as (_, tab):
        assert "good" == await goto(tab, f"{site.url}/good")


def _marked(mark: str) -> list[int]:
    """The processes that inherited the test's mark in their environment, or name its folder."""
    found = []
    for process in psutil.process_iter():
        try:
            marked = process.environ().get("MARK_OF_TEST") == mark or any(
                mark in word for word in process.cmdline()
            )
        except psutil.Error:
            continue
        if marked and process.pid != os.getpid() and running(process.pid):
            found.append(process.pid)
    return found


async def test_a_second_owner_of_the_profile_is_refused_with_the_pid(tmp_path: Path) -> None:
    """B8."""
    async with opened(tmp_path / "p"):
        code = textwrap.dedent(WORKER).replace("trio.run(main)", "")
        code += textwrap.dedent(
            """
            from penelope.errors import StoreHeld
            try:
                trio.run(main)
            except* StoreHeld as group:
                print(group.exceptions[0].message)
            """
        )
        told = await trio.to_thread.run_sync(
            lambda: subprocess.run(
                [sys.executable, "-c", code, str(tmp_path / "p"), "about:blank"],
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                timeout=20,
                check=False,
            )
        )
        assert (
            f"browser profile {tmp_path / 'p'} is held by another worker, pid {os.getpid()}\n" == told.stdout
        )
        with pytest.raises(StoreHeld):
            async with open_browser(BrowserOptions(profile=tmp_path / "p"), None):
                raise AssertionError("opened twice")


async def test_a_browser_that_does_not_start_says_so_in_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\necho 'cannot open display' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(StartError) as caught:
        async with open_browser(BrowserOptions(profile=tmp_path / "p", executable=broken), None):
            raise AssertionError("opened")
    assert "\n" not in caught.value.message
    assert f"the browser {broken} did not start: cannot open display" == caught.value.message
    with pytest.raises(NoBrowser, match=r"PENELOPE_BROWSER is .*: there is no such file"):
        async with open_browser(BrowserOptions(profile=tmp_path / "p", executable=tmp_path / "none"), None):
            raise AssertionError("opened")


async def test_a_proxy_password_is_on_no_command_line_and_a_dead_proxy_is_named(
    tmp_path: Path, site: Site
) -> None:
    options = BrowserOptions(profile=tmp_path / "p", proxy="http://me:hush-hush@127.0.0.1:9")
    assert "hush" not in repr(options)
    async with open_browser(options, None) as driver:
        tab = await driver.open_tab("main")
        with pytest.raises(ProxyFailed, match="proxy"):
            await goto(tab, "http://shop.example/")
        assert [] == mentions("hush-hush")
        merged = [
            word
            for word in psutil.Process(driver.health.pids[1]).cmdline()
            if word.startswith("--disable-features=")
        ]
        assert "RenderDocument" in merged[-1]
        assert "MediaRouter" in merged[-1]


async def test_a_plugin_that_swallows_cancellation_loses_its_page(tmp_path: Path, site: Site) -> None:
    """J46, J47: the page is closed under it, and no page is shared by two calls."""
    steps: list[float] = []
    pages: list[Any] = []
    over = False

    async def stubborn(page: Any, _: object) -> str:
        pages.append(page)
        while not over:  # it swallows its GeneratorExit too, when the interpreter ends
            try:
                await asyncio.sleep(0.02)
                steps.append(time.monotonic())
            except BaseException:
                continue
        return ""

    async with opened(tmp_path / "p") as (_, tab):
        await goto(tab, f"{site.url}/good")
        began = trio.current_time()
        with trio.move_on_after(0.3):
            await tab.run(stubborn, name="test/stubborn")
        assert trio.current_time() - began < 5
        count = len(steps)
        await tab.heal()
        assert "good" == await evaluate(tab, "document.title")
        assert pages[0].is_closed()
        assert count == len(steps)
        over = True


async def test_a_plugin_that_blocks_its_thread_is_broken_off(tmp_path: Path, site: Site) -> None:
    """J45, B49: Trio goes on meanwhile, and the page works afterwards."""

    async def spin(_: Any, __: object) -> None:
        while True:
            pass

    gaps: list[float] = []

    async def tick() -> None:
        while True:
            before = trio.current_time()
            await trio.sleep(0.02)
            gaps.append(trio.current_time() - before)

    async with opened(tmp_path / "p") as (driver, tab), trio.open_nursery() as nursery:
        await goto(tab, f"{site.url}/good")
        nursery.start_soon(tick)
        began = trio.current_time()
        with trio.move_on_after(0.3):
            await tab.run(spin, name="test/spin")
        assert trio.current_time() - began < 6
        assert not driver.health.stuck
        assert "good" == await evaluate(tab, "document.title")
        assert max(gaps) < 0.5
        nursery.cancel_scope.cancel()


async def test_a_block_that_nothing_ends_turns_the_worker_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penelope.pages.browser.watch.BREAK_FOR_S", 0.5)
    monkeypatch.setattr("penelope.pages.browser.run.GRACE_S", 0.3)

    async def sleep(_: Any, __: object) -> None:
        time.sleep(3)  # noqa: ASYNC251 - the fault that is tried

    async with opened(tmp_path / "p") as (driver, tab):
        pids = tree(driver.health.pids)
        with trio.move_on_after(0.3):
            await tab.run(sleep, name="test/sleep")
        assert driver.health.stuck
        with trio.fail_after(1):
            await driver.wait_stuck()
        with pytest.raises(BrowserLost, match="blocked"):
            await tab.run(sleep, name="test/sleep")
        began = trio.current_time()
    assert trio.current_time() - began < 13
    assert [] == [pid for pid in pids if running(pid)]
    await trio.sleep(2)  # the thread wakes up and ends
