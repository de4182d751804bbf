"""Name look-ups in real threads, some of which never end."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from penelope.resolver import LOOKUPS, LOOKUPS_PER_NAME, ThreadResolver
from tests.io.waiting import until


class Pit:
    """Names under `.pit`: their server never answers.

    Attributes:
        inside: threads that wait for it.
    """

    def __init__(self) -> None:
        self.inside = 0
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._real = socket.getaddrinfo

    def look_up(self, host: Any, *rest: Any) -> Any:
        if not host.endswith(b".pit"):
            return self._real(host, *rest)
        with self._lock:
            self.inside += 1
        self._open.wait()
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    def give_up(self) -> None:
        self._open.set()


@pytest.fixture
def pit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pit]:
    made = Pit()
    monkeypatch.setattr(socket, "getaddrinfo", made.look_up)
    yield made
    made.give_up()


async def ask(resolver: ThreadResolver, name: bytes, within_s: float) -> None:
    with trio.move_on_after(within_s):
        await resolver.getaddrinfo(name, 80)


async def test_one_dead_name_takes_its_part_of_the_threads_and_no_more(pit: Pit) -> None:
    """J37: however many POSTs to it were cut off and left their look-ups behind, the others' names are looked up."""
    resolver = ThreadResolver()
    async with trio.open_nursery() as nursery:
        for _ in range(LOOKUPS + 50):
            nursery.start_soon(ask, resolver, b"a.pit", 0.3)
    await until(lambda: pit.inside == LOOKUPS_PER_NAME)
    with trio.fail_after(1):
        assert await resolver.getaddrinfo(b"localhost", 80)


async def test_those_who_wait_get_the_places_that_come_free(pit: Pit) -> None:
    """And nothing is kept of a name once nobody asks for it."""
    resolver = ThreadResolver()
    ended = 0

    async def look_up() -> None:
        nonlocal ended
        with pytest.raises(socket.gaierror):
            await resolver.getaddrinfo(b"a.pit", 80)
        ended += 1

    async with trio.open_nursery() as nursery:
        for _ in range(3 * LOOKUPS_PER_NAME):
            nursery.start_soon(look_up)
        nursery.start_soon(ask, resolver, b"a.pit", 0.1)  # one that leaves the line
        await trio.sleep(0.3)
        assert 0 == ended
        pit.give_up()
    assert 3 * LOOKUPS_PER_NAME == ended
    await until(lambda: not resolver._names)
    assert LOOKUPS == resolver._all.available_tokens


async def test_names_that_hang_together_stop_at_the_number_of_all(pit: Pit) -> None:
    """Threads are bounded; those who wait for one are let go with their time."""
    resolver = ThreadResolver()
    async with trio.open_nursery() as nursery:
        for number in range(LOOKUPS + 30):
            nursery.start_soon(ask, resolver, b"%d.pit" % number, 1.0)
    await until(lambda: pit.inside == LOOKUPS)
    pit.give_up()
    await until(lambda: not resolver._names)
    assert LOOKUPS == resolver._all.available_tokens
