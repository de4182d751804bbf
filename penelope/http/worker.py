"""What the routes work with: the worker's parts, and the notes that it takes of its clients.

Source: design, section 3 ("`create_app`: owns no task").
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from penelope.births import Births
from penelope.clock import Clock
from penelope.jobs.ledger import Ledger
from penelope.jobs.store import JobStore
from penelope.jobs.supervisor import Supervisor
from penelope.pages.manager import PageManager
from penelope.registry import Registry
from penelope.runs.service import Runs
from penelope.runs.submission import Planner
from penelope.settings import Settings
from penelope.store.media import MediaStore
from penelope.store.request_log import RequestLog

Screen = Callable[[str], Awaitable[str | None]]


@dataclass(eq=False, slots=True, kw_only=True)
class Worker:
    """Attributes:
    planner: makes the work of what is submitted as a run.
    screen: why a run's webhook may not go to a URL, in words; None: it may.
    started_at: epoch seconds.
    last_client_activity: epoch seconds; None before the first. Polls count, the waker's questions do not.
    births: for the live tree; one that watches no run knows no ages.
    """

    settings: Settings
    registry: Registry
    clock: Clock
    pages: PageManager
    jobs: JobStore
    media: MediaStore
    requests: RequestLog
    ledger: Ledger
    supervisor: Supervisor
    runs: Runs
    planner: Planner
    screen: Screen
    started_at: float
    births: Births = field(default_factory=Births)
    last_client_activity: float | None = field(default=None)

    def touch(self) -> None:
        """A client was here."""
        self.last_client_activity = self.clock.now()
