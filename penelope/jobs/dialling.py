"""How a POST reaches its receiver: look the name up once, judge every address, dial one of these and no other.

The name stays the name: `Host`, TLS's SNI and the certificate's check are as if nothing stood between. Only what the
connection is opened to is decided here, so a name that changes between two look-ups gains nothing: there is one.

Each request has a connection of its own, so that none goes stale and nothing is ever sent twice for one attempt.

Source: contract, section 11 ("Where a POST may go"); scenarios J37, J62 to J66; RFC 8305 (several addresses).
"""

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

import httpcore
import httpx
import trio

from penelope.jobs.answers import Barred, NoSuchHost, of_error
from penelope.jobs.screening import Policy, Rules
from penelope.pages.addresses import Address
from penelope.pages.gate import own_addresses

NEXT_ADDRESS_AFTER_S: Final = 0.25
CLOSE_S: Final = 1.0
LOOK_UP_S: Final = 5.0
TRAIL: Final = "penelope.trail"  # the extension of a request that takes a `Trail`

Dial = Callable[[str], Awaitable[httpcore.AsyncNetworkStream]]


@dataclass(eq=False, slots=True)
class Trail:
    """What is known of a request's way when it is over, however it ended.

    Attributes:
        address: that was dialled: the one that answered, else the one whose failure is told, or the last one before
            the time was over; None: none was.
    """

    address: str | None = None


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, in the system's order; a zone (`%eth0`) follows those that need one.

    Raises:
        httpcore.ConnectError: it has none.
    """
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(host) from NoSuchHost(getattr(error, "strerror", None) or str(error))
    return list(dict.fromkeys(_zoned(entry[4]) for entry in found))


def _zoned(address: tuple[Any, ...]) -> str:
    text = str(address[0])
    return f"{text}%{address[3]}" if len(address) == 4 and address[3] and "%" not in text else text


async def refusal_now(
    rules: Rules, url: str, own: Callable[[], Collection[Address]] = own_addresses
) -> str | None:
    """Why a POST to this URL may not be made as things are now, in words; None: it may. When it is made, it is judged
    anew.

    Args:
        url: one that can be called.
    """
    if rules.policy is Policy.ANY:
        return None
    parts = httpx.URL(url)
    host = parts.raw_host.decode("ascii")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with trio.fail_after(LOOK_UP_S):
            addresses = await resolve(host, port)
    except trio.TooSlowError:
        return f"{host} could not be looked up within {LOOK_UP_S:.0f} s"
    except httpcore.ConnectError as error:
        return f"{host} could not be looked up: {error.__cause__}"
    mine = own()
    return next(filter(None, (rules.refusal(host, port, address, mine) for address in addresses)), None)


class Dialler(httpcore.TrioBackend):
    """Opens the connection of one request."""

    def __init__(self, rules: Rules, trail: Trail, own: Callable[[], Collection[Address]]) -> None:
        self._rules = rules
        self._trail = trail
        self._own = own
        self._stream: httpcore.AsyncNetworkStream | None = None

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection to one of the host's addresses.

        Raises:
            httpcore.ConnectError: it has none; none takes the connection; or, from `Barred`, one of them may not be
                dialled: another look-up may put that one first, so it refuses the host.
        """
        addresses = await resolve(host, port)
        if not addresses:
            raise httpcore.ConnectError(host) from NoSuchHost("it has no address")
        self._judge(host, port, addresses)
        connect = super().connect_tcp

        async def dial(address: str) -> httpcore.AsyncNetworkStream:
            # An address in digits: nothing is looked up again.
            return await connect(address, port, timeout, local_address, socket_options)

        self._stream = await first(spread(addresses), dial, self._trail)
        return self._stream

    async def hang_up(self) -> None:
        """Close the connection, if there is one, whatever has become of what was built on it."""
        if self._stream is not None:
            await self._stream.aclose()

    def _judge(self, host: str, port: int, addresses: Iterable[str]) -> None:
        if self._rules.policy is Policy.ANY:
            return
        own = self._own()
        for address in addresses:
            if (refusal := self._rules.refusal(host, port, address, own)) is not None:
                raise httpcore.ConnectError(host) from Barred(f"not sent: {refusal}")


def spread(addresses: Iterable[str]) -> list[str]:
    """The addresses with their families taking turns, beginning with the first one's: where one family leads nowhere,
    the other comes second, not last.
    """
    families: dict[bool, list[str]] = {}
    for address in addresses:
        families.setdefault(":" in address, []).append(address)
    return [address for turn in zip_longest(*families.values()) for address in turn if address is not None]


async def first(addresses: list[str], dial: Dial, trail: Trail) -> httpcore.AsyncNetworkStream:
    """Dial one after the other, each when the one before has failed or takes long; the first that answers is taken.

    Raises:
        httpcore.ConnectError: none did. Of several failures the first that says more than that there is no way.
    """
    found: list[tuple[str, httpcore.AsyncNetworkStream]] = []
    errors: list[tuple[str, httpcore.ConnectError]] = []

    async def attempt(address: str, failed: trio.Event) -> None:
        trail.address = address
        try:
            stream = await dial(address)
        except httpcore.ConnectError as error:
            errors.append((address, error))
            failed.set()
            return
        if found:  # both at once
            await stream.aclose()
            return
        found.append((address, stream))
        nursery.cancel_scope.cancel(reason="an address answered")

    try:
        async with trio.open_nursery() as nursery:
            for address in addresses:
                failed = trio.Event()
                nursery.start_soon(attempt, address, failed, name=f"dialling {address}")
                with trio.move_on_after(NEXT_ADDRESS_AFTER_S):
                    await failed.wait()
    except BaseException:  # the time is over, just as an address answered
        for _, stream in found:
            with trio.move_on_after(CLOSE_S, shield=True):
                await stream.aclose()
        raise
    if found:
        trail.address, stream = found[0]
        return stream
    telling = [(address, error) for address, error in errors if of_error(error).error_class != "unreachable"]
    trail.address, error = (telling or errors)[0]
    raise error


class Dialling(httpx.AsyncBaseTransport):
    """HTTP/1.1, each request over a connection of its own that is dialled so."""

    def __init__(
        self,
        rules: Rules,
        trust: Callable[[], Awaitable[ssl.SSLContext]],
        own: Callable[[], Collection[Address]] = own_addresses,
    ) -> None:
        """`trust`: the authorities, asked for when a receiver wants TLS. `own`: this machine's addresses, now."""
        self._rules = rules
        self._trust = trust
        self._own = own

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.AsyncByteStream)
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        asked = httpcore.Request(
            method=request.method,
            url=url,
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        dialler = Dialler(self._rules, request.extensions.get(TRAIL) or Trail(), self._own)
        trusted = await self._trust() if url.scheme == b"https" else None
        connection = httpcore.AsyncHTTPConnection(url.origin, trusted, network_backend=dialler)
        try:
            try:
                answered = await connection.handle_async_request(asked)
            except BaseException:
                # Cut off in the midst of a handshake, httpcore leaves it open.
                with trio.move_on_after(CLOSE_S, shield=True):
                    await dialler.hang_up()
                raise
        except _OF_HTTPCORE as error:
            raise _as_httpx(error) from error
        return httpx.Response(
            answered.status,
            headers=answered.headers,
            stream=_Body(answered, dialler),
            extensions=answered.extensions,
        )


class _Body(httpx.AsyncByteStream):
    """A receiver's body; its connection is closed with it."""

    def __init__(self, answered: httpcore.Response, dialler: Dialler) -> None:
        self._answered = answered
        self._dialler = dialler

    async def __aiter__(self) -> AsyncIterator[bytes]:  # noqa: ASYNC900  # httpx asks for one
        try:
            async for part in self._answered.aiter_stream():
                yield part
        except _OF_HTTPCORE as error:
            raise _as_httpx(error) from error

    async def aclose(self) -> None:
        try:
            await self._answered.aclose()
        finally:
            with trio.move_on_after(CLOSE_S, shield=True):
                await self._dialler.hang_up()


_OF_HTTPCORE: Final = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException)


def _as_httpx(error: Exception) -> httpx.TransportError:
    """One of httpcore's errors as httpx's, which has the same name."""
    meant: type[httpx.TransportError] = getattr(httpx, type(error).__name__)
    return meant(str(error))
