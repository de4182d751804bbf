"""One worker a store: the kernel keeps the lock, so its holder's death gives it back (J7, J12)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penelope.errors import StoreHeld, StoreUnusable
from penelope.store.lock import hold_store

HOLD = """
import sys, time
from pathlib import Path
from penelope.store.lock import hold_store
with hold_store(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_holder_is_refused_and_told_the_pid(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert b"held\n" == other.stdout.readline()
        with pytest.raises(StoreHeld, match=f"pid {other.pid}$"), hold_store(tmp_path):
            raise AssertionError("held twice")
        other.kill()
        other.wait()
    with hold_store(tmp_path):  # at once
        assert f"{os.getpid()}\n" == (tmp_path / "penelope.lock").read_text()


def test_a_stale_file_that_names_a_living_stranger_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "penelope.lock").write_text(f"{os.getppid()}\n")
    with hold_store(tmp_path):
        assert f"{os.getpid()}\n" == (tmp_path / "penelope.lock").read_text()


def test_what_is_in_a_stale_file_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "penelope.lock").write_bytes(b"\xff" * 100)
    with hold_store(tmp_path):
        assert f"{os.getpid()}\n" == (tmp_path / "penelope.lock").read_text()


def test_it_is_given_back_at_the_end_of_the_block(tmp_path: Path) -> None:
    for _ in range(2):
        with hold_store(tmp_path):
            pass


def test_the_folder_is_made_and_others_cannot_look_into_it(tmp_path: Path) -> None:
    with hold_store(tmp_path / "a" / "store"):
        assert 0o700 == (tmp_path / "a" / "store").stat().st_mode & 0o777


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StoreUnusable, match="file/store is not writable"),
        hold_store(tmp_path / "file" / "store"),
    ):
        raise AssertionError("held")


def test_a_process_that_shares_it_does_not_keep_it(tmp_path: Path) -> None:
    """A child has what its parent has until it begins with its own program."""
    with hold_store(tmp_path):
        shared = [
            os.dup(int(fd.name))
            for fd in Path("/proc/self/fd").iterdir()
            if fd.is_symlink() and os.path.realpath(fd) == str(tmp_path / "penelope.lock")
        ]
    try:
        assert shared
        with hold_store(tmp_path):
            pass
    finally:
        for descriptor in shared:
            os.close(descriptor)


def test_a_child_process_does_not_inherit_it(tmp_path: Path) -> None:
    """Else a browser that outlives a worker that was killed would hold the store."""
    what = "import os; print([os.path.realpath(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')])"
    marker = tmp_path / "marker"
    with hold_store(tmp_path), marker.open("w") as inherited:
        os.set_inheritable(inherited.fileno(), True)  # what a child does inherit is seen
        said = subprocess.check_output([sys.executable, "-c", what], close_fds=False, text=True)
    assert str(marker) in said
    assert "penelope.lock" not in said
