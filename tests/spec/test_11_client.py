"""Section 11 by way of `penelope.client`: the whole road, client and worker, on the mock clock."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
import trio

from penelope.client import (
    AsyncClient,
    BadSignature,
    Conflict,
    JobFailed,
    NotFound,
    Retries,
    StillRunning,
    Unreachable,
    verify,
)
from tests.spec.receiver import URL, Receiver
from tests.spec.world import KEY, Life, World, live


class Losing(httpx.AsyncBaseTransport):
    """A network that loses answers: the request arrives, its answer does not."""

    def __init__(self, inner: httpx.AsyncBaseTransport, loses: Callable[[httpx.Request, int], bool]) -> None:
        self.asked: list[httpx.Request] = []
        self._inner = inner
        self._loses = loses

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        response = await self._inner.handle_async_request(request)
        if self._loses(request, len(self.asked)):
            await response.aread()
            raise httpx.ReadError("reset")
        return response


@asynccontextmanager
async def using(
    life: Life, loses: Callable[[httpx.Request, int], bool] = lambda _request, _count: False
) -> AsyncGenerator[tuple[AsyncClient, Losing]]:
    network = Losing(life.http._transport, loses)
    async with AsyncClient("http://127.0.0.1:5000", KEY, transport=network) as client:
        yield client, network


async def test_an_end_is_told_in_the_moment_that_it_comes(life: Life) -> None:
    """However long it takes, with few questions."""
    async with using(life) as (client, network):
        job = await client.start("main", "test/work", {"seconds": 100})
        ended = await job.wait()

    assert 100 == trio.current_time()
    assert ("done", {"success": True, "page_id": "main", "tag": "work"}) == (ended.state, ended.result)
    assert len(network.asked) <= 6


async def test_run_is_one_question_where_that_is_enough(life: Life) -> None:
    async with using(life) as (client, network):
        assert {"tag": "x"} == await client.run("main", "test/work", {"seconds": 3, "tag": "x"})
        assert 3 == trio.current_time()
        assert 1 == len(network.asked)
        assert {"tag": "y"} == await client.run("main", "test/work", {"seconds": 300, "tag": "y"})
        assert 303 == trio.current_time()


async def test_answers_that_are_lost_make_no_second_job(life: Life) -> None:
    """The start is repeated under its key, and the worker knows it again."""
    async with using(life, lambda request, count: request.method == "POST" and count <= 3) as (
        client,
        network,
    ):
        job = await client.start("main", "test/work", {"seconds": 20})
        await job.wait()

    keys = {request.headers["Idempotency-Key"] for request in network.asked if request.method == "POST"}
    assert (4, 1) == (len([one for one in network.asked if one.method == "POST"]), len(keys))
    assert ["work began", "work ended"] == life.page.seen


async def test_run_too_is_one_call_whatever_is_lost(life: Life) -> None:
    """Even the plain answer of a job that has ended in the meantime."""
    async with using(life, lambda _request, count: count <= 2) as (client, _network):
        assert {"tag": "once"} == await client.run("main", "test/work", {"seconds": 3, "tag": "once"})

    assert ["once began", "once ended"] == life.page.seen


async def test_a_plain_call_whose_answer_is_lost_is_not_made_again(life: Life) -> None:
    async with using(life, lambda _request, _count: True) as (client, network):
        with pytest.raises(Unreachable) as caught:
            await client.call("main", "test/work", {"seconds": 3})

    assert caught.value.maybe_done
    assert 1 == len(network.asked)
    assert ["work began", "work ended"] == life.page.seen


async def test_the_time_given_is_kept_and_the_job_goes_on(life: Life) -> None:
    async with using(life) as (client, _network):
        job = await client.start("main", "test/work", {"seconds": 100})
        with pytest.raises(StillRunning):
            await job.wait(timeout_s=40.5)
        assert 40.5 == trio.current_time()
        assert "running" == (await job.status()).state
        assert "work" == (await job.result())["tag"]


async def test_a_limit_ends_it_as_408(life: Life) -> None:
    async with using(life) as (client, _network):
        job = await client.start("main", "test/work", {"seconds": 100}, timeout_s=7)
        with pytest.raises(JobFailed) as caught:
            await job.result()

    assert (408, 7) == (caught.value.status, trio.current_time())


async def test_a_cancel_whose_answer_is_lost_is_a_cancel(life: Life) -> None:
    async with using(life, lambda request, count: request.method == "DELETE" and count == 2) as (client, _):
        job = await client.start("main", "test/work", {"seconds": 100})
        assert "cancelled" == (await job.cancel()).state
        assert "cancelled" == (await job.wait()).state


async def test_what_has_ended_is_not_cancelled(life: Life) -> None:
    async with using(life) as (client, _network):
        job = await client.start("main", "test/echo")
        await job.wait()
        with pytest.raises(Conflict, match="has ended already: it is done"):
            await job.cancel()


async def test_a_result_that_is_over_is_not_found(life: Life) -> None:
    async with using(life) as (client, _network):
        job = await client.start("main", "test/echo", ttl=30)
        await job.wait()
        await trio.sleep(31)
        with pytest.raises(NotFound):
            await job.wait()


async def test_events_tell_all_of_it(life: Life) -> None:
    async with using(life) as (client, _network):
        job = await client.start("main", "test/work", {"seconds": 90})
        events = [(trio.current_time(), event.kind, event.job) async for event in job.events()]

    (first_at, first, _), (last_at, last, ended) = events
    assert (0, "state") == (first_at, first)
    assert (90, "end") == (last_at, last)
    assert ended is not None
    assert "done" == ended.state


async def test_a_webhook_is_believed_for_five_minutes(life: Life, receiver: Receiver) -> None:
    """By the receiver's clock, which here is the worker's: then it is a replay."""
    async with using(life) as (client, _network):
        job = await client.start("main", "test/echo", {"text": "é"}, callback=URL)
        await trio.sleep(1)
    (posted,) = receiver.posts

    believed = verify(posted.body, posted.headers, KEY, now=life.now())
    assert (job.job_id, "é") == (believed.job_id, (believed.result or {})["text"])
    with pytest.raises(BadSignature, match="a replay"):
        verify(posted.body, posted.headers, KEY, now=life.now() + 301)


async def test_a_restart_is_waited_for(world: World) -> None:
    """A new life of the worker under the same address: its job is interrupted, and the waiter is told."""
    lives: list[httpx.AsyncBaseTransport] = []
    open_now: set[trio.CancelScope] = set()

    class Address(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if not lives:
                await trio.lowlevel.checkpoint()
                raise httpx.ConnectError("refused")
            with trio.CancelScope() as scope:
                open_now.add(scope)
                response = await lives[-1].handle_async_request(request)
            open_now.remove(scope)
            if scope.cancelled_caught:
                raise httpx.ReadError("reset")
            return response

    async def wait(job_id: str) -> None:
        with pytest.raises(JobFailed, match="the worker stopped before it ended"):
            await client.job(job_id).result()
        told.append(trio.current_time())

    told: list[float] = []
    retries = Retries(attempts=30)
    async with (
        AsyncClient("http://127.0.0.1:5000", KEY, transport=Address(), retries=retries) as client,
        trio.open_nursery() as nursery,
    ):
        async with live(world) as life:
            lives.append(life.http._transport)
            job = await client.start("main", "test/work", {"seconds": 1000})
            nursery.start_soon(wait, job.job_id)
            await trio.sleep(30)
            lives.clear()  # nobody listens any more, and connections break
            for scope in open_now:
                scope.cancel()
        await trio.sleep(20)
        async with live(world) as life:
            lives.append(life.http._transport)
            with trio.fail_after(60):
                while not told:  # noqa: ASYNC110
                    await trio.sleep(1)
