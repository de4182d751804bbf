"""A page of the list of jobs, newest first, and the cursor that says where the next one begins.

A place is the job that was shown last: jobs that come or go meanwhile neither shift the list nor show a job twice.

Source: contract, section 11 ("List").
"""

import math
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penelope.errors import BadParameter
from penelope.jobs.model import Job

_PLACE = re.compile(r"([0-9.e+-]{1,40}) ([0-9a-f]{16})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the list: `started_at` (epoch seconds) and id of the job before it."""

    started_at: float
    job_id: str


NEWEST: Final = Place(math.inf, "")


def to_cursor(place: Place) -> str:
    return urlsafe_b64encode(f"{place.started_at!r} {place.job_id}".encode()).decode().rstrip("=")


def from_cursor(cursor: str) -> Place:
    """The place that a cursor names.

    Raises:
        BadParameter: it is none that was given out.
    """
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
        found = _PLACE.fullmatch(text)
        place = Place(float(found[1]), found[2]) if found else None
    except ValueError:  # not base64, not ASCII, no number
        place = None
    if place is None or not math.isfinite(place.started_at) or to_cursor(place) != cursor:
        raise BadParameter("parameter cursor is none that this worker gave")
    return place


def page_of(jobs: Sequence[Job], limit: int) -> tuple[list[Job], Place | None]:
    """The first jobs, and where the rest begins; None: there is no rest.

    Args:
        jobs: newest first.
        limit: at least 1.
    """
    shown = list(jobs[:limit])
    if len(jobs) == len(shown):
        return shown, None
    return shown, Place(shown[-1].started_at, shown[-1].job_id)
