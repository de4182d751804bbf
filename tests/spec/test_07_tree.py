"""Section 7: the live tree, from the supervising nursery down to each page claim and the job in it."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from penelope.births import watch_births
from tests.spec.world import Life

Task = dict[str, Any]


async def look(life: Life) -> Any:
    answer = await life.http.get("/api/v1/tree")
    assert 200 == answer.status_code, answer.text
    return answer.json()


def paths(tasks: list[Task], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Task]]:
    """Each task with the names from the main task down to it."""
    for task in tasks:
        path = (*above, task["task"])
        yield path, task
        for nursery in task["nurseries"]:
            yield from paths(nursery["tasks"], path)


def named(tree: Any, name: str) -> tuple[tuple[str, ...], Task]:
    """The one task of that name, with its path."""
    (found,) = ((path, task) for path, task in paths(tree["tree"]) if path[-1] == name)
    return found


async def test_a_job_hangs_below_the_calls_with_its_work_below_it(life: Life) -> None:
    """From the supervising nursery down to each page claim and the job in it, with how long each has lived."""
    await trio.sleep(100)
    job_id = await life.start("work", ttl=60, seconds=50)
    await trio.sleep(7)
    tree = await look(life)

    path, work = named(tree, "work test/work")
    assert ("calls", f"job {job_id} of test/work on main", "work test/work") == path[-3:]
    assert 7.0 == work["for_s"]
    _, job = named(tree, f"job {job_id} of test/work on main")
    assert 7.0 == job["for_s"]
    calls, task = named(tree, "calls")
    assert 107.0 == task["for_s"]
    _, sweep = named(tree, "sweep")
    assert calls[:-1] == named(tree, "sweep")[0][:-1]
    assert 107.0 == sweep["for_s"]


async def test_what_ended_is_not_in_it(life: Life) -> None:
    """The live tree: what has ended is gone from it, and from the notes of births."""
    counts: set[int] = set()
    for _ in range(20):
        await life.call("work", seconds=1)
        await wait_all_tasks_blocked()  # the request's own task ends after its answer
        counts.add(len(life.worker.births))

    assert 1 == len(counts)
    assert not [path for path, _ in paths((await look(life))["tree"]) if "test/work" in path[-1]]


async def test_who_holds_a_page_and_what_waits_behind(life: Life) -> None:
    """With how long each has held or waited, next first."""
    job_id = await life.start("work", ttl=60, seconds=50)
    async with trio.open_nursery() as clients:
        for name in ("echo", "work"):
            await trio.sleep(5)
            clients.start_soon(life.call, name)
        await trio.sleep(5)
        (page,) = (await look(life))["pages"]
        clients.cancel_scope.cancel()

    holder = {"what": "test/work", "job_id": job_id, "for_s": 15.0, "progress": 0.0, "note": ""}
    assert ("main", "job", holder) == (page["page_id"], page["state"], page["holder"])
    assert [
        {"what": "test/echo", "job_id": None, "for_s": 10.0},
        {"what": "test/work", "job_id": None, "for_s": 5.0},
    ] == page["waiting"]


async def test_an_idle_page_has_no_holder(life: Life) -> None:
    await life.open("second")

    pages = (await look(life))["pages"]
    assert [("main", None, []), ("second", None, [])] == [
        (page["page_id"], page["holder"], page["waiting"]) for page in pages
    ]


async def test_the_plugins_own_progress_is_told(life: Life) -> None:
    """Of the one on this page, though another of that name began at the same moment on another page."""
    await life.open("second")
    async with trio.open_nursery() as clients:
        for page_id, fraction in (("main", 0.25), ("second", 0.75)):
            clients.start_soon(
                partial(life.call, "report", page_id, steps=1, fraction=fraction), name=f"client of {page_id}"
            )
        await trio.sleep(0.5)
        pages = (await look(life))["pages"]
        clients.cancel_scope.cancel()

    assert [("main", 0.25, "step 1"), ("second", 0.75, "step 1")] == [
        (page["page_id"], page["holder"]["progress"], page["holder"]["note"]) for page in pages
    ]


async def test_a_stop_shows_as_a_deadline(life: Life) -> None:
    """`ends_in_s` is what is left of the grace of the calls' nursery."""
    await life.start("work", ttl=60, seconds=50)
    life.supervisor.stop()
    await trio.sleep(4)
    _, calls = named(await look(life), "calls")

    assert [(6.0, False)] == [(one["ends_in_s"], one["cancelled"]) for one in calls["nurseries"]]
    await life.supervisor.drained.wait()


async def test_a_look_is_no_client_activity_and_not_in_the_request_log(life: Life) -> None:
    await trio.sleep(10)
    await look(life)

    assert life.worker.last_client_activity is None
    await trio.sleep(20)
    assert [] == (await life.http.get("/api/v1/requests")).json()["requests"]


async def test_it_needs_the_key(life: Life) -> None:
    assert 401 == (await life.http.get("/api/v1/tree", headers={"Authorization": ""})).status_code


async def test_a_task_older_than_the_notes_has_no_age() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever, name="older")
        await trio.sleep(1)
        births = watch_births()
        nursery.start_soon(trio.sleep_forever, name="younger")
        await trio.sleep(2)
        ages = {task.name: births.age(task) for task in nursery.child_tasks}
        own = births.age(trio.lowlevel.current_task())
        nursery.cancel_scope.cancel()

    assert ({"older": None, "younger": 2.0}, 2.0) == (ages, own)
