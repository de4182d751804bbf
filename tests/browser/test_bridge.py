"""The bridge between Trio and the browser's thread, without a browser."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from penelope.pages.browser.run import Run
from penelope.pages.browser.thread import BrowserThread, open_thread
from penelope.pages.browser.watch import Watch


def start(thread: BrowserThread, function: Callable[[], Awaitable[Any]]) -> Run[Any]:
    return Run(thread.loop, "test/body", function, ())


async def run_owning(thread: BrowserThread, body: Callable[[], Awaitable[Any]]) -> object:
    async def whole() -> object:
        return await run.owning(body())

    run = start(thread, whole)
    return await run.wait(cancel)


async def cancel(run: Run[Any]) -> None:
    run.cancel()
    with trio.move_on_after(2, shield=True):
        await run.ended.wait()


async def test_a_value_comes_back() -> None:
    async def body(x: int) -> int:
        await asyncio.sleep(0)
        return x * 2

    async with open_thread() as thread:
        assert 42 == await thread.run(body, 21)


async def test_an_exception_comes_back_as_itself() -> None:
    error = ValueError("mine")

    async def body() -> None:
        raise error

    async with open_thread() as thread:
        with pytest.raises(ValueError) as caught:
            await thread.run(body)
        assert error is caught.value


async def test_run_waits_for_the_task_not_for_its_future() -> None:
    """Cancelled, it returns when the coroutine has really ended."""
    seen: list[str] = []

    async def end_slowly() -> None:
        await asyncio.sleep(0.2)
        seen.append("ended")

    async def body() -> None:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(end_slowly)
            await asyncio.sleep(60)

    async with open_thread() as thread:
        with trio.move_on_after(0.1):
            await thread.run(body)
        assert ["ended"] == seen


async def test_a_body_that_swallows_cancellation_is_given_up_in_bounded_time() -> None:
    ticks: list[float] = []
    over = False

    async def body() -> None:
        while not over:
            try:
                await asyncio.sleep(0.01)
                ticks.append(time.monotonic())
            except BaseException:
                continue

    async with open_thread() as thread:
        began = trio.current_time()
        with trio.move_on_after(0.1):
            await thread.run(body, grace=0.3)
        assert trio.current_time() - began < 1.0
        await trio.sleep(0.1)
        count = len(ticks)
        await trio.sleep(0.2)
        assert count == len(ticks)  # never resumed
        over = True
        gc.collect()
        assert count == len(ticks)


async def test_what_a_body_leaves_running_ends_with_it() -> None:
    seen: list[str] = []

    async def helper() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            seen.append("helper ended")

    async def body() -> str:
        seen.append(asyncio.create_task(helper()).get_name())
        await asyncio.sleep(0.01)
        return "done"

    async with open_thread() as thread:
        assert "done" == await run_owning(thread, body)
        assert "helper ended" == seen[-1]


async def test_a_stubborn_helper_task_is_given_up() -> None:
    ticks: list[float] = []
    over = False

    async def helper() -> None:
        while not over:  # else it would swallow its GeneratorExit for ever, when the interpreter collects it
            try:
                await asyncio.sleep(0.01)
                ticks.append(0)
            except BaseException:
                continue

    async def body() -> str:
        asyncio.create_task(helper())  # noqa: RUF006 - it is left behind on purpose
        await asyncio.sleep(0.05)
        return "done"

    async with open_thread() as thread:
        assert "done" == await run_owning(thread, body)
        await trio.sleep(0.05)
        count = len(ticks)
        await trio.sleep(0.1)
        assert count == len(ticks)
        over = True


async def test_gather_and_wait_for_work_inside_a_body() -> None:
    async def one(x: int) -> int:
        await asyncio.sleep(0.01)
        return x

    async def body() -> list[int]:
        first = await asyncio.wait_for(one(0), 5)
        return [first, *await asyncio.gather(one(1), one(2))]

    async with open_thread() as thread:
        assert [0, 1, 2] == await thread.run(body)


async def test_a_crossing_runs_on_trios_side_and_gives_its_value() -> None:
    async def function(x: int) -> int:
        await trio.lowlevel.checkpoint()
        return x + 1

    async with open_thread() as thread:
        run: Run[int]

        async def body() -> int:
            return int(await run.cross(function, 41))

        run = start(thread, body)
        assert 42 == await run.wait(cancel)


async def test_crossings_run_beside_each_other() -> None:
    async def function() -> None:
        await trio.sleep(0.2)

    async with open_thread() as thread:
        run: Run[None]

        async def body() -> None:
            await asyncio.gather(*(run.cross(function) for _ in range(5)))

        began = trio.current_time()
        run = start(thread, body)
        await run.wait(cancel)
        assert trio.current_time() - began < 0.6


async def test_an_error_crosses_as_itself() -> None:
    async def function() -> None:
        raise KeyError("trio's")

    async with open_thread() as thread:
        run: Run[str]

        async def body() -> str:
            try:
                await run.cross(function)
            except KeyError:
                return "caught"
            return "nothing"

        run = start(thread, body)
        assert "caught" == await run.wait(cancel)


async def test_cancelling_trios_side_cancels_the_crossing_and_the_body() -> None:
    seen: list[str] = []

    async def function() -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            seen.append("trio")
            raise

    async with open_thread() as thread:
        run: Run[None]

        async def body() -> None:
            try:
                await run.cross(function)
            except asyncio.CancelledError:
                seen.append("asyncio")
                raise

        run = start(thread, body)
        with trio.move_on_after(0.1):
            await run.wait(cancel)
        assert ["asyncio", "trio"] == sorted(seen)


async def test_cancelling_asyncios_side_cancels_the_function_and_waits_for_it() -> None:
    seen: list[str] = []

    async def function() -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            with trio.move_on_after(1, shield=True):
                await trio.sleep(0.05)
            seen.append("trio")
            raise

    async with open_thread() as thread:
        run: Run[None]

        async def body() -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(run.cross(function), 0.1)
            seen.append("body")

        run = start(thread, body)
        await run.wait(cancel)
        assert ["trio", "body"] == seen


async def test_a_crossing_after_the_call_is_over_is_refused() -> None:
    calls: list[int] = []
    seen: list[str] = []

    async def function() -> None:
        calls.append(1)

    async with open_thread() as thread:
        run: Run[None]

        async def body() -> None:
            await asyncio.sleep(0)

        run = start(thread, body)
        await run.wait(cancel)

        async def late() -> None:
            try:
                await run.cross(function)
            except asyncio.CancelledError:
                seen.append("refused")

        await thread.run(late)
        assert ["refused"] == seen
        assert [] == calls


def test_a_crossing_after_trios_end_is_refused() -> None:
    """Neither side hangs when the other is gone."""
    seen: list[str] = []
    thread = BrowserThread()
    thread.start()

    async def main() -> None:
        run: Run[None]

        async def body() -> None:
            while True:
                try:
                    await asyncio.sleep(0.3)
                    await run.cross(trio.sleep, 0)
                except asyncio.CancelledError:
                    seen.append("refused")
                    if len(seen) > 1:
                        return

        run = start(thread, body)
        with trio.move_on_after(0.05):

            async def leave(run: Run[None]) -> None:
                run.cancel()

            await run.wait(leave)

    trio.run(main)
    time.sleep(0.5)
    trio.run(thread.close)
    assert ["refused", "refused"] == seen


async def test_a_blocking_body_does_not_stop_trio() -> None:
    """Trio works all the time that the body blocks. How late a machine under load is, is not what this is about."""
    blocked: list[float] = []

    async def body() -> str:
        blocked.append(time.monotonic())
        time.sleep(0.5)  # noqa: ASYNC251 - the fault that is tried
        blocked.append(time.monotonic())
        return "woke"

    async with open_thread() as thread, trio.open_nursery() as nursery:
        ticks: list[float] = []

        async def tick() -> None:
            while True:
                await trio.sleep(0.01)
                ticks.append(time.monotonic())

        nursery.start_soon(tick)
        assert "woke" == await thread.run(body)
        nursery.cancel_scope.cancel()
        began, ended = blocked
        assert {0, 1, 2} == {int(3 * (at - began) / (ended - began)) for at in ticks if began < at < ended}


async def test_a_stall_is_warned_of_once_with_the_plugins_name_and_stack(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("penelope.pages.browser.watch.BLOCKED_S", 0.3)
    monkeypatch.setattr("penelope.pages.browser.watch.WARN_AFTER_S", 0.3)
    monkeypatch.setattr("penelope.pages.browser.watch.PING_EVERY_S", 0.1)

    async def sleeping_in_its_thread() -> None:
        time.sleep(1.0)  # noqa: ASYNC251 - the fault that is tried

    async with open_thread() as thread, trio.open_nursery() as nursery:
        watch = Watch(thread)
        nursery.start_soon(watch.run)
        await trio.sleep(0.15)
        assert 0.0 == watch.lag_s
        async with trio.open_nursery() as inner:
            inner.start_soon(lambda: thread.run(sleeping_in_its_thread, name="shop/scrape"))
            await trio.sleep(0.6)
            assert watch.lag_s > 0.2
        await trio.sleep(0.3)
        assert 0.0 == watch.lag_s
        nursery.cancel_scope.cancel()
    said = capsys.readouterr().out
    assert 1 == said.count("has not answered")
    assert "shop/scrape" in said
    assert "sleeping_in_its_thread" in said


async def test_a_tight_loop_is_broken_off() -> None:
    async def spin() -> None:
        while True:
            pass

    async with open_thread() as thread:
        watch = Watch(thread)
        run = start(thread, spin)

        async def end(run: Run[Any]) -> None:
            run.cancel()
            with trio.CancelScope(shield=True):
                await trio.sleep(0.1)
                await watch.free(run)

        began = trio.current_time()
        with trio.move_on_after(0.1):
            await run.wait(end)
        assert run.ended.is_set()
        assert not watch.stuck.is_set()
        assert trio.current_time() - began < 2.0

        async def body() -> str:
            return "alive"

        assert "alive" == await thread.run(body)


async def test_a_block_that_nothing_ends_is_reported_as_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penelope.pages.browser.watch.BREAK_FOR_S", 0.3)
    monkeypatch.setattr("penelope.pages.browser.watch.BREAK_EVERY_S", 0.1)

    async def sleep_in_c() -> None:
        time.sleep(1.5)  # noqa: ASYNC251 - the fault that is tried

    async with open_thread() as thread:
        watch = Watch(thread)
        run = start(thread, sleep_in_c)

        async def end(run: Run[Any]) -> None:
            run.cancel()
            with trio.CancelScope(shield=True):
                await watch.free(run)

        with trio.move_on_after(0.1):
            await run.wait(end)
        with trio.fail_after(1):
            await watch.stuck.wait()


async def test_opening_the_thread_can_be_cancelled_at_any_time() -> None:
    for delay in (0.0, 0.001, 0.01):
        with trio.move_on_after(delay):
            async with open_thread():
                await trio.sleep_forever()


async def test_what_ended_under_playwright_is_not_told() -> None:
    """Its own tasks note it when a start is given up, and nobody asks; every other lost error is told."""

    async def lose() -> None:
        async def fail(text: str) -> None:
            raise RuntimeError(text)

        for text in ("Target page, context or browser has been closed", "a bug"):
            task = asyncio.create_task(fail(text))
            await asyncio.wait([task])
            del task

    with capture_logs() as logs:
        async with open_thread() as thread:
            await thread.run(lose)
            gc.collect()
    told = [line for line in logs if line["event"] == "unhandled in the browser's thread"]
    assert ["a bug"] == [str(line["exc_info"]) for line in told]
