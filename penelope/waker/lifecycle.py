"""What becomes of a worker that runs, and when one that ended is started again. Pure.

Times are epoch seconds, durations seconds.

Source: contract, section 9 ("A sleepy worker stops after its idle timeout …").
"""

from dataclasses import dataclass
from typing import Final

from penelope.waker.model import Activity, Mode, Policy, Why

LOOK_S: Final = 60.0  # how often one that is kept up is looked at
BUSY_LOOK_S: Final = 2.0  # the same, while it is due to end and something is in flight
SOONEST_S: Final = 0.1  # what is due within it is looked at only then
STEADY_S: Final = 60.0  # a life at least so long is no failure to start
BACKOFF_S: Final = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
SLEEPY_TRIES: Final = 5  # then a sleepy one that dies each time waits for somebody who wants it


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is known of a worker that runs.

    Attributes:
        passing: requests that the gateway passes on now.
        passed_at: when the last of them ended; None: none has.
        renew: why it has to go at the next quiet moment, whatever its policy; None: it has not.
    """

    activity: Activity
    started_at: float
    passing: int = 0
    passed_at: float | None = None
    renew: Why | None = None


@dataclass(frozen=True, slots=True)
class Stay:
    """It goes on; look again at `until`: nothing that is due comes before."""

    until: float


@dataclass(frozen=True, slots=True)
class End:
    """It is stopped now."""

    why: Why


def judge(policy: Policy, seen: Seen, now: float) -> Stay | End:
    """Whether a worker goes on; it never ends while anything is in flight."""
    quiet = seen.activity.in_flight == 0 and seen.passing == 0
    due = seen.renew or _worn_out(policy, seen, now)
    if due is not None:
        return End(due) if quiet else Stay(now + BUSY_LOOK_S)
    if policy.mode is Mode.ALWAYS:
        return Stay(_next_look(policy, seen, now))
    if not quiet:
        return Stay(now + max(policy.idle_timeout_s, SOONEST_S))  # it is idle no sooner than now
    left = policy.idle_timeout_s - idle_for(seen, now)
    return End(Why.IDLE) if left <= 0 else Stay(now + max(left, SOONEST_S))


def idle_for(seen: Seen, now: float) -> float:
    """Since nobody wanted anything of it, through the gateway or directly; 0 while something is in flight."""
    if seen.activity.in_flight or seen.passing:
        return 0.0
    if seen.passed_at is None:
        return seen.activity.idle_for_s
    return max(0.0, min(seen.activity.idle_for_s, now - seen.passed_at))


def _worn_out(policy: Policy, seen: Seen, now: float) -> Why | None:
    if policy.mode is not Mode.ALWAYS:
        return None
    if policy.recycle_after_s is not None and now >= seen.started_at + policy.recycle_after_s:
        return Why.AGE
    if policy.recycle_above_mb is not None and seen.activity.memory_mb > policy.recycle_above_mb:
        return Why.MEMORY
    return None


def _next_look(policy: Policy, seen: Seen, now: float) -> float:
    if policy.recycle_after_s is None:
        return now + LOOK_S
    return max(now + SOONEST_S, min(now + LOOK_S, seen.started_at + policy.recycle_after_s))


def failures_after(failures: int, lived_s: float) -> int:
    """How many times in a row it failed, now that it has once more, having lived so long."""
    return 1 if lived_s >= STEADY_S else failures + 1


def restart_at(failures: int, failed_at: float) -> float:
    """When it may be started again, having failed so many times in a row: at once the first time."""
    return failed_at + BACKOFF_S[min(max(failures, 1), len(BACKOFF_S)) - 1]


def starts_itself(policy: Policy, *, died: bool, failures: int) -> bool:
    """Is a worker that is down started without anybody asking?

    A sleepy one is, when it died: it may have left jobs that have to be told as interrupted, and webhooks that wait.
    """
    if policy.mode is Mode.ALWAYS:
        return True
    return died and failures <= SLEEPY_TRIES
