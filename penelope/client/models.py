"""What the API shows, as values: jobs, their deliveries, events and media links.

Unknown keys are passed over: a newer worker may show more.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from penelope.client.errors import JobFailed, RunFailed, UnexpectedAnswer

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

ENVELOPE: Final = frozenset({"success", "page_id"})


class _Shown(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Delivery(_Shown):
    """How far a webhook job's delivery is.

    Attributes:
        attempts: POSTs made.
        error: why the last one did not deliver.
    """

    attempts: int
    delivered: bool
    error: str | None


class Job(_Shown):
    """A job, as a poll shows it and a webhook carries it. Times are epoch seconds.

    Attributes:
        state: `running`, `done`, `interrupted` or `cancelled`.
        expires_in: seconds until the worker forgets it; None while it runs.
        status, result: what the plain call would have answered; None while it runs.
        callback, delivery: of a webhook job.
    """

    page_id: str
    job_id: str
    state: str
    plugin: str
    started_at: float
    finished_at: float | None = None
    expires_in: float | None = None
    status: int | None = None
    result: dict[str, Any] | None = None
    callback: str | None = None
    delivery: Delivery | None = None

    @property
    def has_ended(self) -> bool:
        return self.state != "running"

    @property
    def succeeded(self) -> bool:
        return self.state == "done" and self.status is not None and self.status < 400

    def answer(self) -> dict[str, Any]:
        """The envelope that the plain call would have answered, of a job that has ended.

        Raises:
            JobFailed: it ended badly.
        """
        result = self.result or {}
        if self.succeeded:
            return result
        kind = result.get("kind")
        words = str(result.get("error") or f"the job is {self.state}, with status {self.status}")
        raise JobFailed(words, job=self, kind=kind if isinstance(kind, str) else None)


class Event(_Shown):
    """What a watcher of a job, or of a run, is told.

    Attributes:
        kind: of a job `state`, `progress`, `end`; of a run `status`, `progress`, `heartbeat`, and last `result`,
            `error` or `cancelled`; a newer worker may have more.
        id: to go on from; None where the event is not kept.
        job: of a job's `end`, as it ended.
    """

    kind: str
    data: dict[str, Any]
    id: str | None = None
    job: Job | None = None


class Progress(_Shown):
    """How far a run is; `percentage` 0 to 100, `steps_total` None: nobody knows."""

    percentage: float = 0.0
    current_step: str | None = None
    steps_completed: int = 0
    steps_total: int | None = None


class Run(_Shown):
    """A run, as its status and its result show it.

    Attributes:
        job_id: its id, `run_…`.
        status: `queued`, `running`, `succeeded`, `failed` or `cancelled`.
        agent_id: what does it: `recipe:<name>` or `agent:<name>`.
        result: what it answered; None until it succeeded, or where only its status was asked for.
        duration_seconds: of its work; None as `result`.
    """

    job_id: str
    status: str
    progress: Progress = Progress()
    created_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    agent_id: str | None = None
    session_id: str | None = None
    error: str | None = None
    result: Any = None
    duration_seconds: float | None = None

    @property
    def has_ended(self) -> bool:
        return self.completed_at is not None

    @property
    def succeeded(self) -> bool:
        return self.status == "succeeded"

    def answer(self) -> Any:
        """What it answered, of a run that has ended.

        Raises:
            RunFailed: it ended badly.
        """
        if self.succeeded:
            return self.result
        raise RunFailed(self.error or f"the run is {self.status}", run=self)


class Media(_Shown):
    """A file that waits for its one download.

    Attributes:
        size: bytes.
        expires_at: epoch seconds; a job's file stays as long as its result.
    """

    url: str
    filename: str
    content_type: str
    size: int
    expires_at: float


class Posted(_Shown):
    """A line of the ledger: one POST of a webhook.

    Attributes:
        at: when it began, epoch seconds.
        receiver: `name:port`.
        address: that was dialled; None: none was.
        status: that was answered; None: none was.
        error_class: `dns`, `refused`, `timeout` and the like; None: delivered.
        verdict: `delivered`, `retry`, `give up`.
        took_s: seconds.
    """

    at: float
    job_id: str
    attempt: int
    receiver: str
    address: str | None = None
    status: int | None = None
    error_class: str | None = None
    error: str | None = None
    verdict: str
    took_s: float


def shown(model: type[M], value: object) -> M:
    """A part of an answer as a value.

    Raises:
        UnexpectedAnswer: it has not the form.
    """
    try:
        return model.model_validate(value)
    except ValidationError as exc:
        raise UnexpectedAnswer(f"no {model.__name__.lower()} of a Penelope worker: {_first(exc)}") from exc


def typed(envelope: Mapping[str, Any], form: type[T] | None) -> T:
    """What a plugin answered, without the envelope's own fields.

    Args:
        form: a pydantic model, a dataclass or a TypedDict; None: a dictionary.

    Raises:
        UnexpectedAnswer: it does not fit.
    """
    fields = {name: value for name, value in envelope.items() if name not in ENVELOPE}
    if form is None:
        return cast("T", fields)
    try:
        return TypeAdapter(form).validate_python(fields)
    except ValidationError as exc:
        raise UnexpectedAnswer(f"the result is no {form.__name__}: {_first(exc)}") from exc


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])
