"""Downloads: streamed, resumed, moved to their place when they are whole."""

import os
import time
from pathlib import Path

import httpx

from penelope.client import files
from penelope.client.blocking.wire import Wire
from penelope.client.models import Media


def fetch(wire: Wire, link: Media, to: "str | os.PathLike[str]") -> Path:
    """Fetch a file, once; where it is now. If it fails, nothing of it is left.

    Raises:
        PenelopeClientError: it could not be fetched.
        OSError: it could not be written.
    """
    fetching = files.Fetching(wire.how, link)
    place = files.place(to, link.filename)
    try:
        while (wait := _rest(wire, fetching, place.part)) is not None:
            time.sleep(wait)
        place.keep()
    except BaseException:
        place.drop()
        raise
    return place.path


def _rest(wire: Wire, fetching: files.Fetching, part: Path) -> float | None:
    """Fetch what is left; the pause before the next try, None: all is here."""
    try:
        with wire.stream(fetching.ask()) as response:
            if not fetching.starts(response.status_code, response.headers):
                return fetching.refused(wire.read(response))
            with part.open("r+b") as file:
                file.truncate(fetching.received)
                file.seek(fetching.received)
                for piece in response.iter_raw():
                    file.write(piece)
                    fetching.got(len(piece))
    except httpx.TransportError as exc:
        return fetching.broke(exc)
    return None
