"""A call that blocks the browser's thread, and the calls beside it: each has a right to its own end.

Source: contract, section 2 ("A cancelled or timed-out call that still blocks the thread … is broken off").
"""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
import trio

from penelope.pages.driver import Healing, Tab
from tests.browser.browsers import evaluate, goto, opened
from tests.browser.sites import Site, running_site

BLOCK_S = 4.5  # longer than a cancelled call's grace and what it takes to break one off


async def sleep_in_c(_: Any, __: object) -> str:
    """No exception ends it before it returns."""
    time.sleep(BLOCK_S)  # noqa: ASYNC251 - the fault that is tried
    return "slept"


async def spin(_: Any, __: object) -> str:
    until = time.monotonic() + BLOCK_S
    while time.monotonic() < until:
        pass
    return "spun"


async def never(page: Any, _: object) -> None:
    await page.evaluate("new Promise(() => {})")


async def cancelled_after(tab: Tab, body: Any, seconds: float) -> float:
    """How long a call takes that is cancelled then."""
    began = trio.current_time()
    with trio.move_on_after(seconds) as scope:
        await tab.run(body, name="test/cancelled")
    assert scope.cancelled_caught
    return trio.current_time() - began


@pytest.mark.parametrize(("body", "answer"), [(sleep_in_c, "slept"), (spin, "spun")])
@pytest.mark.parametrize("begun_before", [True, False], ids=["at work", "not begun"])
async def test_a_cancelled_call_does_not_end_the_one_that_blocks_the_thread(
    tmp_path: Path, body: Any, answer: str, begun_before: bool
) -> None:
    """Neither is the blocking one broken off, nor the worker ended for it; the cancelled one is answered meanwhile."""
    async with opened(tmp_path) as (driver, tab):
        other = await driver.open_tab("other")
        answers: list[str] = []

        async def block() -> None:
            answers.append(await other.run(body, name="test/block"))

        async def cancel() -> None:
            assert await cancelled_after(tab, never, 1.0) < 5
            assert not answers
            assert Healing.NONE is await tab.heal()  # at once: the next call begins with it

        async with trio.open_nursery() as nursery:
            for task in (cancel, block) if begun_before else (block, cancel):
                nursery.start_soon(task)
                await trio.sleep(0.2)
        assert [answer] == answers
        assert not driver.health.stuck
        assert 2 == await evaluate(tab, "1 + 1")
        assert 2 == await evaluate(other, "1 + 1")


async def test_the_page_that_it_left_is_healed_before_the_next_call(tmp_path: Path) -> None:
    """A load that was cut off while the thread was blocked poisons nothing."""
    with running_site() as site:
        await _cut_off_a_load(tmp_path, site)


async def _cut_off_a_load(tmp_path: Path, site: Site) -> None:
    async with opened(tmp_path) as (driver, tab):
        other = await driver.open_tab("other")
        await goto(tab, f"{site.url}/good")

        async def load(page: Any, _: object) -> None:
            await page.goto(f"{site.url}/silent")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancelled_after, tab, load, 1.0)
            await trio.sleep(0.3)
            nursery.start_soon(lambda: other.run(spin, name="test/block"))
        await tab.heal()
        with trio.fail_after(10):
            assert 2 == await evaluate(tab, "1 + 1")


async def test_a_call_that_has_its_result_does_not_wait_for_the_one_that_blocks(tmp_path: Path) -> None:
    """Only its books are open (the cookies): whoever waits for it is let go while the thread is blocked."""

    async def done_as_it_blocks(_: Any, __: object) -> str:
        asyncio.get_running_loop().call_soon(time.sleep, BLOCK_S)
        return "done"

    async with opened(tmp_path) as (_, tab):
        began = trio.current_time()
        assert "done" == await tab.run(done_as_it_blocks, name="test/done")
        assert trio.current_time() - began < BLOCK_S - 1
        assert not tab.cookies_noted  # they come with the next
        assert 2 == await evaluate(tab, "1 + 1")
        assert tab.cookies_noted


async def test_at_a_stop_the_one_that_blocks_is_broken_off(tmp_path: Path) -> None:
    """Both are cancelled then: the one that blocks by itself, the other for its own sake."""
    async with opened(tmp_path) as (driver, tab):
        other = await driver.open_tab("other")
        with trio.move_on_after(1.0):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: other.run(spin, name="test/block"))
                await trio.sleep(0.1)
                nursery.start_soon(lambda: tab.run(never, name="test/waits"))
        assert not driver.health.stuck
        assert 2 == await evaluate(tab, "1 + 1")
