"""The first driver: workers as child processes of this machine, `penelope serve` each.

A worker has a session of its own, so that a Ctrl-C at the waker's terminal is the waker's; it writes its log to a file
itself; its key comes to it through its environment. Nothing ties it to the waker's life.

Source: contract, section 9; docs/waker.md.
"""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import psutil
import structlog
import trio

from penelope.clock import Clock
from penelope.errors import WorkerDown, WorkerLate
from penelope.waker import child as children
from penelope.waker import logfile
from penelope.waker.child import TOKEN, Child
from penelope.waker.model import Life, Order
from penelope.waker.records import Record, Records

LOOK_S: Final = 0.03  # for the word that it is ready
LINES_TOLD: Final = 20
HURRIED_S: Final = 5.0
CLEANUP_S: Final = 20.0
TRIM_EVERY_S: Final = 600.0
COMMAND: Final = (sys.executable, "-m", "penelope", "serve")

log = structlog.get_logger("penelope.waker")


class ProcessDriver:
    """Workers as processes.

    Args:
        folder: where their records and logs are; held by this waker.
        environment: what each inherits; no key in it.
        command: what is started.
    """

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
        clock: Clock,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._folder = folder
        self._environment = environment
        self._clock = clock
        self._command = command
        self._records = Records(folder)
        self._lives: dict[str, tuple[Record, Child]] = {}
        self._hurried = trio.Event()

    async def status(self) -> Mapping[str, Life]:
        """See `Driver.status`; looks at the processes when it is called the first time."""
        for record in self._records.all():
            if record.name not in self._lives:
                found = await trio.to_thread.run_sync(_process_of, record)
                if found is None:
                    self._records.drop(record.name)
                    continue
                taken = Child(found.pid or 0)
                if children.birth(taken.pid) != found.birth:  # it ended, and its number was given away
                    taken.release()
                    self._records.drop(record.name)
                    continue
                self._lives[record.name] = found, taken
                log.info("worker taken over", persona=record.name, pid=found.pid, address=found.address)
        return {name: _life(record) for name, (record, _) in self._lives.items()}

    def address(self, name: str) -> str | None:
        found = self._lives.get(name)
        return None if found is None else found[0].address

    async def start(self, order: Order) -> Life:
        """See `Driver.start`."""
        try:
            return await self._start(order, self._log_of(order.name))
        except OSError as exc:  # of a disk that takes nothing
            raise WorkerDown(f"the worker of {order.name} cannot be started: {exc}") from exc

    async def _start(self, order: Order, path: Path) -> Life:
        try:
            record, child = self._lives.get(order.name) or await self._spawn(order, path)
            with trio.move_on_after(order.start_within_s):
                address = await self._ready(record, child, path)
                ready = replace(record, address=address)
                self._records.put(ready)
                self._lives[order.name] = ready, child
                return _life(ready)
            lines = logfile.tail(path, LINES_TOLD)
            words = f"the worker of {order.name} was not ready within {order.start_within_s:g} s"
            raise WorkerLate(words, lines=lines)
        except BaseException:
            with trio.move_on_after(CLEANUP_S + order.kill_after_s, shield=True):
                await self.stop(order.name, min(order.kill_after_s, CLEANUP_S))
            raise

    async def _spawn(self, order: Order, path: Path) -> tuple[Record, Child]:
        token = secrets.token_hex(16)
        file, begin = logfile.open_to_append(path)
        record = Record(
            name=order.name,
            token=token,
            pid=None,
            birth=None,
            address=None,
            started_at=self._clock.now(),
            log_from=begin,
            digest=order.digest(token),
            store=str(order.store),
        )
        with file:
            self._records.put(record)
            # Shielded: cancelled in the middle, nobody would know the process that was just born.
            with trio.CancelScope(shield=True):
                process = await self._open(order, token, file)
        record = replace(record, pid=process.pid, birth=children.birth(process.pid))
        self._records.put(record)
        found = self._lives[order.name] = record, Child(process.pid, process)
        return found

    async def _open(self, order: Order, token: str, file: BinaryIO) -> trio.Process:
        try:
            return await trio.lowlevel.open_process(
                self._command,
                env=self._environment_of(order, token),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        except OSError:
            self._records.drop(order.name)
            raise

    def _environment_of(self, order: Order, token: str) -> dict[str, str]:
        return {
            **self._environment,
            **order.variables,
            "PENELOPE_KEY": order.key,
            "PENELOPE_HOST": "127.0.0.1",
            "PENELOPE_PORT": str(order.port),
            "PENELOPE_STORE": str(order.store),
            "PENELOPE_LOG": "json",
            TOKEN: token,
        }

    async def _ready(self, record: Record, child: Child, path: Path) -> str:
        """The address in the worker's own word that it is ready: nobody else can say it for it."""
        reader = logfile.Reader(path, record.log_from)
        address: str | None = None
        how = ""

        async def look() -> None:
            nonlocal address
            while address is None:
                await trio.sleep(LOOK_S)
                said = (line for line in reader.events() if line.get("event") == "ready")
                address = next((str(line["url"]) for line in said), None)
            nursery.cancel_scope.cancel(reason="ready")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            how = await child.ended()
            nursery.cancel_scope.cancel(reason="the worker ended")
        if address is not None:
            return address
        lines = logfile.tail(path, LINES_TOLD)
        why = logfile.said_last(lines)
        raise WorkerDown(
            f"the worker of {record.name} {how} instead of starting" + (f": {why}" if why else ""),
            lines=lines,
        )

    async def stop(self, name: str, kill_after_s: float) -> None:
        """See `Driver.stop`."""
        found = self._lives.get(name)
        if found is None:
            return
        record, child = found
        below = await trio.to_thread.run_sync(children.family, child.pid)
        child.send(signal.SIGTERM)
        if not await self._ends_within(child, kill_after_s):
            log.warning("worker does not stop; killed", persona=name, pid=child.pid, after_s=kill_after_s)
            child.send(signal.SIGKILL)
            await child.ended()
        await self._bury(record, child, below)

    async def _ends_within(self, child: Child, kill_after_s: float) -> bool:
        with trio.move_on_after(kill_after_s) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._press, child, scope)
                await child.ended()
                nursery.cancel_scope.cancel()
            return True
        return False

    async def _press(self, child: Child, scope: trio.CancelScope) -> None:
        """In a hurry, a second signal: the worker then ends its calls at once."""
        await self._hurried.wait()
        child.send(signal.SIGTERM)
        scope.deadline = min(scope.deadline, trio.current_time() + HURRIED_S)

    async def ended(self, name: str) -> str:
        """See `Driver.ended`."""
        record, child = self._lives[name]
        while True:
            with trio.move_on_after(TRIM_EVERY_S):
                how = await child.ended()
                # Unasked: what it left must be gone before another is started on its store.
                with trio.CancelScope(shield=True):
                    await self._bury(record, child, [])
                return how
            await trio.to_thread.run_sync(logfile.trim, self._log_of(name))

    async def _bury(self, record: Record, child: Child, below: list[psutil.Process]) -> None:
        named = await trio.to_thread.run_sync(children.with_profile, Path(record.store))
        if killed := await children.bury([*below, *named]):
            log.warning("a worker left processes behind; killed", persona=record.name, processes=killed)
        child.release()
        self._lives.pop(record.name, None)
        self._records.drop(record.name)

    async def log(self, name: str, lines: int) -> Sequence[str]:
        return await trio.to_thread.run_sync(partial(logfile.tail, self._log_of(name), lines))

    def hurry(self) -> None:
        self._hurried.set()

    def _log_of(self, name: str) -> Path:
        return self._folder / f"{name}.log"


def inherited() -> dict[str, str]:
    """What workers inherit of this process's environment: all but what each is told anew."""
    own = {"PENELOPE_KEY", "PENELOPE_HOST", "PENELOPE_PORT", "PENELOPE_STORE", "PENELOPE_LOG", TOKEN}
    return {name: value for name, value in os.environ.items() if name not in own}


def _process_of(record: Record) -> Record | None:
    """The record with its process, if that runs and is the very one. Blocking."""
    pid, born = record.pid, record.birth
    if pid is None:  # the waker was killed between the two halves of a start
        pid = children.find_by_token(record.token)
        born = None if pid is None else children.birth(pid)
    if pid is None or born is None or children.birth(pid) != born:
        return None
    if not children.runs(pid) or not children.has_token(pid, record.token):
        return None
    return replace(record, pid=pid, birth=born)


def _life(record: Record) -> Life:
    return Life(
        pid=record.pid,
        address=record.address,
        started_at=record.started_at,
        salt=record.token,
        digest=record.digest,
    )
