"""What a client may raise: one small tree, split by what the caller can do about it.

    PenelopeClientError
    ├── BadAddress           no URL or no key that could be used; nothing was sent
    ├── Unreachable          no connection, or it broke; `maybe_done` says whether the worker may have acted
    ├── UnexpectedAnswer     what answers there is no Penelope worker, or the result does not fit its model
    ├── Failure              the worker, or a plugin, said no
    │   ├── Unauthorized     401
    │   ├── NotFound         404  no such page, plugin or file; a job that is unknown, expired or delivered
    │   ├── Conflict         409, 423  the page is busy or leased, the job has ended
    │   ├── Unavailable      429, 502 to 504 of a proxy, 503, 507  try again later; `retry_after`
    │   ├── JobFailed        the job ended badly: its `job`
    │   └── RunFailed        the run ended badly: its `run`
    ├── StillRunning         the time given was over before the job or the run was; also a `TimeoutError`
    └── BadSignature         a webhook's body is not the worker's, or too old

Every one has `message` (one sentence), `status` (the HTTP status, None where there was no answer) and `kind` (whose
fault it was, as the API reference lists them; None where that is not said).
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penelope.client.models import Job, Run


class PenelopeClientError(Exception):
    """Root of the tree."""

    def __init__(self, message: str, *, status: int | None = None, kind: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.kind = kind


class BadAddress(PenelopeClientError):
    pass


class Unreachable(PenelopeClientError):
    """Attributes:
    maybe_done: the request may have reached the worker, which may have done what it says.
    """

    def __init__(self, message: str, *, maybe_done: bool) -> None:
        super().__init__(message)
        self.maybe_done = maybe_done


class UnexpectedAnswer(PenelopeClientError):
    pass


class Failure(PenelopeClientError):
    """Attributes:
    text: the whole answer.
    retry_after: seconds that the worker asks to wait before the next try; None where it does not.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        kind: str | None = None,
        text: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, status=status, kind=kind)
        self.text = text
        self.retry_after = retry_after


class Unauthorized(Failure):
    pass


class NotFound(Failure):
    pass


class Conflict(Failure):
    pass


class Unavailable(Failure):
    pass


class JobFailed(Failure):
    """The message, `status` and `kind` are those that the plain call would have had.

    Attributes:
        job: as it ended.
    """

    def __init__(self, message: str, *, job: "Job", kind: str | None = None) -> None:
        super().__init__(message, status=job.status, kind=kind)
        self.job = job


class RunFailed(Failure):
    """Attributes:
    run: as it ended.
    """

    def __init__(self, message: str, *, run: "Run") -> None:
        super().__init__(message)
        self.run = run


class StillRunning(PenelopeClientError, TimeoutError):
    """The job, or the run, goes on.

    Attributes:
        job, run: as it was seen last; None where it is the other, or when no answer came at all.
    """

    def __init__(self, message: str, *, job: "Job | None" = None, run: "Run | None" = None) -> None:
        super().__init__(message)
        self.job = job
        self.run = run


class BadSignature(PenelopeClientError):
    pass


BY_STATUS: Final[dict[int, type[Failure]]] = {
    401: Unauthorized,
    404: NotFound,
    409: Conflict,
    423: Conflict,
    429: Unavailable,
    503: Unavailable,
    507: Unavailable,
}
