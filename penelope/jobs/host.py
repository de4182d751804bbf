"""The worker's side of one call: what its plugin asks for is done here, in Trio.

Source: contract, section 2 ("Authoring").
"""

import os
from typing import Final

import structlog
import trio

from penelope.errors import StoreBusy, StoreFull
from penelope.jobs.calls import Live
from penelope.jobs.store import JobStore
from penelope.plugin import Host, MediaLink
from penelope.store.media import MediaStore

MAX_NOTE_CHARS: Final = 200

log = structlog.get_logger("penelope.jobs")


class CallHost(Host):
    """What `call.progress`, `call.checkpoint` and `call.media` come to."""

    def __init__(self, live: Live, store: JobStore, media: MediaStore) -> None:
        self._live = live
        self._store = store
        self._media = media

    async def progress(self, fraction: float, note: str) -> None:
        self._live.fraction, self._live.note = fraction, note[:MAX_NOTE_CHARS]
        if self._live.watched is not None:
            self._live.watched.progressed(fraction, self._live.note)
        await trio.lowlevel.checkpoint()

    async def checkpoint(self, text: str) -> None:
        if self._live.job_id is None:
            await trio.lowlevel.checkpoint()
            return
        self._live.checkpoint = text
        try:
            await self._store.checkpoint(self._live.job_id, text)
        except (StoreBusy, StoreFull) as exc:  # an older one stays; the plugin's work is worth more
            log.warning("checkpoint not stored", job_id=self._live.job_id, error=exc.message)

    async def media(
        self, source: "bytes | str | os.PathLike[str]", filename: str, content_type: str
    ) -> MediaLink:
        return await self._media.put(source, filename, content_type, self._live.job_id)
