"""Workers' log files.

Source: contract, section 9 (`GET /personas/{name}/logs`).
"""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from penelope.waker import logfile


def test_a_log_that_grew_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its worker appends to it as ever; on a full disk it stays as it is, which ends nobody."""
    monkeypatch.setattr(logfile, "MAX_BYTES", 10)
    path = tmp_path / "alice.log"
    file, begin = logfile.open_to_append(path)
    with file:
        assert 0 == begin
        file.write(b"one\ntwo\nthree\n")
        logfile.trim(path)
        file.write(b"four\n")
    assert (["four"], b"one\ntwo\nthree\n") == (
        logfile.tail(path, 5),
        (tmp_path / "alice.log.1").read_bytes(),
    )

    (tmp_path / "alice.log.1").unlink()
    (tmp_path / "alice.log.1").symlink_to("/dev/full")
    path.write_bytes(b"five\nsix\nseven\n")
    with capture_logs() as logged:
        logfile.trim(path)
    assert ["a worker's log cannot be put aside"] == [line["event"] for line in logged]
    assert "No space left" in logged[0]["error"]
    assert ["six", "seven"] == logfile.tail(path, 2)
