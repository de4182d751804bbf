"""Between a run's work (a recipe, an agent) and the engine that runs it: each knows the other by this page alone.

Trio-flavoured.

Source: contract, section 10; docs/architecture.md, "Runs".
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from penelope.errors import PenelopeError
from penelope.plugin import MediaLink


class StepFailed(PenelopeError):
    """A step of a run answered with a failure: what the plain call would have answered.

    Attributes:
        answered: its status.
        kind: whose fault it was, as in a call's answer; None: the plugin's own word.
    """

    status = 502

    def __init__(self, message: str, *, answered: int, kind: str | None = None) -> None:
        super().__init__(message)
        self.answered = answered
        self.fault = kind


class RunFailed(PenelopeError):
    """A run's work came to its end without a result; the message is what its client reads as `error`."""

    status = 500


OnProgress = Callable[[float, str], Awaitable[None]]


class Desk(Protocol):
    """One claimed page, for as long as a run's work lasts: all of its steps work this page, one after another.

    A cancelled step is ended as a cancelled call is: the page is usable afterwards.
    """

    @property
    def run_id(self) -> str: ...

    @property
    def page_id(self) -> str: ...

    async def plugin(
        self,
        name: str,
        arguments: Mapping[str, Any],
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Run a plugin, `family/name`, as a plain call would; the fields of its result.

        Args:
            on_progress: told of the plugin's own progress, a fraction from 0 to 1 and a few words; awaited where the
                plugin tells it, as `progress` is, which it may call.

        Raises:
            NotFound, BadParameter: there is no such plugin, or it does not take these; nothing was run.
            StepFailed: it failed.
        """
        ...

    async def primitive(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Run a primitive, e.g. `goto`; the fields of its result.

        Raises:
            NotFound, BadParameter, StepFailed: as `plugin`.
        """
        ...

    async def media(
        self, source: "bytes | str | os.PathLike[str]", filename: str, content_type: str
    ) -> MediaLink:
        """Hand over a file with the run's result.

        Raises:
            MediaFull: the cap on files that wait is reached.
        """
        ...

    async def progress(
        self, fraction: float, step: str, *, completed: int = 0, total: int | None = None
    ) -> None:
        """Say how far it is.

        Args:
            fraction: 0.0 to 1.0.
            step: in a few words.
            completed, total: steps done, and how many there are; None: nobody knows.
        """
        ...


class Work(Protocol):
    """What a run does; made, and its input checked, when the run is submitted."""

    @property
    def page(self) -> str | None:
        """The page that it works; None: any that is idle."""
        ...

    @property
    def agent_id(self) -> str:
        """What does it, for the status: `recipe:<name>` or `agent:<name>`."""
        ...

    async def run(self, desk: Desk) -> Any:
        """Do it; the result, which is JSON.

        Raises:
            RunFailed, StepFailed, PenelopeError: it failed, with the sentence that its client reads.
        """
        ...
