"""A small web site that misbehaves on request: a real server on loopback, in threads of its own."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PAGE = "<!doctype html><title>{title}</title><body>{body}</body>"

PAGES = {
    "/good": PAGE.format(title="good", body="<h1 id=a>good</h1>"),
    "/other": PAGE.format(title="other", body="other"),
    "/alert": PAGE.format(title="alert", body="<script>alert('at load')</script>after"),
    "/alert-later": PAGE.format(title="later", body="<script>setTimeout(() => alert('later'), 50)</script>"),
    "/typed": PAGE.format(
        title="typed",
        body="<input id=a><script>onbeforeunload = e => { e.preventDefault(); return 'no' }</script>",
    ),
    "/console": PAGE.format(title="console", body="<script>setInterval(() => console.log('x'), 5)</script>"),
    "/busy-later": PAGE.format(title="busy", body="<script>setTimeout(() => { while (1); }, 100)</script>"),
    "/always-busy": PAGE.format(title="busy", body="<script>setInterval(() => { while (1); }, 1)</script>"),
    "/sync-xhr": PAGE.format(
        title="xhr",
        body="<script>setTimeout(() => { const x = new XMLHttpRequest(); x.open('GET', '/silent', false);"
        " x.send() }, 100)</script>",
    ),
    "/pictures": PAGE.format(title="pictures", body="".join(f"<img src=/other?{n}>" for n in range(10))),
    "/who": PAGE.format(title="who", body="<script>document.title = document.cookie</script>"),
}


class Site:
    """A site that runs.

    Attributes:
        url: its root, without a slash at the end.
        seen: the paths that were asked for, in order.
    """

    def __init__(self, server: "_Server") -> None:
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        self.seen = server.seen


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[str] = []
        self.stopping = threading.Event()

    def handle_error(self, *_: object) -> None:
        """A browser that hangs up is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.server.seen.append(self.path)
        if (page := PAGES.get(parts.path)) is not None:
            self._answer(200, page)
        elif (special := getattr(self, "_" + parts.path.strip("/").replace("-", "_"), None)) is not None:
            special(parse_qs(parts.query))
        else:
            self._answer(404, "nothing here")

    def _answer(self, status: int, body: str, *headers: tuple[str, str]) -> None:
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _silent(self, _: object) -> None:
        """Never answers."""
        self.server.stopping.wait(120)
        self.close_connection = True

    def _empty_reply(self, _: object) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _loop(self, _: object) -> None:
        self._answer(302, "", ("Location", "/loop"))

    def _moved(self, _: object) -> None:
        self._answer(302, "", ("Location", "/good"))

    def _status(self, query: dict[str, list[str]]) -> None:
        self._answer(int(query["code"][0]), query.get("body", [""])[0])

    def _login(self, _: object) -> None:
        self._answer(
            200,
            PAGE.format(title="login", body="in"),
            ("Set-Cookie", "kept=1; Max-Age=86400; Path=/"),
            ("Set-Cookie", "session=2; Path=/"),
        )

    def _download(self, _: object) -> None:
        self._answer(200, "data", ("Content-Disposition", "attachment; filename=a.txt"))

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def running_site() -> Iterator[Site]:
    """The site, for as long as the block."""
    server = _Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield Site(server)
    finally:
        server.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()
