"""One POST of a job's end to its webhook, and what came of it.

One deadline over the whole of it; no proxy of the environment; no redirect; a connection of its own each time, so that
none goes stale and nothing is ever sent twice for one attempt.

Source: contract, section 5 ("Attempts …").
"""

import ssl
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import certifi
import httpx
import structlog
import trio

from penelope import signing
from penelope.clock import Clock
from penelope.jobs import views
from penelope.jobs.model import WEBHOOK_TIMEOUT_S, Job, Webhook
from penelope.jobs.schedule import Verdict, verdict
from penelope.jobs.transitions import Attempt

MAX_PER_HOST: Final = 32
MAX_POSTS: Final = 128
MAX_ANSWER_BYTES: Final = 64 * 1024
DRAIN_S: Final = 1.0
USER_AGENT: Final = "penelope"

log = structlog.get_logger("penelope.delivery")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver did. `status` is None when it gave none; `error` says why the POST did not deliver."""

    status: int | None
    error: str | None


class Turns:
    """Who may POST now: so many to one receiver, so many in all; the rest wait, each behind its own receiver."""

    def __init__(self) -> None:
        self._all = trio.CapacityLimiter(MAX_POSTS)
        self._hosts: dict[str, tuple[trio.CapacityLimiter, list[object]]] = {}

    def free(self, host: str) -> bool:
        """Would a turn be had at once? Immediate."""
        limiter = self._hosts.get(host)
        return self._all.available_tokens > 0 and (limiter is None or limiter[0].available_tokens > 0)

    @asynccontextmanager
    async def turn(self, host: str) -> AsyncGenerator[None]:
        """Wait for a turn to POST to `host` (`name:port`), and have it while the block lasts."""
        limiter, users = self._hosts.setdefault(host, (trio.CapacityLimiter(MAX_PER_HOST), []))
        me = object()
        users.append(me)
        try:
            async with limiter, self._all:
                yield
        finally:
            users.remove(me)
            if not users:
                self._hosts.pop(host, None)


def receiver(url: str) -> str:
    """The receiver of a URL as `name:port`, for turns and log lines: no path, no password.

    It never fails: a URL that httpx does not take, however it came into the store, fails its POSTs, not the worker.
    """
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        return urlsplit(url).netloc.rpartition("@")[2]
    # The raw host: `host` decodes `xn--` names, and raises on those that only look so.
    return f"{parts.raw_host.decode('ascii')}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


@asynccontextmanager
async def open_client(transport: httpx.AsyncBaseTransport | None = None) -> AsyncGenerator[httpx.AsyncClient]:
    """The client that POSTs; `transport` is a seam for tests."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with (
        httpx.AsyncClient(
            timeout=None,  # the one deadline is a scope: httpx's own are per operation, and a trickle outlives them
            limits=limits,
            trust_env=False,
            follow_redirects=False,
            headers={
                "User-Agent": USER_AGENT,
                "Accept": "*/*",
                "Accept-Encoding": "identity",
                "Connection": "close",  # so that the receiver knows that nothing follows
            },
            transport=transport,
            verify=True if transport is not None else _trust(),
        ) as client
    ):
        yield client


def _trust() -> ssl.SSLContext:
    """The machine's own authorities (also SSL_CERT_FILE), since a receiver on the LAN may have a certificate of a
    company's; and the public ones, for a machine that has none.
    """
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


async def post(
    client: httpx.AsyncClient, job: Job, *, keys: Sequence[str], due: float, clock: Clock
) -> Attempt:
    """Make the next attempt for a job. It ends within 10 s; every failure is part of the answer.

    Args:
        job: one that ended, with its result.
        keys: that sign, the current one first.
        due: when the schedule had this attempt, epoch seconds.
    """
    assert isinstance(job.way, Webhook)
    at = clock.now()
    answer = await _post(client, job, job.way.url, keys, at)
    meant = Verdict.RETRY if answer.status is None else verdict(answer.status)
    log.info(
        "webhook posted",
        job_id=job.job_id,
        request_id=job.request_id,
        attempt=job.attempts + 1,
        receiver=receiver(job.way.url),
        status=answer.status,
        error=answer.error,
        verdict=meant.value,
        took_s=round(clock.now() - at, 3),
    )
    return Attempt(due=due, at=at, verdict=meant, error=answer.error)


async def _post(client: httpx.AsyncClient, job: Job, url: str, keys: Sequence[str], now: float) -> Answer:
    body = views.posted(job, now)
    headers = {
        "Content-Type": "application/json",
        "X-Penelope-Job": job.job_id,
        "X-Penelope-Attempt": str(job.attempts + 1),
        "X-Penelope-Signature": signing.sign(body, keys[0]),
        **signing.standard(job.job_id, int(now), body, keys),
    }
    status: int | None = None
    location = ""
    try:
        with trio.fail_after(WEBHOOK_TIMEOUT_S):
            async with client.stream("POST", url, content=body, headers=headers) as response:
                status = response.status_code
                location = response.headers.get("location", "")
                await _drain(response)
    except trio.TooSlowError:
        if status is None:
            return Answer(None, f"no answer within {WEBHOOK_TIMEOUT_S:.0f} s")
    except (
        Exception
    ) as exc:  # whatever a network, a certificate or a broken server can do is an attempt that failed
        if status is None:
            reason = why(exc)
            if not isinstance(exc, httpx.HTTPError):
                log.warning("webhook failed unexpectedly", job_id=job.job_id, exc_info=exc)
            return Answer(None, reason)
    assert status is not None
    if 200 <= status <= 299:
        return Answer(status, None)
    if 300 <= status <= 399:
        return Answer(status, f"answered {status} to {location[:200]!a}, not followed")
    return Answer(status, f"answered {status}")


async def _drain(response: httpx.Response) -> None:
    """Read a little of an answer, since a receiver that is cut off logs an error. The status has decided already."""
    read = 0
    with trio.move_on_after(DRAIN_S) as scope:
        async for chunk in response.aiter_raw():
            read += len(chunk)
            if read >= MAX_ANSWER_BYTES:
                # No `return`: it would leave the generators beneath to the garbage collector.
                scope.cancel(reason="enough read")


def why(error: BaseException) -> str:
    """A network failure in a few words, for the job's `delivery.error`."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"TLS: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return f"TLS: {getattr(cause, 'reason', None) or 'handshake failed'}"
        if isinstance(cause, OSError) and type(cause).__name__ == "gaierror":
            return f"no such host: {cause.strerror}"
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
        if isinstance(cause, ConnectionResetError | BrokenPipeError):
            return "connection reset"
    if isinstance(error, httpx.RemoteProtocolError):
        return f"broken answer: {error}"
    if isinstance(error, httpx.ReadError | httpx.WriteError | httpx.CloseError):
        return "connection reset"
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what caused it, and the parts of groups, outermost first."""
    seen: list[BaseException] = [error]
    for cause in seen:
        yield cause
        parts = cause.exceptions if isinstance(cause, BaseExceptionGroup) else ()
        for next_one in (*parts, cause.__cause__, cause.__context__):
            if next_one is not None and next_one not in seen:
                seen.append(next_one)
