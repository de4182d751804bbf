"""The memory purge of a real page: what it gives back, and that it stays where it was."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from penelope.clock import Clock
from penelope.pages.browser.driver import open_browser
from penelope.pages.browser.persona import BrowserOptions
from penelope.pages.driver import Tab
from penelope.pages.manager import PageManager
from penelope.pages.purge import purge_page
from tests.browser.browsers import evaluate, goto
from tests.browser.sites import Site, running_site

MIB = 2**20
FILL = "() => { globalThis.%s = Array.from({length: 30000}, () => new Array(1000).fill(1.5)); return 1 }"
BUFFERS = "() => { globalThis.b = Array.from({length: 25}, () => new Uint8Array(1e7).fill(1)); return 1 }"


@pytest.fixture
def site() -> Iterator[Site]:
    with running_site() as site:
        yield site


async def no_store(_: str) -> None:
    """Cookies are not this test's."""


@asynccontextmanager
async def managed(profile: Path) -> AsyncIterator[tuple[PageManager, Tab]]:
    """A browser's pages, and `main`."""
    async with open_browser(BrowserOptions(profile=profile), None) as driver:
        pages = PageManager(driver, Clock(), max_pages=8, keep_cookies=no_store, cookies=None)
        page = await pages.open("main")
        assert page.tab is not None
        yield pages, page.tab


async def purged(pages: PageManager) -> list[str]:
    """Purge `main`; what the log said of it."""
    with capture_logs() as logs:
        await purge_page(pages, pages.get("main"), Clock(), 100 * MIB)
    return [line["how"] for line in logs if line["event"] == "page purged"]


@pytest.mark.parametrize("fill", [FILL % "kept", BUFFERS])
async def test_a_page_of_hundreds_of_mb_is_loaded_anew(tmp_path: Path, site: Site, fill: str) -> None:
    """Asked to collect garbage, and if that does not help reloaded from `about:blank`, at its last URL. Array buffers
    are on no JavaScript heap, and count.
    """
    async with managed(tmp_path / "p") as (pages, tab):
        await goto(tab, f"{site.url}/good")
        assert [] == await purged(pages)
        await evaluate(tab, fill)
        assert ((await tab.vitals()).memory or 0) > 200 * MIB

        assert ["reloaded"] == await purged(pages)
        assert ((await tab.vitals()).memory or MIB**2) < 50 * MIB
        assert f"{site.url}/good" == tab.url
        assert ["good", 2] == [await evaluate(tab, "document.title"), site.seen.count("/good")]


async def test_garbage_is_collected_without_a_reload(tmp_path: Path, site: Site) -> None:
    """A page whose memory was garbage keeps its document."""
    async with managed(tmp_path / "p") as (pages, tab):
        await goto(tab, f"{site.url}/good")
        await evaluate(tab, FILL % "garbage")
        await evaluate(tab, "() => { globalThis.garbage = null; globalThis.mark = 7; return 1 }")
        if ((await tab.vitals()).memory or 0) < 100 * MIB:
            pytest.skip("the browser has collected it by itself already")
        assert ["collected"] == await purged(pages)
        assert 7 == await evaluate(tab, "mark")


async def test_a_page_that_hangs_is_purged_all_the_same(tmp_path: Path, site: Site) -> None:
    """Whatever the page does, it answers afterwards."""
    async with managed(tmp_path / "p") as (pages, tab):
        await goto(tab, f"{site.url}/good")
        await evaluate(tab, FILL % "kept")
        await tab.vitals()
        await evaluate(tab, "() => { setTimeout(() => { for (;;); }, 0); return 1 }")
        assert ["reloaded"] == await purged(pages)
        assert "good" == await evaluate(tab, "document.title")
        assert f"{site.url}/good" == tab.url
