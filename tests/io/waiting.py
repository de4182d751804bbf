"""Waiting for what announces itself by no event: another process, the other end of a socket."""

from collections.abc import Awaitable, Callable

import trio

LOOK_AGAIN_S, AT_LAST_S = (
    0.01,
    0.1,
)  # who has waited for long can wait so much longer: most looks cost a request


async def until(condition: Callable[[], bool | Awaitable[bool]], within_s: float = 20.0) -> None:
    """Return once the condition holds.

    Raises:
        trio.TooSlowError: it did not, in time.
    """
    pause_s = LOOK_AGAIN_S
    with trio.fail_after(within_s):
        while not await _holds(condition):  # noqa: ASYNC110  # see above
            await trio.sleep(pause_s)
            pause_s = min(1.2 * pause_s, AT_LAST_S)


async def _holds(condition: Callable[[], bool | Awaitable[bool]]) -> bool:
    held = condition()
    return held if isinstance(held, bool) else await held
