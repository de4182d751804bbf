"""What the gateway passes on: contract, section 9."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penelope.errors import BadParameter, NotFound
from penelope.waker import passing

ADDRESS = "http://127.0.0.1:5101"


@pytest.mark.parametrize(
    "raw",
    [
        b"/p/alice/healthz",
        b"/p/alice/api/v2/pages",
        b"/p/alice/api/v1x",
        b"/p//api/v1/pages",
        b"/p/a%6cice/api/v1/pages",
        b"/p/alice/b/api/v1/pages",
        b"http://127.0.0.1:1/p/alice/api/v1/pages",
        b"//127.0.0.1:1/p/alice/api/v1/pages",
        b"/p/alice@127.0.0.1:1/api/v1/pages",
    ],
)
def test_nothing_but_a_persona_of_ours_can_be_named(raw: bytes) -> None:
    with pytest.raises(NotFound):
        passing.split(raw)


@pytest.mark.parametrize(
    "rest", ["/..", "/../metrics", "/a/./b", "/%2e%2E/x", "/.%2e", "/..%2fx", "/x%5c..%5Cy", "/x\\..\\y"]
)
def test_no_dot_segments(rest: str) -> None:
    with pytest.raises(BadParameter):
        passing.check_dots(b"/api/v1" + rest.encode())


@given(st.text(st.characters(codec="ascii", exclude_characters=" \n"), max_size=30))
def test_a_target_goes_on_as_it_was_written(rest: str) -> None:
    """Not one byte of it is changed."""
    name, target = passing.split(b"/p/alice/api/v1/" + rest.encode())

    assert ("alice", b"/api/v1/" + rest.encode()) == (name, target)
    assert target == passing.with_query(target, b"")
    assert target + b"?a=%20&b" == passing.with_query(target, b"a=%20&b")


def test_dots_in_a_name_are_no_dot_segment() -> None:
    passing.check_dots(b"/api/v1/media/..token..")
    passing.check_dots(b"/api/v1/main/plugin/a.b/c")


def test_headers_to_the_worker() -> None:
    given = [
        (b"Host", b"waker.example"),
        (b"Authorization", b"Bearer the-wakers"),
        (b"X-API-Key", b"the-wakers"),
        (b"Connection", b"close, X-Mine"),
        (b"X-Mine", b"1"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Expect", b"100-continue"),
        (b"TE", b"trailers"),
        (b"X-Lease", b"token"),
        (b"Accept-Encoding", b"gzip"),
        (b"X-Lease", b"twice"),
    ]

    assert [
        (b"host", b"127.0.0.1:5101"),
        (b"authorization", b"Bearer the-personas"),
        (b"x-forwarded-host", b"waker.example"),
        (b"x-forwarded-prefix", b"/p/alice"),
        (b"transfer-encoding", b"chunked"),
        (b"x-request-id", b"id"),
        (b"X-Lease", b"token"),
        (b"Accept-Encoding", b"gzip"),
        (b"X-Lease", b"twice"),
    ] == passing.to_worker(given, ADDRESS, "the-personas", "id", "alice")
    assert (b"x-request-id", b"mine") not in passing.to_worker(
        [(b"X-Request-Id", b"mine")], ADDRESS, "the-personas", "id", "alice"
    )


def test_one_word_about_one_length() -> None:
    """Chunks win; and no `Connection` takes the length away, or brings a header of the waker's with it."""
    two = [(b"Content-Length", b"3"), (b"Transfer-Encoding", b"chunked")]
    assert [] == passing.to_client(two)
    sent = dict(passing.to_worker(two, ADDRESS, "k", "id", "alice"))
    assert b"Content-Length" not in sent
    assert b"chunked" == sent[b"transfer-encoding"]

    given = [
        (b"Connection", b"Content-Length, X-Request-Id, Host"),
        (b"Content-Length", b"2"),
        (b"X-Request-Id", b"a"),
    ]
    sent = dict(passing.to_worker(given, ADDRESS, "k", "id", "alice"))
    assert (b"2", b"id", b"127.0.0.1:5101") == tuple(
        sent[name] for name in (b"Content-Length", b"x-request-id", b"host")
    )
    for version, headers, added in (
        ("2", [], True),
        ("2", [(b"content-length", b"2")], False),
        ("1.1", [], False),
    ):
        assert added == ((b"transfer-encoding", b"chunked") in passing.framed(headers, version))


def test_who_has_no_key_gets_none_added() -> None:
    assert b"authorization" not in dict(passing.to_worker([], ADDRESS, None, "id", "alice"))


@pytest.mark.parametrize("rest", [b"a%2Fb", b"", b"a/b", b"a?"])
def test_a_files_link_is_one_name_and_nothing_else(rest: bytes) -> None:
    assert passing.is_media("GET", b"/api/v1/media/t0-_")
    assert not passing.is_media("GET", b"/api/v1/media/" + rest)
    assert not passing.is_media("POST", b"/api/v1/media/goto")


def test_headers_to_the_client() -> None:
    given = [
        (b"Content-Type", b"a/b"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Set-Cookie", b"a"),
        (b"Set-Cookie", b"b"),
    ]

    assert [(b"content-type", b"a/b"), (b"set-cookie", b"a"), (b"set-cookie", b"b")] == passing.to_client(
        given
    )


def test_credentials() -> None:
    assert [] == passing.credentials([])
    assert ["Bearer k"] == passing.credentials([(b"X-Api-Key", b"k")])
    assert ["Bearer a"] == passing.credentials([(b"X-Api-Key", b"k"), (b"authorization", b"Bearer a")])


def test_media_tokens_are_not_logged() -> None:
    assert "/api/v1/media/…" == passing.logged(b"/api/v1/media/secret")
    assert "/api/v1/jobs/1" == passing.logged(b"/api/v1/jobs/1")


def test_what_a_proxy_before_the_waker_says_holds() -> None:
    """The outermost host, and all prefixes in their order."""
    given = [(b"Host", b"inner"), (b"X-Forwarded-Host", b"outer"), (b"X-Forwarded-Prefix", b"/penelope")]

    sent = dict(passing.to_worker(given, ADDRESS, "k", "id", "alice"))
    assert (b"outer", b"/penelope/p/alice") == (sent[b"X-Forwarded-Host"], sent[b"x-forwarded-prefix"])
