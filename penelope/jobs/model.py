"""A job as a value: frozen, changed by making another (`transitions`).

Times are epoch seconds (`float`), durations seconds.

Source: contract, section 5, and the owner's document on async jobs.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

RUN_PREFIX: Final = "run_"
MAX_TTL_S: Final = 600.0
MAX_LIMIT_S: Final = 24 * 3600.0
MAX_JOBS: Final = 1000
START_KEEP_S: Final = 24 * 3600.0
WEBHOOK_ATTEMPTS_S: Final = (0.0, 60.0, 300.0, 600.0)
WEBHOOK_TIMEOUT_S: Final = 10.0
WEBHOOK_KEEP_S: Final = 610.0
MEDIA_AFTER_DELIVERY_S: Final = 300.0


class State(Enum):
    RUNNING = "running"
    DONE = "done"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Polling:
    """The client fetches the result, until `ttl` seconds after the job ended."""

    ttl: float


@dataclass(frozen=True, slots=True)
class Webhook:
    """The worker POSTs the result to `url`."""

    url: str


Way = Polling | Webhook


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A start that came with an Idempotency-Key, as it is stored: hashes alone.

    Attributes:
        key: SHA-256 of the key.
        request: SHA-256 of the salt and of what was asked.
    """

    key: bytes
    salt: bytes
    request: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Attributes:
    job_id: 16 hex digits.
    way: how the result reaches the client; never both.
    request_id: of the request that started it.
    limit_s: seconds of work past which it is ended; None: no limit.
    traceparent: of the request that started it, as version 00 writes it; None: it had none, or a bad one.
    finished_at: None while it runs, like `status` and `result`.
    status: what the plain call would have answered.
    result: its envelope, JSON text.
    checkpoint: the plugin's last one, JSON text; None when there was none.
    attempts: POSTs made and recorded.
    last_at: which moment of the schedule the last recorded POST used up, epoch seconds: when it began, but never
        before the moment it was due (a timer that fires a hair early must not fire twice).
    error: why the last POST did not deliver; None before the first.
    """

    job_id: str
    page_id: str
    plugin: str
    way: Way
    request_id: str
    started_at: float
    limit_s: float | None = None
    traceparent: str | None = None
    state: State = State.RUNNING
    finished_at: float | None = None
    status: int | None = None
    result: str | None = None
    checkpoint: str | None = None
    attempts: int = 0
    last_at: float | None = None
    error: str | None = None

    @property
    def of_run(self) -> bool:
        """Whether it is no job, but the end of a run on its way to a webhook: `result` is then all that is POSTed."""
        return self.job_id.startswith(RUN_PREFIX)

    @property
    def ended_at(self) -> float:
        """`finished_at` of a job that ended; asking a running one is a bug."""
        assert self.finished_at is not None, f"job {self.job_id} still runs"
        return self.finished_at
