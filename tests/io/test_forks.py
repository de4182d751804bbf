"""A fork of the mother is what the real command is."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.io.forks import INTERPRETERS, ROOT, Forked, Request

PROBE = """
import json, os, signal, sys, threading, time
blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
print(json.dumps({
    "words": sys.argv, "folder": os.getcwd(), "environment": dict(os.environ), "path": sys.path,
    "descriptors": sorted(os.listdir("/proc/self/fd"))[:-1], "input": os.readlink("/proc/self/fd/0"),
    "handlers": {number: str(signal.getsignal(number)) for number in sorted(signal.valid_signals())},
    "blocked": sorted(blocked), "group": os.getpgid(0), "session": os.getsid(0), "threads": threading.active_count(),
    "main": __name__, "zone": time.tzname, "limits": open("/proc/self/limits").read(),
    "encodings": [(one.encoding, one.errors, one.isatty()) for one in (sys.stdin, sys.stdout, sys.stderr)],
    "nice": os.nice(0), "mask": os.umask(0o22),
}), flush=True)
"""


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENELOPE_")}
    return kept | {"PYTHONPATH": str(ROOT)} | more


def forked(file: Path, *words: str, out: Path, **more: str) -> Forked:
    with out.open("wb") as written, Path(os.devnull).open("rb") as nothing:
        request = Request(
            program=os.fspath(file), words=words, environment=environment(**more), folder=str(file.parent)
        )
        return Forked(request, nothing.fileno(), written.fileno(), written.fileno())


def probed(text: str) -> Any:
    return json.loads(text)


def test_it_sees_what_the_real_one_sees(tmp_path: Path) -> None:
    file, out = tmp_path / "probe.py", tmp_path / "out"
    file.write_text(PROBE)
    more = {"TZ": "Asia/Tokyo", "MORE": "of it"}
    with out.open("wb") as written:
        subprocess.run(
            [sys.executable, file, "a", "b c"],
            env=environment(**more),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            check=True,
        )
    real = probed(out.read_text())
    one = forked(file, "a", "b c", out=out, **more)
    assert 0 == one.wait(20)
    assert real == probed(out.read_text())
    assert "Asia/Tokyo" == real["environment"]["TZ"]


def test_it_ends_as_the_real_one(tmp_path: Path) -> None:
    file, out = tmp_path / "program.py", tmp_path / "out"
    file.write_text("import sys; sys.exit(int(sys.argv[1]))")
    codes = [forked(file, str(code), out=out) for code in (0, 3, 75)]
    assert [0, 3, 75] == [one.wait(20) for one in codes]
    file.write_text("import atexit; atexit.register(print, 'at the end'); 1 / 0")
    assert 1 == forked(file, out=out).wait(20)
    assert "ZeroDivisionError" in out.read_text()
    assert out.read_text().endswith("at the end\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_signal_ends_it(tmp_path: Path, number: signal.Signals) -> None:
    file, out = tmp_path / "program.py", tmp_path / "out"
    file.write_text("import time; print('up', flush=True); time.sleep(60)")
    one, other = forked(file, out=out), forked(file, out=tmp_path / "other")
    until = time.monotonic() + 20
    while not out.read_text():
        assert time.monotonic() < until
    assert one.poll() is None
    with pytest.raises(TimeoutError):
        one.wait(0.01)
    one.send_signal(number)
    assert -number == one.wait(20)
    assert not Path(f"/proc/{one.pid}").exists()
    assert other.poll() is None
    other.kill()
    assert -signal.SIGKILL == other.wait(20)
    one.send_signal(number)  # as Popen: it is nobody's any more


def test_what_only_a_start_reads_is_refused(tmp_path: Path) -> None:
    assert INTERPRETERS
    with pytest.raises(AssertionError, match="PYTHONUTF8 is read at a start"):
        forked(tmp_path / "program.py", out=tmp_path / "out", PYTHONUTF8="0")
