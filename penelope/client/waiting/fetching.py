"""Downloads: streamed, resumed, moved to their place when they are whole."""

import os
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import httpx

from penelope.client import files
from penelope.client.models import Media
from penelope.client.waiting.wire import Wire, ended

CLEAN_UP_S: Final = 5.0


async def fetch(wire: Wire, link: Media, to: "str | os.PathLike[str]") -> Path:
    """Fetch a file, once; where it is now. If it fails or is cancelled, nothing of it is left.

    Raises:
        PenelopeClientError: it could not be fetched.
        OSError: it could not be written.
    """
    fetching = files.Fetching(wire.how, link)
    place = await anyio.to_thread.run_sync(files.place, to, link.filename)
    try:
        while (wait := await _rest(wire, fetching, place.part)) is not None:  # noqa: ASYNC110  # pauses
            await anyio.sleep(wait)
        await anyio.to_thread.run_sync(place.keep)
    except BaseException:
        with anyio.move_on_after(CLEAN_UP_S, shield=True):
            await anyio.to_thread.run_sync(place.drop)
        raise
    return place.path


async def _rest(wire: Wire, fetching: files.Fetching, part: Path) -> float | None:
    """Fetch what is left; the pause before the next try, None: all is here."""
    try:
        async with wire.stream(fetching.ask()) as response:
            if not fetching.starts(response.status_code, response.headers):
                return fetching.refused(await wire.read(response))
            async with await anyio.open_file(part, "r+b") as file, ended(response.aiter_raw()) as pieces:
                await file.truncate(fetching.received)
                await file.seek(fetching.received)
                async for piece in pieces:
                    await file.write(piece)
                    fetching.got(len(piece))
    except httpx.TransportError as exc:
        return fetching.broke(exc)
    return None
