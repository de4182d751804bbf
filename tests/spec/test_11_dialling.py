"""Contract, section 11: several addresses of one receiver within the one deadline (RFC 8305), on the mock clock."""

from typing import Any

import httpcore
import pytest
import trio

from penelope.jobs import answers
from penelope.jobs.dialling import NEXT_ADDRESS_AFTER_S, Trail, first

ONE, TWO, THREE = "192.0.2.1", "2001:db8::2", "192.0.2.3"


class Stream(httpcore.AsyncNetworkStream):
    def __init__(self) -> None:
        self.closed = False

    async def aclose(self) -> None:
        self.closed = True
        await trio.lowlevel.checkpoint()


class Network:
    """Addresses that answer after so many seconds, or fail then.

    Attributes:
        dialled: each address with when, seconds from the beginning.
    """

    def __init__(self, **_: Any) -> None:
        self.dialled: list[tuple[str, float]] = []
        self.streams: dict[str, Stream] = {}
        self.cancelled: list[str] = []
        self._fates: dict[str, tuple[float, Exception | None]] = {}

    def at(self, address: str, seconds: float, error: Exception | None = None) -> "Network":
        self._fates[address] = seconds, error
        return self

    async def dial(self, address: str) -> httpcore.AsyncNetworkStream:
        self.dialled.append((address, trio.current_time()))
        seconds, error = self._fates[address]
        try:
            await trio.sleep(seconds)
        except trio.Cancelled:
            self.cancelled.append(address)
            raise
        if error is not None:
            raise httpcore.ConnectError("failed") from error
        self.streams[address] = Stream()
        return self.streams[address]


async def test_the_first_that_answers_is_taken() -> None:
    network, trail = Network().at(ONE, 0.1).at(TWO, 0), Trail()
    assert await first([ONE, TWO], network.dial, trail) is network.streams[ONE]
    assert [(ONE, 0)] == network.dialled
    assert ONE == trail.address


async def test_one_that_hangs_does_not_hold_the_next_up() -> None:
    """The other is dialled a quarter of a second later, and the first is let go once that answers."""
    network, trail = Network().at(ONE, 1000).at(TWO, 0.1), Trail()
    assert await first([ONE, TWO], network.dial, trail) is network.streams[TWO]
    assert [(ONE, 0), (TWO, NEXT_ADDRESS_AFTER_S)] == network.dialled
    assert [ONE] == network.cancelled
    assert TWO == trail.address
    assert NEXT_ADDRESS_AFTER_S + 0.1 == pytest.approx(trio.current_time())


async def test_after_one_that_fails_the_next_is_dialled_at_once() -> None:
    network, trail = Network().at(ONE, 0.05, ConnectionRefusedError()).at(TWO, 0), Trail()
    assert await first([ONE, TWO], network.dial, trail) is network.streams[TWO]
    assert [(ONE, 0), (TWO, 0.05)] == network.dialled


async def test_a_slow_one_may_still_be_the_first_to_answer() -> None:
    network, trail = Network().at(ONE, 0.5).at(TWO, 10), Trail()
    assert await first([ONE, TWO], network.dial, trail) is network.streams[ONE]
    assert ([TWO], ONE) == (network.cancelled, trail.address)


async def test_of_two_at_once_one_is_closed() -> None:
    network, trail = Network().at(ONE, NEXT_ADDRESS_AFTER_S + 0.1).at(TWO, 0.1), Trail()
    taken = await first([ONE, TWO], network.dial, trail)
    assert taken is network.streams[str(trail.address)]
    for address, stream in network.streams.items():
        assert (address != trail.address) == stream.closed


NO_WAY = OSError(101, "Network is unreachable")
REFUSED = ConnectionRefusedError(111, "Connection refused")


@pytest.mark.parametrize(
    ("errors", "told", "error_class"),
    [
        ([NO_WAY, REFUSED, NO_WAY], TWO, "refused"),
        ([REFUSED, NO_WAY, NO_WAY], ONE, "refused"),
        ([NO_WAY, NO_WAY, NO_WAY], ONE, "unreachable"),
    ],
)
async def test_of_several_failures_one_is_told(errors: list[Exception], told: str, error_class: str) -> None:
    """The first that says more than that there is no way: a machine without IPv6 is no receiver's fault."""
    network, trail = Network(), Trail()
    for address, error in zip((ONE, TWO, THREE), errors, strict=True):
        network.at(address, 0.01, error)
    with pytest.raises(httpcore.ConnectError) as failed:
        await first([ONE, TWO, THREE], network.dial, trail)
    assert (error_class, told) == (answers.of_error(failed.value).error_class, trail.address)


async def test_the_deadline_ends_all_of_it() -> None:
    network, trail = Network().at(ONE, 1000).at(TWO, 1000), Trail()
    with trio.move_on_after(10) as scope:
        await first([ONE, TWO], network.dial, trail)
    assert scope.cancelled_caught
    assert {ONE, TWO} == set(network.cancelled)
    assert TWO == trail.address  # the last one tried


async def test_a_connection_made_as_the_time_runs_out_is_closed() -> None:
    """It answers in the very moment; whoever wanted it is gone."""
    closed: list[Stream] = []
    scope = trio.CancelScope()

    async def dial(_: str) -> httpcore.AsyncNetworkStream:
        scope.cancel()  # seen at the next checkpoint only
        stream = Stream()
        closed.append(stream)
        return stream

    with scope:
        await first([ONE], dial, Trail())
    assert scope.cancelled_caught
    assert [True] == [stream.closed for stream in closed]


async def test_a_bug_is_no_failed_address() -> None:
    """It is told as what it is."""

    async def dial(_: str) -> httpcore.AsyncNetworkStream:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError

    with pytest.RaisesGroup(ZeroDivisionError):
        await first([ONE], dial, Trail())
