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
from functools import partial
from typing import Final

import httpx
import structlog
import trio

from penelope.clock import Clock
from penelope.errors import Stopping, Unavailable, WorkerDown
from penelope.waker import lifecycle, stores
from penelope.waker.driver import Driver
from penelope.waker.failures import Failures
from penelope.waker.model import Activity, Life, Mode, Persona, State, Why
from penelope.waker.records import Owed
from penelope.waker.watch import SILENT_S, Watch
from penelope.waker.wishes import Traffic, Wishes

SHOWN_WITHIN_S: Final = 2.0

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


class Keeper:
    """Attributes:
    state: of the persona.
    last_error: why its worker is not, or was not, there when it should have been; None: nothing to tell.
    traffic: requests that the gateway passes on.
    counts: what happened so far, for the metrics: `start`, and each `Why` by its name.
    started_in_s: how long the last start took; None: there was none.
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
        self.traffic = Traffic()
        self.counts: Counter[str] = Counter()
        self.started_in_s: float | None = None
        self.gone = trio.Event()
        self._tools = tools
        self._left_behind = life
        self._order = persona.order
        self._watch: Watch | None = None
        self._wishes = Wishes()
        self._failures = Failures()
        self._starting = trio.CancelScope()
        self._down = trio.Event()

    # What others see

    @property
    def name(self) -> str:
        return self.persona.name

    @property
    def life(self) -> Life | None:
        """Of the worker that runs; None: none does."""
        return None if self._watch is None else self._watch.life

    @property
    def is_up(self) -> bool:
        """Does its worker take requests? Immediate."""
        return self.state is State.RUNNING and self._wishes.told() is None

    @property
    def key(self) -> str:
        """The one that the worker which runs was started with."""
        return self._order.key if self._watch is None else self._watch.key

    async def activity(self) -> Activity | None:
        """What the worker says now; None: it is not running, or says nothing within two seconds."""
        return None if self._watch is None else await self._watch.ask(SHOWN_WITHIN_S)

    def idle_for(self, said: Activity) -> float:
        return 0.0 if self._watch is None else lifecycle.idle_for(self._watch.seen(said), self._now())

    # What others ask for

    async def start(self) -> None:
        """Return once the worker takes requests.

        Raises:
            WorkerDown, WorkerLate: it did not start.
            Unavailable: it was told to stop meanwhile, or the waker stops.
        """
        self._wishes.off = False
        await self._running()

    async def stop(self) -> None:
        """Tell the worker to end, whatever it does, and return once it has. One that is kept up stays down until it is
        started.
        """
        self._wishes.off = True
        if self.state is not State.STARTING:  # whoever waits for the next start, a `restart` too
            self._wishes.recall(Unavailable(f"{self.name} was stopped by hand meanwhile"))
        await self._end_now(Why.STOP)

    async def restart(self) -> None:
        """End the worker, whatever it does, and start it; as `start`."""
        self._wishes.off = False
        if self.state is State.STARTING:
            await self._end_now(Why.RESTART)
        if self.state is State.RUNNING:
            attempt, self._wishes.asked = self._wishes.attempt, True
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
        with self.traffic.passed(self._now):
            yield address

    def change(self, persona: Persona) -> bool:
        """Take a new word of the file's; whether the worker has to be renewed for it, at its next quiet moment."""
        renew = self.life is not None and not self.life.is_of(persona.order)
        self.persona = persona
        self._wishes.renew = Why.CHANGED if renew else None
        self._wishes.stir()
        return renew

    def remove(self) -> None:
        """End with the worker's next quiet moment; immediate."""
        self._wishes.renew = Why.REMOVED
        self._wishes.closing = True
        self._wishes.stir()

    def remain(self) -> bool:
        """Take `remove` back; whether that was in time. Immediate."""
        if not self.gone.is_set():
            self._wishes.closing, self._wishes.renew = self._wishes.shut, None
        return not self.gone.is_set()

    def close(self) -> None:
        """End now, the worker too; immediate."""
        self._wishes.closing = self._wishes.shut = True
        self._starting.cancel(reason="the waker stops")
        self._wishes.stir()

    # Its task

    async def run(self) -> None:
        """Keep the persona, until `remove` or `close`."""
        try:
            await self._begin()
            while not (self._wishes.closing and self._watch is None):
                if self._watch is not None:
                    await self._end(self._watch, await self._until_due(self._watch))
                elif await self._rest():
                    await self._start()
        finally:
            self._wishes.settle(Stopping("the waker stops", headers={"Retry-After": "10"}))
            self._down.set()
            self.gone.set()

    async def _begin(self) -> None:
        """Take over what an earlier waker left: a worker, one that was starting, or one that died meanwhile."""
        life = self._left_behind
        if life is None:
            self._failures.died = self._tools.owed.is_noted(self.name)
            if self._failures.died:
                log.warning("worker ended while no waker was there; started again", persona=self.name)
        elif life.address is None:
            self._failures.died = self._tools.owed.is_noted(self.name)  # should it not get ready
            await self._start()
        else:
            self._is_running(life)

    async def _rest(self) -> bool:
        """Until the worker has to be started (True), or the keeper ends."""
        while not self._wishes.closing:
            due = None if self._wishes.off else self._failures.due(self.persona.policy)
            if self._wishes.asked or (due is not None and due <= self._now()):
                return True
            await self._wishes.pause(None if due is None else due - self._now())
        return False

    async def _start(self) -> None:
        self.state = State.STARTING
        self._wishes.begin()
        self._order = self.persona.order
        error: Exception | None = Unavailable(f"{self.name} was stopped while it started")
        life: Life | None = None
        with trio.CancelScope() as self._starting:
            try:
                async with self._tools.turns:
                    began = trio.current_time()
                    life = await self._tools.driver.start(self._order)
                    self.started_in_s = trio.current_time() - began
            except WorkerDown as exc:
                error = exc
        if life is not None:
            self._is_running(life)
            self._note_start(life)
            error = error if self._wishes.told() else None
        elif isinstance(error, WorkerDown):
            self._fail(error.message, 0.0)
        else:
            self._is_down(State.STOPPED, None)
        self._wishes.settle(error)

    def _is_running(self, life: Life) -> None:
        self.state, self._failures.died = State.RUNNING, False
        tools = self._tools
        keys = (self._order.key, *self.persona.keys)  # of an earlier waker's: perhaps the one before
        self._watch = Watch(life, keys, self._wishes, self.traffic, tools.client, tools.clock)
        if not life.is_of(self.persona.order):  # of an earlier waker's, or the file was read again meanwhile
            self._wishes.renew = self._wishes.renew or Why.CHANGED

    def _note_start(self, life: Life) -> None:
        self.counts["start"] += 1
        self._tools.owed.note(self.name)
        if self._starting.cancel_called:  # too late: it was there already
            self._tell(Why.STOP)
        took_s = round(self.started_in_s or 0.0, 3)
        log.info("worker started", persona=self.name, pid=life.pid, address=life.address, took_s=took_s)

    async def _until_due(self, watch: Watch) -> Why:
        """Until the worker ended, or has to; the state says so already."""
        why = Why.DIED

        async def died() -> None:
            how = await self._tools.driver.ended(self.name)
            if self.state is State.RUNNING:
                self.state, self.last_error = State.STOPPING, f"the worker {how}"
                nursery.cancel_scope.cancel(reason="the worker ended")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(died)
            why = await watch.until_due(lambda: self.persona.policy)
            self.state = State.STOPPING
            nursery.cancel_scope.cancel(reason=why)
        return why

    async def _end(self, watch: Watch, why: Why) -> None:
        """The worker has ended, or is ended."""
        log.info("worker stops" if why is not Why.DIED else "worker died", persona=self.name, why=why)
        failed = why in {Why.DIED, Why.SILENT}
        if why is Why.SILENT:
            self.last_error = f"the worker did not answer for {SILENT_S:.0f} s"
        said = await self.activity() if why is Why.SHUTDOWN else None
        if why is not Why.DIED:
            await self._tools.driver.stop(self.name, self.persona.order.kill_after_s)
        owes = failed or await self._owes(why, said)
        self.counts[why] += 1
        self._watch, self._wishes.command = None, None
        if not owes:
            self._tools.owed.forget(self.name)
        if failed:
            log.error("worker failed", persona=self.name, error=self.last_error)
            self._fail(self.last_error or "", self._now() - watch.life.started_at)
            self._failures.died = True
        else:
            self._failures.forget()
            self._wishes.asked = self._wishes.asked or why is Why.CHANGED or (owes and why is Why.IDLE)
            self._is_down(State.STOPPED, None)

    async def _owes(self, why: Why, said: Activity | None) -> bool:
        """Did the worker leave webhooks or queued runs behind, which only its next life can see to?

        One that was idle may: a direct client can start a job between the worker's word and its stop.
        """
        if why in {Why.STOP, Why.REMOVED}:  # by hand: so be it
            return False
        read = partial(stores.is_owing, self._order.store, self._now())
        owes = await trio.to_thread.run_sync(read)
        if owes is None:  # no store to look at: by what it said before
            return why is Why.SHUTDOWN and (said is None or said.in_flight > 0)
        return owes

    # Small steps

    async def _running(self) -> None:
        """Return once the worker takes requests, having asked for it."""
        if self.is_up:
            return
        if self._wishes.closing:
            words = "the waker stops" if self._wishes.shut else f"{self.name} is not in the file any more"
            raise Stopping(words, headers={"Retry-After": "10"})
        attempt = self._wishes.attempt
        if self.state is not State.STARTING:
            self._wishes.asked = True
            self._wishes.stir()
        await attempt.wait()

    def _refuse_to_wake(self) -> None:
        if self._wishes.off and self.persona.policy.mode is Mode.ALWAYS:
            raise Unavailable(f"{self.name} was stopped by hand: start it first")
        wait = self._failures.again_at - self._now()
        if self.state is State.FAILED and wait > 0:
            raise Unavailable(
                f"{self.name} failed just now: {self.last_error}", headers={"Retry-After": str(int(wait) + 1)}
            )

    async def _end_now(self, why: Why) -> None:
        """Return once the worker is down that is there now."""
        down = self._down
        if self.state is State.STARTING:
            self._starting.cancel(reason="stopped by hand")
            await down.wait()
        elif self.state in {State.RUNNING, State.STOPPING}:
            self._tell(why)
            await down.wait()
        elif self.state is State.FAILED:
            self.state, self.last_error = State.STOPPED, None
            self._tools.owed.forget(self.name)

    def _tell(self, why: Why) -> None:
        if self.state is State.RUNNING:
            self._wishes.command = why
        self._wishes.stir()

    def _fail(self, error: str, lived_s: float) -> None:
        self._failures.add(self._now(), lived_s)
        self._is_down(State.FAILED, error)

    def _is_down(self, state: State, error: str | None) -> None:
        self.state, self.last_error = state, error
        down, self._down = self._down, trio.Event()
        down.set()

    def _now(self) -> float:
        return self._tools.clock.now()
