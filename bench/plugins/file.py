"""A plugin that hands over a file that is there: what moving it takes is the worker's."""

from pydantic import BaseModel

from penelope import Call, plugin
from penelope.plugin import MediaLink


class File(BaseModel):
    """What was handed over."""

    media: MediaLink


@plugin("bench/file")
async def file(call: Call, path: str) -> File:
    """Hand over the file at `path`."""
    return File(media=await call.media(path, filename="bench.bin", content_type="application/octet-stream"))
