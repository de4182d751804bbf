"""The asyncio loop of the browser's thread: it knows which call has the thread, and starts the node driver safely.

Asyncio-flavoured throughout.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import playwright

from penelope.pages.browser import node
from penelope.pages.browser.adopted import adopt

if TYPE_CHECKING:
    from penelope.pages.browser.run import Run

# Set in the context of a call's task, so that whatever it starts is known to be its own.
current_run: ContextVar["Run[Any] | None"] = ContextVar("penelope_browser_run", default=None)

_PLAYWRIGHT_INNER = str(Path(playwright.__file__).parent / "_impl") + os.sep
# Whose coroutines are no plugin's, though they have no call's context either. The families are plugins like any other.
_NOT_PLUGINS = (
    str(Path(playwright.__file__).parent)
    + os.sep,  # what its API's own coroutines do beside, such as opening a page
    str(Path(asyncio.__file__).parent) + os.sep,
    str(Path(__file__).parents[1]) + os.sep,
)


class BrowserLoop(asyncio.SelectorEventLoop):
    """A loop that runs coroutines of calls under a guard.

    Attributes:
        at_work: the call whose code has the thread right now; None between steps. Read by the watch.
        drivers: pids of the node drivers that were started.
        runs: the calls that work pages.
        environment: of the node driver; None: this process's own.
    """

    def __init__(self, ahead: "node.HeadStart | None" = None) -> None:
        """`ahead`: a driver that was started already; None: there is none."""
        super().__init__()
        self._ahead = ahead
        self.at_work: Run[Any] | None = None
        self.runs: set[Run[Any]] = set()
        self._handlers: dict[
            asyncio.Task[Any], set[Run[Any]]
        ] = {}  # that run, and the calls that each may be of
        self.drivers: list[int] = []
        self._transports: list[asyncio.SubprocessTransport] = []
        self.environment: dict[str, str] | None = None
        self.set_task_factory(_make_task)

    async def subprocess_exec(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.SubprocessProtocol],
        program: Any,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[asyncio.SubprocessTransport, asyncio.SubprocessProtocol]:
        """As asyncio's; Playwright's driver gets a session of its own (a Ctrl-C is ours to answer), ends with this
        thread, and does not see this worker's environment.
        """
        if not args or args[-1] != node.VERB:
            return await super().subprocess_exec(protocol_factory, program, *args, **kwargs)
        line = node.command(str(program), [str(argument) for argument in args])
        env = dict(kwargs.pop("env", None) or os.environ)
        if self.environment is not None:
            env = self.environment | node.of_playwright(env)
        running = None if self._ahead is None else self._ahead.take(line, env)
        if running is None:
            made = await super().subprocess_exec(
                protocol_factory, *line, env=env, start_new_session=True, cwd=str(Path("/")), **kwargs
            )
        else:
            made = await adopt(running, line, protocol_factory)
        self.drivers.append(made[0].get_pid())
        self._transports = [one for one in self._transports if not one.is_closing()] + [made[0]]
        return made

    def handler(self, coro: Coroutine[Any, Any, Any], **kwargs: Any) -> "asyncio.Task[Any]":
        """A task for a plugin's handler of an event: Playwright starts it, outside of every call's context."""
        if len(self.runs) == 1:
            (run,) = self.runs
            return run.adopted(coro, **kwargs)
        task = asyncio.Task(coro, loop=self, **kwargs)
        self._handlers[task] = set(self.runs)
        task.add_done_callback(self._handlers.pop)
        return task

    def handlers_of(self, run: "Run[Any]") -> "set[asyncio.Task[Any]]":
        """The handlers that run and that no call but this one, which ends, can have left."""
        found = {task for task, owners in self._handlers.items() if owners <= {run}}
        for owners in self._handlers.values():
            owners.discard(run)
        return found

    def close_transports(self) -> None:
        """Close what a start that was cut off left open; before the loop is closed, in its thread."""
        for transport in self._transports:
            transport.close()
        self.run_until_complete(asyncio.sleep(0))  # their pipes close in the loop


def _make_task(loop: asyncio.AbstractEventLoop, coro: Any, **kwargs: Any) -> "asyncio.Task[Any]":
    run = current_run.get()
    code = getattr(coro, "cr_code", None) if isinstance(coro, Coroutine) else None
    if code is None:
        return asyncio.Task(coro, loop=loop, **kwargs)
    if (
        run is None
        and isinstance(loop, BrowserLoop)
        and loop.runs
        and not code.co_filename.startswith(_NOT_PLUGINS)
    ):
        return loop.handler(coro, **kwargs)
    if run is None or run.closed or code.co_filename.startswith(_PLAYWRIGHT_INNER):
        return asyncio.Task(coro, loop=loop, **kwargs)  # Playwright's own bookkeeping: not the call's to end
    return run.adopted(coro, **kwargs)
