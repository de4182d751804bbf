"""Answers that no HTTP library sends, byte by byte, and a site whose certificate nobody signed.

Source: contract, section 3; docs/pages.md.
"""

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import trio

HEAD: Final = b"HTTP/1.1 200 OK\r\n"
REQUEST_MAX: Final = 65_536
EVERY_S: Final = 0.2
CERTIFICATE: Final = Path(__file__).with_name(
    "hostile.pem"
)  # for 127.0.0.1, with its key, which is no secret

Reply = Callable[[trio.abc.Stream], Awaitable[None]]


async def _slow_head(stream: trio.abc.Stream) -> None:
    """A head that never ends."""
    await stream.send_all(HEAD)
    number = 0
    while True:
        await stream.send_all(b"X-More-%d: x\r\n" % number)
        number += 1
        await trio.sleep(EVERY_S)


async def _silence(_stream: trio.abc.Stream) -> None:
    await trio.sleep_forever()


async def _nothing(_stream: trio.abc.Stream) -> None:
    """The connection ends without an answer."""


async def _garbage(stream: trio.abc.Stream) -> None:
    await stream.send_all(b"\x00\xff\x15\x03\x01 no HTTP at all" * 100)


async def _huge_head(stream: trio.abc.Stream) -> None:
    await stream.send_all(HEAD + b"X-Huge: " + b"x" * 2_000_000 + b"\r\n\r\n<title>huge</title>")


async def _cut_page(stream: trio.abc.Stream) -> None:
    """A page that breaks off."""
    await stream.send_all(
        HEAD + b"Content-Type: text/html\r\nContent-Length: 5000\r\n\r\n<title>cut</title><p>first"
    )


async def _cut_download(stream: trio.abc.Stream) -> None:
    """An attachment that breaks off."""
    await stream.send_all(
        HEAD
        + b'Content-Disposition: attachment; filename="cut.bin"\r\nContent-Length: 500000\r\n\r\n'
        + b"x" * 50_000
    )
    await trio.sleep(EVERY_S)


async def _page(stream: trio.abc.Stream) -> None:
    body = b"<title>secure</title>"
    await stream.send_all(
        HEAD + b"Content-Type: text/html\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    )


REPLIES: Final[dict[str, Reply]] = {
    "slow-head": _slow_head,
    "silence": _silence,
    "nothing": _nothing,
    "garbage": _garbage,
    "huge-head": _huge_head,
    "cut-page": _cut_page,
    "cut-download": _cut_download,
}
SECURE: Final = ("self-signed", "no-tls")


@dataclass(frozen=True, slots=True)
class Wire:
    """The ports: of the bytes, and of the bad certificate."""

    host: str
    port: int
    secure_port: int

    def url(self, what: str) -> str:
        """Where a reply, or one of `SECURE`, is to be had."""
        if what == "self-signed":
            return f"https://{self.host}:{self.secure_port}/"
        if what == "no-tls":
            return f"https://{self.host}:{self.port}/nothing"
        return f"http://{self.host}:{self.port}/{what}"


async def serve_wire(host: str, *, task_status: "trio.TaskStatus[Wire]" = trio.TASK_STATUS_IGNORED) -> None:
    """Serve both until cancelled, on free ports of `host`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    async with trio.open_nursery() as nursery:
        plain = await trio.open_tcp_listeners(0, host=host)
        secure = await trio.open_ssl_over_tcp_listeners(0, context, host=host)
        nursery.start_soon(trio.serve_listeners, _answer, plain)
        nursery.start_soon(trio.serve_listeners, partial(_guarded, _page), secure)
        port = plain[0].socket.getsockname()[1]
        secure_port = secure[0].transport_listener.socket.getsockname()[1]  # type: ignore[attr-defined]
        task_status.started(Wire(host=host, port=port, secure_port=secure_port))


async def _answer(stream: trio.abc.Stream) -> None:
    await _guarded(_chosen, stream)


async def _chosen(stream: trio.abc.Stream) -> None:
    asked = bytes(await stream.receive_some(REQUEST_MAX))
    words = asked.split(b" ", 2)
    reply = REPLIES.get(words[1].decode("latin-1").strip("/") if len(words) > 1 else "")
    if reply is not None:
        await reply(stream)


async def _guarded(reply: Reply, stream: trio.abc.Stream) -> None:
    """A browser that hangs up, or does not like the certificate, is what this is about."""
    async with stream:
        try:
            await reply(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError, OSError):
            return
