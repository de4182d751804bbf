"""What work costs, counted and not timed: commits and statements a job, statements and tasks a request.

A number here may fall; one that rises was paid by every job or every poll, and wants a reason.
"""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import trio

from penelope.http.app import create_app
from tests.spec.receiver import Receiver
from tests.spec.test_10_runs import RUNS, ended, result, status, submitted
from tests.spec.test_short_way import Headers, piece
from tests.spec.world import Life

OWN = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")


@contextmanager
def statements(life: Life) -> Iterator[list[str]]:
    """What SQLite is told to do on any of the store's connections, but for the borders of transactions."""
    seen: list[str] = []

    def note(text: str) -> None:
        # A delete that reaches into other tables is told once for each of them.
        if not text.startswith((*OWN, "--")) and text not in seen[-1:]:
            seen.append(text)

    connections = [life.database._writer, *life.database._readers]
    for connection in connections:
        connection.set_trace_callback(note)
    try:
        yield seen
    finally:
        for connection in connections:
            connection.set_trace_callback(None)


class Tasks(trio.abc.Instrument):
    """Counts the tasks that begin."""

    def __init__(self) -> None:
        self.count = 0

    def task_spawned(self, _: trio.lowlevel.Task) -> None:
        self.count += 1


async def test_a_polling_job_is_two_commits(life: Life) -> None:
    """Its start and its end: four rows in all, by four statements and the count of the held jobs."""
    before = life.database.commits
    with statements(life) as seen:
        await life.start("echo", ttl=600)
        await trio.sleep(0.1)
    assert 2 == life.database.commits - before
    assert 6 == len(seen), seen


async def test_a_delivered_job_is_three_commits(life: Life, receiver: Receiver) -> None:
    """Its start, its end, and that it was delivered, with the ledger's row; its result is not read again."""
    before = life.database.commits
    with statements(life) as seen:
        await life.start("echo")
        await trio.sleep(0.1)
    assert 1 == len(receiver.posts)
    assert 3 == life.database.commits - before
    assert 8 == len(seen), seen


async def test_a_failed_attempt_is_one_commit_more(life: Life, receiver: Receiver) -> None:
    receiver.answers(500, 200)
    before = life.database.commits
    await life.start("echo")
    await trio.sleep(1)
    assert 3 == life.database.commits - before


async def test_a_start_with_a_key_is_no_commit_more(life: Life) -> None:
    before = life.database.commits
    await life.call("echo", headers={"X-Result-Ttl": "60", "Idempotency-Key": "k"})
    await trio.sleep(0.1)
    assert 2 == life.database.commits - before


async def test_a_plain_call_touches_no_store(life: Life) -> None:
    """But for the request log, which is written twice a second for all."""
    with statements(life) as seen:
        await life.call("echo")
    assert [] == seen


async def test_a_poll_is_one_read(life: Life) -> None:
    job = await life.start("echo", ttl=600)
    await trio.sleep(0.1)
    with statements(life) as seen:
        await life.poll(job)
    assert 1 == len(seen), seen


async def test_a_list_is_one_read(life: Life) -> None:
    for _ in range(5):
        await life.start("echo", ttl=600)
        await trio.sleep(0.1)
    with statements(life) as seen:
        await life.http.get("/api/v1/jobs?limit=3")
    assert 1 == len(seen), seen


async def test_a_run_is_three_commits(life: Life) -> None:
    """Its submit, its beginning, its end."""
    before = life.database.commits
    body = {"prompt": "{}", "recipe_name": "echo"}
    await life.http.post("/api/v1/runs", json=body, headers={"Prefer": "wait=5"})
    assert 3 == life.database.commits - before


async def test_polls_between_two_commits_are_one_read(life: Life) -> None:
    """Of jobs and of runs; what was committed meanwhile is seen."""
    job = await life.start("echo", ttl=600)
    body = {"prompt": "{}", "recipe_name": "echo"}
    run = (await life.http.post("/api/v1/runs", json=body, headers={"Prefer": "wait=5"})).json()["job_id"]
    await trio.sleep(2)  # the request log is written
    for path in (f"/api/v1/jobs/{job}", f"/api/v1/runs/{run}"):
        await life.database.write(lambda _: None)
        with statements(life) as seen:
            answers = [await life.http.get(path) for _ in range(5)]
        assert 1 == len(seen), seen
        assert [200] * 5 == [answer.status_code for answer in answers]
    await life.start("echo", ttl=600)
    with statements(life) as seen:
        await life.poll(job)
    assert any("FROM jobs" in text for text in seen)


async def test_a_poll_spawns_no_task(life: Life) -> None:
    """But for the server's own, one a request; what the framework answers is three."""
    job = await life.start("echo", ttl=600)
    await trio.sleep(0.1)
    await life.poll(job)
    tasks = Tasks()
    trio.lowlevel.add_instrument(tasks)
    await life.http.get("/healthz")
    health, tasks.count = tasks.count, 0
    await life.poll(job)
    trio.lowlevel.remove_instrument(tasks)
    assert (3, 1) == (health, tasks.count)


async def test_what_comes_whole_spawns_no_task_but_a_runs(life: Life) -> None:
    """Nor does one that waits."""
    job = await life.start("echo", ttl=600)
    await trio.sleep(0.1)
    at_once = create_app(life.worker).at_once
    assert at_once is not None

    async def counted(data: bytes) -> tuple[int, int]:
        answering = at_once(data)
        assert answering is not None
        seen = Tasks()
        trio.lowlevel.add_instrument(seen)
        answer = await answering.make()
        trio.lowlevel.remove_instrument(seen)
        assert answer is not None
        return answer.status, seen.count

    assert (200, 0) == await counted(piece(f"/api/v1/jobs/{job}", []))
    body = b'{"prompt": "{}", "recipe_name": "echo"}'
    headers: Headers = [("Prefer", "wait=5"), ("Content-Type", "application/json")]
    headers.append(("Content-Length", str(len(body))))
    assert (202, 1) == await counted(piece(RUNS, headers, "POST") + body)


async def test_a_call_is_two_tasks(life: Life) -> None:
    """Its own and its work's, plain or as a job; and the one of these tests' server, where a connection has its own."""
    await life.call("echo")
    tasks = Tasks()
    trio.lowlevel.add_instrument(tasks)
    await life.call("echo")
    plain, tasks.count = tasks.count, 0
    await life.start("echo", ttl=600)
    await trio.sleep(0.1)
    job, tasks.count = tasks.count, 0
    await life.http.post("/api/v1/main/text", json={})
    trio.lowlevel.remove_instrument(tasks)
    assert (3, 3, 3) == (plain, job, tasks.count)


class Turns(trio.abc.Instrument):
    """Counts how often the tasks of runs go on."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += task.name.startswith("run run_")


async def turns(life: Life, seconds: int) -> int:
    """Of a run that says each second how far it is."""
    seen = Turns()
    trio.lowlevel.add_instrument(seen)
    await ended(life, await submitted(life, "work", given={"seconds": seconds}))
    trio.lowlevel.remove_instrument(seen)
    return seen.count


async def test_progress_is_no_turn_of_a_run(life: Life) -> None:
    """Where hundreds of requests are answered in between, a turn is what a run waits for longest."""
    assert 10 == await turns(life, 12) - await turns(life, 2)


async def test_nothing_of_a_run_is_found_by_looking_through_all(life: Life) -> None:
    """A day has a hundred thousand of them, and what was submitted of one may have 16 MB."""
    run_id = await submitted(
        life, "work", given={"seconds": 1}, session_id="s", headers={"Idempotency-Key": "k"}
    )
    with statements(life) as seen:
        await submitted(life, headers={"Idempotency-Key": "k"})
        await submitted(life, session_id="s")
        await ended(life, run_id)
        await status(life, run_id)
        await result(life, run_id)
        for only in ({"status": "failed"}, {"session_id": "s"}, {"session_id": "s", "status": "queued"}):
            assert 200 == (await life.http.get(RUNS, params={**only, "page": "2"})).status_code
        await life.http.get(RUNS)
        await life.worker.runs._store.forget(life.now() - 1000, life.now())
        await life.http.delete(f"{RUNS}/{run_id}")
    asked = [text for text in seen if "runs" in text]
    assert 15 < len(asked)
    assert not any("r.request " in text for text in asked)
    plans: dict[str, list[str]] = {}
    for text in asked:
        steps = life.database._readers[0].execute(f"EXPLAIN QUERY PLAN {text}").fetchall()
        plans[text] = [step["detail"] for step in steps]
    through_all = [
        text
        for text, steps in plans.items()
        if any(("SCAN" in step and "INDEX" not in step) or "TEMP B-TREE" in step for step in steps)
    ]
    assert 1 == len(through_all), plans
    assert "ORDER BY r.number DESC LIMIT 20 OFFSET 0" in through_all[0]  # it ends after twenty


HELD = 30


async def _held(life: Life) -> None:
    """As many jobs that have ended."""
    for _ in range(HELD):
        await life.start("echo", ttl=600)
        await trio.sleep(0.1)
    await trio.sleep(5)  # the request log is written


def _kinds() -> Counter[str]:
    gc.collect()
    return Counter(type(found).__qualname__ for found in gc.get_objects())


def _more(before: Counter[str], after: Counter[str]) -> dict[str, int]:
    """What there is more of for each job, by the names of its type."""
    return {name: many // HELD for name, many in (after - before).items() if many >= HELD}


async def test_a_held_job_is_nothing_in_memory(life: Life) -> None:
    """But the two deadlines of its call, which Trio keeps a thousand of before it looks whether they still count. What
    grows once is another's, e.g. a test's before this one: what a job keeps, each job keeps.
    """
    kinds = []
    for _ in range(3):
        await _held(life)
        kinds.append(_kinds())
    grown = [set(_more(before, after)) for before, after in pairwise(kinds)]
    assert {"CancelScope", "tuple"} >= set.intersection(*grown)


async def test_a_job_that_waits_for_its_next_attempt_is_one_task(life: Life, receiver: Receiver) -> None:
    """And itself, without its result: the coroutines are those of the task."""
    receiver.answers(500)

    async def waiting() -> None:
        for _ in range(HELD):
            await life.start("echo")
            await trio.sleep(0.1)

    await waiting()
    before = _kinds()
    await waiting()
    more = _more(before, _kinds())
    assert (1, 1, 6) == (more["Task"], more["Job"], more["coroutine"])


async def test_a_held_job_is_less_than_two_kilobytes_of_the_store(life: Life) -> None:
    """Its row, its result, and what the request log keeps of it; not exact, since ids are drawn."""

    def used() -> int:
        (pages,) = life.database._readers[0].execute("PRAGMA page_count").fetchone()
        return int(pages) * 4096

    await _held(life)
    before = used()
    await _held(life)
    assert 500 < (used() - before) / HELD < 2_000
