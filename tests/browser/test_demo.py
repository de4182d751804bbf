"""The demo as a newcomer runs it: the real site, the real worker, a real browser."""

import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

WALK_S = 120


def start(out: Path, temporary: Path) -> subprocess.Popen[str]:
    """The demo in a process group of its own, so that a signal reaches the demo alone."""
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "penelope", "demo", "--out", str(out)],
        env={**os.environ, "TMPDIR": str(temporary), "NO_PROXY": "", "HTTP_PROXY": "http://127.0.0.1:1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def read_until(demo: subprocess.Popen[str], words: str) -> None:
    assert demo.stdout is not None
    assert any(words in line for line in demo.stdout), f"the demo never said {words!r}"


def left_behind(temporary: Path) -> list[str]:
    """What still runs with the demo's folder on its command line, and what is still in that folder."""
    lines = [" ".join(found.info["cmdline"] or ()) for found in psutil.process_iter(["cmdline"])]
    return [line for line in lines if str(temporary) in line and "pytest" not in line] + [
        str(path) for path in temporary.iterdir()
    ]


@pytest.fixture
def temporary() -> Iterator[Path]:
    # Short, unlike pytest's: sockets are made below it.
    with tempfile.TemporaryDirectory(prefix="pd-") as folder:
        yield Path(folder)


def test_every_step_works_and_nothing_is_left(tmp_path: Path, temporary: Path) -> None:
    demo = start(tmp_path / "out", temporary)
    said, _ = demo.communicate(timeout=WALK_S)
    picture = (tmp_path / "out" / "alice.png").read_bytes()

    assert 0 == demo.returncode, said
    assert b"\x89PNG" == picture[:4]
    assert f"PNG, {struct.unpack_from('>I', picture, 16)[0]} × " in said
    assert "signature verified" in said
    assert "Everything worked" in said
    assert "✗" not in said
    assert [] == left_behind(temporary)


@pytest.mark.parametrize("after", ["worker  ", "1. A plain call", "  running  ", "5. The end"])
def test_interrupted_anywhere_it_leaves_nothing(tmp_path: Path, temporary: Path, after: str) -> None:
    demo = start(tmp_path / "out", temporary)
    read_until(demo, after)
    demo.send_signal(signal.SIGINT)
    rest, _ = demo.communicate(timeout=60)

    assert 130 == demo.returncode, rest
    assert "✗ interrupted" in rest
    assert [] == left_behind(temporary)


def test_a_worker_that_dies_is_a_failed_walk(tmp_path: Path, temporary: Path) -> None:
    demo = start(tmp_path / "out", temporary)
    read_until(demo, "2. A job, polled")
    worker = next(child for child in psutil.Process(demo.pid).children() if "serve" in child.cmdline())
    worker.kill()
    began = time.monotonic()
    rest, _ = demo.communicate(timeout=60)

    assert 1 == demo.returncode, rest
    assert "✗ no answer from http://127.0.0.1:" in rest
    assert "The worker's last log lines:" in rest
    assert time.monotonic() - began < 20
    assert [] == left_behind(temporary)
