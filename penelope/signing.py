"""The signatures of a webhook: ours over the body, and Standard Webhooks' over id, moment and body. Pure.

Both sides stand here: the worker signs, the client library and `penelope verify` verify. Keys are PENELOPE_KEY as
text; whoever verifies with a library of Standard Webhooks gives it `secret(key)`.

Source: contract, sections 5 and 11 ("Signatures"); https://www.standardwebhooks.com, "Webhook headers".
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Final

TOLERANCE_S: Final = 300.0
ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"
_SCHEME: Final = "v1,"
_SECONDS: Final = re.compile(r"[0-9]{1,12}", re.ASCII)


class BadSignature(Exception):
    """A webhook that is not to be believed; the message says why."""


def sign(body: bytes, key: str) -> str:
    """The value of `X-Penelope-Signature`: `sha256=` + hex HMAC-SHA256 of the very bytes sent."""
    return "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


def is_signed(body: bytes, signature: str, key: str) -> bool:
    """Is `signature` what `sign` makes? In constant time; anything malformed is simply not.

    It says nothing about when: whoever has seen a POST can send it again. `verify` tells.
    """
    return _same(sign(body, key), signature)


def secret(key: str) -> str:
    """The key as libraries of Standard Webhooks take it: `whsec_` + base64 of the key's bytes."""
    return "whsec_" + base64.b64encode(key.encode()).decode("ascii")


def standard(job_id: str, timestamp: int, body: bytes, keys: Sequence[str]) -> dict[str, str]:
    """Standard Webhooks' three headers.

    Args:
        job_id: names the message: a repeated attempt has the same.
        timestamp: when the attempt began, epoch seconds.
        body: the very bytes sent.
        keys: each signs, so that a receiver that has one of them verifies.
    """
    return {
        ID: job_id,
        TIMESTAMP: str(timestamp),
        SIGNATURE: " ".join(_standard(job_id, str(timestamp), body, key) for key in keys),
    }


def verify(
    body: bytes,
    headers: Mapping[str, str],
    key: str | Sequence[str],
    *,
    now: float,
    tolerance_s: float = TOLERANCE_S,
) -> str:
    """Check that a webhook is a worker's and was sent just now.

    By Standard Webhooks' headers alone. `X-Penelope-Signature` is not enough here: an old POST of which somebody took
    the others away would pass.

    Args:
        body: the raw bytes, as they came in.
        headers: of the request; names in any case.
        key: the worker's; or several, one of which has signed.
        now: epoch seconds.
        tolerance_s: how far the worker's clock and this one may be apart, the way included.

    Returns:
        The job id that was signed: what to store the body under, since a job can come twice.

    Raises:
        BadSignature: a header is missing or malformed, it was signed too long ago or ahead of time, or not by the key.
    """
    given = {name.lower(): value.strip() for name, value in headers.items()}
    for name in (ID, TIMESTAMP, SIGNATURE):
        if not given.get(name):
            raise BadSignature(f"the header {name} is missing")
    if not _SECONDS.fullmatch(given[TIMESTAMP]):
        raise BadSignature(f"{TIMESTAMP} is {given[TIMESTAMP][:40]!a}: it must be epoch seconds")
    keys = (key,) if isinstance(key, str) else tuple(key)
    signatures = [one for one in given[SIGNATURE].split() if one.startswith(_SCHEME)]
    expected = [_standard(given[ID], given[TIMESTAMP], body, one) for one in keys]
    # All of them, whichever matches: how long it takes says nothing.
    if not sum(_same(ours, theirs) for ours in expected for theirs in signatures):
        raise BadSignature("the signature is not over this body with this key")
    age = now - int(given[TIMESTAMP])
    if abs(age) > tolerance_s:
        when = f"{age:.0f} s ago" if age > 0 else f"{-age:.0f} s ahead of this clock"
        raise BadSignature(
            f"it was signed {when}, which is more than {tolerance_s:g} s: a replay, or a wrong clock"
        )
    return given[ID]


def _standard(job_id: str, timestamp: str, body: bytes, key: str) -> str:
    content = f"{job_id}.{timestamp}.".encode("utf-8", "replace") + body
    digest = hmac.new(key.encode(), content, hashlib.sha256).digest()
    return _SCHEME + base64.b64encode(digest).decode("ascii")


def _same(ours: str, theirs: str) -> bool:
    return hmac.compare_digest(ours.encode(), theirs.encode("utf-8", "replace"))
