"""Downloads: one whole one per link, resumable, streamed.

Source: contract, section 6.
"""

import re
import weakref
from collections.abc import AsyncGenerator, Callable
from typing import Final
from urllib.parse import quote

import trio
from quart import Blueprint, Response, request

from penelope import outcome
from penelope.errors import NotFound
from penelope.http.envelope import answer
from penelope.http.worker import Worker
from penelope.store.media import MediaFile, MediaStore

CHUNK_BYTES: Final = 256 * 1024
_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})", re.ASCII)


def blueprint(worker: Worker) -> Blueprint:
    """`GET` and `HEAD /api/v1/media/{token}`; no key: the token is one."""
    routes = Blueprint("media", __name__)

    @routes.get("/api/v1/media/<token>")
    async def download(token: str) -> Response:
        file = await worker.media.find(token)
        if file is None:
            raise NotFound("there is no such file: unknown, expired or downloaded")
        span = _span(request.headers.get("Range"), file.size)
        if span is None:
            return answer(
                outcome.failure(416, f"the file has {file.size} bytes; the range is outside"),
                {"Content-Range": f"bytes */{file.size}"},
            )
        return _response(worker.media, file, *span)

    return routes


def _span(header: str | None, size: int) -> tuple[int, int] | None:
    """Which bytes are asked for, end exclusive; the whole file when the header is not one simple range; None: none of
    the file's.
    """
    match = _RANGE.fullmatch(header or "")
    if match is None or match[0] == "bytes=-":
        return 0, size
    first, last = match[1], match[2]
    if not first:
        return (max(0, size - int(last)), size) if int(last) and size else None
    start, stop = int(first), min(int(last) + 1, size) if last else size
    if last and int(last) < start:
        return 0, size  # not a range at all: ignored, as HTTP says
    return (start, stop) if start < size else None


def _response(media: MediaStore, file: MediaFile, start: int, stop: int) -> Response:
    partial = (start, stop) != (0, file.size)
    headers = {
        "Content-Length": str(stop - start),
        "Content-Disposition": _disposition(file.filename),
        "Cache-Control": "no-store",
        "Accept-Ranges": "bytes",
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    if partial:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{file.size}"
    if request.method == "HEAD":
        body: bytes | AsyncGenerator[bytes] = b""
    else:
        over = None if partial else media.begin_whole(file.token)
        body = _stream(media, file, start, stop, over)
        if over is not None:  # a generator that is never started runs no `finally`: its client left at once
            weakref.finalize(body, over)
    response = Response(body, 206 if partial else 200, headers, content_type=file.content_type)
    response.headers["Content-Length"] = str(stop - start)
    response.timeout = None
    return response


async def _stream(  # noqa: ASYNC900  # Quart closes the bodies that it sends
    media: MediaStore, file: MediaFile, start: int, stop: int, over: Callable[[], None] | None
) -> AsyncGenerator[bytes]:
    """The file's bytes; once the last has gone out it is told, a download that breaks off never gets there."""
    try:
        async with await trio.open_file(file.path, "rb") as content:
            await content.seek(start)
            left = stop - start
            while left and (chunk := await content.read(min(CHUNK_BYTES, left))):
                left -= len(chunk)
                yield chunk  # noqa: ASYNC119  # as above
            if not left:
                # It was handed over: it goes, whatever the client does now. Before the file is closed, which is where
                # a client that hangs up as soon as it has everything would cut this off; the store's own step is whole.
                await media.sent(file, start, stop)
    finally:
        if over is not None:
            over()


def _disposition(filename: str) -> str:
    """RFC 6266: an ASCII fallback, and the real name in UTF-8."""
    plain = re.sub(r'[^ -~]|["\\%]', "_", filename)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"
