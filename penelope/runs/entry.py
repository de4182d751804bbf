"""A run that is not over, as the worker has it in memory: its work, how far it is, and who waits for it.

Source: contract, section 10.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from penelope.runs import events
from penelope.runs.model import Far, Run
from penelope.runs.port import Work


@dataclass(eq=False, slots=True)
class Entry:
    """A run that is not over, or whose end the store has yet to take.

    Attributes:
        run: as the store has it; as it ended, once the store was told, whether it took that or not.
        far: how far it is.
        scope: of its work; cancelled when its client cancels it, and by its limit.
        cancelled: its client did.
        outrun: it was put back since somebody else had its page first: it may try another at once.
        not_before: Trio's time; a run that was put back for another reason waits a moment.
        over: set once it has ended, or the worker stopped before it did.
        answerable: set then too, or when the worker is asked to stop: those who wait for its end wait no longer.
    """

    run: Run
    work: Work
    far: Far = field(default_factory=Far)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    cancelled: bool = False
    outrun: bool = False
    not_before: float = 0.0
    over: trio.Event = field(default_factory=trio.Event)
    answerable: trio.Event = field(default_factory=trio.Event)
    _then: list[Callable[[], object]] = field(default_factory=list)
    _end: tuple[str, bytes] | None = None
    _moved: trio.Event | None = None  # each is there while somebody waits for it
    _progressed: trio.Event | None = None

    def then(self, call: Callable[[], object]) -> None:
        """Have this called once it is answerable: at once, if it is. Immediate."""
        if self.answerable.is_set():
            call()
        else:
            self._then.append(call)

    async def move(self) -> None:
        """Return once its state is another one, or it is over, or the worker is asked to stop."""
        if self._moved is None:
            self._moved = trio.Event()
        await self._moved.wait()

    async def progress(self) -> None:
        """As `move`, or once it is further, which a plugin may say ten thousand times."""
        if self._progressed is None:
            self._progressed = trio.Event()
        await self._progressed.wait()

    def tell(self) -> None:
        """Wake those who wait for a move. Immediate."""
        if self._moved is not None:
            self._moved.set()
            self._moved = None
        self._tell_progress()

    def progressed(self, far: Far) -> None:
        self.far = far
        self._tell_progress()

    def _tell_progress(self) -> None:
        if self._progressed is not None:
            self._progressed.set()
            self._progressed = None

    def end(self) -> tuple[str, bytes]:
        """The last event of a run that is over: made once for all who watch it, since a result may be large."""
        if self._end is None:
            self._end = events.end(self.run)
        return self._end

    def let_go(self) -> None:
        """The worker is asked to stop."""
        self.answerable.set()
        waiting, self._then = self._then, []
        for call in waiting:
            call()
        self.tell()

    def close(self) -> None:
        """It is over."""
        self.over.set()
        self.let_go()
