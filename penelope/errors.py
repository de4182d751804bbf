"""Penelope's own errors: one tree, split by whose fault, each with its HTTP status.

    PenelopeError                     500
    ├── RequestError                  400  the client's: nothing was started
    │   ├── BadParameter              400
    │   ├── BadHeader                 400
    │   ├── BadOptions                400  X-Callback-Url, X-Result-Ttl, …
    │   ├── Unauthorized              401
    │   ├── NotFound                  404
    │   ├── PageMissing               404
    │   ├── MethodNotAllowed          405
    │   ├── Conflict                  409
    │   │   └── PageBusy              409
    │   ├── BodyTooLarge              413
    │   ├── WrongContentType          415
    │   ├── WrongHost                 421
    │   ├── MalformedBody             422
    │   ├── KeyReused                 422  Idempotency-Key
    │   ├── RunRefused                422  no such recipe, or not with this input
    │   └── LeaseHeld                 423
    ├── Unavailable                   503  the worker's: try again later
    │   ├── Stopping                  503
    │   ├── TooManyJobs               503
    │   ├── StoreBusy                 503
    │   └── StoreFull                 507
    ├── WorkerDown                    502  the waker's: a persona's worker does not answer, or did not start
    │   └── WorkerLate                504
    ├── CallFailed                    502  a call ended badly; `kind` says whose fault it was
    │   ├── SiteFailed                502  kind "site"
    │   ├── ProxyFailed               502  kind "proxy"
    │   ├── NetworkRefused            403  kind "worker": PENELOPE_PAGE_NETWORK
    │   ├── PageLost                  502  kind "page"
    │   ├── BrowserLost               502  kind "browser"
    │   ├── TimedOut                  408  kind "timeout"
    │   ├── PluginFailed              500  kind "plugin"
    │   └── MediaFull                 507  kind "worker"
    └── StartError                         `serve` cannot start; the message is the one line shown
        ├── BadSettings
        ├── BadPlugin
        ├── BadRecipe
        ├── BadAgent
        ├── NoBrowser
        ├── PortTaken
        ├── StoreHeld
        ├── StoreUnusable
        ├── BadPersonas
        └── WakerHeld

A message is one clear sentence that names the thing and its value: it is shown to the client as it is.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class PenelopeError(Exception):
    """Root of the tree.

    Attributes:
        status: the HTTP status it is answered with.
        headers: what the answer carries besides, e.g. `Retry-After`.
    """

    status: ClassVar[int] = 500
    kind: ClassVar[str | None] = None

    def __init__(self, message: str, *, headers: Mapping[str, str] = _NO_HEADERS) -> None:
        super().__init__(message)
        self.message = message
        self.headers = headers


class RequestError(PenelopeError):
    status = 400


class BadParameter(RequestError):
    pass


class BadHeader(RequestError):
    pass


class BadOptions(RequestError):
    pass


class Unauthorized(RequestError):
    status = 401


class NotFound(RequestError):
    status = 404


class PageMissing(NotFound):
    pass


class MethodNotAllowed(RequestError):
    status = 405


class Conflict(RequestError):
    status = 409


class PageBusy(Conflict):
    pass


class BodyTooLarge(RequestError):
    status = 413


class WrongContentType(RequestError):
    status = 415


class WrongHost(RequestError):
    status = 421


class MalformedBody(RequestError):
    status = 422


class KeyReused(RequestError):
    status = 422


class RunRefused(RequestError):
    """A run cannot be submitted as it is: no such recipe, an input that does not fit, nothing that could do it."""

    status = 422


class LeaseHeld(RequestError):
    """The page is reserved for another client.

    Attributes:
        expires_in: seconds until the lease runs out; None when the given token matches no lease.
    """

    status = 423

    def __init__(self, message: str, *, expires_in: float | None = None) -> None:
        super().__init__(message)
        self.expires_in = expires_in


class Unavailable(PenelopeError):
    status = 503


class Stopping(Unavailable):
    pass


class TooManyJobs(Unavailable):
    pass


class StoreBusy(Unavailable):
    """The store did not answer in time (locked from outside, or a failing disk)."""


class StoreFull(Unavailable):
    """The disk took no more; nothing of what was asked is kept."""

    status = 507


class WorkerDown(PenelopeError):
    """A persona's worker did not start, or broke off.

    Attributes:
        lines: the last of its log, oldest first; empty where they would say nothing.
    """

    status = 502
    kind = "worker"

    def __init__(self, message: str, *, lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.lines = tuple(lines)


class WorkerLate(WorkerDown):
    """It was not ready in time."""

    status = 504


class CallFailed(PenelopeError):
    status = 502
    kind: ClassVar[str | None] = "worker"


class SiteFailed(CallFailed):
    kind = "site"


class ProxyFailed(CallFailed):
    kind = "proxy"


class NetworkRefused(CallFailed):
    """The operator keeps pages off that address."""

    status = 403
    kind = "worker"


class PageLost(CallFailed):
    kind = "page"


class BrowserLost(CallFailed):
    kind = "browser"


class TimedOut(CallFailed):
    status = 408
    kind = "timeout"


class PluginFailed(CallFailed):
    status = 500
    kind = "plugin"


class MediaFull(CallFailed):
    status = 507
    kind = "worker"


class StartError(PenelopeError):
    pass


class BadSettings(StartError):
    pass


class BadPlugin(StartError):
    pass


class BadRecipe(StartError):
    pass


class BadAgent(StartError):
    pass


class NoBrowser(StartError):
    pass


class PortTaken(StartError):
    pass


class StoreHeld(StartError):
    pass


class StoreUnusable(StartError):
    pass


class BadPersonas(StartError):
    pass


class WakerHeld(StartError):
    pass
