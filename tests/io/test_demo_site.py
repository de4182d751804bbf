"""The stand-in site, over real sockets."""

import re
import socket
import struct
import zlib
from collections.abc import AsyncIterator
from functools import partial

import httpx
import pytest
import trio

from penelope.demo import accounts
from penelope.demo.site import serve_site
from penelope.errors import PortTaken

PAGES = ("/", "/alice/", "/alice/following", "/private-joe/", "/missing-joe/", "/login", "/status/503")


@pytest.fixture
async def site(nursery: trio.Nursery) -> AsyncIterator[httpx.AsyncClient]:
    base_url = await nursery.start(partial(serve_site, 0, list_latency_s=0))
    async with httpx.AsyncClient(base_url=base_url, trust_env=False, timeout=5) as client:
        yield client


async def names_followed(site: httpx.AsyncClient, handle: str) -> list[list[str]]:
    """The pages of the list, as the dialog asks for them."""
    pages: list[list[str]] = []
    after: int | None = 0
    while after is not None:
        answer = (await site.get(f"/api/{handle}/following", params={"after": after})).json()
        pages.append([account["handle"] for account in answer["accounts"]])
        after = answer["next"]
    return pages


def cookies_set(answer: httpx.Response) -> dict[str, str]:
    return {line.partition("=")[0]: line for line in answer.headers.get_list("set-cookie")}


async def test_port_0_takes_a_free_one_and_tells_the_base_url(nursery: trio.Nursery) -> None:
    base_url = await nursery.start(serve_site, 0)

    assert re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d+", base_url)
    async with httpx.AsyncClient(trust_env=False) as client:
        assert 200 == (await client.get(base_url)).status_code


async def test_taken_port_is_one_plain_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=rf"cannot listen on 127\.0\.0\.1 port {port}: "):
            await serve_site(port)


async def test_cancelling_ends_it_at_once_though_a_client_hangs(nursery: trio.Nursery) -> None:
    async with trio.open_nursery() as serving:
        base_url = await serving.start(serve_site, 0)
        port = httpx.URL(base_url).port
        assert port is not None
        hanging = await trio.open_tcp_stream("127.0.0.1", port)
        await hanging.send_all(b"GET /hang HTTP/1.1\r\nHost: site\r\n\r\n")
        await trio.sleep(0.05)
        began = trio.current_time()
        serving.cancel_scope.cancel()
    await hanging.aclose()

    assert trio.current_time() - began < 1
    assert base_url == await nursery.start(serve_site, port)  # the port is free again


async def test_the_same_handle_is_the_same_account_everywhere(nursery: trio.Nursery) -> None:
    urls = [await nursery.start(serve_site, 0) for _ in range(2)]
    async with httpx.AsyncClient(trust_env=False) as client:
        first, second = [(await client.get(f"{url}/mira.holm/")).text.replace(url, "") for url in urls]

    assert first == second
    assert "Mira Holm" in first


async def test_alice_follows_137_distinct_accounts_in_pages_of_20(site: httpx.AsyncClient) -> None:
    pages = await names_followed(site, "alice")

    assert [20, 20, 20, 20, 20, 20, 17] == [len(page) for page in pages]
    assert 137 == len({handle for page in pages for handle in page})


async def test_nobody_followed_is_one_empty_page(site: httpx.AsyncClient) -> None:
    assert [[]] == await names_followed(site, "dave")


@pytest.mark.parametrize("after", ["-1", "1.5", "x", "", "9" * 30, "²"])
async def test_a_bad_place_in_the_list_is_refused(site: httpx.AsyncClient, after: str) -> None:
    assert 400 == (await site.get("/api/alice/following", params={"after": after})).status_code


@pytest.mark.parametrize(
    ("handle", "status"),
    [("alice", 200), ("any.body-7", 200), ("private-joe", 200), ("missing-joe", 404), ("limited-joe", 429),
     ("broken-joe", 500), ("No Handle", 404), ("a" * 31, 404)],
)  # fmt: skip
async def test_a_handle_says_how_its_account_behaves(
    site: httpx.AsyncClient, handle: str, status: int
) -> None:
    assert status == (await site.get(f"/{handle}/")).status_code


async def test_too_many_requests_says_when_to_come_back(site: httpx.AsyncClient) -> None:
    assert "60" == (await site.get("/limited-joe/")).headers["retry-after"]


async def test_private_account_shows_neither_posts_nor_whom_it_follows(site: httpx.AsyncClient) -> None:
    page = (await site.get("/private-joe/following")).text
    hidden = accounts.shortcode_of("private-joe", 1)

    assert "This account is private" in page
    assert "/p/" not in page
    assert 'role="dialog"' not in page
    assert 404 == (await site.get("/api/private-joe/following")).status_code
    assert 404 == (await site.get(f"/p/{hidden}/")).status_code


@pytest.mark.parametrize("path", PAGES)
async def test_no_page_loads_anything_from_outside(site: httpx.AsyncClient, path: str) -> None:
    page = (await site.get(path)).text
    loaded = re.findall(r'(?:src|href|action)="([^"]*)"', page)
    outside = [url for url in loaded if not url.startswith(("/", str(site.base_url)))]

    assert loaded
    assert [] == outside


async def test_everything_a_page_loads_is_there(site: httpx.AsyncClient) -> None:
    page = (await site.get("/alice/following")).text
    loaded = set(re.findall(r'(?:src|href)="(/[^"]*)"', page))

    assert {200} == {(await site.get(url)).status_code for url in loaded}


async def test_download_is_a_real_png_under_its_own_name(site: httpx.AsyncClient) -> None:
    answer = await site.get(f"/p/{accounts.shortcode_of('alice', 3)}/download")
    kind, width, height = struct.unpack_from(">4sII", answer.content, 12)
    at = answer.content.index(b"IDAT")
    (length,) = struct.unpack_from(">I", answer.content, at - 4)
    pixels = zlib.decompress(answer.content[at + 4 : at + 4 + length])

    assert 'attachment; filename="alice-3.png"' == answer.headers["content-disposition"]
    assert (b"IHDR", 640, 640) == (kind, width, height)
    assert 640 * (1 + 3 * 640) == len(pixels)
    assert answer.content == (await site.get(f"/p/{accounts.shortcode_of('alice', 3)}/picture.png")).content


@pytest.mark.parametrize(
    "shortcode", ["nope", "AAAA", "é", accounts.shortcode_of("alice", 25), accounts.shortcode_of("alice", 0),
                  accounts.shortcode_of("missing-joe", 1), accounts.shortcode_of("alice", 3) + "="],
)  # fmt: skip
@pytest.mark.parametrize("part", ["", "download", "picture.png"])
async def test_unknown_post_is_not_found(site: httpx.AsyncClient, shortcode: str, part: str) -> None:
    assert 404 == (await site.get(f"/p/{shortcode}/{part}")).status_code


async def test_delay_holds_the_answer_back(site: httpx.AsyncClient) -> None:
    began = trio.current_time()
    answer = await site.get("/alice/", params={"delay": "0.3"})

    assert 200 == answer.status_code
    assert trio.current_time() - began >= 0.3


@pytest.mark.parametrize("delay", ["61", "-1", "nan", "inf", "soon", ""])
async def test_delay_that_is_no_number_up_to_60_is_refused(site: httpx.AsyncClient, delay: str) -> None:
    assert 400 == (await site.get("/", params={"delay": delay})).status_code


@pytest.mark.parametrize("code", [200, 404, 418, 500, 503, 599])
async def test_any_status_comes_with_and_without_a_body(site: httpx.AsyncClient, code: int) -> None:
    full, empty = await site.get(f"/status/{code}"), await site.get(f"/status/{code}?body=0")

    assert (code, code) == (full.status_code, empty.status_code)
    assert f"{code}" in full.text
    assert b"" == empty.content


async def test_hang_never_answers(site: httpx.AsyncClient) -> None:
    with pytest.raises(httpx.ReadTimeout):
        await site.get("/hang", timeout=0.3)


async def test_drip_comes_piece_by_piece(site: httpx.AsyncClient) -> None:
    async with site.stream("GET", "/drip?every=0.1&pieces=4") as answer:
        arrived = [trio.current_time() async for _ in answer.aiter_raw()]

    assert arrived[-1] - arrived[0] >= 0.4


async def test_redirect_loop_has_no_end(site: httpx.AsyncClient) -> None:
    with pytest.raises(httpx.TooManyRedirects):
        await site.get("/redirect-loop", follow_redirects=True)


async def test_login_sets_a_session_cookie_and_one_that_stays(site: httpx.AsyncClient) -> None:
    answer = await site.post("/login", data={"handle": "alice", "password": "x", "remember": "on"})
    cookies = cookies_set(answer)

    assert 303 == answer.status_code
    assert "Max-Age" not in cookies["ithaca_session"]
    assert "Expires" not in cookies["ithaca_session"]
    assert "Max-Age=2592000" in cookies["ithaca_remember"]


async def test_either_cookie_is_a_login(site: httpx.AsyncClient) -> None:
    for name in ("ithaca_session", "ithaca_remember"):
        assert "Log out alice" in (await site.get("/", headers={"Cookie": f"{name}=alice"})).text
    assert "Log in" in (await site.get("/")).text


async def test_login_of_nobody_is_refused(site: httpx.AsyncClient) -> None:
    answer = await site.post("/login", data={"handle": "missing-joe"})

    assert 403 == answer.status_code
    assert {} == cookies_set(answer)


async def test_a_cookie_cannot_write_html(site: httpx.AsyncClient) -> None:
    assert "<script>x" not in (await site.get("/", headers={"Cookie": "ithaca_session=<script>x"})).text


async def test_echo_headers_shows_what_was_sent(site: httpx.AsyncClient) -> None:
    echoed = (await site.get("/echo-headers", headers={"X-Odd": "yes"})).json()["headers"]

    assert ["x-odd", "yes"] in echoed
