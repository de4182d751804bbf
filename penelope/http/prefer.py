"""`Prefer: wait=N`: how long a client is willing to wait for an answer that is worth more than "not yet".

Source: contract, section 11 ("Wait"); RFC 7240.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.request import parse_http_list

PREFER: Final = "Prefer"
APPLIED: Final = "Preference-Applied"
MAX_WAIT_S: Final = 60

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_WAIT = re.compile(r"wait[ \t]*=[ \t]*(\"?)([0-9]+)\1[ \t]*(;.*)?", re.ASCII | re.IGNORECASE)


def wait(headers: Iterable[str]) -> int | None:
    """The seconds of the preference `wait`, 60 at most; None: it is not there, or is not one that can be read.

    A preference is a wish: an unknown or malformed one is as if it were not there, and of several the first counts.

    Args:
        headers: the values of all `Prefer` headers, in their order.
    """
    for preference in parse_http_list(", ".join(headers)):
        name = _NAME.match(preference)
        if name is not None and name[0].lower() == "wait":
            found = _WAIT.fullmatch(preference)
            return None if found is None else _bounded(found[2])
    return None


def applied(seconds: int | None) -> Mapping[str, str]:
    """The header that says what was taken of it: the seconds after they were capped."""
    return {} if seconds is None else {APPLIED: f"wait={seconds}"}


def _bounded(digits: str) -> int:
    significant = digits.lstrip("0")
    return MAX_WAIT_S if len(significant) > 2 else min(int(significant or "0"), MAX_WAIT_S)
