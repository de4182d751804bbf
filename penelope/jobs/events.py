"""What a viewer of a job is told, and under which ids, so that one that comes back gets what it has not seen.

A job runs in one life of the worker. So the number of a progress is name enough for it; and the end, which another life
may tell again, is named by its moment, which the store knows to the last bit. A second end under another moment can
be: one that the disk refused is shown, and a kill may then leave the job to be interrupted.

Source: contract, section 11 ("Watch").
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from penelope import jsontext
from penelope.jobs.model import Job

STATE_ID: Final = "0"
END: Final = "end-"

_NUMBER = re.compile(r"0|[1-9][0-9]{0,14}", re.ASCII)
_END = re.compile(r"end-[0-9]{1,20}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a viewer says that it has seen last.

    Attributes:
        number: of a progress, 0 for the state; None: neither.
        end: the id of an end; None: none.
    """

    number: int | None = None
    end: str | None = None


def seen(headers: Iterable[str]) -> Seen:
    """What `Last-Event-ID` says. An id that is none of ours is as if it were not there: its viewer gets what is so now.

    Args:
        headers: the values of all such headers; of two, none is believed.
    """
    given = list(headers)
    if len(given) != 1:
        return Seen()
    if _NUMBER.fullmatch(given[0]):
        return Seen(number=int(given[0]))
    return Seen(end=given[0]) if _END.fullmatch(given[0]) else Seen()


def end_id(job: Job) -> str:
    """Of a job that ended. Exact: the shortest decimal that is this moment."""
    return f"{END}{float(job.ended_at)!r}"


def state(job: Job, *, stopping: bool) -> bytes:
    """The data of `state`, UTF-8: a running job. `stopping`: the worker goes, and this stream with it."""
    return _data(
        job_id=job.job_id,
        page_id=job.page_id,
        plugin=job.plugin,
        state=job.state.value,
        started_at=float(job.started_at),
        stopping=stopping,
    )


def progress(fraction: float, note: str, at: float) -> bytes:
    """The data of `progress`, UTF-8. `at` in epoch seconds."""
    return _data(progress=fraction, note=note, at=at)


def _data(**fields: Any) -> bytes:
    return jsontext.dumps(fields).encode()
