"""One persona: its worker is started when somebody wants it and ended when nobody does, by one task, for ever.

    stopped | failed ──wanted, or by itself──▶ starting ──ready──▶ running ──why──▶ stopping ──▶ stopped
                                                  └──────────────────┴──died──▶ failed

Whoever wants the worker waits for an `Attempt`, the one start that all who come meanwhile share. No `await` stands
between a decision and the state that says it, so that a request that arrives with a stop either holds it off or waits
and starts the worker again.

Source: contract, section 9.
"""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import httpx
import structlog
import trio

from penelope.clock import Clock
from penelope.errors import Stopping, Unavailable, WorkerDown
from penelope.waker import asking, lifecycle
from penelope.waker.driver import Driver
from penelope.waker.lifecycle import Seen, Stay
from penelope.waker.model import Activity, Life, Mode, Persona, State, Why
from penelope.waker.records import Owed

ANSWER_S: Final = 10.0
SHOWN_WITHIN_S: Final = 2.0
ASK_AGAIN_S: Final = 10.0
SILENT_S: Final = 60.0  # for so long it may leave questions unanswered

log = structlog.get_logger("penelope.waker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What all keepers share.

    Attributes:
        turns: only so many workers start at once; the others wait, and lose none of their time by it.
    """

    driver: Driver
    client: httpx.AsyncClient
    clock: Clock
    owed: Owed
    turns: trio.CapacityLimiter


class Attempt:
    """One start, and all who wait for it."""

    def __init__(self) -> None:
        self._over = trio.Event()
        self._error: Exception | None = None

    def settle(self, error: Exception | None) -> None:
        self._error = error
        self._over.set()

    async def wait(self) -> None:
        """Raises whatever kept the worker from being ready."""
        await self._over.wait()
        if self._error is not None:
            raise self._error


class Keeper:
    """Attributes:
    state: of the persona.
    last_error: why its worker is not, or was not, there when it should have been; None: nothing to tell.
    passing: requests that the gateway passes on now.
    counts: what happened so far, for the metrics: `start`, and each `Why` by its name.
    gone: set when the keeper's task has ended.
    """

    def __init__(self, persona: Persona, tools: Tools, life: Life | None = None) -> None:
        """
        Args:
            life: a worker of an earlier waker's, to be taken over.
        """
        self.persona = persona
        self.state = State.STOPPED if life is None else State.STARTING
        self.last_error: str | None = None
        self.passing = 0
        self.counts: Counter[str] = Counter()
        self.started_in_s: float | None = None
        self.gone = trio.Event()
        self._tools = tools
        self._life = life
        self._passed_at: float | None = None
        self._order = persona.order
        self._attempt = Attempt()
        self._asked = False
        self._off = False
        self._died = False
        self._failures = 0
        self._failed_at = 0.0
        self._command: Why | None = None  # at once
        self._renew: Why | None = None  # at the next quiet moment
        self._closing = False  # its task ends once the worker has
        self._shut = False  # and that is now
        self._starting = trio.CancelScope()
        self._stirred = trio.Event()
        self._down = trio.Event()

    # What others see

    @property
    def name(self) -> str:
        return self.persona.name

    @property
    def pid(self) -> int | None:
        return None if self._life is None else self._life.pid

    @property
    def started_at(self) -> float | None:
        return None if self._life is None else self._life.started_at

    @property
    def port(self) -> int | None:
        """The worker's; of one that is down, the one that its file gives it, if any."""
        if self._life is not None and self._life.address is not None:
            return httpx.URL(self._life.address).port
        return self.persona.order.port or None

    @property
    def is_up(self) -> bool:
        """Does its worker take requests? Immediate."""
        return self.state is State.RUNNING and self._told() is None

    @property
    def key(self) -> str:
        """The one that the worker which runs was started with."""
        return self._order.key

    async def activity(self) -> Activity | None:
        """What the worker says now; None: it is not running, or says nothing within two seconds."""
        return await self._ask(SHOWN_WITHIN_S)

    def idle_for(self, said: Activity) -> float:
        return lifecycle.idle_for(self._seen(said), self._now())

    # What others ask for

    async def start(self) -> None:
        """Return once the worker takes requests.

        Raises:
            WorkerDown, WorkerLate: it did not start.
            Unavailable: it was told to stop meanwhile, or the waker stops.
        """
        self._off = False
        await self._running()

    async def stop(self) -> None:
        """Tell the worker to end, whatever it does, and return once it has. One that is kept up stays down until it is
        started.
        """
        self._off = True
        await self._end_now(Why.STOP)

    async def restart(self) -> None:
        """End the worker, whatever it does, and start it; as `start`."""
        self._off = False
        if self.state is State.STARTING:
            await self._end_now(Why.RESTART)
        if self.state is State.RUNNING:
            attempt, self._asked = self._attempt, True
            self._tell(Why.RESTART)
            await attempt.wait()
        else:
            await self._running()

    @asynccontextmanager
    async def passage(self) -> AsyncGenerator[str]:
        """Start the worker if it sleeps, and keep it up while the block lasts; the worker's base URL.

        Raises:
            WorkerDown, WorkerLate: it did not start.
            Unavailable: it was stopped by hand, has failed too recently, or the waker stops.
        """
        while not self.is_up:
            self._refuse_to_wake()
            await self._running()
        address = self._tools.driver.address(self.name)
        if address is None:
            raise WorkerDown(f"the worker of {self.name} ended just now")
        self.passing += 1
        try:
            yield address
        finally:
            self.passing -= 1
            self._passed_at = self._now()

    def change(self, persona: Persona) -> bool:
        """Take a new word of the file's; whether the worker has to be renewed for it, at its next quiet moment."""
        renew = self._life is not None and not self._life.is_of(persona.order)
        self.persona = persona
        self._renew = Why.CHANGED if renew else None
        self._stir()
        return renew

    def remove(self) -> None:
        """End with the worker's next quiet moment; immediate."""
        self._renew = Why.REMOVED
        self._closing = True
        self._stir()

    def remain(self) -> bool:
        """Take `remove` back; whether that was in time. Immediate."""
        if not self.gone.is_set():
            self._closing, self._renew = self._shut, None
        return not self.gone.is_set()

    def close(self) -> None:
        """End now, the worker too; immediate."""
        self._closing = self._shut = True
        self._starting.cancel(reason="the waker stops")
        self._stir()

    # Its task

    async def run(self) -> None:
        """Keep the persona, until `remove` or `close`."""
        try:
            await self._begin()
            while not (self._closing and self._life is None):
                if self._life is None:
                    if await self._rest():
                        await self._start()
                else:
                    await self._end(await self._watch())
        finally:
            self._settle(Stopping("the waker stops", headers={"Retry-After": "10"}))
            self._down.set()
            self.gone.set()

    async def _begin(self) -> None:
        """Take over what an earlier waker left: a worker, one that was starting, or one that died meanwhile."""
        if self._life is None:
            self._died = self._tools.owed.is_noted(self.name)
            if self._died:
                log.warning("worker ended while no waker was there; started again", persona=self.name)
        elif self._life.address is None:
            self._life = None
            await self._start()
        else:
            self.state = State.RUNNING
            self.change(self.persona)

    async def _rest(self) -> bool:
        """Until the worker has to be started (True), or the keeper ends."""
        while not self._closing:
            due = self._due()
            if self._asked or (due is not None and due <= self._now()):
                return True
            await self._pause(due)
        return False

    def _due(self) -> float | None:
        if self._off or not lifecycle.starts_itself(
            self.persona.policy, died=self._died, failures=self._failures
        ):
            return None
        return lifecycle.restart_at(self._failures, self._failed_at)

    async def _start(self) -> None:
        self.state, self._asked, self._command = State.STARTING, False, None
        self._renew = Why.REMOVED if self._closing else None
        self._order = self.persona.order
        error: Exception | None = Unavailable(f"{self.name} was stopped while it started")
        with trio.CancelScope() as self._starting:
            try:
                async with self._tools.turns:
                    began = trio.current_time()
                    self._life = await self._tools.driver.start(self._order)
                    self.started_in_s = trio.current_time() - began
            except WorkerDown as exc:
                error = exc
        if self._life is not None:
            self._started(self._life)
            error = None if self._told() is None else error
        elif isinstance(error, WorkerDown):
            self._fail(error.message, 0.0)
        else:
            self._rested()
        self._settle(error)

    def _started(self, life: Life) -> None:
        self.counts["start"] += 1
        self._tools.owed.note(self.name)
        self.state, self._died = State.RUNNING, False
        if self._starting.cancel_called:  # too late: it was there already
            self._tell(Why.STOP)
        if not life.is_of(self.persona.order):  # the file was read again meanwhile
            self._renew = Why.CHANGED
        log.info(
            "worker started",
            persona=self.name,
            pid=life.pid,
            address=life.address,
            took_s=round(self.started_in_s or 0.0, 3),
        )

    async def _watch(self) -> Why:
        """Until the worker ended, or has to; the state says so already."""
        why = Why.DIED
        assert self._life is not None

        async def died() -> None:
            how = await self._tools.driver.ended(self.name)
            if self.state is State.RUNNING:
                self.state, self.last_error = State.STOPPING, f"the worker {how}"
                nursery.cancel_scope.cancel(reason="the worker ended")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(died)
            why = await self._decide(self._life)
            nursery.cancel_scope.cancel(reason=why)
        return why

    async def _decide(self, life: Life) -> Why:
        """Look at the worker whenever something may be due."""
        heard_at = look_at = self._now()
        while True:
            await self._pause(look_at)
            said = None if self._told() else await self._ask(ANSWER_S)
            why = self._told()
            now = self._now()
            if why is None and said is not None:
                heard_at = now
                verdict = lifecycle.judge(self.persona.policy, self._seen(said, life), now)
                if isinstance(verdict, Stay):
                    look_at = verdict.until
                else:
                    why = verdict.why
            elif why is None:
                look_at = now + ASK_AGAIN_S
                if now - heard_at >= SILENT_S:
                    # One that has another key than the file now gives it cannot be asked.
                    why = self._renew or Why.SILENT
            if why is not None:
                self.state = State.STOPPING
                return why

    def _told(self) -> Why | None:
        """What it has to end for at once."""
        return Why.SHUTDOWN if self._shut else self._command

    async def _end(self, why: Why) -> None:
        """The worker has ended, or is ended."""
        assert self._life is not None
        lived = self._now() - self._life.started_at
        log.info("worker stops" if why is not Why.DIED else "worker died", persona=self.name, why=why)
        if why is Why.SILENT:
            self.last_error = f"the worker did not answer for {SILENT_S:.0f} s"
        owes = why in {Why.DIED, Why.SILENT} or (why is Why.SHUTDOWN and await self._has_work())
        if why is not Why.DIED:
            await self._tools.driver.stop(self.name, self.persona.order.kill_after_s)
        self.counts[why] += 1
        self._life, self._command = None, None
        if not owes:
            self._tools.owed.forget(self.name)
        if why in {Why.DIED, Why.SILENT}:
            log.error("worker failed", persona=self.name, error=self.last_error)
            self._fail(self.last_error or "", lived)
            self._died = True
        else:
            self._failures = 0
            self._asked = self._asked or why is Why.CHANGED
            self._rested()

    async def _has_work(self) -> bool:
        said = await self._ask(SHOWN_WITHIN_S)
        return said is None or said.in_flight > 0

    # Small steps

    async def _running(self) -> None:
        if self.is_up:
            return
        if self._closing:
            words = "the waker stops" if self._shut else f"{self.name} is not in the file any more"
            raise Stopping(words, headers={"Retry-After": "10"})
        attempt = self._attempt
        if self.state is not State.STARTING:
            self._asked = True
            self._stir()
        await attempt.wait()

    def _refuse_to_wake(self) -> None:
        if self._off and self.persona.policy.mode is Mode.ALWAYS:
            raise Unavailable(f"{self.name} was stopped by hand: start it first")
        if self.state is State.FAILED:
            wait = lifecycle.restart_at(self._failures, self._failed_at) - self._now()
            if wait > 0:
                raise Unavailable(
                    f"{self.name} failed just now: {self.last_error}",
                    headers={"Retry-After": str(int(wait) + 1)},
                )

    async def _end_now(self, why: Why) -> None:
        down = self._down
        if self.state is State.STARTING:
            self._starting.cancel(reason="stopped by hand")
            await down.wait()
        elif self.state in {State.RUNNING, State.STOPPING}:
            self._tell(why)
            await down.wait()
        elif self.state is State.FAILED:
            self.state = State.STOPPED
            self._tools.owed.forget(self.name)

    def _tell(self, why: Why) -> None:
        if self.state is State.RUNNING:
            self._command = why
        self._stir()

    def _fail(self, error: str, lived_s: float) -> None:
        self.state, self.last_error = State.FAILED, error
        self._failures = lifecycle.failures_after(self._failures, lived_s)
        self._failed_at = self._now()
        self._is_down()

    def _rested(self) -> None:
        self.state, self.last_error = State.STOPPED, None
        self._is_down()

    def _is_down(self) -> None:
        down, self._down = self._down, trio.Event()
        down.set()

    def _settle(self, error: Exception | None) -> None:
        attempt, self._attempt = self._attempt, Attempt()
        attempt.settle(error)

    def _stir(self) -> None:
        self._stirred.set()

    async def _pause(self, until: float | None) -> None:
        """Until that moment (None: for ever), or until something is asked for."""
        with trio.CancelScope() as scope:
            if until is not None:
                scope.deadline = trio.current_time() + max(0.0, until - self._now())
            await self._stirred.wait()
        self._stirred = trio.Event() if self._stirred.is_set() else self._stirred

    async def _ask(self, within_s: float) -> Activity | None:
        if self._life is None or self._life.address is None:
            return None
        return await asking.activity(self._tools.client, self._life.address, self._order.key, within_s)

    def _seen(self, said: Activity, life: Life | None = None) -> Seen:
        life = life or self._life
        return Seen(
            activity=said,
            started_at=self._now() if life is None else life.started_at,
            passing=self.passing,
            passed_at=self._passed_at,
            renew=self._renew,
        )

    def _now(self) -> float:
        return self._tools.clock.now()
