"""One POST of a job's end to its webhook, and what came of it.

One deadline over the whole of it; no proxy of the environment; no redirect.

Source: contract, section 5 ("Attempts …"), section 11 ("Signatures", "Ledger").
"""

import secrets
import ssl
from collections.abc import AsyncGenerator, Sequence
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
from penelope.jobs import answers, trace, views
from penelope.jobs.answers import Answer
from penelope.jobs.dialling import TRAIL, Dialling, Trail
from penelope.jobs.ledger import Entry
from penelope.jobs.model import WEBHOOK_TIMEOUT_S, Job, Webhook
from penelope.jobs.schedule import Verdict, verdict
from penelope.jobs.screening import Rules
from penelope.jobs.transitions import Attempt

MAX_PER_HOST: Final = 32
MAX_POSTS: Final = 128
MAX_ANSWER_BYTES: Final = 64 * 1024
DRAIN_S: Final = 1.0
USER_AGENT: Final = "penelope"
ANYWHERE: Final = Rules()

log = structlog.get_logger("penelope.delivery")


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


def host_and_port(url: str) -> tuple[str, int | None]:
    """Where a URL leads, without path and password; the port is None where nobody can tell.

    It never fails: a URL that httpx does not take, however it came into the store, fails its POSTs, not the worker.
    """
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        return urlsplit(url).netloc.rpartition("@")[2], None
    # The raw host: `host` decodes `xn--` names, and raises on those that only look so.
    return parts.raw_host.decode("ascii"), parts.port or (443 if parts.scheme == "https" else 80)


def receiver(url: str) -> str:
    """The receiver of a URL as `name:port`, for turns and log lines."""
    return named(*host_and_port(url))


def named(host: str, port: int | None) -> str:
    """`name:port`, an IPv6 address in brackets."""
    bracketed = f"[{host}]" if ":" in host else host
    return host if port is None else f"{bracketed}:{port}"


@asynccontextmanager
async def open_client(
    transport: httpx.AsyncBaseTransport | None = None,
    rules: Rules = ANYWHERE,
    authorities: "Authorities | None" = None,
) -> AsyncGenerator[httpx.AsyncClient]:
    """The client that POSTs to where `rules` let it; `transport` is a seam for tests, and takes their place.

    Args:
        authorities: that clients share; None: its own.
    """
    known = authorities or Authorities()
    async with (
        httpx.AsyncClient(
            timeout=None,  # the one deadline is a scope: httpx's own are per operation, and a trickle outlives them
            trust_env=False,
            follow_redirects=False,
            headers={
                "User-Agent": USER_AGENT,
                "Accept": "*/*",
                "Accept-Encoding": "identity",
                "Connection": "close",  # so that the receiver knows that nothing follows
            },
            transport=transport or Dialling(rules, known.trusted),
        ) as client
    ):
        yield client


class Authorities:
    """Who may vouch for a receiver, read in a thread when the first one wants TLS, and once.

    They are some hundreds: a twentieth of a second of a start, which a worker whose receivers are on its own machine
    never needs.
    """

    def __init__(self) -> None:
        self._turn = trio.Lock()
        self._context: ssl.SSLContext | None = None

    async def trusted(self) -> ssl.SSLContext:
        async with self._turn:
            if self._context is None:
                self._context = await trio.to_thread.run_sync(trust, abandon_on_cancel=True)
            return self._context


def trust() -> ssl.SSLContext:
    """The machine's own authorities (also SSL_CERT_FILE), since a receiver on the LAN may have a certificate of a
    company's; and the public ones, for a machine that has none.
    """
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


@dataclass(frozen=True, slots=True)
class Posted:
    """A POST that was made: what it moves, and what is noted of it."""

    attempt: Attempt
    entry: Entry


async def post(
    client: httpx.AsyncClient, job: Job, *, keys: Sequence[str], due: float, clock: Clock
) -> Posted:
    """Make the next attempt for a job. It ends within 10 s; every failure is part of the answer.

    Args:
        job: one that ended, with its result.
        keys: that sign, the current one first.
        due: when the schedule had this attempt, epoch seconds.
    """
    assert isinstance(job.way, Webhook)
    at, trail = clock.now(), Trail()
    body = views.posted(job, at)
    headers = _headers(job, body, keys, clock)
    answer = await _post(client, job, body, headers, trail)
    meant = Verdict.RETRY if answer.status is None else verdict(answer.status)
    took_s = round(clock.now() - at, 3)
    log.info(
        "webhook posted",
        job_id=job.job_id,
        request_id=job.request_id,
        trace_id=trace.trace_id(job.traceparent),
        attempt=job.attempts + 1,
        receiver=receiver(job.way.url),
        address=trail.address,
        status=answer.status,
        error_class=answer.error_class,
        error=answer.error,
        verdict=meant.value,
        took_s=took_s,
    )
    host, port = host_and_port(job.way.url)
    entry = Entry(
        at=at,
        job_id=job.job_id,
        request_id=job.request_id,
        attempt=job.attempts + 1,
        host=host,
        port=port,
        address=trail.address,
        status=answer.status,
        error_class=answer.error_class,
        error=answer.error,
        verdict=meant.value,
        took_s=took_s,
    )
    return Posted(Attempt(due=due, at=at, verdict=meant, error=answer.error), entry)


def _headers(job: Job, body: bytes, keys: Sequence[str], clock: Clock) -> dict[str, str]:
    headers = {
        "Content-Type": "application/json",
        "X-Penelope-Job": job.job_id,
        "X-Penelope-Attempt": str(job.attempts + 1),
        "X-Penelope-Signature": signing.sign(body, keys[0]),
        # By the wall: receivers compare it with theirs, and after a step back ours is ahead for as long as that was.
        **signing.standard(job.job_id, int(clock.wall()), body, keys),
    }
    if job.traceparent is not None:
        headers[trace.HEADER] = trace.sent_on(job.traceparent, f"{secrets.randbits(64) or 1:016x}")
    return headers


async def _post(
    client: httpx.AsyncClient, job: Job, body: bytes, headers: dict[str, str], trail: Trail
) -> Answer:
    assert isinstance(job.way, Webhook)
    status: int | None = None
    location = ""
    try:
        with trio.fail_after(WEBHOOK_TIMEOUT_S):
            async with client.stream(
                "POST", job.way.url, content=body, headers=headers, extensions={TRAIL: trail}
            ) as response:
                status = response.status_code
                location = response.headers.get("location", "")
                await _drain(response)
    except trio.TooSlowError:
        if status is None:
            return answers.too_late(WEBHOOK_TIMEOUT_S)
    except (
        Exception
    ) as exc:  # all that a network, a certificate or a broken server can do is a failed attempt
        if status is None:
            if not isinstance(exc, httpx.HTTPError):
                log.warning("webhook failed unexpectedly", job_id=job.job_id, exc_info=exc)
            return answers.of_error(exc)
    assert status is not None
    return answers.of_status(status, location)


async def _drain(response: httpx.Response) -> None:
    """Read a little of an answer, since a receiver that is cut off logs an error. The status has decided already."""
    read = 0
    with trio.move_on_after(DRAIN_S) as scope:
        async for chunk in response.aiter_raw():
            read += len(chunk)
            if read >= MAX_ANSWER_BYTES:
                # No `return`: it would leave the generators beneath to the garbage collector.
                scope.cancel(reason="enough read")
