"""What a plugin's author sees: the decorator, the call, and the error to raise.

A plugin is asyncio code on Playwright's own `Page`; what it asks of the worker (`progress`, `checkpoint`, `media`)
crosses to the worker's side by itself. This module knows neither Trio nor Playwright at run time.

Source: contract, section 2.
"""

import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from typing_extensions import TypedDict  # before Python 3.12 pydantic takes only this one in a result model

from penelope import jsontext

if TYPE_CHECKING:
    from playwright.async_api import Page
    from pydantic_settings import BaseSettings
    from structlog.typing import FilteringBoundLogger

_Function = TypeVar("_Function", bound=Callable[..., Awaitable[Any]])
_Result = TypeVar("_Result")
_Settings = TypeVar("_Settings", bound="BaseSettings")

PLUGIN_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}/[a-z0-9][a-z0-9-]{0,63}")
PLUGIN_MARK: Final = "__penelope_plugin__"


class MediaLink(TypedDict):
    """A file handed over once: put it into the result as it is.

    `expires_at` is epoch seconds, `size` bytes. Source: contract, section 6.
    """

    url: str
    filename: str
    content_type: str
    size: int
    expires_at: float


class Host(Protocol):
    """The worker's side of a call. Trio-flavoured; a plugin reaches it through its `Call` alone."""

    async def progress(self, fraction: float, note: str) -> None: ...

    async def checkpoint(self, text: str) -> None: ...

    async def media(
        self, source: "bytes | str | os.PathLike[str]", filename: str, content_type: str
    ) -> MediaLink: ...


class Crossing(Protocol):
    """Runs a function of the worker's side and waits for it, from the plugin's side."""

    def __call__(self, function: Callable[..., Awaitable[_Result]], /, *args: Any) -> Awaitable[_Result]: ...


class PluginError(Exception):
    """A failure in the plugin's own words: the client gets them, with this status.

    Anything may be given as the message, e.g. the exception that it is about; its text counts.

    Raises:
        ValueError: a status that is no whole number from 400 to 599.
    """

    def __init__(self, message: object, *, status: int = 500) -> None:
        super().__init__(message)
        self.message = str(message)
        self.status = checked_status(status)


def checked_status(status: object) -> int:
    """The status of a failure.

    Raises:
        ValueError: it is no whole number from 400 to 599.
    """
    if not isinstance(status, int) or not 400 <= status <= 599:
        raise ValueError(f"PluginError: status is {status!r}, not a whole number from 400 to 599")
    return int(status)


class Call:
    """One run of a plugin: its page, and its way back to the worker.

    It behaves the same in a plain call and in a job; progress and checkpoints of a plain call are dropped.

    Attributes:
        page: Playwright's own async `Page`.
        page_id: the page's name at the worker, e.g. `main`.
        job_id: 16 hex digits; None in a plain call.
        request_id: of the request that started the call; it is in every log line.
        log: a structured logger, bound to the call.
    """

    def __init__(
        self,
        *,
        page: "Page",
        page_id: str,
        job_id: str | None,
        request_id: str,
        family: str,
        log: "FilteringBoundLogger",
        host: Host,
        crossing: Crossing,
    ) -> None:
        self.page = page
        self.page_id = page_id
        self.job_id = job_id
        self.request_id = request_id
        self.log = log
        self._family = family
        self._host = host
        self._cross = crossing

    async def progress(self, fraction: float, note: str = "") -> None:
        """Say how far the work is.

        Args:
            fraction: 0.0 to 1.0.
            note: a few words.

        Raises:
            ValueError: a fraction that is no number from 0 to 1.
        """
        if not 0.0 <= fraction <= 1.0:  # also refuses NaN
            raise ValueError(f"progress: fraction is {fraction!r}, not a number from 0 to 1")
        await self._cross(self._host.progress, float(fraction), str(note))

    async def checkpoint(self, value: object) -> None:
        """Keep a JSON value for the client in case the job is interrupted; the last one counts.

        Raises:
            ValueError: a value that is no JSON.
        """
        # Written here, on the plugin's side: a large one must not hold up the worker's loop.
        await self._cross(self._host.checkpoint, jsontext.dumps(value))

    async def media(
        self,
        source: "bytes | str | os.PathLike[str]",
        *,
        filename: str,
        content_type: str = "application/octet-stream",
    ) -> MediaLink:
        """Hand a file to the client through a one-shot link.

        Args:
            source: the bytes, or the path of a file, which is copied.
            filename: the name that the client's download gets; anything unsafe in it is replaced.
            content_type: the media type that the download is served with.

        Raises:
            MediaFull: the unclaimed files would pass the cap (answered `507`).
        """
        return await self._cross(self._host.media, source, filename, content_type)

    def settings(self, model: type[_Settings]) -> _Settings:
        """The plugin's own settings, read from `PENELOPE_<FAMILY>_…`.

        Raises:
            pydantic.ValidationError: a value that does not parse.
        """
        return model(_env_prefix=f"PENELOPE_{self._family.upper().replace('-', '_')}_")


@dataclass(frozen=True, slots=True)
class Mark:
    """What `@plugin` leaves on a function for the registry to find."""

    name: str


def plugin(name: str) -> Callable[[_Function], _Function]:
    """Name a coroutine function as a plugin, `family/name`.

    Its first parameter is the `Call`; the others, with their annotations and defaults, are the parameters of its
    route; its return annotation is the result model; its docstring describes it in the API reference.

    Raises:
        ValueError: a name that is not `family/name` in lower case letters, digits and hyphens.
    """
    if not PLUGIN_NAME.fullmatch(name):
        raise ValueError(f"plugin name {name!r} is not family/name in lower case letters, digits and hyphens")

    def mark(function: _Function) -> _Function:
        setattr(function, PLUGIN_MARK, Mark(name))
        return function

    return mark
