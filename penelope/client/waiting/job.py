"""A job in a caller's hand."""

from typing import Any, Generic

from typing_extensions import TypeVar

from penelope.client import flows, watching
from penelope.client.models import Job, typed
from penelope.client.waiting.events import AsyncEvents
from penelope.client.waiting.wire import Wire

T = TypeVar("T", default=dict[str, Any])


class AsyncJobHandle(Generic[T]):
    """A job of a worker's.

    Attributes:
        job_id: to come back to it with `AsyncClient.job`, also from another process.
    """

    def __init__(self, wire: Wire, job_id: str, form: type[T] | None) -> None:
        self.job_id = job_id
        self._wire = wire
        self._form = form

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.job_id} at {self._wire.url}>"

    async def status(self) -> Job:
        """As it is now.

        Raises:
            NotFound: unknown, expired, delivered or given up.
        """
        return await self._wire.carry_out(flows.look(self._wire.how, self.job_id))

    async def wait(self, timeout_s: float | None = None) -> Job:
        """Once it has ended, well or not.

        Raises:
            StillRunning: the time is over; the job runs on.
        """
        return await self._wire.carry_out(flows.wait(self._wire.how, self.job_id, timeout_s))

    async def result(self, timeout_s: float | None = None) -> T:
        """What its plugin answered, once it has ended.

        Raises:
            JobFailed: it ended badly.
            StillRunning: the time is over; the job runs on.
        """
        return typed((await self.wait(timeout_s)).answer(), self._form)

    async def cancel(self) -> Job:
        """End it: as it is then, `cancelled`.

        Raises:
            Conflict: it had ended already.
        """
        return await self._wire.carry_out(flows.cancel(self._wire.how, self.job_id))

    def events(self) -> AsyncEvents:
        """What happens to it, from its present state to its end. A connection that breaks is made again, and no lasting
        event is missed.
        """
        return AsyncEvents(self._wire, watching.job(self.job_id))
