"""A persona's settings reach the browser: what a site sees, in pages and in workers, and how it is reached."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import trio
from structlog.testing import capture_logs

from penelope.errors import BadSettings, ProxyFailed, StartError
from penelope.pages.browser.driver import open_browser
from penelope.pages.browser.persona import BrowserOptions
from penelope.pages.driver import Driver, Tab
from tests.browser.browsers import evaluate, goto, mentions
from tests.browser.mirrors import Mirror, running_mirror
from tests.browser.proxies import PASSWORD, USER, Proxy, running_proxy

UA = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
KINDS = ("page", "worker", "shared", "service")


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    with running_mirror() as mirror:
        yield mirror


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with running_proxy() as proxy:
        yield proxy


@asynccontextmanager
async def persona(profile: Path, **options: Any) -> AsyncIterator[tuple[Driver, Tab]]:
    async with open_browser(BrowserOptions(profile=profile, **options), None) as driver:
        yield driver, await driver.open_tab("main")


def proxy_url(proxy: Proxy, password: str = PASSWORD) -> str:
    return f"http://{USER}:{quote(password, safe='')}@127.0.0.1:{proxy.port}"


async def test_page_and_workers_are_the_same_persona(tmp_path: Path, mirror: Mirror) -> None:
    """User agent, client hints, platform, time zone, languages, in page and worker: they agree (B46)."""
    worn = {"user_agent": UA, "locale": "de-DE", "timezone": "America/Sao_Paulo"}
    async with persona(tmp_path / "p", **worn) as (_, tab):
        await goto(tab, mirror.url)
        said = await evaluate(tab, "all()")
    assert dict.fromkeys(KINDS, said["page"]) == said
    expected = {
        "user_agent": UA,
        "language": "de-DE",
        "languages": "de-DE",
        "zone": "America/Sao_Paulo",
        "locale": "de-DE",
        "number": "1.234,5",
    }
    assert expected.items() <= said["page"].items()
    assert said["page"]["platform"].startswith("Linux")
    assert "156" not in said["page"]["hints"]
    assert "Chromium" not in said["page"]["hints"]
    assert {UA} == mirror.said("user-agent")
    assert {"de-DE"} == {str(language).partition(",")[0] for language in mirror.said("accept-language")}
    assert {"", None} == mirror.said("sec-ch-ua")


async def test_a_persona_without_settings_agrees_with_itself(tmp_path: Path, mirror: Mirror) -> None:
    """The browser's own."""
    async with persona(tmp_path / "p") as (_, tab):
        await goto(tab, mirror.url)
        said = await evaluate(tab, "all()")
        asked = "navigator.permissions.query({name: 'geolocation'}).then(answer => answer.state)"
        assert "granted" != await evaluate(tab, asked)
    assert dict.fromkeys(KINDS, said["page"]) == said


async def test_viewport_and_geolocation(tmp_path: Path, mirror: Mirror) -> None:
    """Of each page, those opened later included; every site may ask where it is."""
    async with persona(tmp_path / "p", viewport=(1000, 600), geolocation=(52.52, -13.405)) as (driver, main):
        for tab in (main, await driver.open_tab("second")):
            await goto(tab, mirror.url)
            assert [1000, 600] == await evaluate(tab, "[innerWidth, innerHeight]")
            assert [52.52, -13.405] == await evaluate(tab, "place()")


async def test_a_time_zone_that_is_none_stops_the_start(tmp_path: Path) -> None:
    """By its name, not as UTC in silence."""
    with pytest.raises(StartError, match="PENELOPE_TIMEZONE"):
        async with persona(tmp_path / "p", timezone="Europe/Atlantis"):
            raise AssertionError("started")


async def test_everything_goes_through_the_proxy(tmp_path: Path, mirror: Mirror, proxy: Proxy) -> None:
    """With its user and password, which are on no command line and in no log; loopback and names too."""
    named = mirror.url.replace("127.0.0.1", "site.test")
    with capture_logs() as logs:
        async with persona(tmp_path / "p", proxy=proxy_url(proxy)) as (_, tab):
            for url in (mirror.url, named):
                assert "mirror" == await goto(tab, url)
            await evaluate(tab, "fetch('/again').then(answer => answer.text())")
            assert [] == mentions(PASSWORD) + mentions(quote(PASSWORD, safe=""))
    port = mirror.url.rstrip("/").rpartition(":")[2]
    assert {f"GET 127.0.0.1:{port}", f"GET site.test:{port}"} <= set(proxy.asked)
    assert 3 <= proxy.asked.count(f"GET 127.0.0.1:{port}") + proxy.asked.count(f"GET site.test:{port}")
    assert "p@ss" not in str(logs)
    assert "p%40ss" not in str(logs)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_wrong_password_is_the_proxys(
    tmp_path: Path, mirror: Mirror, proxy: Proxy, scheme: str
) -> None:
    """Named as the proxy's; never a direct connection (B40)."""
    async with persona(tmp_path / "p", proxy=proxy_url(proxy, "wrong")) as (_, tab):
        with pytest.raises(
            ProxyFailed, match=r"^proxy cannot be used for 127.0.0.1:\d+: .*password \(407\)$"
        ):
            await goto(tab, mirror.url.replace("http", scheme))
        await tab.heal()
        assert 2 == await evaluate(tab, "1 + 1")
    assert {} == mirror.seen


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_a_proxy_that_is_down_is_named(tmp_path: Path, mirror: Mirror, scheme: str) -> None:
    """Never a direct connection."""
    async with persona(tmp_path / "p", proxy=f"{scheme}://127.0.0.1:1") as (_, tab):
        with pytest.raises(ProxyFailed, match=r"^proxy cannot be used for 127\.0\.0\.1"):
            await goto(tab, mirror.url)
    assert {} == mirror.seen


async def test_a_window_needs_a_display(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one the start says so, in one line."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BadSettings, match=r"^PENELOPE_HEADLESS is 0, but there is no display[^\n]*$"):
        async with persona(tmp_path / "p", headless=False):
            raise AssertionError("started")


@contextmanager
def display() -> Iterator[str]:
    """A screen without a monitor, as long as the block."""
    if (server := shutil.which("Xvfb")) is None:
        pytest.skip("needs Xvfb")
    out, told = os.pipe()
    words = [server, "-displayfd", str(told), "-screen", "0", "1280x1024x24", "-nolisten", "tcp"]
    running = subprocess.Popen(words, pass_fds=(told,), stderr=subprocess.DEVNULL)
    os.close(told)
    try:
        with os.fdopen(out) as number:
            yield f":{number.readline().strip()}"
    finally:
        running.terminate()
        running.wait()


async def test_with_a_window(tmp_path: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    """`PENELOPE_HEADLESS=0`: the same persona, and the user agent says no `Headless`."""
    with display() as name:
        monkeypatch.setenv("DISPLAY", name)
        with trio.fail_after(60):
            async with persona(tmp_path / "p", headless=False, locale="de-DE") as (_, tab):
                await goto(tab, mirror.url)
                said = await evaluate(tab, "all()")
    assert "Headless" not in said["page"]["user_agent"]
    assert "de-DE" == said["page"]["language"]
    assert dict.fromkeys(KINDS, said["page"]) == said
