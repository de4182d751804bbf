"""The clients' door: call a worker's plugins, start and watch its jobs, receive its webhooks. docs/client.md shows how.

It knows nothing of the worker itself, and imports neither Trio nor a browser.

errors      what is raised
models      what the API shows, as values
address     where the worker is, and with which key
retrying    when to ask again; pure
sse         server-sent events; pure
asking      requests, answers and the flows made of them; no socket
flows       the API's routes as flows
run_flows   those of runs, which have no envelope
watching    a watcher of a job's events; no socket
files       media links and downloads; no socket
webhooks    `verify`
blocking    `Client` and what it hands out
waiting     `AsyncClient`, the same for asyncio and Trio
"""

from penelope.client.blocking.client import Client
from penelope.client.blocking.job import JobHandle
from penelope.client.blocking.runs import RunHandle
from penelope.client.errors import (
    BadAddress,
    BadSignature,
    Conflict,
    Failure,
    JobFailed,
    NotFound,
    PenelopeClientError,
    RunFailed,
    StillRunning,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
    Unreachable,
)
from penelope.client.files import media_links
from penelope.client.models import Delivery, Event, Job, Media, Posted, Progress, Run
from penelope.client.retrying import Retries
from penelope.client.waiting.client import AsyncClient
from penelope.client.waiting.job import AsyncJobHandle
from penelope.client.waiting.runs import AsyncRunHandle
from penelope.client.webhooks import verify

__all__ = (
    "AsyncClient",
    "AsyncJobHandle",
    "AsyncRunHandle",
    "BadAddress",
    "BadSignature",
    "Client",
    "Conflict",
    "Delivery",
    "Event",
    "Failure",
    "Job",
    "JobFailed",
    "JobHandle",
    "Media",
    "NotFound",
    "PenelopeClientError",
    "Posted",
    "Progress",
    "Retries",
    "Run",
    "RunFailed",
    "RunHandle",
    "StillRunning",
    "Unauthorized",
    "Unavailable",
    "UnexpectedAnswer",
    "Unreachable",
    "media_links",
    "verify",
)
