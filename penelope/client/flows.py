"""The API's routes as flows: what is asked, in which order, and what is made of the answers.

Source: contract, sections 1, 2, 5 and 11; docs/reference/API.md.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote, urlencode

from pydantic import BaseModel

from penelope.client.asking import ANSWER_S, Answer, Ask, Flow, How, asked, pause, said
from penelope.client.errors import Conflict, StillRunning, UnexpectedAnswer
from penelope.client.models import Job, Posted, shown

Params = Mapping[str, Any] | BaseModel | None

LONGEST_WAIT_S: Final = 25  # of one request; what stands before a worker often cuts at 60 s, or at 30
GRACE_S: Final = 15.0  # for the answer, past what it was asked to wait
CANCEL_S: Final = 60.0  # a plugin gets its grace before the answer comes
FIRST_LOOK_S: Final = 0.25
LONGEST_LOOK_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A plugin call, plain or as a job.

    Attributes:
        plugin: `family/name`.
        lease: the token of the page's lease.
        request_id: to find it in the worker's log; made there when None.
        traceparent: W3C's, sent on by the worker with the webhook.
    """

    page_id: str
    plugin: str
    params: Params = None
    lease: str | None = None
    request_id: str | None = None
    traceparent: str | None = None

    def ask(self) -> Ask:
        """The plain call. It is not repeated where it may have run, and may take as long as it takes."""
        params = self.params
        if isinstance(params, BaseModel):
            params = params.model_dump(mode="json", exclude_unset=True)
        family, slash, name = self.plugin.partition("/")
        path = f"/api/v1/{_part(self.page_id)}/plugin/{_part(family)}{slash}{_part(name)}"
        ask = Ask(method="POST", path=path, answer_s=None, repeatable=False).with_json(params or {})
        return (
            ask.with_header("X-Lease", self.lease)
            .with_header("X-Request-Id", self.request_id)
            .with_header("traceparent", self.traceparent)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What makes a call a job.

    Attributes:
        ttl: seconds that the result is held after the end, 600 at most; for polling.
        callback: the URL that the worker brings the end to, instead.
        timeout_s: seconds past which the worker ends it, with status 408; None: no limit.
        idempotency_key: one of its own each time, unless given: with it the same start twice is one job.
    """

    ttl: float = 600.0
    callback: str | None = None
    timeout_s: float | None = None
    idempotency_key: str | None = None

    def ask(self, call: Call) -> Ask:
        """Safe to repeat: it has its key."""
        way = (
            ("X-Result-Ttl", _decimal(self.ttl))
            if self.callback is None
            else ("X-Callback-Url", self.callback)
        )
        limit = None if self.timeout_s is None else _decimal(self.timeout_s)
        key = self.idempotency_key or secrets.token_hex(16)
        ask = replace(call.ask(), repeatable=True, answer_s=ANSWER_S)
        return ask.with_header(*way).with_header("X-Job-Timeout", limit).with_header("Idempotency-Key", key)


def call(how: How, wanted: Call) -> Flow[dict[str, Any]]:
    """The envelope of a plain call."""
    return said((yield from asked(wanted.ask(), how)))


def start(how: How, wanted: Call, as_job: Start) -> Flow[str]:
    """The id of a job that is stored and at work."""
    answer = yield from asked(as_job.ask(wanted), how)
    return _job_id(answer, said(answer))


def run(how: How, wanted: Call, as_job: Start, timeout_s: float | None) -> Flow[dict[str, Any]]:
    """The envelope of a call that is made as a job and waited for."""
    began = how.clock()
    wait_s = LONGEST_WAIT_S if timeout_s is None else int(min(LONGEST_WAIT_S, timeout_s))
    ask = as_job.ask(wanted)
    if wait_s:
        ask = replace(ask, answer_s=wait_s + GRACE_S).with_header("Prefer", f"wait={wait_s}")
    answer = yield from asked(ask, how)
    envelope = said(answer)
    if answer.status != 202:
        return envelope
    left = None if timeout_s is None else max(0.0, timeout_s - (how.clock() - began))
    job = yield from wait(how, _job_id(answer, envelope), left)
    return job.answer()


def _job_id(answer: Answer, envelope: Mapping[str, Any]) -> str:
    job_id = envelope.get("job_id")
    if answer.status != 202 or not isinstance(job_id, str):
        raise UnexpectedAnswer(f"the start of a job was answered {answer.status}", status=answer.status)
    return job_id


def look(how: How, job_id: str) -> Flow[Job]:
    """The job as it is now."""
    return shown(Job, said((yield from asked(_poll(job_id), how))))


def wait(how: How, job_id: str, timeout_s: float | None) -> Flow[Job]:
    """The job once it has ended: the worker is asked to wait, and one that does not know how is polled.

    Args:
        timeout_s: None: as long as it takes.

    Raises:
        StillRunning: the time is over.
    """
    began = how.clock()
    in_vain = 0
    while True:
        left = LONGEST_WAIT_S if timeout_s is None else max(0.0, timeout_s - (how.clock() - began))
        wait_s = int(min(LONGEST_WAIT_S, left))
        asked_at = how.clock()
        within = how if timeout_s is None else replace(how, retries=how.retries.at_most(left))
        job = shown(Job, said((yield from asked(_poll(job_id, wait_s), within))))
        if job.has_ended:
            return job
        if timeout_s is not None:
            left = timeout_s - (how.clock() - began)
            if left <= 0:
                raise StillRunning(f"job {job_id} still runs after {timeout_s:g} s", job=job)
        if wait_s and how.clock() - asked_at >= wait_s / 2:  # it does wait for us
            in_vain = 0
            continue
        in_vain += 1
        yield from pause(min(left, LONGEST_LOOK_S, FIRST_LOOK_S * 1.5 ** min(in_vain - 1, 20)))


def _poll(job_id: str, wait_s: int = 0) -> Ask:
    ask = Ask(method="GET", path=job_path(job_id))
    if not wait_s:
        return ask
    return replace(ask, answer_s=wait_s + GRACE_S).with_header("Prefer", f"wait={wait_s}")


def cancel(how: How, job_id: str) -> Flow[Job]:
    """The job, cancelled; also when it was before.

    Raises:
        Conflict: it had ended otherwise.
    """
    ask = Ask(method="DELETE", path=job_path(job_id), answer_s=CANCEL_S)
    answer = yield from asked(ask, how)
    try:
        return shown(Job, said(answer))
    except Conflict:
        # An answer that was lost on its way, and the same question again: it is as it should be.
        job = yield from look(how, job_id)
        if job.state != "cancelled":
            raise
        return job


def jobs(how: How, **filters: object) -> Flow[list[Job]]:
    """All jobs that the worker holds, newest first, of a `state`, a `page_id`, a `plugin`."""
    found: list[Job] = []
    cursor: str | None = None
    while True:
        page = yield from get(how, "/api/v1/jobs", {**filters, "cursor": cursor})
        found += [shown(Job, one) for one in page.get("jobs", ())]
        cursor = page.get("next_cursor")
        if not cursor:
            return found


def deliveries(how: How, *, limit: int, **filters: object) -> Flow[list[Posted]]:
    """The newest lines of the ledger, of a `job_id`, a `host`, a `verdict`, an `error_class`, or `since` a moment."""
    page = yield from get(how, "/api/v1/deliveries", {**filters, "limit": limit})
    return [shown(Posted, one) for one in page.get("deliveries", ())]


def get(how: How, path: str, query: Mapping[str, object] | None = None) -> Flow[dict[str, Any]]:
    """The envelope of any route that is read; of the query, what is None is left out."""
    given = {name: value for name, value in (query or {}).items() if value is not None}
    ask = Ask(method="GET", path=f"{path}?{urlencode(given)}" if given else path)
    return said((yield from asked(ask, how)))


def job_path(job_id: str) -> str:
    return f"/api/v1/jobs/{_part(job_id)}"


def _part(text: str) -> str:
    return quote(text, safe="")


def _decimal(seconds: float) -> str:
    return f"{seconds:f}"
