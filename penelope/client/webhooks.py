"""What a receiver does with a webhook: believe it or not.

Source: contract, section 11 ("Signatures"); docs/receiving.
"""

import math
import time
from collections.abc import Mapping, Sequence

from penelope import jsontext, signing
from penelope.client.errors import BadSignature, UnexpectedAnswer
from penelope.client.models import Job, shown

OURS = "x-penelope-signature"


def verify(
    body: bytes,
    headers: Mapping[str, str],
    key: str | Sequence[str],
    *,
    tolerance_s: float | None = signing.TOLERANCE_S,
    now: float | None = None,
) -> Job:
    """The job that a webhook brings, once it is sure that the worker sent it, and just now.

    Store it under its `job_id`, since a job can come twice; answer `2xx` only when it is stored.

    Args:
        body: the raw bytes, as they came in.
        headers: of the request; names in any case.
        key: the worker's `PENELOPE_KEY`; or several, one of which has signed.
        tolerance_s: how far the worker's clock and this one may be apart, the way included. None: however long ago it
            was sent; then `X-Penelope-Signature` alone will do, which has no moment.
        now: epoch seconds; None: this machine's clock.

    Raises:
        BadSignature: not the worker's, too old, or no job at all. Answer `401`, store nothing.
    """
    try:
        _check(body, headers, key, math.inf if tolerance_s is None else tolerance_s, now)
    except signing.BadSignature as exc:
        given = {name.lower(): value.strip() for name, value in headers.items()}
        if tolerance_s is not None or signing.SIGNATURE in given or OURS not in given:
            raise BadSignature(str(exc)) from exc
        if not is_signed(body, given[OURS], key):
            raise BadSignature("X-Penelope-Signature is not over this body with this key") from exc
    try:
        return shown(Job, jsontext.loads(body))
    except (ValueError, UnexpectedAnswer) as exc:
        raise BadSignature(f"signed, but the body is no job: {exc}") from exc


def is_signed(body: bytes, signature: str, key: str | Sequence[str]) -> bool:
    """Is the value of `X-Penelope-Signature` over this body, with one of the keys? It says nothing about when."""
    keys = (key,) if isinstance(key, str) else key
    return any(signing.is_signed(body, signature, one) for one in keys)


def _check(
    body: bytes, headers: Mapping[str, str], key: str | Sequence[str], tolerance_s: float, now: float | None
) -> None:
    signing.verify(body, headers, key, now=time.time() if now is None else now, tolerance_s=tolerance_s)
