"""`Client`: a worker, for code that blocks."""

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from typing_extensions import TypeVar

from penelope.client import address, flows
from penelope.client.blocking.fetching import fetch
from penelope.client.blocking.job import JobHandle
from penelope.client.blocking.runs import Runs
from penelope.client.blocking.wire import Wire
from penelope.client.flows import Call, Params, Start
from penelope.client.models import Job, Media, Posted, shown, typed
from penelope.client.retrying import Retries

T = TypeVar("T", default=dict[str, Any])


class Client:
    """A worker, for whoever has its key. Several threads may use one.

    Attributes:
        url: its base URL.
        runs: its runs: queued calls that find their own page.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        retries: Retries | None = None,
        tls: ssl.SSLContext | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """
        Args:
            url: the base URL; None: `PENELOPE_URL`, else by `PENELOPE_HOST` and `PENELOPE_PORT`.
            key: None: `PENELOPE_KEY`.
            retries: how long to try again what is safe to try again; None: six times within a minute.
            tls: for a worker behind a certificate that only you trust.
            transport: a seam for tests.

        Raises:
            BadAddress: no URL or key that could be used.
        """
        self._wire = Wire(address.find(url, key), retries or Retries(), tls, transport)
        self.url = self._wire.url
        self.runs = Runs(self._wire)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._wire.close()

    def call(
        self,
        page_id: str,
        plugin: str,
        params: Params = None,
        *,
        result: type[T] | None = None,
        lease: str | None = None,
        request_id: str | None = None,
    ) -> T:
        """A plain call: what the plugin answered.

        It is not made again where it may have run: a connection that breaks off ends it with `Unreachable`, and the
        plugin runs on. `run` has no such end.

        Args:
            plugin: `family/name`.
            result: what to make of the answer: a pydantic model, a dataclass or a TypedDict; None: a dictionary.
            lease: the token of the page's lease.
            request_id: to find the call in the worker's log.

        Raises:
            PenelopeClientError: see its tree.
        """
        wanted = Call(page_id=page_id, plugin=plugin, params=params, lease=lease, request_id=request_id)
        return typed(self._wire.carry_out(flows.call(self._wire.how, wanted)), result)

    def run(
        self,
        page_id: str,
        plugin: str,
        params: Params = None,
        *,
        result: type[T] | None = None,
        timeout_s: float | None = None,
        limit_s: float | None = None,
        lease: str | None = None,
        request_id: str | None = None,
    ) -> T:
        """A call that no broken connection loses: made as a job, waited for, answered like a plain one.

        Args:
            timeout_s: how long to wait; the job runs on past it. None: as long as it takes.
            limit_s: past it the worker ends the job, with status 408.

        Raises:
            StillRunning: the time is over.
            PenelopeClientError: see its tree.
        """
        wanted = Call(page_id=page_id, plugin=plugin, params=params, lease=lease, request_id=request_id)
        flow = flows.run(self._wire.how, wanted, Start(timeout_s=limit_s), timeout_s)
        return typed(self._wire.carry_out(flow), result)

    def start(
        self,
        page_id: str,
        plugin: str,
        params: Params = None,
        *,
        result: type[T] | None = None,
        ttl: float = 600.0,
        callback: str | None = None,
        timeout_s: float | None = None,
        lease: str | None = None,
        idempotency_key: str | None = None,
        request_id: str | None = None,
        traceparent: str | None = None,
    ) -> JobHandle[T]:
        """Start a job. A start whose answer was lost is made again under the same key, and is one job.

        Args:
            ttl: seconds that the result is held after the end, 600 at most.
            callback: the URL that the worker POSTs the end to; then there is no `ttl`.
            timeout_s: past it the worker ends the job, with status 408.
            idempotency_key: to make the same start again later, also from another process; made up when None.
            traceparent: W3C's; the worker sends it on with the webhook.

        Raises:
            PenelopeClientError: it did not start, or nobody knows whether it did (`Unreachable`).
        """
        wanted = Call(
            page_id=page_id,
            plugin=plugin,
            params=params,
            lease=lease,
            request_id=request_id,
            traceparent=traceparent,
        )
        as_job = Start(ttl=ttl, callback=callback, timeout_s=timeout_s, idempotency_key=idempotency_key)
        return JobHandle(
            self._wire, self._wire.carry_out(flows.start(self._wire.how, wanted, as_job)), result
        )

    def job(self, job_id: str, *, result: type[T] | None = None) -> JobHandle[T]:
        """A job by its id; nothing is asked yet."""
        return JobHandle(self._wire, job_id, result)

    def jobs(
        self, *, state: str | None = None, page_id: str | None = None, plugin: str | None = None
    ) -> list[Job]:
        """The jobs that the worker holds, newest first."""
        return self._wire.carry_out(flows.jobs(self._wire.how, state=state, page_id=page_id, plugin=plugin))

    def deliveries(
        self,
        *,
        job_id: str | None = None,
        host: str | None = None,
        verdict: str | None = None,
        error_class: str | None = None,
        since: float | None = None,
        limit: int = 100,
    ) -> list[Posted]:
        """The last POSTs of webhooks, newest first.

        Args:
            verdict: `delivered`, `retry` or `give up`.
            error_class: `dns`, `refused`, `timeout` and the like.
            since: epoch seconds.
            limit: 1000 at most.
        """
        flow = flows.deliveries(
            self._wire.how,
            job_id=job_id,
            host=host,
            verdict=verdict,
            error_class=error_class,
            since=since,
            limit=limit,
        )
        return self._wire.carry_out(flow)

    def get(self, path: str, query: Mapping[str, object] | None = None) -> dict[str, Any]:
        """What any other route answers that is read, e.g. `/api/v1/activity`; the whole envelope.

        Args:
            query: what is None in it is left out.
        """
        return self._wire.carry_out(flows.get(self._wire.how, path, query))

    def download(self, link: Media | Mapping[str, Any], to: "str | os.PathLike[str]" = ".") -> Path:
        """Fetch a file, once; where it is now. A download that breaks off goes on where it was.

        Args:
            link: as an answer has it; `media_links` finds them.
            to: a folder: the file gets its own name there, and is never put over another. Else the file's path.

        Raises:
            PenelopeClientError: it could not be fetched; nothing of it is left.
            OSError: it could not be written.
        """
        return fetch(self._wire, link if isinstance(link, Media) else shown(Media, link), to)
