"""A site that shows what a visitor looks like to it, from a page and from each kind of worker: real, on loopback."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ASK = """async () => {
  const data = navigator.userAgentData, dates = Intl.DateTimeFormat().resolvedOptions();
  return {
    user_agent: navigator.userAgent, platform: navigator.platform,
    language: navigator.language, languages: navigator.languages.join(),
    zone: dates.timeZone, locale: dates.locale, number: (1234.5).toLocaleString(),
    hints: data ? JSON.stringify(await data.getHighEntropyValues(['platformVersion', 'fullVersionList'])) : null,
  };
}"""
WORKER = f"""const ask = {ASK};
onmessage = async event => (event.source || self).postMessage(await ask());
onconnect = event => {{ const port = event.ports[0]; port.onmessage = async () => port.postMessage(await ask()); }};
self.oninstall = () => self.skipWaiting();
self.onactivate = event => event.waitUntil(self.clients.claim());
"""
PAGE = f"""<!doctype html><title>mirror</title><script>
const ask = {ASK};
const told = (target, send) => new Promise(done => {{ target.onmessage = e => done(e.data); send.postMessage(1); }});
async function all() {{
  const worker = new Worker('/worker.js'), port = new SharedWorker('/shared.js').port;
  await navigator.serviceWorker.register('/service.js');
  const service = (await navigator.serviceWorker.ready).active;
  return {{
    page: await ask(), worker: await told(worker, worker), shared: await told(port, port),
    service: await told(navigator.serviceWorker, service),
  }};
}}
const place = () => new Promise(done => navigator.geolocation.getCurrentPosition(
  at => done([at.coords.latitude, at.coords.longitude]), error => done(error.message)));
</script>"""


class Mirror:
    """Attributes:
    url: its root, with a slash at the end.
    seen: the headers of each request by its path, names in lower case.
    """

    def __init__(self, url: str, seen: dict[str, dict[str, str]]) -> None:
        self.url = url
        self.seen = seen

    def said(self, header: str) -> set[str | None]:
        """What the requests had as this header."""
        return {headers.get(header) for path, headers in self.seen.items() if path != "/favicon.ico"}


@contextmanager
def running_mirror() -> Iterator[Mirror]:
    """The site, for as long as the block."""
    seen: dict[str, dict[str, str]] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            seen[self.path] = {name.lower(): value for name, value in self.headers.items()}
            is_page = not self.path.endswith(".js")
            data = (PAGE if is_page else WORKER).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html" if is_page else "text/javascript")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    with running(Handler) as port:
        yield Mirror(f"http://127.0.0.1:{port}/", seen)


@contextmanager
def running(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """A server of threads on loopback, for as long as the block; its port."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: Any) -> None:
            """A browser that hangs up is no news."""

    server = Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
