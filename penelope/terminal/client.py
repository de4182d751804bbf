"""The worker that a command talks to, by `penelope.client`; what fails, whoever's fault it is, becomes one line."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from penelope.client import (
    AsyncClient,
    Failure,
    PenelopeClientError,
    Retries,
    Unauthorized,
    Unreachable,
)

# Who sits at a terminal sees that it failed, and has the arrow key.
AT_ONCE: Final = Retries(attempts=1)
PATIENT: Final = Retries()


class Trouble(Exception):
    """A command cannot do what it was asked; the message is the one line that it says."""


@asynccontextmanager
async def open_client(url: str | None, retries: Retries = AT_ONCE) -> AsyncGenerator[AsyncClient]:
    """A worker, by its URL or as the environment names it.

    Raises:
        PenelopeClientError: no URL, no key, or one that no header can carry.
    """
    async with AsyncClient(url, retries=retries) as client:
        yield client


def in_a_line(error: PenelopeClientError, url: str) -> str:
    """What a client's error says to who sits at a terminal.

    Args:
        url: of the worker; "" where none was found.
    """
    if isinstance(error, Unreachable) and not error.maybe_done:
        return f"there is no worker at {url}: start one with `penelope serve`, or say where it is with --url"
    if isinstance(error, Unauthorized):
        return f"the worker at {url} does not take this key: set PENELOPE_KEY to the one that it has"
    if isinstance(error, Failure) and error.status is not None:
        kind = f", {error.kind}" if error.kind else ""
        return f"{error.message} ({error.status}{kind})"
    return error.message
