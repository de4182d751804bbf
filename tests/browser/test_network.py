"""`PENELOPE_PAGE_NETWORK=public` on a real browser: sites on loopback, names through the gate's own seams."""

import base64
import hashlib
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import trio

from penelope.errors import NetworkRefused, SiteFailed
from penelope.pages.browser.driver import open_browser
from penelope.pages.browser.persona import BrowserOptions
from penelope.pages.driver import Driver, Tab
from penelope.pages.gate import Gate, connect, open_gate, own_addresses
from tests.browser.browsers import goto
from tests.browser.mirrors import running

PUBLIC = "93.184.216.34"
NAMES = {
    "outside.test": [PUBLIC],
    "inside.test": ["10.0.0.5"],
    "loop.test": ["127.0.0.1"],
    "mixed.test": [PUBLIC, "::1"],
    "cloud.test": ["169.254.169.254"],
}
PAGE = "<!doctype html><title>outside</title><body>outside</body>"
SERVICE = """self.oninstall = () => self.skipWaiting(); self.onactivate = e => e.waitUntil(self.clients.claim());
onmessage = async e => e.source.postMessage(await fetch(e.data, {mode: 'no-cors'}).then(() => 'in', () => 'out'));"""


WORKER = """onmessage = async e =>
    postMessage(await fetch(e.data, {mode: 'no-cors'}).then(() => 'in', () => 'out'))"""
TRY = """async inner => {
    const added = (name, where, more) => where.append(Object.assign(document.createElement(name), more));
    const told = ask => new Promise(ask);
    added('iframe', document.body, {src: inner + '/frame'});
    added('link', document.head, {rel: 'preconnect', href: inner});
    navigator.sendBeacon(inner + '/beacon', 'x');
    const worker = new Worker(URL.createObjectURL(new Blob([`WORKER`])));
    const worked = told(say => { worker.onmessage = e => say(e.data); worker.postMessage(inner + '/worker') });
    return [
        await fetch(inner + '/fetch', {mode: 'no-cors'}).then(() => 'in', () => 'out'),
        await told(say => {
            const socket = new WebSocket(inner.replace('http', 'ws') + '/socket');
            socket.onopen = () => say('in'); socket.onerror = () => say('out') }),
        await told(say => {
            const image = new Image();
            image.onload = () => say('in'); image.onerror = () => say('out'); image.src = inner + '/image' }),
        await worked,
    ];
}""".replace("WORKER", WORKER)


class Site:
    """Both sides of the fence, on one port of loopback.

    Attributes:
        seen: what was asked for, as `host path`.
    """

    def __init__(self, port: int, seen: list[str]) -> None:
        self.port = port
        self.seen = seen

    def url(self, host: str, path: str = "/") -> str:
        return f"http://{host}:{self.port}{path}"

    def asked_inside(self) -> list[str]:
        """Requests that no page may make."""
        return [what for what in self.seen if not what.startswith("outside.test")]


@contextmanager
def running_site() -> Iterator[Site]:
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            host = (self.headers.get("Host") or "").partition(":")[0]
            seen.append(f"{host} {self.path}")
            if self.headers.get("Upgrade") == "websocket":
                key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
                self.send_response(101)
                self.send_header("Upgrade", "websocket")
                self.send_header("Connection", "Upgrade")
                self.send_header(
                    "Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
                )
                self.end_headers()
                self.close_connection = True
                return
            to = self.path.partition("?to=")[2]
            data = (SERVICE if self.path == "/service.js" else PAGE).encode()
            self.send_response(302 if to else 200)
            if to:
                self.send_header("Location", to)
            self.send_header("Content-Type", "text/javascript" if self.path == "/service.js" else "text/html")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    with running(Handler) as port:
        yield Site(port, seen)


@pytest.fixture
def site() -> Iterator[Site]:
    with running_site() as site:
        yield site


async def names(host: str, _: int) -> list[str]:
    await trio.lowlevel.checkpoint()
    if host.endswith(".invalid"):
        raise socket.gaierror("no such name")
    return NAMES.get(host, ["127.0.0.1"] if host == "localhost" else [host])


@asynccontextmanager
async def kept_outside(profile: Path) -> AsyncIterator[tuple[Driver, Tab]]:
    """A browser whose public addresses all lead to the test's site."""

    async def dial(address: str, port: int) -> trio.SocketStream:
        return await connect("127.0.0.1" if address == PUBLIC else address, port)

    async with (
        open_gate(Gate(resolve=names, connect=dial)) as gate,
        open_browser(BrowserOptions(profile=profile, gate=gate), None) as driver,
    ):
        yield driver, await driver.open_tab("main")


async def test_pages_reach_the_public_network_alone(tmp_path: Path, site: Site) -> None:
    """Loopback, private, metadata: by name and as address; a clear `403` that names the setting."""
    async with kept_outside(tmp_path / "p") as (driver, tab):
        assert "outside" == await goto(tab, site.url("outside.test"))
        hosts = [
            "127.0.0.1",
            "localhost",
            "[::1]",
            "2130706433",
            "0x7f.1",
            "[::ffff:127.0.0.1]",
            "[64:ff9b::7f00:1]",
        ]
        for host in [*hosts, "10.0.0.5", "inside.test", "loop.test", "mixed.test", "cloud.test"]:
            with pytest.raises(NetworkRefused, match=r"kept from pages.*PENELOPE_PAGE_NETWORK is public$"):
                await goto(tab, site.url(host))
        assert "outside" == await goto(tab, site.url("outside.test"))
        with pytest.raises(NetworkRefused, match=r"^cloud\.test is kept"):
            await goto(tab, "http://cloud.test/latest/meta-data/")
        with pytest.raises(NetworkRefused, match=r"^inside\.test is kept"):
            await driver.open_tab("second", "https://inside.test/")
        with pytest.raises(SiteFailed, match=r"^site cannot be reached: no such host nowhere\.invalid"):
            await goto(tab, "http://nowhere.invalid/")
    assert [] == site.asked_inside()


async def test_a_redirect_does_not_lead_inside(tmp_path: Path, site: Site) -> None:
    """The message names where it led to."""
    async with kept_outside(tmp_path / "p") as (_, tab):
        for inner in ("127.0.0.1", "inside.test"):
            with pytest.raises(NetworkRefused, match=f"^{inner}:{site.port} is kept"):
                await goto(tab, site.url("outside.test", f"/go?to={site.url(inner)}"))
        assert "outside" == await goto(tab, site.url("outside.test", f"/go?to={site.url('outside.test')}"))
    assert [] == site.asked_inside()


async def test_nothing_on_a_page_gets_inside(tmp_path: Path, site: Site) -> None:
    """Images, frames, fetches, WebSockets, workers, service workers, beacons, and a plugin's own requests."""
    async with kept_outside(tmp_path / "p") as (_, tab):
        await goto(tab, site.url("outside.test"))

        async def tried(page: Any, _: object) -> list[Any]:
            said = [
                await page.evaluate(TRY, site.url(host, ""))
                for host in ("127.0.0.1", "inside.test", "localhost")
            ]
            said.append(await page.evaluate(TRY, site.url("outside.test", "")))
            return said

        inner, outer = ["out"] * 4, ["in", "in", "out", "in"]  # a page is no image
        assert [inner, inner, inner, outer] == await tab.run(tried, name="test/tried")

        async def requested(page: Any, _: object) -> int:
            return int((await page.request.get(site.url("127.0.0.1"))).status)

        with pytest.raises(NetworkRefused, match="PENELOPE_PAGE_NETWORK"):
            await tab.run(requested, name="test/requested")
    assert [] == site.asked_inside()
    assert {"outside.test /fetch", "outside.test /socket", "outside.test /worker"} <= set(site.seen)


async def test_a_service_worker_does_not_get_inside(tmp_path: Path, site: Site, monkeypatch: Any) -> None:
    """What no route of Playwright's sees. `localhost` is a secure context, and public in this test."""
    monkeypatch.setitem(NAMES, "localhost", [PUBLIC])
    script = """async urls => {
        await navigator.serviceWorker.register('/service.js');
        const worker = (await navigator.serviceWorker.ready).active, said = [];
        for (const url of urls)
            said.push(await new Promise(say => {
                navigator.serviceWorker.onmessage = e => say(e.data); worker.postMessage(url) }));
        return said;
    }"""
    async with kept_outside(tmp_path / "p") as (_, tab):
        await goto(tab, site.url("localhost"))
        urls = [site.url("127.0.0.1"), site.url("inside.test"), site.url("localhost", "/outer")]

        async def tried(page: Any, _: object) -> Any:
            return await page.evaluate(script, urls)

        assert ["out", "out", "in"] == await tab.run(tried, name="test/tried")
    assert {"localhost"} == {what.partition(" ")[0] for what in site.seen}


@contextmanager
def listening_udp() -> Iterator[tuple[int, list[bytes]]]:
    """A port of UDP on every address of this machine, and what it hears."""
    heard: list[bytes] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("0.0.0.0", 0))
        udp.settimeout(0.1)
        done = threading.Event()

        def listen() -> None:
            while not done.is_set():
                with suppress(TimeoutError):
                    heard.append(udp.recvfrom(2048)[0])

        listener = threading.Thread(target=listen)
        listener.start()
        try:
            yield int(udp.getsockname()[1]), heard
        finally:
            done.set()
            listener.join()


@pytest.mark.parametrize("gated", [True, False])
async def test_webrtc_sends_nothing_around_the_gate(tmp_path: Path, site: Site, gated: bool) -> None:
    """UDP does not go through a proxy; without the gate it is heard."""
    outer = next((str(own) for own in own_addresses() if own.version == 4 and not own.is_loopback), None)
    if outer is None:
        pytest.skip("this machine has loopback alone, which WebRTC leaves out")
    script = """async server => {
        const peer = new RTCPeerConnection({iceServers: [{urls: 'stun:' + server}]});
        peer.createDataChannel('x'); await peer.setLocalDescription(await peer.createOffer());
        await new Promise(done => setTimeout(done, 2000));
    }"""
    with listening_udp() as (port, heard):

        async def tried(page: Any, _: object) -> None:
            await page.evaluate(script, f"{outer}:{port}")

        if gated:
            async with kept_outside(tmp_path / "p") as (_, tab):
                await goto(tab, site.url("outside.test"))
                await tab.run(tried, name="test/tried")
        else:
            async with open_browser(BrowserOptions(profile=tmp_path / "p"), None) as driver:
                tab = await driver.open_tab("main")
                await goto(tab, site.url("127.0.0.1"))
                await tab.run(tried, name="test/tried")
    assert gated == (not heard)
