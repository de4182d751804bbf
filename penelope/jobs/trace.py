"""`traceparent`: what a start says of the trace that it belongs to, and what each POST sends on.

Source: contract, section 11 ("Trace"); W3C Trace Context, "traceparent Header", "Versioning".
"""

import re
from collections.abc import Sequence
from typing import Final

HEADER: Final = "traceparent"
SPAN_ID_BYTES: Final = 8
_FIELDS: Final = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<parent>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?",
    re.ASCII | re.DOTALL,
)
_KNOWN_FLAGS: Final = 0x03  # sampled, and that the trace id is random; others are to be sent on as 0


def parse(values: Sequence[str]) -> str | None:
    """The trace that a request is part of, as version 00 of the header writes it; None: of none that can be told.

    A bad header is as good as none: the sender's tracing must not be what its job fails by.

    Args:
        values: of all the request's `traceparent` headers.
    """
    if len(values) != 1 or (found := _FIELDS.fullmatch(values[0].strip(" \t"))) is None:
        return None
    version, trace, parent = found["version"], found["trace"], found["parent"]
    # A version yet to come begins with the same fields, and may have more behind another dash.
    if version == "ff" or (version == "00" and found["more"]):
        return None
    if not int(trace, 16) or not int(parent, 16):
        return None
    return f"00-{trace}-{parent}-{int(found['flags'], 16) & _KNOWN_FLAGS:02x}"


def sent_on(traceparent: str, span_id: str) -> str:
    """The header of a request that is made for this trace, as a span of its own.

    Args:
        traceparent: of `parse`.
        span_id: 16 hex digits, not all of them 0.
    """
    version, trace, _, flags = traceparent.split("-")
    return f"{version}-{trace}-{span_id}-{flags}"


def trace_id(traceparent: str | None) -> str | None:
    """For log lines: what names the trace, 32 hex digits."""
    return None if traceparent is None else traceparent.split("-")[1]
