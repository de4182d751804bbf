"""What the waker asks a worker: its `/activity`. No client's doing: it neither wakes nor keeps up what it asks.

Source: contract, section 7 (`GET /api/v1/activity`).
"""

from typing import Final

import httpx
import trio

from penelope import jsontext
from penelope.waker.model import Activity

CONNECT_S: Final = 5.0


class Refused(Exception):
    """The worker does not take the key."""


def open_client(transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """The client of all that the waker sends to workers; no limits of its own: those are scopes around it."""
    return httpx.AsyncClient(
        transport=transport,
        timeout=httpx.Timeout(None, connect=CONNECT_S),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=5.0),
        trust_env=False,
        follow_redirects=False,
    )


async def activity(client: httpx.AsyncClient, address: str, key: str, within_s: float) -> Activity | None:
    """What the worker says; None: nothing, within the time, that makes sense.

    Raises:
        Refused: it has another key.
    """
    with trio.move_on_after(within_s):
        try:
            answer = await client.get(
                f"{address}/api/v1/activity", headers={"Authorization": f"Bearer {key}"}
            )
            if answer.status_code == httpx.codes.UNAUTHORIZED:
                raise Refused
            said = jsontext.loads(answer.content) if answer.status_code == httpx.codes.OK else {}
            return Activity(
                in_flight=int(said["in_flight"]),
                idle_for_s=float(said["idle_for_s"]),
                memory_mb=float(said["rss_mb"]) + float(said["browser_rss_mb"]),
            )
        except (httpx.TransportError, ValueError, KeyError, TypeError):
            return None
    return None
