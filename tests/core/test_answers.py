"""What came of a POST: a class for programs, words for people."""

import errno
import os
import socket
import ssl
from collections.abc import Callable

import httpcore
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penelope.jobs import answers
from penelope.jobs.answers import CLASSES, Answer, Barred, NoSuchHost
from penelope.jobs.schedule import Verdict, verdict


@given(st.integers(100, 999), st.text())
def test_a_status_has_a_class_unless_it_delivers(status: int, location: str) -> None:
    """Of the classes that are documented; and in words that fit a log line."""
    answer = answers.of_status(status, location)

    assert status == answer.status
    assert (verdict(status) is Verdict.DELIVERED) == (answer.error is None) == (answer.error_class is None)
    if answer.error is not None:
        assert answer.error_class in CLASSES
        assert answer.error.startswith(f"answered {status}")
        assert answer.error.isascii()
        assert answer.error.isprintable()


@pytest.mark.parametrize(
    ("status", "word"),
    [(204, None), (302, "redirect"), (404, "http_4xx"), (429, "http_4xx"), (503, "http_5xx"), (700, "other")],
)
def test_classes_of_statuses(status: int, word: str | None) -> None:
    assert word == answers.of_status(status).error_class


def caused(outer: Exception, *inner: BaseException) -> Exception:
    """As libraries chain them."""
    for cause in inner:
        outer.__cause__ = cause
        if isinstance(cause, Exception):
            caused(cause)
    return outer


def system(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def grouped(*errors: Exception) -> Exception:
    """As Trio tells of several addresses."""
    error = OSError("all attempts to connect failed")
    error.__cause__ = ExceptionGroup("", errors)
    return caused(httpx.ConnectError(""), error)


ERRORS: list[tuple[Callable[[], Exception], Answer]] = [
    (
        lambda: caused(httpx.ConnectError(""), socket.gaierror(-2, "Name or service not known")),
        Answer(None, "no such host: Name or service not known", "dns"),
    ),
    (
        lambda: caused(httpx.ConnectError(""), caused(httpcore.ConnectError(""), NoSuchHost("no label"))),
        Answer(None, "no such host: no label", "dns"),
    ),
    (
        lambda: caused(httpx.ConnectError(""), Barred("not sent: it is so")),
        Answer(None, "not sent: it is so", "policy"),
    ),
    (lambda: grouped(system(errno.ECONNREFUSED)), Answer(None, "connection refused", "refused")),
    (
        lambda: grouped(system(errno.EHOSTUNREACH)),
        Answer(None, "cannot be reached: No route to host", "unreachable"),
    ),
    (
        lambda: caused(httpx.ReadError(""), system(errno.ECONNRESET)),
        Answer(None, "connection reset", "reset"),
    ),
    (lambda: caused(httpx.WriteError(""), system(errno.EPIPE)), Answer(None, "connection reset", "reset")),
    (lambda: httpx.ReadError(""), Answer(None, "connection reset", "reset")),
    (
        lambda: caused(httpx.ConnectError(""), ssl.SSLError(1, "handshake")),
        Answer(None, "TLS: handshake failed", "tls"),
    ),
    (
        lambda: httpx.RemoteProtocolError("illegal status line"),
        Answer(None, "broken answer: illegal status line", "broken"),
    ),
    (
        lambda: grouped(system(errno.ETIMEDOUT)),
        Answer(None, "no answer to the connection", "timeout"),
    ),
    (lambda: httpx.ConnectTimeout(""), Answer(None, "no answer in time", "timeout")),
    (lambda: ValueError("a\nb\tc"), Answer(None, "ValueError: a b c", "other")),
]


@pytest.mark.parametrize(("make", "answer"), ERRORS, ids=[answer.error for _, answer in ERRORS])
def test_a_failure_has_a_class_and_words(make: Callable[[], Exception], answer: Answer) -> None:
    """J57: each with its own short reason."""
    assert answer == answers.of_error(make())
    assert answer.error_class in CLASSES


@given(st.text(max_size=2000))
def test_words_fit_a_line(text: str) -> None:
    answer = answers.of_error(ValueError(text))
    assert answer.error is not None
    assert len(answer.error) <= answers.MAX_WORDS_CHARS
    assert not set(answer.error) & set("\n\r\t")


def test_causes_that_go_round_end() -> None:
    """Nothing keeps two errors from naming each other."""
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert "ValueError: one" == answers.of_error(one).error
