"""What keeps a start short: it is light, and is imported before all that is not.

Half of a start was spent importing; the times below are of a worker that used 1.1 s of CPU until it was ready.

Source: docs/performance.md, "Starts of the worker".
"""

import gc
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penelope.pages.browser.persona import BrowserOptions
    from penelope.pages.gate import Gate
    from penelope.settings import Settings

# Imported where it is installed by those that could use it, and here it is: structlog, for tracebacks that our logs do
# not show, and httpx, for a command line of its own. With what it brings it takes 80 ms and 3 MB.
RICH: Final = ("rich", "better_exceptions")
HTTPX_COMMAND: Final = "httpx._main"
HASTY_S: Final = 0.0003
USUAL_S: Final = 0.005  # Python's own
ENV_FILE: Final = ".env"
STORE: Final = "store"  # the setting's default


def begin() -> None:
    """Until `end` no garbage is collected: imports leave hardly any, and to look for it took 150 ms. And a thread that
    imports gives way at once: each message of the browser that starts beside it would wait 5 ms.
    """
    gc.disable()
    sys.setswitchinterval(HASTY_S)


def end() -> None:
    """What is there by now stays as long as the worker: it is never to be looked through again."""
    sys.setswitchinterval(USUAL_S)
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


def likely_profile(given: Mapping[str, object]) -> Path:
    """Where the browser's profile will be, as far as can be told before the settings are read, which takes a tenth of a
    second: whoever acts on it has to look again.

    Args:
        given: settings of the command line, by their field's name.
    """
    places = (given.get("store"), _variable(os.environ), _of_the_file(), STORE)
    found = next(place for place in places if place is not None)
    return profile_of(Path(str(found)))


def _variable(variables: Mapping[str, str | None]) -> str | None:
    return next((value for name, value in variables.items() if name.upper() == "PENELOPE_STORE"), None)


def _of_the_file() -> str | None:
    """What is wrong with the file is for the settings to say: it is only read where it seems to name a store."""
    file = Path(ENV_FILE)
    try:
        text = file.read_text(encoding="utf-8") if file.is_file() else ""  # a pipe may be read once only
    except (OSError, ValueError):
        return None
    if "PENELOPE_STORE" not in text.upper():
        return None
    from dotenv import dotenv_values

    parser = logging.getLogger("dotenv.main")
    parser.disabled = True
    try:
        return _variable(dotenv_values(stream=StringIO(text)))
    finally:
        parser.disabled = False


def profile_of(store: Path) -> Path:
    return store.absolute() / "profile"


def proxy_of(settings: "Settings") -> str | None:
    return None if settings.proxy is None else settings.proxy.get_secret_value()


def browser_options(settings: "Settings", gate: "Gate | None") -> "BrowserOptions":
    """What the worker's browser is like."""
    from penelope.pages.browser.persona import BrowserOptions

    return BrowserOptions(
        profile=profile_of(settings.store),
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
