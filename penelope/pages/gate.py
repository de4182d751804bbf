"""The gate: a proxy of the worker's own that every connection of its pages goes through, and that judges where to.

It resolves a name, judges every address, and dials the very address that it judged: so redirects, WebSockets, service
workers and names that change between two look-ups are covered alike. It relays bytes and reads none: TLS stays the
browser's.

SOCKS 5 and not HTTP, since then plain requests need not be parsed either. Interception in the browser was not chosen:
a route sees neither WebSockets nor service workers, and knows names, not addresses.

Source: contract, section 3 ("`PENELOPE_PAGE_NETWORK=public`"); design, section 7 (7).
"""

import errno
import socket
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import psutil
import structlog
import trio

from penelope.errors import BadSettings, CallFailed, NetworkRefused, SiteFailed
from penelope.pages import socks
from penelope.pages.addresses import Address, judge
from penelope.pages.socks import NotSocks, Reply, Target

DIAL_S: Final = 30.0  # look-up and all addresses
DIAL_ONE_S: Final = 8.0  # where another address is left to try
HANDSHAKE_S: Final = 10.0
CHUNK: Final = 64 * 1024
REMEMBERED: Final = 1000

Resolve = Callable[[str, int], Awaitable[list[str]]]
Connect = Callable[[str, int], Awaitable[trio.SocketStream]]

log = structlog.get_logger("penelope.gate")


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, in the order to try them."""
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def connect(address: str, port: int) -> trio.SocketStream:
    """A connection to this address and no other."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    dialled = trio.socket.socket(family, socket.SOCK_STREAM)
    try:
        await dialled.connect((address, port))
    except BaseException:
        dialled.close()
        raise
    return trio.SocketStream(dialled)


def own_addresses() -> frozenset[Address]:
    """Every address of this machine, now."""
    texts = [entry.address.partition("%")[0] for card in psutil.net_if_addrs().values() for entry in card]
    found: set[Address] = set()
    for text in texts:
        try:
            found.add(ip_address(text))
        except ValueError:  # a hardware address
            continue
    return frozenset(found)


class Gate:
    """Open it with `open_gate`.

    Attributes:
        port: where it listens on 127.0.0.1; 0 before it does.
    """

    def __init__(
        self,
        *,
        resolve: Resolve = resolve,
        connect: Connect = connect,
        own: Callable[[], Collection[Address]] = own_addresses,
    ) -> None:
        self.port = 0
        self._resolve = resolve
        self._connect = connect
        self._own = own
        self._failures: OrderedDict[Target, CallFailed] = OrderedDict()

    def failure(self, host: str, port: int) -> CallFailed | None:
        """What came of the last connection to this host, if it failed; immediate."""
        return self._failures.get(Target(host.strip("[]").lower(), port))

    async def serve(self, client: trio.SocketStream) -> None:
        """One connection of the browser's, to its end."""
        async with client:
            try:
                wanted = await _asked(client)
                if wanted is None:
                    return
                site = await self._reach(client, wanted)
                if site is not None:
                    async with site:
                        await _relay(client, site)
            except (NotSocks, trio.BrokenResourceError, trio.ClosedResourceError):
                return
            except Exception:  # one connection's trouble is not the worker's
                log.exception("a connection of a page failed in the gate")

    async def _reach(self, client: trio.SocketStream, wanted: Target) -> trio.SocketStream | None:
        """Dial, and tell the browser what came of it."""
        try:
            site = await self._dial(wanted)
        except CallFailed as failure:
            self._remember(wanted, failure)
            refused = isinstance(failure, NetworkRefused)
            await client.send_all(socks.reply(Reply.NOT_ALLOWED if refused else Reply.FAILED))
            return None
        self._failures.pop(wanted, None)
        try:
            await client.send_all(socks.reply(Reply.DONE))
        except BaseException:
            await trio.aclose_forcefully(site)
            raise
        return site

    async def _dial(self, wanted: Target) -> trio.SocketStream:
        """A connection to an address that was judged.

        Raises:
            NetworkRefused: one of the host's addresses is not public.
            SiteFailed: it cannot be reached.
        """
        shown = wanted.host if wanted.port in (80, 443) else f"{wanted.host}:{wanted.port}"
        try:
            with trio.fail_after(DIAL_S):
                addresses = await self._judged(wanted, shown)
                return await self._first(addresses, wanted.port)
        except trio.TooSlowError:
            raise SiteFailed(f"site cannot be reached: {shown} did not answer the connection") from None
        except OSError as error:
            raise SiteFailed(f"site cannot be reached: {_words(error).format(host=shown)}") from error

    async def _judged(self, wanted: Target, shown: str) -> list[str]:
        """All addresses of the host; one that is not public refuses it whole: another look-up may put it first."""
        try:
            addresses = await self._resolve(wanted.host, wanted.port)
        except (OSError, UnicodeError):
            raise SiteFailed(f"site cannot be reached: no such host {shown}") from None
        own = self._own()
        for address in addresses:
            if (what := judge(address, own)) is not None:
                where = "it" if address == wanted.host else f"its address {address}"
                raise NetworkRefused(
                    f"{shown} is kept from pages, since {where} is {what}: PENELOPE_PAGE_NETWORK is public"
                )
        return addresses

    async def _first(self, addresses: list[str], port: int) -> trio.SocketStream:
        """The first that answers, one after the other.

        Raises:
            OSError: of the last one.
        """
        error: OSError = OSError(errno.EADDRNOTAVAIL, "it has no address")
        for left, address in reversed(list(enumerate(reversed(addresses)))):
            with trio.move_on_after(DIAL_ONE_S if left else DIAL_S):
                try:
                    return await self._connect(address, port)
                except OSError as exc:
                    error = exc
                    continue
            error = OSError(errno.ETIMEDOUT, "it did not answer")
        raise error

    def _remember(self, wanted: Target, failure: CallFailed) -> None:
        """Chromium only says that SOCKS failed: whoever made the call asks here why."""
        news = str(self._failures.get(wanted)) != str(failure)
        self._failures[wanted] = failure
        self._failures.move_to_end(wanted)
        if len(self._failures) > REMEMBERED:
            self._failures.popitem(last=False)
        if news and isinstance(failure, NetworkRefused):
            log.warning(
                "a page was kept off an address", host=wanted.host, port=wanted.port, why=failure.message
            )


async def _asked(client: trio.SocketStream) -> Target | None:
    """Where the browser wants to go; None when it went, or asks for what there is not.

    Raises:
        NotSocks: it speaks something else.
    """
    wanted: Target | None = None
    with trio.move_on_after(HANDSHAKE_S):
        methods = await _exactly(client, socks.methods_to_come(await _exactly(client, socks.GREETING_BYTES)))
        if not socks.takes_no_login(methods):
            await client.send_all(socks.NO_METHOD)
            return None
        await client.send_all(socks.NO_LOGIN)
        head = await _exactly(client, socks.HEAD_BYTES)
        wanted = socks.target(head, await _exactly(client, socks.rest_to_come(head)))
        if wanted is None:
            await client.send_all(socks.reply(Reply.UNKNOWN_COMMAND))
    return wanted


async def _exactly(client: trio.SocketStream, count: int) -> bytes:
    """So many bytes.

    Raises:
        NotSocks: they did not come.
    """
    got = b""
    while len(got) < count:
        more = await client.receive_some(count - len(got))
        if not more:
            raise NotSocks("the end came early")
        got += more
    return got


async def _relay(client: trio.SocketStream, site: trio.SocketStream) -> None:
    """Bytes both ways, until both ends are done or one breaks."""
    async with trio.open_nursery() as nursery:

        async def pump(source: trio.SocketStream, sink: trio.SocketStream) -> None:
            try:
                while data := await source.receive_some(CHUNK):
                    await sink.send_all(data)
                await sink.send_eof()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                nursery.cancel_scope.cancel(reason="one end broke")

        nursery.start_soon(pump, client, site, name="to the site")
        await pump(site, client)


def _words(error: OSError) -> str:
    return {
        errno.ECONNREFUSED: "{host} refused the connection",
        errno.ECONNRESET: "{host} reset the connection",
        errno.ETIMEDOUT: "{host} did not answer the connection",
        errno.EHOSTUNREACH: "no route to {host}",
        errno.ENETUNREACH: "no route to {host}",
    }.get(error.errno or 0, "{host} cannot be connected to")


@asynccontextmanager
async def open_gate(gate: Gate) -> AsyncGenerator[Gate]:
    """Serve on a port of 127.0.0.1 for as long as the block."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    gate.port = int(listener.socket.getsockname()[1])
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_listeners, gate.serve, [listener])
        await nursery.start(serve, name="gate of the pages' network")
        yield gate
        nursery.cancel_scope.cancel(reason="the browser is closed")


@asynccontextmanager
async def open_network(*, public: bool, proxy: str | None) -> AsyncGenerator[Gate | None]:
    """What keeps pages on the public internet, for as long as the block; None: nothing does, or their proxy.

    Args:
        public: PENELOPE_PAGE_NETWORK is `public`.
        proxy: of the persona: its pages reach what it reaches, and nothing else.

    Raises:
        BadSettings: the proxy stands inside, or has no address.
    """
    if not public:
        yield None
    elif proxy is not None:
        await check_proxy(urlsplit(proxy).hostname or "")
        yield None
    else:
        async with open_gate(Gate()) as gate:
            yield gate


async def check_proxy(host: str, *, resolve: Resolve = resolve) -> None:
    """Refuse a proxy from which pages would reach this machine's network.

    Raises:
        BadSettings: as `open_network`.
    """
    try:
        with trio.fail_after(DIAL_S):
            addresses = await resolve(host, 0)
    except (OSError, UnicodeError, trio.TooSlowError):
        raise BadSettings(f"PENELOPE_PROXY is at {host}, which has no address now") from None
    own = own_addresses()
    for address in addresses:
        if (what := judge(address, own)) is not None:
            raise BadSettings(
                f"PENELOPE_PAGE_NETWORK is public, but the proxy {host} is at {address}, {what}: "
                "pages would reach what it reaches"
            )
