"""What Playwright keeps for a page that stays is bounded, whatever the calls do; their own pages behave as ever."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.async_api import Error, Page

from penelope.pages.browser import kept
from penelope.pages.browser.driver import open_browser
from penelope.pages.browser.inner import on_navigations
from penelope.pages.browser.persona import BrowserOptions
from penelope.pages.browser.tab import PlaywrightTab
from tests.browser.browsers import goto, until
from tests.browser.proxies import PASSWORD, USER, Proxy, running_proxy
from tests.browser.sites import Site, running_site


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with running_site() as site:
        yield site


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[PlaywrightTab]:
    async with open_browser(BrowserOptions(profile=tmp_path / "profile"), None) as driver:
        yield await driver.open_tab("main")


def known(tab: PlaywrightTab) -> Counter[str]:
    """The objects of the connection, by type."""
    assert tab.live is not None
    return Counter(thing._type for thing in tab.live.page._impl_obj._connection._objects.values())


async def run(tab: PlaywrightTab, body: Any) -> Any:
    async def asked(page: Any, _: object) -> Any:
        return await body(page)

    return await tab.run(asked, name="test/body")


class TestRequests:
    async def test_of_the_past_are_forgotten(
        self, tab: PlaywrightTab, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Those that were redirected, that failed, and that a plugin listened to, too."""
        monkeypatch.setattr(kept, "REQUESTS_KEPT", 5)

        async def listen(page: Any) -> None:
            page.on("response", lambda _: None)
            await page.goto(f"{site.url}/pictures", wait_until="networkidle")

        for _ in range(4):
            await run(tab, listen)
            await goto(tab, f"{site.url}/moved")
            with pytest.raises(Exception, match="answered nothing"):
                await goto(tab, f"{site.url}/empty-reply")
            await tab.heal()
        assert "good" == await goto(tab, f"{site.url}/good")
        found = known(tab)
        assert found["Request"] <= 6, found
        assert found["Response"] <= 6, found
        assert found["Forgotten"] > 60, "else the test tests nothing"

    async def test_the_driver_can_still_say_that_it_drops_one(
        self, tab: PlaywrightTab, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It does from 10,000 on; a word for an object that is not there would end the connection."""
        monkeypatch.setattr(kept, "REQUESTS_KEPT", 2)
        for _ in range(6):
            await goto(tab, f"{site.url}/good")
        assert tab.live is not None
        connection: Any = tab.live.page._impl_obj._connection
        stubs = [guid for guid, thing in connection._objects.items() if thing._type == "Forgotten"]
        assert len(stubs) >= 6

        async def say(_: object) -> None:
            for guid in sorted(stubs, reverse=True):  # responses before their requests
                if guid in connection._objects:
                    connection.dispatch({"guid": guid, "method": "__dispose__", "params": {"reason": "gc"}})

        await run(tab, say)
        assert not set(stubs) & set(connection._objects)

    async def test_a_page_that_is_closed_takes_all_of_it_along(
        self, tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(kept, "REQUESTS_KEPT", 2)
        async with open_browser(BrowserOptions(profile=tmp_path / "profile"), None) as driver:
            main = await driver.open_tab("main")
            other = await driver.open_tab("other")
            for _ in range(6):
                await goto(other, f"{site.url}/good")
            assert known(main)["Forgotten"] >= 6
            await other.close()
            await until(lambda: known(main)["Forgotten"] == 0)

    async def test_one_that_a_plugin_held_on_to_says_so(
        self, tab: PlaywrightTab, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(kept, "REQUESTS_KEPT", 1)
        held: list[Any] = []

        async def hold(page: Any) -> None:
            held.append(await page.goto(f"{site.url}/good"))

        async def use(_: object) -> None:
            with pytest.raises(Error, match="has been collected"):
                await held[0].text()

        await run(tab, hold)
        await goto(tab, f"{site.url}/good")
        await run(tab, use)

    @pytest.mark.skipif(not hasattr(Page, "requests"), reason="this Playwright's pages list none")
    async def test_the_page_still_lists_its_last_ones(self, tab: PlaywrightTab, site: Site) -> None:
        """The driver names up to 100 of them, however it came to know them: all are known here."""

        async def lists(page: Any) -> int:
            return len(await page.requests())

        for _ in range(25):
            await goto(tab, f"{site.url}/pictures")
            assert await run(tab, lists) > 0
        assert known(tab)["Forgotten"] > 0
        assert 90 <= await run(tab, lists) <= 100


class TestHandles:
    async def test_that_a_call_left_are_dropped(self, tab: PlaywrightTab, site: Site) -> None:
        async def leave(page: Any) -> None:
            await page.goto(f"{site.url}/pictures")
            assert 10 == len(await page.query_selector_all("img"))
            await page.wait_for_function("1")

        await run(tab, leave)
        await until(lambda: not known(tab)["ElementHandle"] + known(tab)["JSHandle"])

    async def test_of_the_next_call_are_left_alone(self, tab: PlaywrightTab, site: Site) -> None:
        """Although those of the last are dropped meanwhile."""
        await goto(tab, f"{site.url}/pictures")

        async def use(page: Any) -> None:
            handles = [await page.query_selector("img") for _ in range(50)]
            await asyncio.sleep(0.05)
            for handle in handles:
                assert handle is not None
                await handle.is_visible()

        for _ in range(3):
            await run(tab, use)


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    with running_proxy() as proxy:
        yield proxy


class TestNavigations:
    async def test_a_proxied_page_makes_no_object_of_each_request(
        self, tmp_path: Path, site: Site, proxy: Proxy
    ) -> None:
        """That the proxy refuses is heard all the same: see `test_persona`."""
        options = BrowserOptions(
            profile=tmp_path / "profile",
            proxy=f"http://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{proxy.port}",
        )
        async with open_browser(options, None) as driver:
            tab = await driver.open_tab("main")
            await goto(tab, f"{site.url}/pictures")
            assert 1 == known(tab)["Request"]

    async def test_without_the_floor_below_it_is_the_public_event(self) -> None:
        """In a Playwright that is another one inside."""
        heard: list[tuple[str, object]] = []

        class Page:
            context = object()

            def on(self, event: str, handler: object) -> None:
                heard.append((event, handler))

        def handler(_: object) -> None: ...

        on_navigations(Page(), "response", handler)
        assert [("response", handler)] == heard
