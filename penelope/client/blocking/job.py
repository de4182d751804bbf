"""A job in a caller's hand."""

from typing import Any, Generic

from typing_extensions import TypeVar

from penelope.client import flows, watching
from penelope.client.blocking.events import Events
from penelope.client.blocking.wire import Wire
from penelope.client.models import Job, typed

T = TypeVar("T", default=dict[str, Any])


class JobHandle(Generic[T]):
    """A job of a worker's.

    Attributes:
        job_id: to come back to it with `Client.job`, also from another process.
    """

    def __init__(self, wire: Wire, job_id: str, form: type[T] | None) -> None:
        self.job_id = job_id
        self._wire = wire
        self._form = form

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.job_id} at {self._wire.url}>"

    def status(self) -> Job:
        """As it is now.

        Raises:
            NotFound: unknown, expired, delivered or given up.
        """
        return self._wire.carry_out(flows.look(self._wire.how, self.job_id))

    def wait(self, timeout_s: float | None = None) -> Job:
        """Once it has ended, well or not.

        Raises:
            StillRunning: the time is over; the job runs on.
        """
        return self._wire.carry_out(flows.wait(self._wire.how, self.job_id, timeout_s))

    def result(self, timeout_s: float | None = None) -> T:
        """What its plugin answered, once it has ended.

        Raises:
            JobFailed: it ended badly.
            StillRunning: the time is over; the job runs on.
        """
        return typed(self.wait(timeout_s).answer(), self._form)

    def cancel(self) -> Job:
        """End it: as it is then, `cancelled`.

        Raises:
            Conflict: it had ended already.
        """
        return self._wire.carry_out(flows.cancel(self._wire.how, self.job_id))

    def events(self) -> Events:
        """What happens to it, from its present state to its end. A connection that breaks is made again, and no lasting
        event is missed.
        """
        return Events(self._wire, watching.job(self.job_id))
