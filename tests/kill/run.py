"""The run: a worker is started, loaded, stopped and looked at, again and again, on one store.

Whatever a promise of the contract forbids raises `Broken`, with the life in which it happened.
"""

import shutil
import signal
import socket
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import httpx
import trio

from penelope import jsontext
from penelope.jobs.model import MAX_JOBS
from tests.io import receivers
from tests.io.receivers import Behaviour, Received, Receiver, Stream, serve_receiver
from tests.io.worker_process import WorkerProcess
from tests.kill.load import Load, Start, unbroken, urls
from tests.kill.plan import FARTHEST_S, WEBHOOK_MOMENTS_S, How, Stop, stops
from tests.kill.record import Broken, End, Record, Story, demand

PLUGINS: Final = Path(__file__).with_name("kill_plugins.py")
REST_S: Final = 1.5
SLOW_S: Final = 0.4


@dataclass
class Run:
    """One run; its numbers are in `record` and here.

    Attributes:
        hanging: whether one of the receivers never answers, which costs a stop 10 s.
        say: what is told of each life.
        executed: whether each life is a command with all of its imports; else only those are that die at their birth.
        until, at_least: it begins no life after that moment of `time.monotonic`, once it has had so many.
    """

    home: Path
    seed: int
    kills: int
    hanging: bool = True
    longest_s: float = FARTHEST_S
    say: Callable[[str], None] = print
    executed: bool = True
    record: Record = field(default_factory=Record)
    ends: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    unsure: list[Start] = field(default_factory=list)
    checks: int = 0
    until: float = float("inf")
    at_least: int = 0

    async def run(self) -> None:
        """Raises:
        Broken: a promise was.
        """
        worker = WorkerProcess(self.home, STOP_GRACE_S="1")
        (self.home / "plugins" / "kill.py").write_text(PLUGINS.read_text())
        try:
            async with _receivers(self.record, hanging=self.hanging) as where:
                for stop in islice(stops(self.seed, self.longest_s), self.kills):
                    if time.monotonic() > self.until and self.record.life >= self.at_least:
                        break
                    await self._life(worker, stop, where)
                await self._last_lives(worker, where)
        finally:
            worker.end()

    async def _life(self, worker: WorkerProcess, stop: Stop, where: list[str]) -> None:
        record = self.record
        record.life += 1
        self.say(f"{record.life:4} {stop}")
        worker.executed = self.executed or stop.how is How.BIRTH
        try:
            if stop.how is How.BIRTH:
                code = await _dies_at_birth(worker, stop)
            else:
                code = await self._lives(worker, stop, where)
            self.ends[stop.how.value] += 1
            self.record.counts["nothing left"] += 1  # the worker's `wait` has looked
            self._check_exit(worker, stop, code)
            self._look_at_the_dead(worker, drained=code == 0)
            if stop.down_s:
                self._pass_time(worker, stop.down_s)
            demand(not record.broken, *record.broken)
        except (AssertionError, ExceptionGroup) as exc:
            raise Broken(
                f"seed {self.seed}, life {record.life} ({stop}): {_first(exc)}\n{worker.log[-3000:]}"
            ) from exc

    async def _lives(self, worker: WorkerProcess, stop: Stop, where: list[str]) -> int:
        """Start it, load it, end it; its exit code, once nothing of it is left."""
        point = None if stop.point is None else str(stop.point)
        worker.launch(point)
        if not await _ready(worker):
            demand(point is not None, "died while it started:", worker.log)
            self.ends["of these, before it was ready"] += 1
            return await worker.wait()
        async with worker.client(event_hooks={"request": [unbroken]}) as client:
            load = Load(self.record, client, where, f"{self.seed} {self.record.life}", self.unsure)
            with suppress(httpx.TransportError):
                if point is None:
                    await load.first()
                else:
                    with suppress(Broken):  # the point may be on the way to the answer
                        await load.first()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(load.run)
                await self._end(worker, stop)
                code = await worker.wait(within_s=40)
                await trio.sleep(0.05)  # what was on its way to a client or receiver arrives
                nursery.cancel_scope.cancel()
        return code

    async def _end(self, worker: WorkerProcess, stop: Stop) -> None:
        match stop.how:
            case How.POINT:
                with trio.move_on_after(stop.after_s):
                    while worker.process.poll() is None:  # noqa: ASYNC110  # it announces itself by nothing else
                        worker.look()
                        await trio.sleep(0.05)
                    return
                self.missed[str(stop.point)] += 1
                worker.send_signal(signal.SIGKILL)
            case How.KILL:
                await trio.sleep(stop.after_s)
                worker.send_signal(signal.SIGKILL)
            case _:
                await trio.sleep(stop.after_s)
                worker.send_signal(signal.SIGTERM)
                if stop.then_s is not None:
                    await _until_ended(worker, stop.then_s)
                    second = signal.SIGKILL if stop.how is How.TERM_KILL else signal.SIGTERM
                    worker.send_signal(second)

    def _check_exit(self, worker: WorkerProcess, stop: Stop, code: int) -> None:
        """0 tells that it was drained, and nothing else does."""
        if code != 0:
            self.record.cut_lives.add(self.record.life)
        may = {
            How.KILL: {-signal.SIGKILL},
            How.POINT: {-signal.SIGKILL},
            How.BIRTH: {-signal.SIGKILL},
            How.TERM: {0},
            How.TERM_KILL: {0, -signal.SIGKILL},
            How.TERM_TERM: {0, 143},
        }
        demand(code in may[stop.how], "exit code", code)
        if code == 0:
            seconds = [line for line in worker.lines("signal") if line["second"]]
            demand(
                not seconds or "stopping" in worker.log, "exit code 0 although a second signal cut it short"
            )
        for line in worker.lines():
            demand("exception" not in line or line["event"] == "plugin failed", "it logged", line)
            if "given up" in line["event"] and line.get("job_id") in self.record.jobs:
                self.record.jobs[line["job_id"]].log = line["event"]

    def _look_at_the_dead(self, worker: WorkerProcess, *, drained: bool) -> None:
        """Its store, as the stop left it: sound, with every job that has not come to its end."""
        if not worker.database.exists():
            demand(not any(story.accepted for story in self.record.jobs.values()), "the store is gone")
            return
        rows, files = _read_copy(worker, self.home / "copy")
        self.checks += 1
        demand(len(rows) <= MAX_JOBS + len(self.record.jobs), "more jobs than were started")
        for row in rows.values():
            self._look_at_row(row, drained=drained)
        for story in self.record.jobs.values():
            if story.job_id not in rows and not story.gone:
                self.record.check_gone(story)
        self.record.check_webhooks_gone()
        self.record.check_once()
        if drained:
            there = {path.name for path in (worker.store / "media").iterdir()}
            demand(there == files, "media without a row, or rows without media:", there ^ files)

    def _look_at_row(self, row: dict[str, Any], *, drained: bool) -> None:
        job_id = row["job_id"]
        story = self.record.jobs.get(job_id)
        if story is None:  # its start broke off before the 202
            story = Story(job_id, "", row["ttl"], accepted=False, seen_at=time.monotonic())
            self.record.jobs[job_id] = story
        story.ttl = row["ttl"]
        if row["state"] == "running":
            demand(story.end is None, job_id, "runs in the store, having ended as", story.end)
            story.seen_at = time.monotonic()
            return
        story.ends_as(_end_of(row), "the store")
        posted = max((post.attempt for post in story.posts), default=0)
        if drained:
            demand(row["attempts"] >= posted, job_id, "has POSTs that a clean stop did not record")
        demand(
            row["attempts"] >= posted - 1, job_id, "was POSTed", posted, "times,", row["attempts"], "recorded"
        )

    def _pass_time(self, worker: WorkerProcess, by_s: float) -> None:
        """Let so much time pass for the webhook jobs, while it is down. The clients of the others are to be in time."""
        with closing(sqlite3.connect(worker.database)) as connection, connection:
            for column in ("started_at", "finished_at", "last_at", "forget_at"):
                connection.execute(
                    f"UPDATE jobs SET {column} = {column} - ? WHERE callback IS NOT NULL", (by_s,)
                )
        self.record.moved(by_s)

    async def _last_lives(self, worker: WorkerProcess, where: list[str]) -> None:
        """No new jobs; each that is left comes to its end."""
        for by_s in WEBHOOK_MOMENTS_S:
            self.record.life += 1
            await worker.start()
            async with worker.client(event_hooks={"request": [unbroken]}) as client:
                load = Load(self.record, client, where, "")
                await load.look_at_all()
                await trio.sleep(REST_S)  # what was due has begun, and the stop waits for it
                await load.look_at_all()
                demand(await worker.stop() == 0, "the last stop's exit code")
                self.record.counts["nothing left"] += 1
            stop = Stop(how=How.TERM, after_s=0)
            self._check_exit(worker, stop, 0)
            self._look_at_the_dead(worker, drained=True)
            demand(not self.record.broken, *self.record.broken)
            self._pass_time(worker, by_s)
        for story in self.record.jobs.values():
            if story.ttl is None:
                demand(story.gone, story.job_id, "has no end")
            if story.accepted:
                demand(self.record.came_to(story) != "lost", story.job_id, "is lost")


def _first(error: BaseException) -> BaseException:
    """What was wrong first, out of the groups of the nurseries."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


async def _dies_at_birth(worker: WorkerProcess, stop: Stop) -> int:
    worker.launch()
    with trio.move_on_after(stop.after_s):
        while True:
            worker.look()
            await trio.sleep(0.05)
    worker.send_signal(signal.SIGKILL)
    return await worker.wait()


async def _ready(worker: WorkerProcess) -> bool:
    """Whether it came up; False: it died on the way."""
    with trio.fail_after(60):
        while not worker.lines("ready"):
            if worker.process.poll() is not None:
                return False
            worker.look()
            await trio.sleep(0.05)
    worker.base_url = worker.lines("ready")[0]["url"]
    return True


async def _until_ended(worker: WorkerProcess, within_s: float) -> None:
    with trio.move_on_after(within_s):
        while worker.process.poll() is None:  # noqa: ASYNC110  # it announces itself by nothing else
            await trio.sleep(0.01)


def _read_copy(worker: WorkerProcess, folder: Path) -> tuple[dict[str, dict[str, Any]], set[str]]:
    """The jobs by id, and the names of the media. Of a copy: the next life is to find the log as the stop left it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for path in (worker.database, worker.database.with_name("penelope.db-wal")):
        if path.exists():
            shutil.copy(path, folder / path.name)
    with closing(sqlite3.connect(folder / worker.database.name)) as connection:
        connection.row_factory = sqlite3.Row
        (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
        demand(verdict == "ok", "integrity_check:", verdict)
        demand(not connection.execute("PRAGMA foreign_key_check").fetchall(), "foreign_key_check")
        found = connection.execute("SELECT * FROM jobs LEFT JOIN results USING (job_id)")
        rows = {row["job_id"]: dict(row) for row in found}
        files = {row["file"] for row in connection.execute("SELECT file FROM media")}
    return rows, files


def _end_of(row: dict[str, Any]) -> End:
    return End(row["state"], row["status"], jsontext.loads(row["body"]), row["finished_at"])


@asynccontextmanager
async def _receivers(record: Record, *, hanging: bool) -> AsyncIterator[list[str]]:
    """Good ones and bad ones; where they are."""
    kinds: dict[str, Behaviour] = {
        "good": receivers.status(200),
        "slow": _slow,
        "flaky": _flaky(record),
        "failing": receivers.status(500),
        "refusing": receivers.status(404),
        "resetting": receivers.reset,
    }
    if hanging:
        kinds["hanging"] = receivers.hang
    async with trio.open_nursery() as nursery:
        running: dict[str, Receiver] = {}
        for name, behaviour in kinds.items():
            running[name] = await nursery.start(serve_receiver, _noted(record, name, behaviour))
        with (
            socket.socket() as dead
        ):  # bound, and not listening: connections are refused, and nobody takes the port
            dead.bind(("127.0.0.1", 0))
            yield urls(running, dead.getsockname()[1])
        nursery.cancel_scope.cancel()


def _noted(record: Record, name: str, behaviour: Behaviour) -> Behaviour:
    async def answer(stream: Stream, received: Received) -> None:
        post = record.posted(name, received)
        await behaviour(stream, received)
        post.answered = True

    return answer


async def _slow(stream: Stream, received: Received) -> None:
    await trio.sleep(SLOW_S)
    await receivers.status(200)(stream, received)


def _flaky(record: Record) -> Behaviour:
    """Busy at the first attempt, well afterwards."""

    async def answer(stream: Stream, received: Received) -> None:
        post = record.jobs[received.header("X-Penelope-Job")].posts[-1]
        if post.attempt == 1:
            post.receiver = "flaky, busy"
        await receivers.status(503 if post.attempt == 1 else 200)(stream, received)

    return answer
