"""Lines of the log, as a process of its own writes them on stderr."""

import json
import subprocess
import sys
from typing import Any

import pytest

BEGIN = """
import logging, sys, threading, structlog
from penelope import logs
logs.configure(sys.argv[1])
log = structlog.get_logger("penelope.http")
structlog.contextvars.bind_contextvars(request_id="mine")
"""
KEYS = ["path", "status", "event", "request_id", "level", "logger", "timestamp"]


def said(code: str, style: str = "json") -> list[str]:
    words = [sys.executable, "-c", BEGIN + code, style]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert 0 == done.returncode, done.stderr
    assert "" == done.stdout
    return done.stderr.splitlines()


def read(code: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said(code)]


def test_a_line_has_its_fields_in_their_order() -> None:
    (line,) = read('log.info("request", path="/ü", status=200)')
    assert KEYS == list(line)
    assert ("/ü", 200, "request", "mine") == tuple(line.values())[:4]
    assert ("info", "penelope.http") == (line["level"], line["logger"])
    assert line["timestamp"].endswith("Z")


def test_lines_of_libraries_are_among_ours_and_alike() -> None:
    lines = read(
        """
log.info("first", a=1)
logging.getLogger("some.library").warning("second %s", "way")
log.bind(b=2).error("third")
logging.getLogger("httpx").info("not this one")
log.debug("nor this one")
"""
    )
    assert ["first", "second way", "third"] == [line["event"] for line in lines]
    assert ["info", "warning", "error"] == [line["level"] for line in lines]
    assert ["penelope.http", "some.library", "penelope.http"] == [line["logger"] for line in lines]
    assert ["mine"] * 3 == [line["request_id"] for line in lines]
    assert 2 == lines[2]["b"]


def test_an_exception_is_one_line_with_its_traceback() -> None:
    caught, given = read(
        """
try:
    raise LookupError("a bug")
except LookupError as error:
    log.exception("it failed")
    kept = error
log.error("it failed before", exc_info=kept)
"""
    )
    for line in (caught, given):
        assert "error" == line["level"]
        assert line["exception"].startswith("Traceback")
        assert line["exception"].endswith("LookupError: a bug")


def test_what_is_no_json_is_written_all_the_same() -> None:
    (line,) = read('log.info("odd", what={1, 2}, bytes=b"x")')
    assert ("{1, 2}", "b'x'") == (line["what"], line["bytes"])


BREAKS = """
class Breaks(Exception):
    def __repr__(self): raise ZeroDivisionError
    __str__ = __repr__
circle = []
circle.append(circle)
"""


@pytest.mark.parametrize("style", ["json", "text"])
def test_what_cannot_be_written_is_no_error_of_who_logs_it(style: str) -> None:
    """A plugin's own objects; its line says who it was, and those after it are as ever."""
    code = """
odd = [Breaks(), {(1, 2): 3}, circle, 10**5000, "\\ud800"]
for number, what in enumerate(odd): log.warning("odd", what=what, where=f"here {number}")
log.warning("odd", exc_info=Breaks(), where="here 5")
log.warning(Breaks(), where="here 6")
log.info("then")
"""
    lines = said(BREAKS + code, style)
    for number in range(7):
        (line,) = [one for one in lines if f"here {number}" in one]
        assert "warning" in line
        assert "mine" in line
    assert "then" in lines[-1]
    assert style == "text" or 8 == len([json.loads(line) for line in lines])


@pytest.mark.parametrize("style", ["json", "text", "auto"])
def test_a_process_without_a_stderr(style: str) -> None:
    code = BEGIN + 'log.error("lost"); logging.getLogger("theirs").error("lost"); print("well")'
    words = ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-c", code, style]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (0, "well\n") == (done.returncode, done.stdout)


def test_lines_of_many_threads_are_whole() -> None:
    lines = read(
        """
def many(number):
    for _ in range(200):
        log.info("ours", number=number, filling="x" * 5000)
        logging.getLogger("theirs").warning("y" * 5000)
threads = [threading.Thread(target=many, args=(number,)) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    )
    assert 8 * 200 == sum(line["event"] == "ours" for line in lines)
    assert 8 * 200 * 2 == len(lines)


def test_text_for_people() -> None:
    first, *more = said(
        'log.warning("a thing", n=1)\ntry: 1/0\nexcept Exception: log.exception("failed")', "text"
    )
    assert "warning" in first
    assert "a thing" in first
    assert "n=1" in first
    assert "failed" in more[0]
    assert "ZeroDivisionError: division by zero" == more[-1]


def test_a_log_that_nobody_takes_ends_nothing() -> None:
    code = 'import os; os.close(2); log.error("lost"); sys.stderr = None; log.error("lost")'
    assert [] == said(code)
