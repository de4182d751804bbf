"""What a primitive is, and what all of them take.

Source: contract, section 3 (primitives).
"""

import mimetypes
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from penelope.errors import BadParameter
from penelope.pages.browser.urls import allowed_url
from penelope.plugin import Crossing, Host, MediaLink, PluginError

if TYPE_CHECKING:
    from playwright.async_api import Download, Page

DEFAULT_TIMEOUT_MS: Final = 30_000
MAX_TIMEOUT_MS: Final = 600_000
# The most that a page's text may bring into an answer, characters: measured in the page, before it is brought here.
MAX_RESULT_CHARS: Final = 32 * 2**20


class Options(BaseModel):
    """What every primitive takes."""

    # Built when it is first used: a start would build two dozen of them for nothing, 7 ms of CPU.
    model_config = ConfigDict(extra="forbid", defer_build=True)

    timeout_ms: Annotated[
        float,
        Field(
            gt=0, le=MAX_TIMEOUT_MS, allow_inf_nan=False, description="Past it the call is answered `408`."
        ),
    ] = DEFAULT_TIMEOUT_MS


class Nothing(BaseModel):
    """The primitive has nothing to say but that it is done."""


def _allowed(url: str) -> str:
    allowed_url(url)
    return url


Url = Annotated[str, AfterValidator(_allowed), Field(description="http, https, data or about:blank.")]
Selector = Annotated[str, Field(min_length=1, description="Playwright's selector: CSS, text=, xpath=, …")]
Strict = Annotated[
    bool, Field(description="Refuse when several elements match, instead of taking the first.")
]
Force = Annotated[bool, Field(description="Skip Playwright's checks that the element can be acted on.")]

PopupCount = Annotated[
    int, Field(description="Windows that the page opened meanwhile; they are closed with the call.")
]

# (page, the worker's side of the call, the way there, options) -> the result
Function = Callable[["Page", Host, Crossing, Any], Awaitable[BaseModel]]


@dataclass(frozen=True, slots=True)
class Primitive:
    """Attributes:
    name: the last part of its route.
    options: the model of its body.
    result: the model of its answer.
    """

    name: str
    function: Function
    options: type[Options]
    result: type[BaseModel]

    @property
    def description(self) -> str:
        return self.function.__doc__ or ""


# How Playwright says that it was asked something that cannot be: the client's fault, not the page's.
_ASKED_WRONG: Final = re.compile(
    "while parsing|not a valid (selector|XPath)|Unknown engine|strict mode violation|Unknown key|Malformed|"
    "SyntaxError: Invalid|Element is not a|not an? <|Cannot type text into|(Unknown|Unsupported) (paper|units)|"
    "Invalid URL|Invalid cookie|should be valid|Cookie should have|Clipped area|is unsupported for|"
    "Not a checkbox or radio|Cannot uncheck radio|Blank page can not have|"
    "Failed to parse parameter|Page range (syntax|exceeds|is invalid)",
    re.IGNORECASE,
)


# The page went elsewhere while the script ran.
_NOT_THE_SCRIPT: Final = re.compile(
    "context was destroyed|Cannot find context|Target crashed|has been closed"
)


def asked_wrong(error: Exception) -> BadParameter | None:
    """Playwright's complaint about what it was asked, as a `400`; None: it complains about something else."""
    message = str(error).partition("\nCall log")[0].strip()
    if not type(error).__module__.startswith("playwright") or not _ASKED_WRONG.search(message):
        return None
    return BadParameter(" ".join(message.split())[:500])


def script_failed(what: str, error: Exception) -> PluginError | None:
    """What a client's own script came to as a `400` with its words; None: it is a timeout, or the page is gone."""
    if type(error).__name__ != "Error" or not type(error).__module__.startswith("playwright"):
        return None
    if _NOT_THE_SCRIPT.search(str(error)):
        return None
    reason = str(error).partition("\n")[0].partition(": ")[2]
    return PluginError(f"the {what} failed: {reason[:500]}", status=400)


class Popups:
    """Counts the windows that a page opens in the block, those that were closed at once included."""

    def __init__(self, page: "Page") -> None:
        self._page = page
        self.count = 0

    def __enter__(self) -> "Popups":
        self._page.on("popup", self._on_popup)
        return self

    def __exit__(self, *_: object) -> None:
        self._page.remove_listener("popup", self._on_popup)

    def _on_popup(self, _: "Page") -> None:
        self.count += 1


async def keep_download(download: "Download", host: Host, crossing: Crossing) -> MediaLink:
    """Wait for a download's end and hand it over as media."""
    path, filename = await download.path(), download.suggested_filename
    # What the site called it, the browser does not tell: nobody has it for one that the page made itself.
    content_type = mimetypes.guess_type(filename)[0] or "application/octet-stream"
    return await crossing(host.media, path, filename, content_type)
