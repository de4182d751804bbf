"""The routes of runs as flows. They have no envelope: what fails says so in `detail`.

Source: contract, section 10; docs/reference/API.md, "Runs".
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote, urlencode

from penelope import jsontext
from penelope.client.asking import Answer, Ask, Flow, How, asked, pause
from penelope.client.errors import BY_STATUS, Conflict, Failure, StillRunning, UnexpectedAnswer
from penelope.client.flows import CANCEL_S, FIRST_LOOK_S, GRACE_S, LONGEST_LOOK_S, LONGEST_WAIT_S
from penelope.client.models import Run, shown

RUNS: Final = "/api/v1/runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What is to be done.

    Attributes:
        prompt: the recipe's input; with a text alone an agent does it.
        config: what goes over the recipe's own values.
        session_id: a label, to list by.
        webhook_url: where the end is POSTed.
        timeout_s: whole seconds of work; None: the recipe's, else the worker's.
        agent: the name of a file with an agent's instructions, or None.
        idempotency_key: one of its own each time, unless given: with it the same submit twice is one run.
        per_session: the key counts within its session alone.
    """

    prompt: str | Mapping[str, Any] = ""
    recipe: str | None = None
    config: Mapping[str, Any] | None = None
    session_id: str | None = None
    webhook_url: str | None = None
    timeout_s: int | None = None
    agent: str | None = None
    idempotency_key: str | None = None
    per_session: bool = False

    def ask(self) -> Ask:
        """Safe to repeat: it has its key."""
        prompt = self.prompt if isinstance(self.prompt, str) else jsontext.dumps(dict(self.prompt))
        body = {
            "prompt": prompt,
            "recipe_name": self.recipe,
            "recipe_config": None if self.config is None else dict(self.config),
            "session_id": self.session_id,
            "webhook_url": self.webhook_url,
            "timeout": self.timeout_s,
            "agent_file": self.agent,
            "idempotency_scope": "session" if self.per_session else None,
        }
        given = {name: value for name, value in body.items() if value is not None}
        ask = Ask(method="POST", path=RUNS).with_json(given)
        return ask.with_header("Idempotency-Key", self.idempotency_key or secrets.token_hex(16))


def submit(how: How, submission: Submission) -> Flow[str]:
    """The id of a run that is in the queue."""
    answer = yield from asked(submission.ask(), how)
    run_id = said(answer).get("job_id")
    if not isinstance(run_id, str):
        raise UnexpectedAnswer(f"a submit was answered {answer.status}", status=answer.status)
    return run_id


def look(how: How, run_id: str) -> Flow[Run]:
    """The run as it is now; with its result once it is over."""
    run = shown(Run, said((yield from asked(_poll(run_id), how))))
    return (yield from _whole(how, run)) if run.has_ended else run


def _whole(how: How, run: Run) -> Flow[Run]:
    answer = yield from asked(Ask(method="GET", path=f"{run_path(run.job_id)}/result"), how)
    result = said(answer)
    return run.model_copy(update={name: result.get(name) for name in ("result", "duration_seconds")})


def wait(how: How, run_id: str, timeout_s: float | None) -> Flow[Run]:
    """The run once it is over, with its result: the worker is asked to wait, and one that does not know how is polled.

    Args:
        timeout_s: None: as long as it takes.

    Raises:
        StillRunning: the time is over.
    """
    began, in_vain = how.clock(), 0
    while True:
        left = LONGEST_WAIT_S if timeout_s is None else max(0.0, timeout_s - (how.clock() - began))
        wait_s = int(min(LONGEST_WAIT_S, left))
        asked_at = how.clock()
        within = how if timeout_s is None else replace(how, retries=how.retries.at_most(left))
        run = shown(Run, said((yield from asked(_poll(run_id, wait_s), within))))
        if run.has_ended:
            return (yield from _whole(how, run))
        if timeout_s is not None:
            left = timeout_s - (how.clock() - began)
            if left <= 0:
                raise StillRunning(f"run {run_id} is {run.status} after {timeout_s:g} s", run=run)
        if wait_s and how.clock() - asked_at >= wait_s / 2:  # it does wait for us
            in_vain = 0
            continue
        in_vain += 1
        yield from pause(min(left, LONGEST_LOOK_S, FIRST_LOOK_S * 1.5 ** min(in_vain - 1, 20)))


def cancel(how: How, run_id: str) -> Flow[Run]:
    """The run, cancelled; also when it was before.

    Raises:
        Conflict: it had ended otherwise.
    """
    ask = Ask(method="POST", path=f"{run_path(run_id)}/cancel", answer_s=CANCEL_S)
    answer = yield from asked(ask, how)
    try:
        return shown(Run, said(answer))
    except Conflict:
        # An answer that was lost on its way, and the same question again: it is as it should be.
        run = yield from look(how, run_id)
        if run.status != "cancelled":
            raise
        return run


def delete(how: How, run_id: str) -> Flow[None]:
    """Forget a run that is over.

    Raises:
        NotFound: there is none.
        Conflict: it is not over.
    """
    answer = yield from asked(Ask(method="DELETE", path=run_path(run_id)), how)
    if answer.status != 204:
        said(answer)
        raise UnexpectedAnswer(f"the deletion of {run_id} was answered {answer.status}", status=answer.status)


def listed(how: How, **filters: object) -> Flow[list[Run]]:
    """One page of the runs, newest first, without their results."""
    given = {name: value for name, value in filters.items() if value is not None}
    found = said((yield from asked(Ask(method="GET", path=f"{RUNS}?{urlencode(given)}"), how)))
    return [shown(Run, one) for one in found.get("jobs", ())]


def _poll(run_id: str, wait_s: int = 0) -> Ask:
    ask = Ask(method="GET", path=run_path(run_id))
    if not wait_s:
        return ask
    return replace(ask, answer_s=wait_s + GRACE_S).with_header("Prefer", f"wait={wait_s}")


def run_path(run_id: str) -> str:
    return f"{RUNS}/{quote(run_id, safe='')}"


def said(answer: Answer) -> dict[str, Any]:
    """The body of a success.

    Raises:
        Failure: it is a failure's.
        UnexpectedAnswer: it is none of Penelope's.
    """
    try:
        value = jsontext.loads(answer.content)
    except ValueError:
        value = None
    if isinstance(value, dict) and answer.status < 400:
        return value
    if isinstance(value, dict) and isinstance(value.get("detail"), str):
        raise BY_STATUS.get(answer.status, Failure)(
            value["detail"], status=answer.status, text=answer.text, retry_after=answer.retry_after
        )
    if answer.status in (429, 502, 503, 504):
        raise BY_STATUS[503](
            f"what stands before the worker at {answer.url} answered {answer.status}",
            status=answer.status,
            text=answer.text,
            retry_after=answer.retry_after,
        )
    raise UnexpectedAnswer(
        f"what answers at {answer.url} is no Penelope worker with runs: it said {answer.status}",
        status=answer.status,
    )
