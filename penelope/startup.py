"""What keeps a start short: it is light, and is imported before all that is not.

Half of a start was spent importing; the times below are of a worker that used 1.1 s of CPU until it was ready.

Source: docs/performance.md, "Starts of the worker".
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from penelope.pages.browser.persona import BrowserOptions
from penelope.settings import Settings

if TYPE_CHECKING:
    from penelope.pages.gate import Gate

# Imported where it is installed by those that could use it, and here it is: structlog, for tracebacks that our logs do
# not show, and httpx, for a command line of its own. With what it brings it takes 80 ms and 3 MB.
RICH: Final = ("rich", "better_exceptions")
HTTPX_COMMAND: Final = "httpx._main"


def end() -> None:
    """Collect garbage from now on: imports leave hardly any, and to look for it took 150 ms.

    What is there by now stays as long as the worker, and is never to be looked through again.
    """
    gc.freeze()
    gc.enable()


@contextmanager
def without(*modules: str) -> Iterator[None]:
    """Within the block these are imported as if they were not installed, unless they are there already.

    It is so for all threads: nobody else may want them meanwhile.
    """
    hidden = [name for name in modules if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # the import system's word for "there is none"
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def proxy_of(settings: Settings) -> str | None:
    return None if settings.proxy is None else settings.proxy.get_secret_value()


def browser_options(settings: Settings, gate: "Gate | None" = None) -> BrowserOptions:
    """What the worker's browser is like; without its gate it is known before anything is opened."""
    return BrowserOptions(
        profile=settings.store.absolute() / "profile",
        executable=settings.browser,
        headless=settings.headless,
        proxy=proxy_of(settings),
        locale=settings.locale,
        timezone=settings.timezone,
        viewport=settings.viewport,
        user_agent=settings.user_agent,
        geolocation=settings.geolocation,
        gate=gate,
    )
