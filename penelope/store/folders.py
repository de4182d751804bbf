"""Names that a power cut does not take back: a file's sync keeps its bytes, only its folder's keeps its name."""

import os
from contextlib import suppress
from pathlib import Path


def make_folder(folder: Path) -> None:
    """Make it and what leads to it, for this user alone, if it is not there; it stays.

    Raises:
        OSError: it cannot be made.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # One that is there may be so only since a life that was killed before this sync.
    for path in missing or [folder]:
        sync_folder(path.absolute().parent)


def sync_folder(folder: Path) -> None:
    """Make the names in it durable.

    Where that cannot be asked for (no right to read it, a file system that knows no such thing), it is as it was.
    """
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
