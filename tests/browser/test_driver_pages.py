"""Pages of a real browser: what sites and plugins do to them, and how they come back."""

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from playwright.async_api import Error, Page
from structlog.testing import capture_logs

from penelope.errors import BadParameter, PageLost, SiteFailed, TimedOut
from penelope.pages.browser import heartbeat
from penelope.pages.browser.driver import PlaywrightDriver
from penelope.pages.browser.inner import refuse_gotos
from penelope.pages.browser.tab import PlaywrightTab
from penelope.pages.browser.urls import allowed_url
from penelope.pages.driver import Healing
from tests.browser.browsers import evaluate, goto, kill, opened, renderers, until
from tests.browser.shared import on_shared_browser
from tests.browser.sites import Site, running_site


@pytest.fixture
def site() -> Iterator[Site]:
    with running_site() as site:
        yield site


@on_shared_browser
async def test_a_page_goes_where_it_is_sent(driver: PlaywrightDriver, tab: PlaywrightTab, site: Site) -> None:
    assert "good" == await goto(tab, f"{site.url}/good")
    assert f"{site.url}/good" == tab.url
    assert "good" == await tab.title()
    assert driver.health.up
    assert not tab.crashed
    assert Healing.NONE is await tab.heal()
    second = await driver.open_tab("second", f"{site.url}/other")
    assert f"{site.url}/other" == second.url
    assert f"{site.url}/good" == tab.url
    await second.close()
    with pytest.raises(SiteFailed):
        await driver.open_tab("third", "http://nowhere.invalid/")
    assert 1 == len(driver.lives())


@on_shared_browser
async def test_a_failed_navigation_says_whose_fault_it_was(tab: PlaywrightTab, site: Site) -> None:
    said = {}
    for path in ("http://nowhere.invalid/x?secret=1", f"{site.url}/loop", f"{site.url}/empty-reply"):
        with pytest.raises(SiteFailed) as caught:
            await goto(tab, path)
        said[path] = caught.value.message
    host = site.url.removeprefix("http://")
    assert [
        "site cannot be reached: no such host nowhere.invalid",
        f"site cannot be reached: {host} redirects in a loop",
        f"site cannot be reached: {host} answered nothing",
    ] == list(said.values())
    with pytest.raises(TimedOut, match=r"timed out after 0.3 s"):
        await goto(tab, f"{site.url}/silent", timeout_ms=300)


@on_shared_browser
async def test_a_good_page_right_after_a_failed_one_works(tab: PlaywrightTab, site: Site) -> None:
    """B25: 0 of 20 fail, healed or not."""
    bad = (f"{site.url}/loop", f"{site.url}/empty-reply", "http://127.0.0.1:1/", "http://nowhere.invalid/")
    for number in range(20):
        with pytest.raises(SiteFailed):
            await goto(tab, bad[number % len(bad)])
        if number % 2:
            await tab.heal()
        assert "good" == await goto(tab, f"{site.url}/good")


@on_shared_browser
async def test_the_sites_status_is_data(tab: PlaywrightTab, site: Site) -> None:
    async def status(page: Any, _: object) -> int:
        return int((await page.goto(f"{site.url}/status?code=404&body=x")).status)

    assert 404 == await tab.run(status, name="test/status")


@on_shared_browser
async def test_a_page_answers_after_a_navigation_that_timed_out(tab: PlaywrightTab, site: Site) -> None:
    """B13: evaluate, title and screenshot answer, on the old document."""

    async def look(page: Any, _: object) -> tuple[str, str, int]:
        return (
            await page.evaluate("document.title"),
            await page.title(),
            len(await page.screenshot(timeout=3000)),
        )

    await goto(tab, f"{site.url}/good")
    with pytest.raises(TimedOut):
        await goto(tab, f"{site.url}/silent", timeout_ms=500)
    assert Healing.STOPPED is await tab.heal()
    with trio.fail_after(3):
        in_page, title, size = await tab.run(look, name="test/look")
    assert ("good", "good") == (in_page, title)
    assert size > 100

    with trio.move_on_after(0.5) as scope:  # cancelled instead of timed out
        await goto(tab, f"{site.url}/silent")
    assert scope.cancelled_caught
    await tab.heal()
    with trio.fail_after(3):
        assert "good" == (await tab.run(look, name="test/look"))[0]


@on_shared_browser
async def test_a_busy_page_is_answering_again_after_a_deadline(tab: PlaywrightTab, site: Site) -> None:
    """B20, J44: the call ends at its deadline, and the page comes back."""
    await goto(tab, f"{site.url}/good")
    began = trio.current_time()
    with trio.move_on_after(0.5) as scope:
        await evaluate(tab, "while (1) {}")
    assert scope.cancelled_caught
    assert Healing.STOPPED is await tab.heal()
    assert "good" == await evaluate(tab, "document.title")
    assert trio.current_time() - began < 6

    with trio.move_on_after(0.5):
        await goto(tab, f"{site.url}/always-busy")
    began = trio.current_time()
    healed = await tab.heal()
    assert trio.current_time() - began < 10
    assert healed is not Healing.NONE
    assert "good" == await goto(tab, f"{site.url}/good")


async def test_a_renderer_that_does_not_answer_is_ended(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_EVERY_S", 0.2)
    monkeypatch.setattr(heartbeat, "SILENT_MAX_S", 1.0)

    async def go_and_wait(page: Any, _: object) -> None:
        await page.goto(f"{site.url}/sync-xhr")
        await page.evaluate("new Promise(() => 0)")

    async with opened(tmp_path / "p") as (_, tab):
        for body in ("while (1) {}", "setInterval(() => { while (1); }, 1), new Promise(() => 0)"):
            with trio.fail_after(8), pytest.raises(PageLost, match="did not answer for 1 s"):
                await evaluate(tab, body)
            await tab.heal()
        with trio.fail_after(8), pytest.raises(PageLost, match="did not answer for 1 s"):
            await tab.run(go_and_wait, name="test/xhr")
        assert "good" == await goto(tab, f"{site.url}/good")


async def test_a_page_that_waits_for_a_slow_site_is_not_ended(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_EVERY_S", 0.2)
    monkeypatch.setattr(heartbeat, "SILENT_MAX_S", 0.4)
    async with opened(tmp_path / "p") as (_, tab):
        await goto(tab, f"{site.url}/good")
        with pytest.raises(TimedOut):
            await goto(tab, f"{site.url}/silent", timeout_ms=3000)


@on_shared_browser
async def test_a_crash_is_told_once_and_the_page_opened_afresh(
    driver: PlaywrightDriver, tab: PlaywrightTab, site: Site
) -> None:
    """B1: rebuilt under its id."""
    await goto(tab, f"{site.url}/good")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_kill_soon, driver)
        with trio.fail_after(3), pytest.raises(PageLost, match="main crashed"):
            await evaluate(tab, "new Promise(() => 0)")
    assert tab.crashed
    assert Healing.REOPENED is await tab.heal()
    await until(lambda: not tab.crashed, 0.1)
    assert f"{site.url}/good" == tab.url
    assert "good" == await evaluate(tab, "document.title")

    for pid in renderers(driver):  # between calls
        kill(pid)
    await until(lambda: tab.crashed)
    assert "good" == await goto(tab, f"{site.url}/good")


async def _kill_soon(driver: Any) -> None:
    await trio.sleep(0.3)
    for pid in renderers(driver):
        kill(pid)


@on_shared_browser
async def test_a_body_that_swallows_a_crash_fails_all_the_same(
    driver: PlaywrightDriver, tab: PlaywrightTab, site: Site
) -> None:
    async def body(page: Any, _: object) -> str:
        with suppress(BaseException):  # the fault that is tried
            await page.evaluate("new Promise(() => 0)")
        return "all is well"

    async with trio.open_nursery() as nursery:
        await goto(tab, f"{site.url}/good")
        nursery.start_soon(_kill_soon, driver)
        with pytest.raises(PageLost):
            await tab.run(body, name="test/swallow")


@on_shared_browser
async def test_dialogs_never_hang_a_call(
    tab: PlaywrightTab, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """B14: at load, in calls, between calls; dismissed, and in the log."""
    with trio.fail_after(10):
        assert "alert" == await goto(tab, f"{site.url}/alert")
        await evaluate(tab, "alert('in a call')")
        assert await evaluate(tab, "confirm('really?')") is False
        assert await evaluate(tab, "prompt('what?', 'x')") is None
        await goto(tab, f"{site.url}/alert-later")
        await trio.sleep(0.3)
        assert "later" == await evaluate(tab, "document.title")
    said = capsys.readouterr().out
    for message in ("at load", "in a call", "really?", "what?", "later"):
        assert f"message={message}" in said.replace("'", "")


@on_shared_browser
async def test_a_plugins_own_dialog_handler_wins(tab: PlaywrightTab) -> None:
    async def body(page: Any, _: object) -> bool:
        page.once("dialog", lambda dialog: dialog.accept())
        return bool(await page.evaluate("confirm('really?')"))

    assert await tab.run(body, name="test/confirm") is True
    assert await evaluate(tab, "confirm('again?')") is False


@on_shared_browser
async def test_leaving_a_page_is_never_blocked(
    driver: PlaywrightDriver, tab: PlaywrightTab, site: Site
) -> None:
    """B16: type, navigate, close."""

    async def type_there(page: Any, _: object) -> None:
        await page.goto(f"{site.url}/typed")
        await page.click("#a")
        await page.keyboard.type("hello")

    second = await driver.open_tab("second")
    for one in (tab, second):
        await one.run(type_there, name="test/type")
    with trio.fail_after(4):
        assert "good" == await goto(tab, f"{site.url}/good")
    with trio.fail_after(3):
        await second.close()
    await tab.run(type_there, name="test/type")


@on_shared_browser
async def test_closing_in_the_middle_of_a_reload_is_bounded(driver: PlaywrightDriver, site: Site) -> None:
    """B12: 20 times, within 2 s each."""
    slowest = 0.0
    for number in range(20):
        tab = await driver.open_tab(f"t{number}", f"{site.url}/good")
        await evaluate(tab, "void location.reload()")
        began = time.perf_counter()
        await tab.close()
        slowest = max(slowest, time.perf_counter() - began)
    assert slowest < 2.0
    assert 1 == len(driver.lives())


@on_shared_browser
async def test_a_busy_page_closes_in_bounded_time(driver: PlaywrightDriver, site: Site) -> None:
    tab = await driver.open_tab("busy", f"{site.url}/good")
    with trio.move_on_after(0.3):
        await evaluate(tab, "while (1) {}")
    with trio.fail_after(2.5):
        await tab.close()


@on_shared_browser
async def test_a_failing_handler_hits_no_caller(
    driver: PlaywrightDriver, tab: PlaywrightTab, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """B11: logged; no caller sees it. And it ends with its call."""
    calls: list[int] = []

    def handler(_: object) -> None:
        calls.append(1)
        raise RuntimeError("of a handler")

    async def register(page: Any, _: object) -> None:
        page.on("console", handler)
        await page.goto(f"{site.url}/console")
        await page.wait_for_timeout(100)

    other = await driver.open_tab("other")
    await tab.run(register, name="test/register")
    assert 2 == await evaluate(other, "1 + 1")
    assert 2 == await evaluate(tab, "1 + 1")
    count = len(calls)
    assert count > 0
    await trio.sleep(0.2)
    assert 2 == await evaluate(tab, "1 + 1")
    assert count == len(calls)
    assert "of a handler" in capsys.readouterr().out


@on_shared_browser
async def test_a_route_ends_with_its_call(tab: PlaywrightTab, site: Site) -> None:
    async def body(page: Any, _: object) -> str:
        await page.route(
            "**/*", lambda route: route.fulfill(body="<title>mine</title>", content_type="text/html")
        )
        await page.goto(f"{site.url}/good")
        return str(await page.title())

    assert "mine" == await tab.run(body, name="test/route")
    assert "good" == await goto(tab, f"{site.url}/good")


@on_shared_browser
async def test_popups_are_capped_and_closed_after_the_call(
    driver: PlaywrightDriver, tab: PlaywrightTab, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B34: a flood of windows."""
    monkeypatch.setattr("penelope.pages.browser.live.POPUPS_MAX", 4)

    async def flood(page: Any, _: object) -> int:
        await page.evaluate("for (let i = 0; i < 12; i++) window.open('about:blank', 'w' + i)")
        while len(page.context.pages) > 5:  # noqa: ASYNC110 - its popups are closed beside
            await asyncio.sleep(0.02)
        return len(page.context.pages)

    await goto(tab, f"{site.url}/good")
    with trio.fail_after(20), capture_logs() as logs:
        assert 5 == await tab.run(flood, name="test/flood")
    assert [12] == [entry["seen"] for entry in logs if entry["event"] == "popups closed"]
    context = (await driver.keeper.ready()).context
    await until(lambda: len(context.pages) == 1, 20)
    assert "good" == await evaluate(tab, "document.title")
    await evaluate(tab, "void setTimeout(() => window.open('about:blank'), 50)")  # between calls
    await trio.sleep(0.3)
    await until(lambda: len(context.pages) == 1)


@on_shared_browser
async def test_an_expected_popup_is_the_plugins(
    driver: PlaywrightDriver, tab: PlaywrightTab, site: Site
) -> None:
    async def body(page: Any, _: object) -> str:
        async with page.expect_popup() as opening:
            await page.evaluate(f"void window.open('{site.url}/other')")
        popup = await opening.value
        await popup.wait_for_load_state()
        extra = await page.context.new_page()
        await extra.goto(f"{site.url}/good")
        return str(await popup.title()) + str(await extra.title())

    assert "othergood" == await tab.run(body, name="test/popup")
    context = (await driver.keeper.ready()).context
    await until(lambda: len(context.pages) == 1)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        " \tFILE:///etc/passwd",
        "fi\nle:///etc/passwd",
        "view-source:file:///etc/passwd",
        "view-source:http://127.0.0.1/",
        "chrome://settings",
        "chrome://crash",
        "devtools://devtools/bundled/inspector.html",
        "javascript:alert(1)",
        "about:version",
        "ftp://127.0.0.1/",
        "blob:http://127.0.0.1/1",
        "",
        "no-scheme.example/",
        "//127.0.0.1/",
        "about:srcdoc",
    ],
)
def test_dangerous_addresses_are_refused(url: str) -> None:
    """B30: after parsing as a browser does."""
    with pytest.raises(BadParameter, match="only http, https, data and about:blank"):
        allowed_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "data:,",
        "http://a.example/x",
        "HTTPS://a.example",
        "about:blank",
        "about:blank#x",
        "data:text/html,x",
        " http://127.0.0.1:1/",
    ],
)
def test_usual_addresses_are_allowed(url: str) -> None:
    allowed_url(url)


@on_shared_browser
async def test_a_plugin_that_goes_to_a_dangerous_address_fails(tab: PlaywrightTab, site: Site) -> None:
    """B30, by a plugin: it never sees the page, and the page leaves."""
    seen: list[str] = []

    async def body(page: Any, _: object) -> None:
        await page.goto("file:///etc/hostname")
        seen.append(await page.content())

    for url in ("file:///etc/hostname", "chrome://version", "view-source:file:///etc/hostname"):
        with pytest.raises(BadParameter, match="only http, https"):
            await goto(tab, url)
        await tab.heal()
        assert "about:blank" == tab.url
    with pytest.raises(BadParameter):
        await tab.run(body, name="test/file")
    assert [] == seen
    assert "good" == await goto(tab, f"{site.url}/good")


async def own_page(page: Any) -> Any:
    return await page.context.new_page()


async def own_popup(page: Any) -> Any:
    async with page.expect_popup() as opened_by_script:
        await page.evaluate("void open('about:blank')")
    return await opened_by_script.value


async def own_frame(page: Any) -> Any:
    await page.set_content("<iframe></iframe>")
    return page.frames[1]


@pytest.mark.parametrize("there", [own_page, own_popup, own_frame])
@on_shared_browser
async def test_no_page_that_a_plugin_opens_goes_to_a_dangerous_address(
    tab: PlaywrightTab, site: Site, there: Callable[[Any], Any]
) -> None:
    """B30, by every route: refused before it is sent, so that even who catches the error sees nothing of it."""
    seen: list[str] = []

    def going(url: str) -> Callable[[Any, Any], Any]:
        async def go(page: Any, _: object) -> None:
            place = await there(page)
            await place.goto(f"{site.url}/good")
            with pytest.raises(Error) as refused:
                await place.goto(url)
            seen.append(await place.title())
            raise refused.value

        return go

    for url in (
        "file:///etc/hostname",
        "chrome://version",
        "chrome://crash",
        "view-source:http://a.example",
    ):
        with pytest.raises(BadParameter, match="only http, https"):
            await tab.run(going(url), name="test/own")
        await tab.heal()
        assert "good" == await goto(tab, f"{site.url}/good")
    assert ["good"] * 4 == seen


@pytest.mark.parametrize("there", [own_page, own_popup])
@on_shared_browser
async def test_a_page_of_a_plugins_own_that_comes_to_a_dangerous_address_is_closed(
    tab: PlaywrightTab, site: Site, there: Callable[[Any], Any]
) -> None:
    """B30: by the browser's own protocol, which is no `goto`."""

    async def go(page: Any, _: object) -> str:
        place = await there(page)
        session = await page.context.new_cdp_session(place)
        await session.send("Page.navigate", {"url": "file:///etc/hostname"})
        await place.wait_for_timeout(2000)
        return str(await place.content())

    with pytest.raises(PageLost, match="was closed"):
        await tab.run(go, name="test/own")
    assert "good" == await goto(tab, f"{site.url}/good")


@on_shared_browser
async def test_a_page_may_go_to_what_it_made_itself(
    driver: PlaywrightDriver, tab: PlaywrightTab, site: Site
) -> None:
    """A `blob:` of a site's own, as many show a file; opened afresh, the page is where it was before."""
    script = """void setTimeout(() => location = URL.createObjectURL(
        new Blob(["<title>made</title>"], {type: "text/html"})))"""

    async def go(page: Any, _: object) -> str:
        await page.evaluate(script)
        await page.wait_for_function("document.title === 'made'")
        return str(await page.title())

    await goto(tab, f"{site.url}/good")
    assert "made" == await tab.run(go, name="test/blob")
    assert tab.url.startswith(f"blob:{site.url}/")
    assert "made" == await evaluate(tab, "document.title")
    for pid in renderers(driver):
        kill(pid)
    await until(lambda: tab.crashed)
    assert "good" == await evaluate(tab, "document.title")


def test_a_playwright_that_sends_in_another_way_is_left_alone() -> None:
    """Then the pages say where they came, as they do of all other ways."""

    class Connection:
        pass

    class Playwright:
        _impl_obj = type("Impl", (), {"_connection": Connection()})()

    for unknown in (Playwright(), object()):
        refuse_gotos(unknown)  # type: ignore[arg-type]
    assert {} == vars(Playwright._impl_obj._connection)


HANDLERS = {
    "of the page": lambda page, handler: page.on("console", handler),
    "of the context": lambda page, handler: page.context.on("console", handler),
    "once": lambda page, handler: page.once("console", handler),
}


@pytest.mark.parametrize("listen", HANDLERS.values(), ids=HANDLERS)
@pytest.mark.parametrize("how", ["ends", "is cancelled"])
@on_shared_browser
async def test_a_handler_that_still_runs_ends_with_its_call(
    tab: PlaywrightTab, listen: Any, how: str
) -> None:
    """Playwright starts it, outside of the call's context: it would work the page of the next one."""
    steps: list[float] = []

    async def handler(_: object) -> None:
        while True:
            steps.append(time.monotonic())
            await asyncio.sleep(0.01)

    async def body(page: Any, _: object) -> None:
        listen(page, handler)
        await page.evaluate("console.log('x')")
        while not steps:  # noqa: ASYNC110 - set in another call
            await asyncio.sleep(0.01)
        if how == "is cancelled":
            await asyncio.sleep(60)

    with trio.move_on_after(1) as scope:
        await tab.run(body, name="test/handler")
    assert scope.cancelled_caught == (how == "is cancelled")
    over = time.monotonic()
    await tab.heal()
    await evaluate(tab, "console.log('y')")
    await trio.sleep(0.2)
    assert steps[-1] < over


@on_shared_browser
async def test_a_handler_may_be_of_each_call_at_work_and_ends_with_the_last(
    driver: PlaywrightDriver, tab: PlaywrightTab
) -> None:
    """Playwright does not say whose it is: nobody's handler ends before its call does."""
    steps: list[float] = []
    seen_off: list[bool] = []

    async def handler(_: object) -> None:
        while True:
            steps.append(time.monotonic())
            await asyncio.sleep(0.01)

    async def listener(page: Any, _: object) -> float:
        page.on("console", handler)
        await page.evaluate("setTimeout(() => console.log('x'), 100)")
        while not seen_off:  # noqa: ASYNC110 - set on Trio's side
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        return time.monotonic()

    async def neighbour(_: Any, __: object) -> None:
        while not steps:  # noqa: ASYNC110 - set in another call
            await asyncio.sleep(0.01)

    other = await driver.open_tab("other")
    async with trio.open_nursery() as nursery:

        async def listen() -> None:
            over.append(await tab.run(listener, name="test/listener"))

        over: list[float] = []
        nursery.start_soon(listen)
        await other.run(neighbour, name="test/neighbour")
        seen_off.append(True)
    assert steps[-1] > over[0] - 0.05, "it ended with its neighbour"
    await trio.sleep(0.2)
    assert steps[-1] < over[0] + 0.15


@on_shared_browser
async def test_the_next_call_can_route_although_pages_of_the_last_are_closed(
    tab: PlaywrightTab, site: Site
) -> None:
    """While one closes, the browser says of a route for all pages that everything is closed."""

    async def body(page: Any, _: object) -> str:
        await page.context.route("**/good", lambda route: route.fulfill(body="<title>routed</title>"))
        await page.goto(f"{site.url}/good")
        own = await page.context.new_page()
        await own.evaluate("void setTimeout(() => { while (1) {} }, 50)")  # it closes slowly
        await asyncio.sleep(0.1)
        return str(await page.title())

    for _ in range(5):
        assert "routed" == await tab.run(body, name="test/routes")
    assert "good" == await goto(tab, f"{site.url}/good")


async def test_a_page_of_a_plugins_own_that_does_not_close_is_closed(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop of its own would take a core for ever."""
    hung: list[bool] = []

    async def body(page: Any, _: object) -> None:
        own = await page.context.new_page()
        await own.evaluate("void setTimeout(() => { while (1) {} }, 50)")
        await asyncio.sleep(0.2)

    async with opened(tmp_path / "p") as (driver, tab):

        async def hangs(self: Page, **_: object) -> None:
            hung.append(True)
            await asyncio.sleep(60)

        monkeypatch.setattr(Page, "close", hangs)
        await tab.run(body, name="test/own")
        context = (await driver.keeper.ready()).context
        await until(lambda: len(context.pages) == 1, 8)
        assert hung
        await goto(tab, f"{site.url}/good")
        monkeypatch.undo()


@pytest.mark.parametrize("url", ["data:", "DATA:text/html", " data:text/html;base64"])
def test_a_data_url_without_a_comma_is_refused(url: str) -> None:
    """To the browser it is none."""
    with pytest.raises(BadParameter, match="content after a comma"):
        allowed_url(url)


@on_shared_browser
async def test_a_plugins_own_goto_to_what_is_no_page_is_the_callers_fault(
    tab: PlaywrightTab, site: Site
) -> None:
    """B30: `400`, also of those at which the browser says "aborted", "not found" or nothing, and ends the page."""
    for url in (
        "chrome://crash",
        "chrome://kill",
        "javascript:1",
        "file:///no/such/file",
        "view-source:http://127.0.0.1:9/",
        "data:text/html",
        "mailto:somebody@a.example",
        "http://",
        "x",
    ):
        with pytest.raises(BadParameter, match=r"^url is "):
            await goto(tab, url)
        await tab.heal()
        assert "good" == await goto(tab, f"{site.url}/good")


@on_shared_browser
async def test_a_body_that_closes_its_page_costs_the_next_one_nothing(tab: PlaywrightTab, site: Site) -> None:
    async def close(page: Any, _: object) -> None:
        await page.close()

    async def close_and_look(page: Any, _: object) -> None:
        await page.close()
        await page.title()

    await goto(tab, f"{site.url}/good")
    await tab.run(close, name="test/close")
    assert "good" == await evaluate(tab, "document.title")
    with pytest.raises(PageLost, match="was closed"):
        await tab.run(close_and_look, name="test/close")
    assert "good" == await evaluate(tab, "document.title")


@on_shared_browser
async def test_pages_are_opened_while_calls_begin_and_end(
    driver: PlaywrightDriver, tab: PlaywrightTab
) -> None:
    """The opening of a page is nobody's handler: a call that ends beside it must not end it."""

    async def shortly(_: Any, __: object) -> None:
        await asyncio.sleep(0.005)

    async with trio.open_nursery() as nursery:

        async def call_and_call() -> None:
            while True:
                await tab.run(shortly, name="test/shortly")

        nursery.start_soon(call_and_call)
        for number in range(6):
            another = await driver.open_tab(f"t{number}")
            await another.close()
        nursery.cancel_scope.cancel()


@on_shared_browser
async def test_a_call_costs_little(driver: PlaywrightDriver, tab: PlaywrightTab) -> None:
    """No timing, but no growth either: 300 calls leave neither tasks nor handlers."""

    async def nothing(_: Any, __: object) -> None:
        return None

    async def tasks() -> int:
        return len(asyncio.all_tasks())

    await tab.run(nothing, name="test/nothing")
    before = await driver.thread.run(tasks)
    for _ in range(300):
        await tab.run(nothing, name="test/nothing")
    assert before == await driver.thread.run(tasks)


@on_shared_browser
async def test_cancelling_at_random_moments_leaves_nothing(
    driver: PlaywrightDriver, tab: PlaywrightTab, site: Site
) -> None:
    """B10, B29: no page without an owner, and the page works afterwards."""
    dice = random.Random(7)
    context = (await driver.keeper.ready()).context
    for number in range(30):
        with trio.move_on_after(dice.uniform(0, 0.06)), suppress(SiteFailed):
            await goto(tab, f"{site.url}/{dice.choice(['good', 'silent', 'alert', 'loop', 'typed'])}")
        if number % 3 == 0:
            with trio.move_on_after(dice.uniform(0, 0.2)):
                opened_tab = await driver.open_tab(f"t{number}")
                await opened_tab.close()
        if dice.random() < 0.7:
            await tab.heal()
    await tab.heal()
    assert "good" == await goto(tab, f"{site.url}/good")
    await until(lambda: len(context.pages) == 1)
    assert [tab.live] == driver.lives()
    assert tab.live is not None
    assert tab.live.run is None
