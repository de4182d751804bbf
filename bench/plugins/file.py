"""Plugins that hand a large file over: what is left of a download is the worker, and whatever passes it on."""

from pathlib import Path

from pydantic import BaseModel

from penelope import Call, plugin
from penelope.plugin import MediaLink


class Made(BaseModel):
    """The file's link."""

    file: MediaLink


@plugin("bench/file")
async def file(call: Call, folder: str, mib: int) -> Made:
    """Make a file of zeros that takes no disk, and hand it over."""
    path = Path(folder) / f"zeros-{mib}"
    with path.open("wb") as made:
        made.truncate(mib * 2**20)
    return Made(file=await call.media(path, filename="zeros", content_type="application/octet-stream"))


@plugin("bench/given")
async def given(call: Call, path: str) -> Made:
    """Hand over a file that is there."""
    return Made(file=await call.media(Path(path), filename="given", content_type="application/octet-stream"))
