"""What a persona's worker had to do, by the hour. Pure.

The call that starts a job logs its own `202`; it is skipped, since the job counts. Times are epoch seconds.

Source: contract, section 9 (`GET /personas/{name}/workload`); the job specification, "Request log and workload".
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

HOUR_S: Final = 3600
CALLS: Final = frozenset({"plugin", "primitive"})
JOBS: Final = frozenset({"job", "run"})
STARTED: Final = 202


@dataclass(frozen=True, slots=True)
class Work:
    """One call or job that ended. `began`, `ended` in epoch seconds."""

    is_job: bool
    began: float
    ended: float


@dataclass(slots=True)
class Hour:
    """Attributes:
    hour: when it begins.
    calls, jobs: that began in it and have ended.
    busy_s: seconds of work in it, those of calls side by side added up.
    """

    hour: int
    calls: int = 0
    jobs: int = 0
    busy_s: float = 0.0


def by_hour(works: Iterable[Work], first: int, last: int) -> list[Hour]:
    """Every hour from the one of `first` to the one of `last`, oldest first; what lies outside is left out."""
    hours = {at: Hour(at) for at in range(_hour(first), _hour(last) + 1, HOUR_S)}
    for work in works:
        if (hour := hours.get(_hour(work.began))) is not None:
            hour.jobs += work.is_job
            hour.calls += not work.is_job
        for at, seconds in _shares(work):
            if at in hours:
                hours[at].busy_s += seconds
    return list(hours.values())


def shown(hours: list[Hour]) -> dict[str, Any]:
    """As the API answers it."""
    return {
        "since": hours[0].hour if hours else None,
        "calls": sum(hour.calls for hour in hours),
        "jobs": sum(hour.jobs for hour in hours),
        "busy_s": round(sum(hour.busy_s for hour in hours), 3),
        "hours": [{**asdict(hour), "busy_s": round(hour.busy_s, 3)} for hour in hours],
    }


def _hour(at: float) -> int:
    return int(at // HOUR_S) * HOUR_S


def _shares(work: Work) -> Iterator[tuple[int, float]]:
    """How much of it lies in which hour, seconds."""
    at = _hour(work.began)
    while at < work.ended:
        yield at, min(work.ended, at + HOUR_S) - max(work.began, at)
        at += HOUR_S
