"""When a webhook job is POSTed, when a job is forgotten, and what a receiver's answer means.

Source: contract, section 5 ("Attempts", "Restarts").
"""

from enum import Enum
from typing import assert_never

from penelope.jobs.model import WEBHOOK_ATTEMPTS_S, WEBHOOK_KEEP_S, Job, Polling, State, Webhook


class Verdict(Enum):
    DELIVERED = "delivered"
    RETRY = "retry"
    GIVE_UP = "give up"


def next_attempt(ended_at: float, last_at: float | None, now: float) -> float | None:
    """When to POST a webhook job next.

    Args:
        ended_at: when the job ended.
        last_at: the moment that the last recorded POST used up (`Job.last_at`); None before the first.
        now: epoch seconds.

    Returns:
        Epoch seconds, not before `now`: missed attempts collapse into one. None when none is left, or when the job is
        past its deadline.
    """
    if now > ended_at + WEBHOOK_KEEP_S:
        return None
    due = (ended_at + after for after in WEBHOOK_ATTEMPTS_S)
    left = [at for at in due if last_at is None or at > last_at]
    return max(left[0], now) if left else None


def forget_at(job: Job) -> float | None:
    """When the worker keeps the job no longer; None while it runs."""
    if job.state is State.RUNNING:
        return None
    match job.way:
        case Polling(ttl=ttl):
            return job.ended_at + ttl
        case Webhook():
            return job.ended_at + WEBHOOK_KEEP_S
        case _:
            assert_never(job.way)


def is_over(job: Job, now: float) -> bool:
    """Is it to be known no more, whether it was swept yet or not? A webhook job is over once it is settled."""
    deadline = forget_at(job)
    return isinstance(job.way, Polling) and deadline is not None and now >= deadline


def verdict(answer: int | None) -> Verdict:
    """What a receiver's status means; None: there was no answer (network error, timeout)."""
    if answer is None or answer == 429 or 500 <= answer <= 599:
        return Verdict.RETRY
    return Verdict.DELIVERED if 200 <= answer <= 299 else Verdict.GIVE_UP
