"""`penelope verify`: is a webhook that somebody kept the worker's?

What was kept is a whole request as it came over the wire, or a body and its headers apart.
"""

import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from penelope import jsontext, signing
from penelope.client import BadSignature, Job, verify
from penelope.client.webhooks import OURS, is_signed
from penelope.terminal.client import Trouble
from penelope.terminal.plain import duration, harmless, one_line

STDIN: Final = "-"
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*", re.ASCII)
_END_OF_HEAD: Final = re.compile(rb"\r?\n\r?\n")


def read(body: str, headers: str | None) -> tuple[bytes, dict[str, str]]:
    """A body and its headers, of two files; or, without one for the headers, of a whole request.

    Raises:
        Trouble: a file cannot be read, or has no headers.
    """
    if headers is not None:
        return _bytes_of(body), _headers(_text(headers, _bytes_of(headers)), headers)
    request = _bytes_of(body)
    end = _END_OF_HEAD.search(request)
    if end is None:
        raise Trouble(f"{_named(body)} is no whole request; where are its headers? Say so with --headers")
    found = _headers(_text(body, request[: end.start()]), body)
    length = found.get("content-length", "")
    # An editor may have put a line feed at the end of the file.
    whole = request[end.end() :]
    return whole[: int(length)] if length.isascii() and length.isdecimal() else whole, found


def _bytes_of(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except OSError as exc:
        raise Trouble(f"cannot read {name}: {exc.strerror}") from exc


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise Trouble(f"the headers in {_named(name)} are no text") from exc


def _headers(text: str, name: str) -> dict[str, str]:
    """Headers by their lower-case names: of lines, a request's first one left out, or of a JSON object."""
    if text.lstrip().startswith("{"):
        try:
            value = jsontext.loads(text)
        except ValueError as exc:
            raise Trouble(f"the headers in {_named(name)} are no JSON: {exc}") from exc
        return {key.lower(): str(one) for key, one in value.items()}
    found: dict[str, str] = {}
    for number, line in enumerate(text.strip().splitlines()):
        match = _HEADER.fullmatch(line.removeprefix("< ").removeprefix("> "))  # as curl -v marks them
        if match is not None:
            found[match[1].lower()] = match[2]
        elif number:
            raise Trouble(f"{_named(name)} has a line that is no header: {one_line(line)[:60]!r}")
    if not found:
        raise Trouble(f"{_named(name)} has no headers")
    return found


def _named(name: str) -> str:
    return "what came in" if name == STDIN else name


def verdict(
    body: bytes, headers: Mapping[str, str], keys: Sequence[str], tolerance_s: float | None
) -> dict[str, Any]:
    """What is to be said of it, as JSON: each signature, and whether it is to be believed.

    Args:
        tolerance_s: None: however old.
    """
    job: Job | None = None
    why: str | None = None
    try:
        job = verify(body, headers, keys, tolerance_s=tolerance_s)
    except BadSignature as exc:
        why = exc.message
    return {
        "verified": job is not None,
        "why_not": why,
        signing.SIGNATURE: _standard(body, headers, keys),
        "age_s": _age(headers),
        "x-penelope-signature": is_signed(body, headers[OURS], keys) if OURS in headers else None,
        "job_id": None if job is None else job.job_id,
        "state": None if job is None else job.state,
        "status": None if job is None else job.status,
    }


def _standard(body: bytes, headers: Mapping[str, str], keys: Sequence[str]) -> bool | None:
    """Whether that signature is good, whenever it was made; None: there is none."""
    if signing.SIGNATURE not in headers:
        return None
    try:
        signing.verify(body, headers, keys, now=0.0, tolerance_s=float("inf"))
    except signing.BadSignature:
        return False
    return True


def _age(headers: Mapping[str, str]) -> float | None:
    timestamp = headers.get(signing.TIMESTAMP, "")
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 12):
        return None
    return round(time.time() - int(timestamp), 3)


def in_lines(found: Mapping[str, Any]) -> list[str]:
    """The verdict, to be read."""
    words = {True: "good", False: "not over this body with this key", None: "missing"}
    standard = words[found[signing.SIGNATURE]]
    if found["age_s"] is not None:
        age = found["age_s"]
        standard += f", of {duration(abs(age))} {'ago' if age >= 0 else 'ahead of this clock'}"
    lines = [
        f"webhook-signature     {standard}",
        f"X-Penelope-Signature  {words[found['x-penelope-signature']]}",
    ]
    if found["verified"]:
        lines.append(f"verified: job {found['job_id']}, {found['state']} {found['status']}")
    else:
        lines.append(f"not verified: {one_line(found['why_not'])}")
    return [harmless(line) for line in lines]
