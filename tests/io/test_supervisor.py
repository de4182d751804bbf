"""The supervisor over a real store and real receivers, cancelled at every step of its opening, and while it is open."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from penelope.clock import Clock
from penelope.jobs.calls import Live, Planned
from penelope.jobs.ledger import Ledger
from penelope.jobs.model import Job, Polling, State, Webhook
from penelope.jobs.nurseries import open_supervisor
from penelope.jobs.options import JobOptions
from penelope.jobs.store import JobStore
from penelope.jobs.supervisor import Parts
from penelope.outcome import success
from penelope.pages.driver import Body
from penelope.pages.manager import MAIN, Page, PageManager
from penelope.plugin import Host
from penelope.store.database import Database, thread_runner
from penelope.store.media import MediaStore
from penelope.store.request_log import RequestLog
from tests.io import receivers
from tests.io.conftest import NewReceiver
from tests.io.jobs_made import KEY, ended, stored
from tests.io.waiting import until
from tests.spec.fakes import FakeDriver

MOST_STEPS = 500


@pytest.fixture
async def parts(database: Database, tmp_path: Path) -> Parts:
    """A worker's, but for the browser."""
    clock = Clock()

    async def keep(_: str) -> None:
        await trio.lowlevel.checkpoint()

    pages = PageManager(FakeDriver(None), clock, max_pages=8, keep_cookies=keep, cookies=None)
    await pages.open(MAIN)
    media = MediaStore(database, tmp_path / "media", cap_bytes=10**6, clock=clock, run=thread_runner(2))
    return Parts(
        pages=pages,
        store=JobStore(database),
        media=media,
        requests=RequestLog(database),
        ledger=Ledger(database),
        clock=clock,
        keys=(KEY,),
        stop_grace_s=0.2,
        page_memory_bytes=300 * 2**20,
    )


def planned(page: Page, work: Callable[[], Awaitable[None]]) -> Planned:
    """A call that does `work` and answers nothing."""

    def make_body(live: Live, host: Host) -> Body[str]:
        async def body(*_: Any) -> str:
            await work()
            return success(page.page_id, {}).text

        return body

    return Planned(
        page=page,
        what="tested/work",
        kind="plugin",
        method="POST",
        route="/",
        request_id="r",
        lease=None,
        make_body=make_body,
    )


@contextmanager
def cancelling_at(step: int, scope: trio.CancelScope) -> Iterator[Callable[[], None]]:
    """Cancel `scope` before the n-th step that this task takes in the block, until the given function is called."""
    counter = _Counter(step, scope)
    trio.lowlevel.add_instrument(counter)
    try:
        yield counter.stop
    finally:
        trio.lowlevel.remove_instrument(counter)


class _Counter(trio.abc.Instrument):
    def __init__(self, step: int, scope: trio.CancelScope) -> None:
        self._task = trio.lowlevel.current_task()
        self._left = step
        self._scope = scope

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()

    def stop(self) -> None:
        self._left = 0


async def test_cancelled_at_any_step_of_its_opening_it_ends_and_loses_nothing(
    parts: Parts, new_receiver: NewReceiver
) -> None:
    """What the last life left is still there, as it was or as the recovery makes it; the next opening has it all."""
    receiver = await new_receiver(receivers.status(503))
    running = Job(
        job_id="a" * 16,
        page_id=MAIN,
        plugin="a/b",
        way=Polling(600),
        request_id="r",
        started_at=parts.clock.now(),
    )
    await parts.store.insert(running)
    waiting = await stored(parts.store, ended(receiver.url))

    for step in range(1, MOST_STEPS):
        with trio.CancelScope() as scope, trio.fail_after(10), cancelling_at(step, scope) as stop_counting:
            async with open_supervisor(parts):
                stop_counting()
        if not scope.cancel_called:
            break
        assert 1 == len(descendants()), step
        job = await parts.store.get(running.job_id)
        assert job is not None
        assert job.state is State.RUNNING or (job.status, job.state) == (503, State.INTERRUPTED)
        assert [waiting.job_id] == [one.job_id for one in await parts.store.to_deliver()]
    else:
        raise AssertionError("it was never open")
    assert step > 3  # some were really in its middle
    job = await parts.store.get(running.job_id)
    assert (job is not None, job and job.state) == (True, State.INTERRUPTED)


def descendants() -> list[trio.lowlevel.Task]:
    """This test's own tasks; its fixtures' are elsewhere."""
    found = [trio.lowlevel.current_task()]
    for task in found:
        found += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found


async def test_cancelled_while_open_it_ends_everything_and_leaves_it_to_the_next_start(
    parts: Parts, new_receiver: NewReceiver
) -> None:
    """A job at work, one whose POST hangs, a plain call and one in line behind it: all end at once, none has an end."""
    hole = await new_receiver(receivers.hang)
    await parts.pages.open("other")
    refused: list[str] = []

    async def call_plainly(page: Page) -> None:
        try:
            await supervisor.run_plain(planned(page, trio.sleep_forever))
        except Exception as exc:
            refused.append(str(exc))

    with trio.fail_after(5), trio.CancelScope() as scope:
        async with open_supervisor(parts) as supervisor:
            main, other = parts.pages.get(MAIN), parts.pages.get("other")
            posted = await supervisor.start_job(
                planned(main, trio.lowlevel.checkpoint), JobOptions(way=Webhook(hole.url))
            )
            await hole.wait_for(1)
            await until(lambda: main.line.holder is None)
            job = await supervisor.start_job(planned(main, trio.sleep_forever), JobOptions(way=Polling(600)))
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as calling:
                    calling.start_soon(call_plainly, other)
                    await until(lambda: other.line.holder is not None)
                    calling.start_soon(call_plainly, other)
                    await until(lambda: len(other.line.waiting) == 1)
                    supervisor.hurry()
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert 1 == len(descendants())
    assert ["the worker stopped before the call ended"] * 2 == refused
    assert (main.line.holder, other.line.holder) == (None, None)
    left = await parts.store.get(job.job_id)
    assert (left is not None, left and left.state) == (True, State.RUNNING)
    assert [posted.job_id] == [one.job_id for one in await parts.store.to_deliver()]


async def test_a_client_that_leaves_at_any_step_of_a_start_starts_it_or_does_not(parts: Parts) -> None:
    """J31, each step of the request: the job is in the store and ran, or neither; the page is free again."""
    ran: list[str] = []

    async def note() -> None:
        ran.append("ran")

    async with open_supervisor(parts) as supervisor:
        page = parts.pages.get(MAIN)
        for step in range(1, MOST_STEPS):
            ran.clear()
            before = await parts.store.held(0.0)
            with trio.CancelScope() as scope, cancelling_at(step, scope):
                await supervisor.start_job(planned(page, note), JobOptions(way=Polling(600)))
            await until(lambda: page.line.holder is None and not supervisor.lives)
            assert len(ran) == await parts.store.held(0.0) - before, step
            if not scope.cancel_called:
                break
        supervisor.stop()
        await supervisor.drained.wait()
    assert ["ran"] == ran
    assert step > 1
