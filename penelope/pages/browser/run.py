"""One call in the browser's thread: started from Trio, awaited by Trio, ended for certain.

A `Run` waits for its asyncio *task*, never for a concurrent future: a cancelled future says "done" while the coroutine
still works the page. Each function says its flavour.

Source: docs/architecture.md, "The bridge".
"""

import asyncio
import inspect
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, Generic, TypeVar, cast

import trio

from penelope.pages.browser.crossing import Crossing, call
from penelope.pages.browser.loop import BrowserLoop, current_run

GRACE_S = 2.0  # what a cancelled call gets to end by itself
END_S = 20.0  # over everything that ending a cancelled call may take
HELPERS_GRACE_S = 1.0  # what the tasks it left behind get

_T = TypeVar("_T")
_U = TypeVar("_U")

# Coroutines that were given up while they were suspended. They are never resumed; kept, because collecting one would
# throw GeneratorExit into it, which runs its code once more.
_given_up: list[object] = []


def any_given_up() -> bool:
    """Is there a coroutine that was given up? The interpreter's own way out would run its code once more."""
    return bool(_given_up)


class BrokenOff(BaseException):
    """Raised inside a call that blocks the browser's thread, to free the thread."""


class Exited(Exception):
    """A call tried to end more than itself: SystemExit, KeyboardInterrupt, GeneratorExit and the like."""


class Abandoned(Exception):
    """A call was given up: its coroutine will not be resumed."""


class Run(Generic[_T]):
    """A coroutine function, run in the browser's loop.

    Attributes:
        name: who it is, for log lines.
        ended: set, on Trio's side, once the task has really ended.
        started: whether the loop has begun with it (False: the thread was blocked before).
        closed: nothing new may be started for it.
    """

    def __init__(
        self, loop: BrowserLoop, name: str, function: Callable[..., Awaitable[_T]], args: Any
    ) -> None:
        """Trio-flavoured."""
        self.name = name
        self.ended = trio.Event()
        self.started = False
        self.closed = False
        self.cancel_seen = False
        self._loop = loop
        self._token = trio.lowlevel.current_trio_token()
        self._function, self._args = function, args
        self._task: asyncio.Task[_T] | None = None
        self._helpers: set[asyncio.Task[Any]] = set()
        self._abandoned = False
        self._value: _T | None = None
        self._early: tuple[_T] | None = None
        self._error: BaseException | None = None
        self._verdict: Exception | None = None
        self._nursery: trio.Nursery | None = None

    # On Trio's side.

    async def wait(self, end: "Callable[[Run[_T]], Awaitable[None]]") -> _T:
        """Start it and wait for its end; when cancelled, `end` it, shielded and bounded.

        Raises whatever the coroutine raised, as it is.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                if call(self._loop, self._begin):
                    await self.ended.wait()
                else:
                    self._error = asyncio.CancelledError()
            except trio.Cancelled:
                with trio.move_on_after(END_S, shield=True):
                    await end(self)
                raise
            finally:
                self._nursery = None
                nursery.cancel_scope.cancel(reason="the call has ended")
        return self.result()

    def result(self) -> _T:
        """What it returned; raises what it raised. Only after `ended`."""
        error = self._verdict or self._error
        if isinstance(error, asyncio.CancelledError):
            raise Abandoned(f"{self.name} was cancelled from within")
        if error is not None:
            try:
                raise error
            finally:
                del error  # no cycle through the traceback
        return cast(_T, self._value)

    def release(self) -> bool:
        """Let go whoever waits for it, with the result that it has already, if it has: what it does yet nobody waits
        for. Immediate, on Trio's side; False: there is nothing to give.
        """
        early = self._early
        if early is None or self.ended.is_set():
            return False
        self._value = early[0]
        self.ended.set()
        return True

    def cancel(self) -> None:
        """Ask it to end; immediate, from either side."""
        call(self._loop, self._cancel)

    def abandon(self) -> None:
        """Never resume it again; immediate, from either side. What it is doing right now goes on to its next await."""
        call(self._loop, self._abandon)

    # On asyncio's side.

    def _begin(self) -> None:
        self.started = True
        if self.closed:
            self._report()
            return
        whole = self._whole()
        self._task = asyncio.Task(self.guarded(whole), loop=self._loop, name=self.name)
        self._task.add_done_callback(self._done)
        self._task.add_done_callback(partial(_close_unstarted, whole))

    async def _whole(self) -> _T:
        return await self._function(*self._args)

    async def owning(self, work: Awaitable[_U]) -> _U:
        """Await a plugin's work; the tasks that it started, and left, are ended before this returns."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.end_helpers)
            stack.callback(current_run.reset, current_run.set(self))
            return await work

    def has_result(self, value: _T) -> None:
        """From here on it only keeps its books: see `release`."""
        self._early = (value,)

    def begins_work(self) -> None:
        """From here on a handler that Playwright starts may be this call's. Immediate."""
        self._loop.runs.add(self)

    async def end_helpers(self) -> None:
        """What a call leaves behind ends with it: nothing of it may work the page later."""
        self._helpers |= self._loop.handlers_of(self)
        if not self._helpers:
            return
        for task in self._helpers:
            task.cancel()
        _, stubborn = await asyncio.wait(self._helpers, timeout=HELPERS_GRACE_S)
        if stubborn:
            self._abandon_helpers()

    def _done(self, task: "asyncio.Task[_T]") -> None:
        self.closed = True
        self._loop.runs.discard(self)
        if task.cancelled():
            self._error = asyncio.CancelledError()
        elif (error := task.exception()) is not None:
            self._error = error
        else:
            self._value = task.result()
        self._report()

    def _report(self) -> None:
        with suppress(trio.RunFinishedError):  # Trio's side is gone: nobody waits
            self._token.run_sync_soon(self.ended.set)

    def fail(self, error: Exception) -> None:
        """End it from within the loop, with this error whatever it says itself."""
        if self.closed or self._verdict is not None:
            return
        self._verdict = error
        self._cancel()
        self._loop.call_later(GRACE_S, self._abandon)

    def _cancel(self) -> None:
        self.cancel_seen = True
        if self._task is None:
            self.closed = True
        elif not self._task.done():
            self._task.cancel()

    def _abandon(self) -> None:
        if self._task is None or self._task.done():
            return
        self.closed = True
        self._abandoned = True
        self._task.cancel()
        self._abandon_helpers()

    def _abandon_helpers(self) -> None:
        self._abandoned = True
        for task in self._helpers:
            task.cancel()

    def adopted(self, coro: Coroutine[Any, Any, Any], **kwargs: Any) -> "asyncio.Task[Any]":
        """A task for something that the call starts."""
        task = asyncio.Task(self.guarded(coro), loop=self._loop, **kwargs)
        self._helpers.add(task)
        task.add_done_callback(self._helpers.discard)
        task.add_done_callback(partial(_close_unstarted, coro))
        return task

    async def over(self, within_s: float) -> bool:
        """Whether it has ended, or does within that time."""
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task], timeout=within_s)
        return self._task is None or self._task.done()

    async def guarded(self, coro: Coroutine[Any, Any, Any]) -> Any:
        """Drive `coro` step by step: the loop knows whose step it is, and an abandoned one gets no further step."""
        return await _steps(self, self._loop, coro)

    async def cross(self, function: Callable[..., Awaitable[Any]], /, *args: Any) -> Any:
        """Run a Trio-flavoured function on Trio's side, inside the call that started this run; wait for its result.

        Cancelling cancels it and waits for its end. When the call is over, or Trio is, it raises CancelledError.
        """
        crossing = Crossing(self._loop, function, args)
        try:
            self._token.run_sync_soon(self._spawn, crossing)
        except trio.RunFinishedError:
            raise asyncio.CancelledError from None
        async with AsyncExitStack() as stack:
            stack.push_async_callback(crossing.end, self._token)
            return await asyncio.shield(crossing.answer)

    def _spawn(self, crossing: "Crossing") -> None:
        """On Trio's side."""
        nursery = self._nursery
        if nursery is None:
            crossing.refuse()
        else:
            nursery.start_soon(crossing.work, name=f"crossing of {self.name}")


def _close_unstarted(coro: Coroutine[Any, Any, Any], _: object) -> None:
    """What was cancelled before its first step would be warned of as never awaited."""
    if inspect.getcoroutinestate(coro) == inspect.CORO_CREATED:
        coro.close()


class _Caught:
    """Keeps what is thrown into its block, which it is to throw into the coroutine."""

    error: BaseException | None = None

    def __enter__(self) -> "_Caught":
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        self.error = error
        return True


@types.coroutine
def _steps(run: Run[Any], loop: BrowserLoop, coro: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    sent: Any = None
    thrown: BaseException | None = None
    while True:
        if run._abandoned and thrown is not None:
            _given_up.append(coro)
            raise Abandoned(f"{run.name} would not end")
        loop.at_work = run
        try:
            yielded = coro.send(sent) if thrown is None else coro.throw(thrown)
        except StopIteration as end:
            return end.value
        except (Exception, asyncio.CancelledError, BrokenOff):
            raise
        except BaseException as error:  # sys.exit() in a plugin would end the loop, and the worker with it
            raise Exited(f"{run.name} raised {type(error).__name__}") from error
        finally:
            loop.at_work = None
        sent = None
        with _Caught() as caught:
            sent = yield yielded
        thrown = caught.error
