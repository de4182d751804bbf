"""One worker a store: a lock that its holder's death gives back, with the holder's pid to name.

Source: contract, section 8 ("One worker per store").
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from penelope.errors import StoreHeld, StoreUnusable
from penelope.store.folders import make_folder


@contextlib.contextmanager
def hold_store(folder: Path) -> Iterator[None]:
    """Make the folder if it is not there, and hold it while the block lasts.

    The kernel keeps the lock, not the file: a file left by a crash, whatever pid it names, stops nobody.

    Raises:
        StoreHeld: another worker holds it; the message names its pid.
        StoreUnusable: the folder cannot be made or written.
    """
    try:
        make_folder(folder)
        descriptor = os.open(folder / "penelope.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise StoreUnusable(f"store {folder} is not writable: {exc.strerror}") from exc
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            pid = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise StoreHeld(f"store {folder} is in use by the worker with pid {pid}") from exc
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as exc:
            raise StoreUnusable(f"store {folder} is not writable: {exc.strerror}") from exc
        yield
    finally:
        # By name: a child process that has only just begun may still have the descriptor, and the lock with it.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
