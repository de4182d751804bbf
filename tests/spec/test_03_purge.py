"""Section 3: the memory purge. What it does to a real page is in tests/browser."""

from typing import Any

import pytest
import trio

from tests.spec.fakes import FakeTab
from tests.spec.world import Life, World, live

MIB = 2**20
EVERY_S = 300


def heavy(tab: FakeTab, *, garbage: int = 0, takes_s: float = 0.0) -> FakeTab:
    tab.memory, tab.garbage, tab.purging_takes_s = 301 * MIB, garbage, takes_s
    return tab


async def state(life: Life) -> Any:
    return (await life.http.get("/api/v1/main")).json()["state"]


async def test_a_heavy_idle_page_collects_its_garbage(life: Life) -> None:
    """Every 5 minutes, pages that are idle and above `PAGE_MEMORY_MB` (300) are asked to collect garbage."""
    tab = heavy(life.tab, garbage=200 * MIB)
    await trio.sleep(EVERY_S - 1)
    assert [] == tab.purged
    await trio.sleep(2)
    assert ["collected"] == tab.purged
    tab.memory, tab.garbage = 301 * MIB, 2 * MIB
    await trio.sleep(EVERY_S)
    assert ["collected", "collected"] == tab.purged


async def test_one_that_keeps_its_memory_is_reloaded(life: Life, logged: list[Any]) -> None:
    """If that does not help they are reloaded from `about:blank`."""
    tab = heavy(life.tab)
    await trio.sleep(EVERY_S + 1)
    assert ["collected", "reloaded"] == tab.purged
    (line,) = [line for line in logged if line["event"] == "page purged"]
    assert ("main", "reloaded", 301, 1) == tuple(
        line[name] for name in ("page_id", "how", "before_mb", "after_mb")
    )


@pytest.mark.parametrize("memory", [300 * MIB, None])
async def test_a_page_within_its_measure_is_left_alone(life: Life, memory: int | None) -> None:
    """Above `PAGE_MEMORY_MB`: not at it, and not one that never said."""
    life.tab.memory = memory
    await trio.sleep(EVERY_S + 1)
    assert [] == life.tab.purged


async def test_the_measure_is_a_setting(world: World) -> None:
    """`PAGE_MEMORY_MB`."""
    world.settings["page_memory_mb"] = 2
    async with live(world) as life:
        await trio.sleep(EVERY_S + 1)
        assert ["collected", "reloaded"] == life.tab.purged


async def test_leased_busy_and_working_pages_are_skipped(life: Life) -> None:
    """It skips leased pages, busy pages and pages with a job."""
    for page_id in ("leased", "busy", "job"):
        await life.open(page_id)
    await trio.sleep(10)
    tabs = [heavy(tab) for tab in life.driver.tabs.values()]
    assert 200 == (await life.http.post("/api/v1/leased/lease", json={"ttl": 600})).status_code
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: life.call("work", "busy", seconds=EVERY_S + 50))
        await life.start("work", "job", ttl=60, seconds=EVERY_S + 50)
        await trio.sleep(EVERY_S - 9)
        assert {"main": 2, "leased": 0, "busy": 0, "job": 0} == {tab.page_id: len(tab.purged) for tab in tabs}
    await trio.sleep(EVERY_S)  # free by now, but for the lease
    assert {"main": 2, "leased": 0, "busy": 2, "job": 2} == {tab.page_id: len(tab.purged) for tab in tabs}
    await trio.sleep(EVERY_S)  # the lease has run out
    assert ["collected", "reloaded"] == tabs[1].purged


async def test_a_crashed_page_is_left_to_its_next_call(life: Life) -> None:
    """Idle pages: a crashed one is none."""
    heavy(life.tab).crashed_now = True
    await trio.sleep(EVERY_S + 1)
    assert [] == life.tab.purged


async def test_a_call_that_meets_it_waits(life: Life) -> None:
    """No call sees a page that is being purged: a plain call waits in line, a job's start until it is over."""
    tab = heavy(life.tab, takes_s=3)
    await trio.sleep(EVERY_S + 1)
    assert "busy" == await state(life)
    began = trio.current_time()
    job_id = await life.start("echo", ttl=60, text="after")
    assert began + 5 == pytest.approx(trio.current_time())
    assert ["collected", "reloaded"] == tab.purged
    await trio.sleep(1)
    assert "done" == (await life.shown(job_id))["state"]

    heavy(tab, takes_s=3)
    await trio.sleep(EVERY_S - 6)
    assert "busy" == await state(life)
    assert 200 == (await life.call("echo", text="next")).status_code
    assert 4 == len(tab.purged)


async def test_a_page_is_closed_after_it(life: Life) -> None:
    """A page that is purged is not at work: its closing waits too."""
    await life.open("second")
    heavy(life.driver.tabs["second"], takes_s=2)
    await trio.sleep(EVERY_S + 1)
    assert 200 == (await life.http.delete("/api/v1/second")).status_code
    assert life.driver.tabs["second"].closed


async def test_a_dead_browser_does_not_end_it(life: Life, logged: list[Any]) -> None:
    """The worker goes on, and so does the purge."""
    tab = heavy(life.tab)
    life.driver.up = False
    await trio.sleep(EVERY_S + 1)
    assert ["page not purged"] == [line["event"] for line in logged if "purged" in line["event"]]
    life.driver.up = True
    await trio.sleep(EVERY_S)
    assert "reloaded" == tab.purged[-1]
    assert "idle" == await state(life)


async def test_a_stop_does_not_wait_for_it(life: Life) -> None:
    """A stop ends the worker within its grace, whatever the purge does."""
    heavy(life.tab, takes_s=60)
    await trio.sleep(EVERY_S + 1)
    began = trio.current_time()
    await life.stop()
    assert began == trio.current_time()
