"""Runs of a worker's: submitted, listed, and one in a caller's hand."""

from collections.abc import Mapping
from typing import Any

from penelope.client import run_flows, watching
from penelope.client.blocking.events import Events
from penelope.client.blocking.wire import Wire
from penelope.client.models import Run
from penelope.client.run_flows import Submission


class RunHandle:
    """A run of a worker's.

    Attributes:
        run_id: to come back to it with `runs.get`, also from another process.
    """

    def __init__(self, wire: Wire, run_id: str) -> None:
        self.run_id = run_id
        self._wire = wire

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.run_id} at {self._wire.url}>"

    def status(self) -> Run:
        """As it is now; with its result once it is over.

        Raises:
            NotFound: unknown, deleted, or over for a day.
        """
        return self._wire.carry_out(run_flows.look(self._wire.how, self.run_id))

    def wait(self, timeout_s: float | None = None) -> Run:
        """Once it is over, well or not.

        Raises:
            StillRunning: the time is over; the run goes on.
        """
        return self._wire.carry_out(run_flows.wait(self._wire.how, self.run_id, timeout_s))

    def result(self, timeout_s: float | None = None) -> Any:
        """What it answered, once it is over.

        Raises:
            RunFailed: it ended badly.
            StillRunning: the time is over; the run goes on.
        """
        return self.wait(timeout_s).answer()

    def cancel(self) -> Run:
        """End it: as it is then, `cancelled`.

        Raises:
            Conflict: it had ended already.
        """
        return self._wire.carry_out(run_flows.cancel(self._wire.how, self.run_id))

    def delete(self) -> None:
        """Have the worker forget it, its result and its files.

        Raises:
            NotFound: there is none.
            Conflict: it is not over.
        """
        self._wire.carry_out(run_flows.delete(self._wire.how, self.run_id))

    def events(self) -> Events:
        """What happens to it, from its present state to its end. A connection that breaks is made again, and no lasting
        event is missed.
        """
        return Events(self._wire, watching.run(self.run_id))


class Runs:
    """The runs of a worker, as `Client.runs`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def submit(
        self,
        prompt: str | Mapping[str, Any] = "",
        recipe: str | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        webhook_url: str | None = None,
        timeout_s: int | None = None,
        agent: str | None = None,
        idempotency_key: str | None = None,
        per_session: bool = False,
    ) -> RunHandle:
        """Put a run into the queue. A submit whose answer was lost is made again under the same key, and is one run.

        Args:
            prompt: the recipe's input, an object or a text; without a recipe an agent does it.
            config: what goes over the recipe's own values.
            session_id: a label, to list by.
            webhook_url: where the worker POSTs the end.
            timeout_s: whole seconds of work, past which it has failed.
            agent: the name of a file with an agent's instructions.
            idempotency_key: to make the same submit again later, also from another process; made up when None.
            per_session: the key counts within `session_id` alone.

        Raises:
            Failure: it cannot be run (422), or as many are admitted as may be (`Unavailable`).
        """
        wanted = Submission(
            prompt=prompt,
            recipe=recipe,
            config=config,
            session_id=session_id,
            webhook_url=webhook_url,
            timeout_s=timeout_s,
            agent=agent,
            idempotency_key=idempotency_key,
            per_session=per_session,
        )
        return RunHandle(self._wire, self._wire.carry_out(run_flows.submit(self._wire.how, wanted)))

    def get(self, run_id: str) -> RunHandle:
        """A run by its id; nothing is asked yet."""
        return RunHandle(self._wire, run_id)

    def list(
        self, *, status: str | None = None, session_id: str | None = None, page: int = 1, page_size: int = 20
    ) -> list[Run]:
        """The runs that the worker has, newest first, without their results.

        Args:
            page_size: 100 at most.
        """
        flow = run_flows.listed(
            self._wire.how, status=status, session_id=session_id, page=page, page_size=page_size
        )
        return self._wire.carry_out(flow)
