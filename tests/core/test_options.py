"""Which headers make a call a job, and which are refused."""

import re
from urllib.parse import unquote

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penelope.errors import BadOptions
from penelope.jobs.delivery import receiver
from penelope.jobs.model import Polling, Way, Webhook
from penelope.jobs.options import (
    CALLBACK_HEADER,
    KEY_HEADER,
    LIMIT_HEADER,
    MAX_URL_CHARS,
    TTL_HEADER,
    JobOptions,
    parse,
)

HOSTLIKE = st.text("ab1-._:[]@%x\\ \x00é0", max_size=12) | st.from_regex(
    r"(xn--)?[a-z0-9_-]{1,5}([.-][0-9]{1,3}){0,4}", fullmatch=True
)
URLLIKE = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(
        ["http://", "https://", "HTTP://", "http:", "//", "ftp://", "javascript:", "", "http:///"]
    ),
    st.sampled_from(["", "u@", "u:p@", "u:p@v@", "@"]),
    HOSTLIKE
    | st.sampled_from(
        ["[::1]", "[::1]x", "127.0.0.1", "1.2.3", "999.9.9.9", "scheduler.lan", "[fe80::1%25e]"]
    ),
    st.sampled_from(["", ":", ":0", ":1", ":65535", ":65536", ":x", ":-1", ":\uff18\uff10"]),
    st.text("/?#a%0dD7fF\\ \t\r\n\x7fé&=", max_size=12) | st.just("/hooks/42"),
)


@given(URLLIKE | st.text())
@example("http://[::1]x/")
@example("http://xn--/")
@example("http://1-2-3-4/")
@example("http://h/%0d%0aX-Evil:1")
@example("http://h/\r\nX-Evil: 1")
@example("http://h/" + "a" * MAX_URL_CHARS)
def test_an_accepted_callback_can_be_called(url: str) -> None:
    """`X-Callback-Url` is absolute, http(s), has a host, a port in range and no control characters."""
    try:
        asked = parse([(CALLBACK_HEADER, url)])
    except BadOptions as exc:
        refused = exc
    else:
        assert JobOptions(way=Webhook(url)) == asked
        _can_be_called(url)
        return
    assert CALLBACK_HEADER in refused.message
    assert refused.message.isascii()
    assert refused.message.isprintable()


def _can_be_called(url: str) -> None:
    dialled = httpx.URL(url)
    assert dialled.scheme in {"http", "https"}
    assert dialled.raw_host
    assert dialled.port is None or 1 <= dialled.port <= 65535
    assert len(url) <= 2048
    assert not re.search(r"[\x00-\x20\x7f]", url)
    assert not re.search(r"[\x00-\x1f\x7f]", unquote(url))
    assert receiver(url).rpartition(":")[0]


@given(
    scheme=st.sampled_from(["http", "https"]),
    host=st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?(\.[a-z]{2,9}){0,3}", fullmatch=True)
    | st.ip_addresses(v=4).map(str)
    | st.ip_addresses(v=6).map("[{}]".format),
    port=st.none() | st.integers(1, 65535),
    path=st.text("abc/._~-!$&'()*+,;=:@", max_size=30),
    query=st.none() | st.text("abc=&/?", max_size=30),
)
def test_a_good_callback_is_taken_as_it_is(
    scheme: str, host: str, port: int | None, path: str, query: str | None
) -> None:
    """The client's URL is kept to the letter: it is what the `202` and the body show."""
    url = (
        f"{scheme}://{host}{'' if port is None else f':{port}'}/{path}{'' if query is None else '?' + query}"
    )

    assert JobOptions(way=Webhook(url)) == parse([(CALLBACK_HEADER, url)])


@given(
    st.integers(1, 600).flatmap(lambda whole: st.sampled_from([f"{whole}", f"0{whole}", f"{whole - 1}.5"]))
)
def test_a_plain_decimal_is_a_ttl(text: str) -> None:
    """`0 < ttl ≤ 600`, a plain decimal."""
    assert JobOptions(way=Polling(float(text))) == parse([(TTL_HEADER, text)])


BAD_TTLS = (
    "nan inf -inf Infinity 1_0 \uff16\uff10\uff10 \u0666\u0660 +5 -5 6e2 1e2 0x10 -0 0 0.0 000 600.001 601 "
    "1e999 . .5 5. 5s 600,600 1.2.3 99999999999999999999 true None 600\u00a0 ½"
).split(" ")


@pytest.mark.parametrize("text", [*BAD_TTLS, "", " ", " 5", "5 ", "5\n", "600, 600", "6 0"])
def test_anything_else_is_no_ttl(text: str) -> None:
    """`nan`, `inf`, `1e2`, empty are `400`."""
    with pytest.raises(BadOptions, match=TTL_HEADER):
        parse([(TTL_HEADER, text)])


@given(st.text(st.sampled_from("0159.eE+-_ naifx,\uff16\u0666\n"), max_size=6) | st.text())
def test_a_ttl_is_in_range_or_refused(text: str) -> None:
    """`0 < ttl ≤ 600`."""
    try:
        asked = parse([(TTL_HEADER, text)])
    except BadOptions:
        return
    assert asked is not None
    assert isinstance(asked.way, Polling)
    assert 0 < asked.way.ttl <= 600
    assert set(text) <= set("0123456789.")


CASED = [
    (name, cased) for name in (CALLBACK_HEADER, TTL_HEADER) for cased in (name, name.lower(), name.upper())
]
VALUES = st.sampled_from(["", "60", "http://h/", "bad"])


@given(st.lists(st.tuples(st.sampled_from(CASED), VALUES), max_size=4))
def test_one_header_once(headers: list[tuple[tuple[str, str], str]]) -> None:
    """Never both; repeated headers are `400`; a header that is there but empty is a bad value, not an absent one."""
    given_headers = [("Host", "x"), *((cased, value) for (_, cased), value in headers)]
    good: dict[tuple[str, str], Way] = {
        (CALLBACK_HEADER, "http://h/"): Webhook("http://h/"),
        (TTL_HEADER, "60"): Polling(60.0),
    }
    match headers:
        case []:
            assert parse(given_headers) is None
        case [((name, _), value)] if (name, value) in good:
            assert JobOptions(way=good[name, value]) == parse(given_headers)
        case _:
            with pytest.raises(BadOptions):
                parse(given_headers)


# A limit, which only a job may have

TTL = (TTL_HEADER, "60")


@given(st.integers(1, 86400).flatmap(lambda n: st.sampled_from([f"{n}", f"0{n}", f"{n - 1}.5"])))
def test_a_plain_decimal_is_a_limit(text: str) -> None:
    """`X-Job-Timeout: <seconds>`, by the rules of the ttl; a day at most."""
    assert JobOptions(way=Polling(60.0), limit_s=float(text)) == parse([TTL, (LIMIT_HEADER, text)])


@pytest.mark.parametrize("text", [*BAD_TTLS, "", " ", " 5", "5\n", "86400.1"])
def test_anything_else_is_no_limit(text: str) -> None:
    """J81: `400` each."""
    if text in {"600.001", "601"}:
        assert parse([TTL, (LIMIT_HEADER, text)]) is not None
        return
    with pytest.raises(BadOptions, match=LIMIT_HEADER):
        parse([TTL, (LIMIT_HEADER, text)])


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=255))
def test_a_key_is_visible_ascii(key: str) -> None:
    """1 to 255 visible ASCII characters, kept to the letter."""
    assert JobOptions(way=Polling(60.0), key=key) == parse([TTL, (KEY_HEADER.lower(), key)])


@pytest.mark.parametrize("key", ["", "a" * 256, "a b", " a", "a\t", "é", "\x7f", "a\n"])
def test_anything_else_is_no_key(key: str) -> None:
    """Empty, too long: `400`."""
    with pytest.raises(BadOptions, match=KEY_HEADER) as refused:
        parse([TTL, (KEY_HEADER, key)])
    assert refused.value.message.isprintable()


@pytest.mark.parametrize(("header", "value"), [(LIMIT_HEADER, "5"), (KEY_HEADER, "k")])
def test_twice(header: str, value: str) -> None:
    """Repeated headers are `400`."""
    with pytest.raises(BadOptions, match="more than once"):
        parse([TTL, (header, value), (header.lower(), value)])


@pytest.mark.parametrize(("header", "value"), [(LIMIT_HEADER, "5"), (KEY_HEADER, "k"), (KEY_HEADER, "")])
def test_what_is_for_jobs_on_a_plain_call(header: str, value: str) -> None:
    """On a call that is no job: `400`, naming the header."""
    with pytest.raises(BadOptions, match=f"{header} is for the start of a job"):
        parse([(header, value)])
