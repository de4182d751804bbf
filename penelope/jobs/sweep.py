"""The sweep: once a minute, what is past its time goes.

A bug here stops the worker: a worker that keeps everything for ever must not look well.

Source: contract, sections 5, 6, 7 and 11.
"""

from typing import Final

import structlog
import trio

from penelope.clock import Clock
from penelope.errors import StoreBusy, StoreFull
from penelope.jobs.ledger import Ledger
from penelope.jobs.store import JobStore
from penelope.store.media import MediaStore
from penelope.store.request_log import RequestLog

SWEEP_EVERY_S: Final = 60.0

log = structlog.get_logger("penelope.sweep")


async def sweep_loop(
    store: JobStore, media: MediaStore, requests: RequestLog, ledger: Ledger, clock: Clock
) -> None:
    """Sweep once a minute, for ever; a store that refuses is asked again the next minute."""
    while True:
        await trio.sleep(SWEEP_EVERY_S)
        try:
            await sweep(store, media, requests, ledger, clock.now())
        except (StoreBusy, StoreFull) as exc:
            log.warning("sweep put off", error=exc.message)


async def sweep(store: JobStore, media: MediaStore, requests: RequestLog, ledger: Ledger, now: float) -> None:
    """Forget what its time is over of: polling jobs, starts under a key, media, week-old rows of the request log and of
    the ledger.
    """
    jobs = await store.forget_expired(now)
    files = await media.sweep(now)
    await requests.prune(now)
    await ledger.prune(now)
    if jobs or files:
        log.info("swept", jobs=len(jobs), files=files)
