"""Cookies are read when somebody can have heard of new ones, and at no other call's end. Contract, section 3."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import trio

from penelope.pages.browser import session
from penelope.pages.browser.driver import READ_S, PlaywrightDriver
from penelope.pages.browser.inner import count_traffic
from penelope.pages.browser.session import Session
from penelope.pages.browser.tab import PlaywrightTab
from tests.browser.browsers import evaluate, goto, opened, until
from tests.browser.sites import Site, running_site

LATER = "setTimeout(() => { document.cookie = 'late=1'; location.hash = 'there'; }, 300)"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with running_site() as site:
        yield site


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number for each time that the browser is asked."""
    asked: list[int] = []
    ask = Session.cookies

    async def counted(self: Session) -> str:
        asked.append(len(asked))
        return await ask(self)

    monkeypatch.setattr(Session, "cookies", counted)
    return asked


@pytest.fixture(autouse=True)
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is."""
    monkeypatch.setattr(session, "COOKIES_FRESH_S", 3600.0)


async def nothing(tab: PlaywrightTab) -> None:
    """A call that asks nothing of the browser."""

    async def body(page: Any, _: object) -> str:
        return str(page.url)

    await tab.run(body, name="test/nothing")


def noted(driver: PlaywrightDriver) -> list[str]:
    return [cookie["name"] for cookie in json.loads(driver.noted_cookies or "[]")]


async def test_a_call_that_touches_the_page_reads_them(tmp_path: Path, site: Site, reads: list[int]) -> None:
    async with opened(tmp_path / "p") as (driver, tab):
        await goto(tab, f"{site.url}/login")
        assert (["kept", "session"], True, 1) == (noted(driver), tab.cookies_noted, len(reads))
        await evaluate(tab, "document.cookie = 'third=3'")
        assert (["kept", "session", "third"], 2) == (noted(driver), len(reads))


async def test_a_call_that_asks_nothing_reads_nothing(tmp_path: Path, site: Site, reads: list[int]) -> None:
    """Also where another page has been at work since, whose own call read them."""
    async with opened(tmp_path / "p") as (driver, tab):
        other = await driver.open_tab("other")
        await goto(other, f"{site.url}/login")
        before = len(reads)
        for _ in range(5):
            await nothing(tab)
            assert tab.cookies_noted
        assert before == len(reads)
        assert ["kept", "session"] == noted(driver)


async def test_what_a_page_does_by_itself_is_read_once_it_is_heard_of(
    tmp_path: Path, site: Site, reads: list[int]
) -> None:
    """A plugin may see from the address alone that somebody is logged in by now."""
    async with opened(tmp_path / "p") as (driver, tab):
        await goto(tab, f"{site.url}/good")
        await evaluate(tab, LATER)
        assert [] == noted(driver)
        await until(lambda: tab.url.endswith("#there"))
        before = len(reads)
        await nothing(tab)
        assert (["late"], before + 1) == (noted(driver), len(reads))
        await nothing(tab)
        assert before + 1 == len(reads)


async def test_what_a_page_does_without_a_word_is_read_by_a_call_that_saw_it_elsewhere(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plugin may wait for a login on another way, e.g. ask the site itself, and tell its client of it."""
    monkeypatch.setattr(session, "COOKIES_FRESH_S", 0.1)

    async def wait(page: Any, _: object) -> None:
        await asyncio.sleep(1)

    async with opened(tmp_path / "p") as (driver, tab):
        await goto(tab, f"{site.url}/good")
        await evaluate(tab, "setTimeout(() => { document.cookie = 'silent=1' }, 300)")
        assert [] == noted(driver)
        await tab.run(wait, name="test/wait")
        assert (True, ["silent"]) == (tab.cookies_noted, noted(driver))


async def test_a_read_that_failed_is_made_up_for_by_the_next_call(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(self: Session) -> str:
        await self.context.cookies()
        raise TimeoutError

    async with opened(tmp_path / "p") as (driver, tab):
        with monkeypatch.context() as patch:
            patch.setattr(Session, "cookies", silent)
            await goto(tab, f"{site.url}/login")
        assert (False, []) == (tab.cookies_noted, noted(driver))
        await nothing(tab)
        assert (True, ["kept", "session"]) == (tab.cookies_noted, noted(driver))


async def test_two_at_once_leave_no_doubt_behind(tmp_path: Path, site: Site, reads: list[int]) -> None:
    """Reads that overlap cannot tell what came between them: the next call's read does."""
    async with opened(tmp_path / "p") as (driver, tab):
        other = await driver.open_tab("other")
        async with trio.open_nursery() as nursery:
            for one, where in ((tab, "login"), (other, "good")):
                nursery.start_soon(goto, one, f"{site.url}/{where}")
        await nothing(tab)
        before = len(reads)
        await nothing(other)
        assert before == len(reads)
        assert ["kept", "session"] == noted(driver)


@pytest.mark.parametrize("first_fails", [False, True])
async def test_those_who_ask_meanwhile_share_the_next_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[int], first_fails: bool
) -> None:
    """It begins after each of them asked, and sees all that they did."""
    ask = Session.cookies

    async def slow(self: Session) -> str:
        await asyncio.sleep(0.3)
        said = await ask(self)
        if first_fails and len(reads) == 1:
            raise ZeroDivisionError
        return said

    async with opened(tmp_path / "p") as (driver, _):
        monkeypatch.setattr(Session, "cookies", slow)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_asks, driver, first_fails)
            await trio.sleep(0.1)
            for _ in range(4):
                nursery.start_soon(_asks, driver, False)
        assert 2 == len(reads)


async def test_a_read_whose_asker_was_given_up_holds_nobody_up(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch, reads: list[int]
) -> None:
    """Whoever is given up is not resumed, whatever it holds: reads go on, and what they tell is noted."""
    ask = Session.cookies

    async def slow(self: Session) -> str:
        said = await ask(self)
        if len(reads) == 1:
            await asyncio.sleep(600)
        return said

    async with opened(tmp_path / "p") as (driver, tab):
        monkeypatch.setattr(Session, "cookies", slow)
        with trio.move_on_after(0.3) as short:
            await driver.cookies()
        assert short.cancelled_caught
        await trio.sleep(READ_S)
        await goto(tab, f"{site.url}/login")
        assert (True, ["kept", "session"]) == (tab.cookies_noted, noted(driver))
        with trio.fail_after(5):
            await driver.cookies()


async def _asks(driver: PlaywrightDriver, fails: bool) -> None:
    with pytest.raises(ZeroDivisionError) if fails else nullcontext():
        await driver.cookies()


def test_the_messages_of_a_playwright_that_sends_in_another_way_are_not_counted() -> None:
    """Then the cookies are read after each call."""

    class Connection:
        def dispatch(self, message: object) -> None:
            raise NotImplementedError

    class Playwright:
        _impl_obj = type("Impl", (), {"_connection": Connection()})()

    for unknown in (Playwright(), object()):
        assert count_traffic(unknown) is None  # type: ignore[arg-type]
    assert {} == vars(Playwright._impl_obj._connection)
