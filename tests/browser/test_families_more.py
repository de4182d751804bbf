"""The shipped families on a real page, continued: files, lists that load as they scroll, what an account posts."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.async_api import Error, Page
from playwright.async_api import TimeoutError as PlaywrightTimeout

from penelope.demo.accounts import RESIDENTS, account, following, latest_posts, shortcode_of
from penelope.demo.app import GRID
from penelope.families import instagram, web
from penelope.families.collecting import reader
from penelope.plugin import PluginError
from tests.browser.desk import Desk, Room, opened_room

MIB = 2**20
POST = shortcode_of("alice", 1)

# A list of 300 that keeps only what is in sight: 12 elements, used again and again.
VIRTUAL = """<style>#box { height: 240px; overflow: auto; position: relative }
.item { position: absolute; height: 20px }</style><div id=box><div id=room style="height: 6000px"></div></div><script>
const items = Array.from({length: 16}, () => room.appendChild(Object.assign(document.createElement("div"),
  {className: "item"})));
const draw = () => items.forEach((item, i) => {
  const n = Math.floor(box.scrollTop / 20) + i;
  item.style.top = n * 20 + "px"; item.hidden = n >= 300; item.className = n < 300 ? "item" : "spare";
  item.innerHTML = `<b>name ${n}</b><a href="/item/${n}">x</a>`;
});
box.onscroll = () => requestAnimationFrame(draw); draw();
</script>"""

# An endless page: 10 more whenever its end comes near.
ENDLESS = """<ul id=list></ul><script>
const more = () => { for (let i = 0; i < 10; i++) list.append(Object.assign(document.createElement("li"),
  {textContent: "item " + list.children.length, style: "height: 90px"})); };
more(); onscroll = () => { if (scrollY + innerHeight > document.documentElement.scrollHeight - 200) more(); };
</script>"""

# 5 items at once, 5 more with a placeholder's delay, inside of a shadow root.
SHADOW = """<div id=host></div><script>
const root = host.attachShadow({mode: "open"});
root.innerHTML = "<div style='height: 100px; overflow: auto'><ul></ul></div>";
const add = (n) => { for (let i = 0; i < n; i++) root.querySelector("ul").insertAdjacentHTML("beforeend",
  `<li data-id="${root.querySelectorAll("li").length}" style="height: 40px">in the shadow</li>`); };
add(5); setTimeout(() => add(5), 700);
</script>"""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Nothing to say."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in {"/virtual", "/endless", "/shadow"}:
            self._send(globals()[path[1:].upper()].encode(), "text/html; charset=utf-8")
        elif path == "/links":
            body = '<a id=new target=_blank href="/large.bin">new</a><a id=idle href="#x">idle</a>'
            self._send(f"{body}<a id=blob>blob</a><script>{BLOB}</script>".encode(), "text/html")
        elif path == "/redirect":
            self.send_response(302)
            self.send_header("Location", "/named")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif path == "/named":
            self._send(b"%PDF-1.4 not really", "application/pdf", 'inline; filename="a b.pdf"')
        elif path == "/large.bin":
            self._send(b"x" * (2 * MIB), "application/x-thing", "attachment")
        elif path == "/cut.bin":
            self._cut()
        elif path == "/slow.bin":
            self._slowly()
        else:
            self._send(b"nothing here", "text/plain", status=int(path[1:]) if path[1:].isdigit() else 404)

    def _send(self, body: bytes, kind: str, disposition: str | None = None, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if disposition:
            self.send_header("Content-Disposition", disposition)
        self.end_headers()
        self.wfile.write(body)

    def _cut(self) -> None:
        """Say that 1 MiB comes, send half, and hang up."""
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Disposition", "attachment")
        self.send_header("Content-Length", str(MIB))
        self.end_headers()
        self.wfile.write(b"x" * (MIB // 2))
        self.close_connection = True

    def _slowly(self) -> None:
        """64 KiB every 50 ms, without saying how much there is."""
        self.send_response(200)
        self.send_header("Content-Disposition", "attachment")
        self.send_header("Connection", "close")
        self.end_headers()
        stopping = self.server.stopping  # type: ignore[attr-defined]
        while not stopping.wait(0.05):
            self.wfile.write(b"x" * 65536)


BLOB = """blob.href = URL.createObjectURL(new Blob(["hello"], {type: "text/csv"})); blob.download = "made here.csv";"""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A browser that hangs up is no news."""


@contextmanager
def files() -> Iterator[str]:
    server = _Server(("127.0.0.1", 0), _Handler)
    server.stopping = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.stopping.set()  # type: ignore[attr-defined]
        server.shutdown()
        thread.join(10)
        server.server_close()


@pytest.fixture(scope="module")
def other() -> Iterator[str]:
    """A small site of files and of odd lists."""
    with files() as url:
        yield url


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    with opened_room() as opened:
        yield opened


@pytest.fixture
def desk(room: Room, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with room.desk(monkeypatch) as one:
        yield one


class TestPdf:
    def test_hands_over_a_pdf_of_the_page(self, desk: Desk) -> None:
        printed = desk.run(web.pdf, f"{desk.site}/alice/")
        (file,) = desk.host.files

        assert file.startswith(b"%PDF-")
        assert (200, "127.0.0.1.pdf", "application/pdf", len(file)) == (
            printed.status, printed.media.filename, printed.media.content_type, printed.media.size
        )  # fmt: skip

    def test_paper_and_direction_are_as_asked(self, desk: Desk) -> None:
        def sizes(**options: Any) -> set[bytes]:
            desk.run(web.pdf, f"{desk.site}/bob/", **options)
            return set(re.findall(rb"/MediaBox \[([^\]]+)\]", desk.host.files[0]))

        upright, lying = sizes(format="A5"), sizes(format="A5", landscape=True)
        (width, height) = next(iter(upright)).split()[2:]
        assert [height, width] == next(iter(lying)).split()[2:]
        assert upright != sizes(format="A4")

    def test_where_there_is_nothing_to_print_it_says_so(self, desk: Desk) -> None:
        desk.run(web.open_page, f"{desk.site}/status/404?body=0")

        assert 409 == desk.refusal(web.pdf).status


class TestDownload:
    def test_fetches_a_download_by_its_url(self, desk: Desk) -> None:
        fetched = desk.run(web.download, f"{desk.site}/p/{POST}/download")

        assert f"{desk.site}/p/{POST}/download" == fetched.url
        assert ("alice-1.png", "image/png") == (fetched.media.filename, fetched.media.content_type)
        assert desk.host.files[0].startswith(b"\x89PNG\r\n\x1a\n")

    def test_fetches_by_a_click_on_a_page(self, desk: Desk) -> None:
        fetched = desk.run(web.download, f"{desk.site}/p/{POST}/", selector="text=Download the picture")

        assert "alice-1.png" == fetched.media.filename
        assert f"{desk.site}/p/{POST}/" == desk.page.url

    def test_clicks_on_the_page_as_it_is(self, desk: Desk) -> None:
        desk.run(web.open_page, f"{desk.site}/p/{POST}/")

        assert "alice-1.png" == desk.run(web.download, selector=".button").media.filename

    @pytest.mark.parametrize(
        ("path", "kind", "start"),
        [(f"/p/{POST}/thumb.png", "image/png", b"\x89PNG"), ("/alice/", "text/html", b"<!doctype html>"),
         ("/static/icon.svg", "image/svg+xml", b"<svg")],
    )  # fmt: skip
    def test_saves_what_a_browser_would_show(self, desk: Desk, path: str, kind: str, start: bytes) -> None:
        fetched = desk.run(web.download, desk.site + path)

        assert kind == fetched.media.content_type
        assert desk.host.files[0].lstrip().startswith(start)

    def test_page_works_as_before_afterwards(self, desk: Desk) -> None:
        """What made a download of every answer is gone with the call."""
        desk.run(web.download, f"{desk.site}/alice/")

        assert 200 == desk.run(web.open_page, f"{desk.site}/alice/").status
        assert "about:blank" != desk.page.url

    def test_its_login_goes_along(self, desk: Desk) -> None:
        desk.run(web.open_page, f"{desk.site}/login")

        async def log_in(call: Any) -> None:
            await call.page.fill("[name=handle]", "alice")
            await call.page.click("button")

        desk.run(log_in)
        desk.run(web.download, f"{desk.site}/bob/")
        assert b"Log out alice" in desk.host.files[0]

    def test_redirects_are_followed_and_the_site_s_name_is_kept(self, desk: Desk, other: str) -> None:
        fetched = desk.run(web.download, f"{other}/redirect")

        assert (f"{other}/named", "a b.pdf", "application/pdf") == (
            fetched.url, fetched.media.filename, fetched.media.content_type
        )  # fmt: skip

    def test_a_new_window_s_download_and_a_blob_s_are_fetched(self, desk: Desk, other: str) -> None:
        large = desk.run(web.download, f"{other}/links", selector="#new")
        assert (2 * MIB, "large.bin") == (large.media.size, large.media.filename)

        made = desk.run(web.download, f"{other}/links", selector="#blob")
        assert ("made here.csv", "text/csv", [b"hello"]) == (
            made.media.filename, made.media.content_type, desk.host.files
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("status", "answered"), [(404, 404), (403, 403), (429, 429), (400, 502), (500, 502)]
    )
    def test_what_the_site_refuses_is_told(self, desk: Desk, other: str, status: int, answered: int) -> None:
        refusal = desk.refusal(web.download, f"{other}/{status}")

        assert answered == refusal.status
        assert f"the site answered {status} for the file" == refusal.message

    def test_an_answer_without_a_body_is_nothing_to_save(self, desk: Desk) -> None:
        assert 415 == desk.refusal(web.download, f"{desk.site}/status/204").status

    @pytest.mark.parametrize("way", ["url", "click", "window"])
    def test_a_file_above_the_cap_is_refused(self, desk: Desk, other: str, way: str) -> None:
        where = {"url": {"url": f"{other}/large.bin"}, "click": {"url": f"{other}/links", "selector": "#new"},
                 "window": {"url": f"{other}/slow.bin"}}[way]  # fmt: skip
        refusal = desk.refusal(web.download, **where, max_mb=1, seconds=20)

        assert (413, "the file has more than 1 MiB") == (refusal.status, refusal.message)
        assert [] == desk.host.files

    def test_one_that_never_ends_is_given_up_in_time(self, desk: Desk, other: str) -> None:
        refusal = desk.refusal(web.download, f"{other}/slow.bin", seconds=1)

        assert 408 == refusal.status
        assert "the download has not ended within 1 s" in refusal.message
        assert 200 == desk.run(web.open_page, f"{desk.site}/bob/").status

    def test_one_that_breaks_off_is_an_error_and_the_page_goes_on(self, desk: Desk, other: str) -> None:
        """Which the worker makes a 502 of."""
        with pytest.raises(Error, match=r"canceled|failed"):
            desk.run(web.download, f"{other}/cut.bin")

        assert [] == desk.host.files
        assert 200 == desk.run(web.open_page, f"{desk.site}/bob/").status

    def test_a_click_that_begins_none_is_told(self, desk: Desk, other: str) -> None:
        refusal = desk.refusal(web.download, f"{other}/links", selector="#idle", seconds=1)

        assert (408, "no download began within 1 s") == (refusal.status, refusal.message)

    def test_an_element_that_is_not_there_is_playwright_s_time_out(self, desk: Desk, other: str) -> None:
        with pytest.raises(PlaywrightTimeout):
            desk.run(web.download, f"{other}/links", selector="#nothing", seconds=0.5)

    def test_how_far_it_is_is_told(self, desk: Desk, other: str) -> None:
        desk.run(web.download, f"{other}/large.bin")

        assert (1.0, "2.0 of 2.0 MiB") == desk.host.progress_made[-1]

    def test_neither_url_nor_selector_is_refused(self, desk: Desk) -> None:
        assert 400 == desk.refusal(web.download).status


class TestCollect:
    def test_gathers_a_dialog_s_list_to_its_end(self, desk: Desk) -> None:
        found = desk.run(
            web.collect,
            "[role=dialog] li",
            {"handle": "a", "name": "span", "link": "a@href", "nothing": "h6"},
            f"{desk.site}/alice/following",
            patience=1,
        )

        assert ("end", 137) == (found.ended_by, len(found.items))
        assert list(following("alice")) == [item["handle"] for item in found.items]
        assert {
            "handle": "bob",
            "name": "Bob Brandt",
            "link": f"{desk.site}/bob/",
            "nothing": None,
        } == found.items[0]

    def test_limit_ends_it(self, desk: Desk) -> None:
        found = desk.run(
            web.collect, "[role=dialog] li a", {"handle": ""}, f"{desk.site}/alice/following", limit=30
        )

        assert ("limit", list(following("alice"))[:30]) == (
            found.ended_by, [item["handle"] for item in found.items]
        )  # fmt: skip

    @pytest.mark.parametrize("handle", ["throttled-joe", "stalled-joe"])
    def test_a_site_that_stops_giving_is_told_from_a_list_that_ends(self, desk: Desk, handle: str) -> None:
        found = desk.run(web.collect, "[role=dialog] li a", url=f"{desk.site}/{handle}/following", patience=1)

        assert ("site", 40) == (found.ended_by, len(found.items))

    def test_a_list_that_keeps_only_what_is_in_sight_is_gathered_whole(self, desk: Desk, other: str) -> None:
        found = desk.run(
            web.collect,
            ".item",
            {"name": "b", "link": "a@href"},
            f"{other}/virtual",
            limit=1000,
            patience=0.5,
        )

        assert "end" == found.ended_by
        assert [{"name": f"name {n}", "link": f"{other}/item/{n}"} for n in range(300)] == found.items

    def test_an_endless_page_is_bounded_by_rounds(self, desk: Desk, other: str) -> None:
        found = desk.run(web.collect, "li", url=f"{other}/endless", limit=100_000, rounds=7)

        assert ("rounds", 7) == (found.ended_by, found.rounds)
        assert [f"item {n}" for n in range(len(found.items))] == [item["text"] for item in found.items]

    def test_and_by_time(self, desk: Desk, other: str) -> None:
        found = desk.run(web.collect, "li", url=f"{other}/endless", limit=100_000, seconds=1)

        assert "time" == found.ended_by
        assert len(found.items) > 20

    def test_what_comes_late_and_in_a_shadow_root_is_found(self, desk: Desk, other: str) -> None:
        found = desk.run(web.collect, "li", {"id": "@data-id"}, f"{other}/shadow", patience=2)

        assert ([str(n) for n in range(10)], "end") == ([item["id"] for item in found.items], found.ended_by)

    def test_those_that_read_the_same_are_one_but_by_another_key(self, desk: Desk, other: str) -> None:
        def count(**options: Any) -> int:
            return len(desk.run(web.collect, "li", url=f"{other}/shadow", patience=1.5, **options).items)

        assert 1 == count()
        assert 10 == count(fields={"text": "", "id": "@data-id"}, key="id")
        assert 1 == count(fields={"text": "", "id": "@data-id"}, key="text")

    def test_nothing_there_is_an_empty_list(self, desk: Desk) -> None:
        found = desk.run(web.collect, "article.nothing", url=f"{desk.site}/bob/", patience=0.3)

        assert ([], "end") == (found.items, found.ended_by)

    def test_a_page_that_hangs_ends_it_in_time(self, desk: Desk) -> None:
        block = "const t = Date.now(); while (Date.now() - t < 6000);"
        url = f"data:text/html,<li style='height: 5000px'>one</li><script>onscroll = () => {{ {block} }}</script>"
        found = desk.run(web.collect, "li", url=url, seconds=2, patience=5)

        assert ("time", [{"text": "one"}]) == (found.ended_by, found.items)

    def test_progress_and_checkpoints_tell_what_was_found(self, desk: Desk) -> None:
        desk.run(web.collect, "[role=dialog] li a", {"handle": ""}, f"{desk.site}/alice/following", limit=60)

        fractions = [fraction for fraction, _ in desk.host.progress_made]
        assert sorted(fractions) == fractions
        assert (1.0, "60 items") == desk.host.progress_made[-1]
        assert desk.host.checkpoints

    def test_nothing_of_it_is_left_on_the_page(self, desk: Desk) -> None:
        desk.run(web.open_page, f"{desk.site}/alice/")
        globals_before = desk.run(names_of_window)
        desk.run(web.collect, ".grid a", patience=0.3)

        assert globals_before == desk.run(names_of_window)

    @pytest.mark.parametrize(
        ("selector", "fields"),
        [("li >>> a[", {"text": ""}), ("li", {"text": "a[["}), ("li", {"text": "a@@"})],
    )
    def test_a_selector_that_is_none_is_refused(
        self, desk: Desk, selector: str, fields: dict[str, str]
    ) -> None:
        refusal = desk.refusal(web.collect, selector, fields, f"{desk.site}/alice/following", patience=0.5)

        assert 400 == refusal.status

    def test_a_key_that_is_no_field_is_refused(self, desk: Desk) -> None:
        assert 400 == desk.refusal(web.collect, "li", key="id").status

    @pytest.mark.parametrize(
        ("text", "selector", "attribute"),
        [("", None, None), ("h2", "h2", None), ("a@href", "a", "href"), ("@data-id", None, "data-id"),
         ("a[title='x@y']", "a[title='x@y']", None), ("  h2 > b  @ id ".replace("@ ", "@"), "h2 > b", "id")],
    )  # fmt: skip
    def test_how_fields_are_read(self, text: str, selector: str | None, attribute: str | None) -> None:
        assert {"selector": selector, "attribute": attribute} == reader(text)

    @pytest.mark.parametrize("text", ["a@", "a@1", "a@b c"])
    def test_a_field_that_is_neither_is_refused(self, text: str) -> None:
        with pytest.raises(PluginError):
            reader(text)


async def names_of_window(call: Any) -> list[str]:
    page: Page = call.page
    names: list[str] = await page.evaluate("() => Object.getOwnPropertyNames(window).sort()")
    return names


class TestGetAccount:
    def test_reads_the_account_on_the_page_without_leaving_it(self, desk: Desk) -> None:
        desk.run(web.open_page, f"{desk.site}/alice/following")
        found = desk.run(instagram.get_account)

        assert ("alice", *RESIDENTS["alice"]) == (
            found.handle, found.name, found.posts, found.followers, found.following
        )  # fmt: skip
        assert f"{desk.site}/alice/following" == desk.page.url

    def test_opens_another_only_if_it_is_not_shown(self, desk: Desk) -> None:
        desk.run(web.open_page, f"{desk.site}/alice/following")
        desk.run(instagram.get_account, "alice")
        assert f"{desk.site}/alice/following" == desk.page.url

        assert "bob" == desk.run(instagram.get_account, "bob").handle
        assert f"{desk.site}/bob/" == desk.page.url

    def test_without_an_account_it_says_what_to_do(self, desk: Desk) -> None:
        assert 409 == desk.refusal(instagram.get_account).status

    @pytest.mark.parametrize(
        ("handle", "status"), [("missing-joe", 404), ("limited-joe", 429), ("broken-joe", 502)]
    )
    def test_what_the_site_refuses_is_an_error(self, desk: Desk, handle: str, status: int) -> None:
        assert status == desk.refusal(instagram.get_account, handle).status


def shortcodes(handle: str, limit: int = 1000) -> list[str]:
    owner = account(handle)
    assert owner is not None
    return [post.shortcode for post in latest_posts(owner, limit)]


class TestGetPosts:
    def test_lists_all_newest_first(self, desk: Desk) -> None:
        """57 of them: more than the page has at first."""
        found = desk.run(instagram.get_posts, "carol", 100)

        assert shortcodes("carol") == [post.shortcode for post in found.posts]
        assert ("carol", 57, True, "end") == (found.handle, found.total, found.complete, found.ended_by)
        newest = found.posts[0]
        assert (f"{desk.site}/p/{newest.shortcode}/", f"{desk.site}/p/{newest.shortcode}/thumb.png") == (
            newest.url, newest.picture
        )  # fmt: skip
        assert newest.caption

    @pytest.mark.parametrize("limit", [1, GRID, GRID + 1, 57, 58])
    def test_limit_cuts_the_list(self, desk: Desk, limit: int) -> None:
        found = desk.run(instagram.get_posts, "carol", limit)

        assert shortcodes("carol", limit) == [post.shortcode for post in found.posts]
        assert ("end" if limit >= 57 else "limit") == found.ended_by

    def test_few_posts_end_at_once(self, desk: Desk) -> None:
        found = desk.run(instagram.get_posts, "dave")

        assert (3, True, "end") == (len(found.posts), found.complete, found.ended_by)

    @pytest.mark.parametrize("manner", ["throttled", "stalled"])
    def test_stops_cleanly_when_the_site_stops_giving(
        self, desk: Desk, manner: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(instagram, "PATIENCE_MS", 800)
        handle = next(h for n in range(99) if (h := f"{manner}-{n}") and len(shortcodes(h)) > GRID)
        found = desk.run(instagram.get_posts, handle)

        assert (GRID, False, "site") == (len(found.posts), found.complete, found.ended_by)

    def test_takes_the_account_that_was_opened_before(self, desk: Desk) -> None:
        desk.run(instagram.open_account, "bob")

        assert "bob" == desk.run(instagram.get_posts).handle

    def test_private_account_is_refused(self, desk: Desk) -> None:
        refusal = desk.refusal(instagram.get_posts, "private-joe")

        assert (403, "the account private-joe is private: its posts are hidden") == (
            refusal.status, refusal.message
        )  # fmt: skip

    def test_tells_how_far_it_is_and_keeps_what_it_has(self, desk: Desk) -> None:
        desk.run(instagram.get_posts, "carol", 57)

        assert (1.0, "57 of 57") == desk.host.progress_made[-1]
        assert len(desk.host.progress_made) == len(desk.host.checkpoints) >= 2
