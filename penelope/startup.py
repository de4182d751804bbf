"""What keeps a start short: half of it is spent importing.

Measured on two cores, of 1.1 s of CPU that a worker used until it was ready.

Source: docs/performance.md, "Starts of the worker".
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# Imported where it is installed by those that could use it, and here it is: structlog, for tracebacks that our logs do
# not show, and httpx, for a command line of its own. With what it brings it takes 80 ms and 3 MB.
RICH: Final = ("rich", "better_exceptions")
HTTPX_COMMAND: Final = "httpx._main"


def begin() -> None:
    """Collect no garbage until `end`: imports leave hardly any, and to look for it took 150 ms."""
    gc.disable()


def end() -> None:
    """Collect it from now on. What is there by now stays as long as the worker: never to be looked through again."""
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
