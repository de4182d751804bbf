"""Many deliveries at once on real sockets: a bad receiver, or a name that never resolves, delays nobody else's."""

import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import trio

from penelope import resolver
from penelope.clock import Clock
from penelope.jobs import delivery
from penelope.jobs.deliveries import Deliveries
from penelope.jobs.ends import JobEnds
from penelope.jobs.store import JobStore
from penelope.store.database import Database
from penelope.store.persona import PersonaStore
from tests.io import receivers
from tests.io.conftest import NewReceiver
from tests.io.jobs_made import KEY, ended, stored
from tests.io.waiting import until

HERD = 40


@pytest.fixture
async def store(database: Database) -> JobStore:
    return JobStore(database)


def new(nursery: trio.Nursery, client: httpx.AsyncClient, store: JobStore, clock: Clock) -> Deliveries:
    """As a worker has them, but for the media: there is none."""

    async def sweep_media(_: float) -> int:
        await trio.lowlevel.checkpoint()
        return 0

    return Deliveries(nursery, client, JobEnds(store, clock), clock, (KEY,), sweep_media=sweep_media)


@pytest.fixture
async def deliveries(store: JobStore) -> AsyncIterator[Deliveries]:
    """What is under way at the end is broken off."""
    clock = Clock()
    async with delivery.open_client() as client, trio.open_nursery() as nursery:
        made = new(nursery, client, store, clock)
        yield made
        made.hurry()
        nursery.cancel_scope.cancel()


async def deliver(deliveries: Deliveries, store: JobStore, url: str, count: int = 1) -> None:
    for _ in range(count):
        deliveries.start(await stored(store, ended(url)))


async def test_a_black_hole_has_32_at_most_and_delays_no_other(
    deliveries: Deliveries, store: JobStore, new_receiver: NewReceiver
) -> None:
    """J60, J59."""
    hole, healthy = await new_receiver(receivers.hang), await new_receiver()
    await deliver(deliveries, store, hole.url, HERD)
    await hole.wait_for(32)
    await deliver(deliveries, store, healthy.url, 10)
    await healthy.wait_for(10, within_s=1)
    await trio.sleep(0.2)
    assert 32 == hole.most_at_once == hole.connections


async def test_128_are_under_way_in_all(
    deliveries: Deliveries, store: JobStore, new_receiver: NewReceiver
) -> None:
    holes = [await new_receiver(receivers.hang) for _ in range(5)]
    for hole in holes:
        await deliver(deliveries, store, hole.url, 32)
    await until(lambda: sum(hole.open_now for hole in holes) >= 128)
    await trio.sleep(0.3)
    assert 128 == sum(hole.connections for hole in holes)


async def test_a_herd_is_delivered_whole(
    deliveries: Deliveries, store: JobStore, new_receiver: NewReceiver
) -> None:
    """Each job once, each as its first attempt; then all are forgotten."""
    receiver = await new_receiver()
    await deliver(deliveries, store, receiver.url, 200)
    received = await receiver.wait_for(200)
    assert 200 == len({request.header("X-Penelope-Job") for request in received})
    assert {"1"} == {request.header("X-Penelope-Attempt") for request in received}
    assert receiver.most_at_once <= 32
    await until(lambda: not deliveries.pending)
    assert 0 == await store.held(0.0)


@pytest.fixture
def tar_pit(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Names under `.pit` are looked up for ever: their server never answers."""
    release = threading.Event()
    real = socket.getaddrinfo

    def look_up(host: Any, *rest: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host)
        if name.endswith(".pit") and threading.current_thread() is not threading.main_thread():
            release.wait()
        return real(host, *rest)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield
    release.set()


async def test_a_dns_tar_pit_stops_neither_deliveries_nor_the_store(
    tar_pit: None,
    deliveries: Deliveries,
    store: JobStore,
    database: Database,
    new_receiver: NewReceiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """J37: 60 names that never resolve, then a healthy one in under a second; threads stay bounded."""
    monkeypatch.setattr(delivery, "WEBHOOK_TIMEOUT_S", 2)
    resolver.install()
    healthy = await new_receiver()
    before = threading.active_count()
    for number in range(60):
        await deliver(deliveries, store, f"http://receiver-{number}.pit/")
    await trio.sleep(0.3)
    await deliver(deliveries, store, healthy.url.replace("127.0.0.1", "localhost"))
    await healthy.wait_for(1, within_s=1)
    with trio.fail_after(1):
        await PersonaStore(database).save("a", "1", 1.0)
        assert "1" == await PersonaStore(database).load("a")
    assert threading.active_count() - before < 80

    async def all_failed() -> bool:
        return len(await failed(store)) == 60

    await until(all_failed)
    assert {"no answer within 2 s"} == set(await failed(store))


async def failed(store: JobStore) -> list[str]:
    """Why the last POST of each job that was tried did not deliver."""
    return [job.error for job in await store.to_deliver() if job.error is not None]


async def test_a_delivery_that_is_hurried_is_made_again_by_the_next_life(
    store: JobStore, new_receiver: NewReceiver
) -> None:
    """The second signal: nothing is recorded of the POST under way, so it is made again under its number."""
    receiver = await new_receiver(receivers.hang)
    clock = Clock()
    async with delivery.open_client() as client:
        for _ in range(2):
            async with trio.open_nursery() as nursery:
                made = new(nursery, client, store, clock)
                if not receiver.received:
                    await stored(store, ended(receiver.url))
                for job in await store.to_deliver():
                    made.start(job)
                await receiver.wait_for(len(receiver.received) + 1)
                made.hurry()
                nursery.cancel_scope.cancel()
    assert ["1", "1"] == [request.header("X-Penelope-Attempt") for request in receiver.received]
    assert receiver.received[0].body[:200] == receiver.received[1].body[:200]


async def test_a_stop_lets_the_post_under_way_be_recorded(store: JobStore, new_receiver: NewReceiver) -> None:
    answer = trio.Event()
    receiver = await new_receiver(receivers.after(answer, receivers.status(200)))
    clock = Clock()
    async with delivery.open_client() as client, trio.open_nursery() as nursery:
        made = new(nursery, client, store, clock)
        await deliver(made, store, receiver.url)
        await receiver.wait_for(1)
        nursery.cancel_scope.cancel()
        answer.set()
    assert 0 == await store.held(0.0)
    assert 1 == len(receiver.received)


async def test_the_client_is_closed_when_it_is_cancelled() -> None:
    with trio.CancelScope() as scope:
        async with delivery.open_client() as client:
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert isinstance(client, httpx.AsyncClient)
    assert client.is_closed
