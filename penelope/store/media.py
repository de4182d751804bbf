"""Files that a call produced, each handed over once through a link.

The files lie in the store's media folder under names of their own; a row says what a file is and until when it stays.
A file is on disk, synced, before its row is; a row goes before its file does: what a crash leaves of either alone is
removed at the next start. A cancel leaves nothing alone: the two steps are one to it.

Source: contract, section 6.
"""

import errno
import os
import re
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
import trio

from penelope.clock import Clock
from penelope.errors import CallFailed, Conflict, MediaFull, PluginFailed, StoreFull
from penelope.plugin import MediaLink
from penelope.store.database import Database, Runner
from penelope.store.folders import make_folder, sync_folder

MEDIA_KEEP_S: Final = 300.0
MAX_NAME_BYTES: Final = 200
TOKEN_BYTES: Final = 32

_DISK_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG})
_CONTENT_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}(; ?[\w.+-]{1,50}=[\w.+-]{1,50})?", re.ASCII)
_INSERT = """
    INSERT INTO media (token, file, filename, content_type, size, job_id, created_at, expires_at)
    VALUES (:token, :file, :filename, :content_type, :size, :job_id, :created_at, :expires_at)
"""
_GET = "SELECT * FROM media WHERE token = :token AND (expires_at IS NULL OR expires_at > :now)"
_CONSUME = "DELETE FROM media WHERE token = :token RETURNING file, size"
_EXPIRED = "DELETE FROM media WHERE expires_at <= :now RETURNING token, file, size"
_ORPHANS = """
    DELETE FROM media WHERE job_id IS NOT NULL AND job_id NOT IN (SELECT job_id FROM jobs)
    AND job_id NOT IN (SELECT run_id FROM runs) RETURNING file
"""

log = structlog.get_logger("penelope.media")


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFile:
    """A file that waits for its download; `size` in bytes."""

    token: str
    path: Path
    filename: str
    content_type: str
    size: int


class MediaStore:
    """The media folder and its table.

    Attributes:
        unclaimed: bytes that wait for their download.
    """

    def __init__(
        self, database: Database, folder: Path, *, cap_bytes: int, clock: Clock, run: Runner
    ) -> None:
        self.unclaimed = 0
        self._database = database
        self._folder = folder
        self._cap = cap_bytes
        self._clock = clock
        self._run = run
        self._sent: dict[str, list[tuple[int, int]]] = {}
        self._whole: dict[str, object] = {}

    async def recover(self) -> None:
        """Make the folder; drop media with no owner, files with no row and rows with no file.

        Raises:
            StoreBusy, StoreFull: the store cannot be written.
        """

        def listed() -> set[str]:
            make_folder(self._folder)
            return {entry.name for entry in os.scandir(self._folder)}

        files = await self._run(listed)

        def reconcile(connection: sqlite3.Connection) -> tuple[set[str], int]:
            connection.execute(_ORPHANS)
            rows = connection.execute("SELECT token, file, size FROM media").fetchall()
            for row in rows:
                if row["file"] not in files:
                    connection.execute(_CONSUME, {"token": row["token"]})
            kept = {row["file"]: row["size"] for row in rows if row["file"] in files}
            return files - kept.keys(), sum(kept.values())

        stray, self.unclaimed = await self._database.write(reconcile)
        await self._remove(stray)
        if stray:
            log.info("media with no owner removed", files=len(stray))

    async def put(
        self,
        source: "bytes | str | os.PathLike[str]",
        filename: str,
        content_type: str,
        job_id: str | None,
    ) -> MediaLink:
        """Keep a copy of `source` and make its link.

        Args:
            job_id: the job that keeps it; None: it stays 300 s.

        Raises:
            MediaFull: the unclaimed files would pass the cap, or the disk takes no more.
            PluginFailed: a content type that is none, or a file that cannot be read.
        """
        if not _CONTENT_TYPE.fullmatch(content_type):
            raise PluginFailed(f"media: content type {content_type!r} is not type/subtype")
        size = await self._size(source)
        if self.unclaimed + size > self._cap:
            raise MediaFull(
                f"media: {size} bytes more would pass the {self._cap // 2**20} MB of files not yet downloaded "
                "(MEDIA_MAX_MB)"
            )
        self.unclaimed += size  # no await since the test
        name = secrets.token_hex(16)
        try:
            await self._run(lambda: _write_file(self._folder / name, source))
            with trio.CancelScope(shield=True):  # else a committed row could lose its file
                link = await self._insert(name, safe_name(filename), content_type, size, job_id)
        except (OSError, StoreFull) as exc:
            self._undo(name, size)
            raise _not_kept(exc) from exc
        except BaseException:
            self._undo(name, size)
            raise
        return link

    def _undo(self, name: str, size: int) -> None:
        self.unclaimed -= size
        (self._folder / name).unlink(missing_ok=True)

    async def find(self, token: str) -> MediaFile | None:
        """The file of a link; None: unknown, expired or downloaded."""
        now = self._clock.now()  # here: in the database's thread there is no Trio clock to ask

        def find(connection: sqlite3.Connection) -> MediaFile | None:
            row = connection.execute(_GET, {"token": token, "now": now}).fetchone()
            if row is None:
                return None
            return MediaFile(
                token=token,
                path=self._folder / row["file"],
                filename=row["filename"],
                content_type=row["content_type"],
                size=row["size"],
            )

        return await self._database.read(find)

    def begin_whole(self, token: str) -> Callable[[], None]:
        """One download of the whole file at a time, since the first that completes is the last.

        Returns:
            What to call when it is over; more than once does no harm.

        Raises:
            Conflict: another is under way.
        """
        if token in self._whole:
            raise Conflict("this file is being downloaded right now", headers={"Retry-After": "5"})
        mine = self._whole[token] = object()

        def over() -> None:
            if self._whole.get(token) is mine:
                del self._whole[token]

        return over

    async def sent(self, file: MediaFile, start: int, stop: int) -> None:
        """Bytes `start` to `stop` (exclusive) went out; once all have, the file is gone."""
        spans = _merged([*self._sent.get(file.token, []), (start, stop)])
        if spans and spans[0][0] == 0 and spans[0][1] >= file.size:
            await self._consume(file.token)
        else:
            self._sent[file.token] = spans

    async def sweep(self, now: float) -> int:
        """Drop what has expired; returns how many files."""
        waiting = await self._database.read(
            lambda c: c.execute(
                "SELECT 1 FROM media WHERE expires_at <= :now LIMIT 1", {"now": now}
            ).fetchone()
        )
        if not waiting:
            return 0
        with trio.CancelScope(shield=True):  # else files would outlive their rows
            gone = await self._database.write(
                lambda c: [tuple(row) for row in c.execute(_EXPIRED, {"now": now}).fetchall()]
            )
            for token, *_ in gone:
                self._sent.pop(token, None)
            await self._dropped([(name, size) for _, name, size in gone])
        return len(gone)

    async def _consume(self, token: str) -> None:
        self._sent.pop(token, None)
        with trio.CancelScope(shield=True):  # see `sweep`
            gone = await self._database.write(
                lambda c: [
                    (row["file"], row["size"]) for row in c.execute(_CONSUME, {"token": token}).fetchall()
                ]
            )
            await self._dropped(gone)

    async def _dropped(self, gone: list[tuple[str, int]]) -> None:
        self.unclaimed -= sum(size for _, size in gone)
        await self._remove(name for name, _ in gone)

    async def _remove(self, names: Iterable[str]) -> None:
        paths = [self._folder / name for name in names]

        def remove() -> None:
            for path in paths:
                path.unlink(missing_ok=True)

        if paths:
            await self._run(remove)

    async def _size(self, source: "bytes | str | os.PathLike[str]") -> int:
        if isinstance(source, bytes):
            return len(source)
        try:
            return (await self._run(lambda: Path(source).stat())).st_size
        except OSError as exc:
            raise PluginFailed(f"media: the file cannot be read: {exc.strerror}") from exc

    async def _insert(
        self, name: str, filename: str, content_type: str, size: int, job_id: str | None
    ) -> MediaLink:
        now = self._clock.now()
        token = secrets.token_urlsafe(TOKEN_BYTES)
        row = {
            "token": token,
            "file": name,
            "filename": filename,
            "content_type": content_type,
            "size": size,
            "job_id": job_id,
            "created_at": now,
            "expires_at": now + MEDIA_KEEP_S if job_id is None else None,
        }
        await self._database.write(lambda connection: connection.execute(_INSERT, row))
        return MediaLink(
            url=f"/api/v1/media/{token}",
            filename=filename,
            content_type=content_type,
            size=size,
            expires_at=now + MEDIA_KEEP_S,
        )


def _not_kept(error: OSError | StoreFull) -> CallFailed:
    """Why a file was not kept, without a path, which is nobody's business."""
    if isinstance(error, StoreFull):
        return MediaFull(f"media: the file could not be stored: {error.message}")
    if error.errno in _DISK_FAULTS:
        return MediaFull(f"media: the file could not be stored: {error.strerror}")
    return PluginFailed(f"media: the file cannot be read: {error.strerror}")


def safe_name(filename: str) -> str:
    """A name that is safe on any disk and in any header: no folders, no control characters, at most 200 bytes."""
    name = re.split(r"[/\\]", filename)[-1]
    name = "".join(c if c.isprintable() and c not in '"<>:|?*' else "_" for c in name).strip(" .")
    stem, dot, ending = name.rpartition(".")
    if dot and len(ending) <= 16:
        return _cut(stem, MAX_NAME_BYTES - len(ending.encode()) - 1) + dot + ending if stem else ending
    return _cut(name, MAX_NAME_BYTES) or "download"


def _cut(text: str, size: int) -> str:
    return text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore").rstrip(" .")


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return merged


def _write_file(path: Path, source: "bytes | str | os.PathLike[str]") -> None:
    """Copy, never move: the file is the plugin's own and may be wanted again."""
    with path.open("xb") as target:
        path.chmod(0o600)
        if isinstance(source, bytes):
            target.write(source)
        else:
            with Path(source).open("rb") as origin:
                shutil.copyfileobj(origin, target, 1 << 20)
        target.flush()
        os.fsync(target.fileno())
    sync_folder(path.parent)
