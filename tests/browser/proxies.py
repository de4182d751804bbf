"""A forward proxy that demands a user and a password: real, on loopback; every name leads to 127.0.0.1."""

import base64
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from tests.browser.mirrors import running

USER, PASSWORD = "me", "p@ss:word"
ALLOWED = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
OWN = {"proxy-authorization", "proxy-connection", "connection"}


class Proxy:
    """Attributes:
    port: on loopback.
    asked: what was let through, as `METHOD host:port`.
    refused: how many requests had no password, or a wrong one.
    """

    def __init__(self) -> None:
        self.port = 0
        self.asked: list[str] = []
        self.refused = 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: Proxy

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if not self._may(f"GET {parts.netloc}"):
            return
        with socket.create_connection(("127.0.0.1", parts.port or 80)) as site:
            path = parts.path + (f"?{parts.query}" if parts.query else "")
            kept = [(name, value) for name, value in self.headers.items() if name.lower() not in OWN]
            head = "".join(f"{name}: {value}\r\n" for name, value in kept)
            site.sendall(f"GET {path} HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode())
            while data := site.recv(65536):
                self.wfile.write(data)
        self.close_connection = True

    def do_CONNECT(self) -> None:
        if not self._may(f"CONNECT {self.path}"):
            return
        with socket.create_connection(("127.0.0.1", int(self.path.rpartition(":")[2]))) as site:
            self.send_response(200)
            self.end_headers()
            relay(self.connection, site)
        self.close_connection = True

    def _may(self, what: str) -> bool:
        if self.headers.get("Proxy-Authorization") == ALLOWED:
            self.proxy.asked.append(what)
            return True
        self.proxy.refused += 1
        self.send_response(407)
        self.send_header("Proxy-Authenticate", 'Basic realm="proxy"')
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"who?")
        return False

    def log_message(self, *_: Any) -> None:
        """Quiet."""


def relay(one: socket.socket, two: socket.socket) -> None:
    """Bytes both ways, until either end is done."""
    other = {one: two, two: one}
    while True:
        for end in select.select(list(other), [], [], 30)[0]:
            if not (data := end.recv(65536)):
                return
            other[end].sendall(data)


@contextmanager
def running_proxy() -> Iterator[Proxy]:
    """The proxy, for as long as the block."""
    proxy = Proxy()
    with running(type("Handler", (_Handler,), {"proxy": proxy})) as port:
        proxy.port = port
        yield proxy
