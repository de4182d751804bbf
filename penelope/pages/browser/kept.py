"""What Playwright keeps for a page that stays: the requests of its past, the handles that calls made of its document.

Asyncio-flavoured. There is no public way to drop requests: what is taken from Playwright's inside is guarded, as in
`inner`; where it is another one than is known here, nothing is dropped. Works with Playwright 1.56 to 1.65.
"""

import asyncio
from typing import Any

import structlog
from playwright.async_api import Page

# Of a page: the driver may name its last 100, and each of them may have become known after 99 later ones.
REQUESTS_KEPT = 200
HANDLES_AT_ONCE = 100

log = structlog.get_logger("penelope.browser")


class Kept:
    """What Playwright keeps for a page until it is closed, and a page that stays for days has no use for.

    It drops the oldest itself, but only from 10,000 requests and 100,000 handles on: some 200 MB.
    """

    def __init__(self, page: Page) -> None:
        self._page: Any = getattr(page, "_impl_obj", None)
        self._known: Any = getattr(getattr(self._page, "_connection", None), "_objects", None)
        self._stubs: dict[str, _Stub] = {}

    def forget_requests(self) -> int:
        """Forget the requests that are over, but for the newest; returns how many. Immediate.

        Whoever holds on to one hears what Playwright says when it has dropped it itself.
        """
        try:
            return self._forget_requests()
        except (AttributeError, KeyError, TypeError):
            log.warning("this Playwright's past requests cannot be dropped", exc_info=True)
            self._known = None
            return 0

    def _forget_requests(self) -> int:
        children = getattr(self._page, "_objects", None)
        if not isinstance(children, dict) or not isinstance(self._known, dict):
            return 0
        requests = [child for child in children.values() if getattr(child, "_type", "") == "Request"]
        old = [request for request in requests[:-REQUESTS_KEPT] if _is_over(request)]
        for request in old:
            self._forget(request)
            del children[request._guid]
        if old:
            children[_STUBS] = self  # it is told when the page is closed
        return len(old)

    def _forget(self, request: Any) -> None:
        responses = list(request._objects)
        for guid in (request._guid, *responses):
            # Not simply out of the way: the driver says which it drops, and must find somebody to say it to.
            self._known[guid]._was_collected = True
            self._known[guid] = self._stubs[guid] = _Stub(self, guid)
        self._stubs[request._guid].responses = tuple(responses)

    def dropped(self, stub: "_Stub") -> None:
        for guid in (stub.guid, *stub.responses):
            if self._stubs.pop(guid, None) is not None:
                self._known.pop(guid, None)

    def _dispose(self, _reason: str | None = None) -> None:
        """The page is closed."""
        for stub in list(self._stubs.values()):
            self.dropped(stub)

    def handles(self) -> list[Any]:
        """The handles of elements and values that there are, those of the page's frames included. Immediate."""
        return _handles(self._page)


async def drop_handles(handles: list[Any]) -> None:
    """Drop handles: each holds on to a part of its page's document."""
    for first in range(0, len(handles), HANDLES_AT_ONCE):
        some = handles[first : first + HANDLES_AT_ONCE]
        await asyncio.gather(*(handle.dispose() for handle in some), return_exceptions=True)


class _Stub:
    """Stands for a request or a response that was forgotten."""

    __slots__ = ("_kept", "guid", "responses")
    _type = "Forgotten"

    def __init__(self, kept: Kept, guid: str) -> None:
        self._kept = kept
        self.guid = guid
        self.responses: tuple[str, ...] = ()

    def _dispose(self, _reason: str | None = None) -> None:
        self._kept.dropped(self)


_STUBS = "penelope: forgotten"  # no name that Playwright gives


def _is_over(request: Any) -> bool:
    """Whether the driver has told the end of it, and will not name it again."""
    timing = getattr(request, "_timing", None)
    ended = timing.get("responseEnd", -1) if isinstance(timing, dict) else -1
    return getattr(request, "_failure_text", None) is not None or ended >= 0


def _handles(owner: Any) -> list[Any]:
    found = []
    children = getattr(owner, "_objects", None)
    for child in list(children.values()) if isinstance(children, dict) else []:
        kind = getattr(child, "_type", "")
        if kind in ("JSHandle", "ElementHandle"):
            found.append(child)
        elif kind in ("Frame", "Worker"):
            found += _handles(child)
    return found
