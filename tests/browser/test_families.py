"""The shipped families on a real page of the stand-in site, in the asyncio flavour that plugins are written in."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from playwright.async_api import Error, Page

from penelope import PluginError
from penelope.demo.accounts import RESIDENTS, THIN_LIST, following, shortcode_of
from penelope.families import instagram, web
from penelope.families.navigation import checked_url
from tests.browser.desk import Desk, Room, opened_room, serving


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    with opened_room() as opened:
        yield opened


@pytest.fixture
def desk(room: Room, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with room.desk(monkeypatch) as one:
        yield one


class TestOpen:
    def test_says_where_it_led_and_what_the_site_answered(self, desk: Desk) -> None:
        opened = desk.run(web.open_page, f"{desk.site}/alice")

        assert f"{desk.site}/alice/" == opened.url
        assert 200 == opened.status
        assert "Alice Amsel (@alice) · Ithaca" == opened.title

    @pytest.mark.parametrize("body", ["", "?body=0"])
    @pytest.mark.parametrize("code", [401, 404, 429, 500, 503])
    def test_a_failing_status_is_data_also_with_an_empty_body(self, desk: Desk, code: int, body: str) -> None:
        opened = desk.run(web.open_page, f"{desk.site}/status/{code}{body}")

        assert (f"{desk.site}/status/{code}{body}", code) == (opened.url, opened.status)
        assert (opened.title == "") == bool(body)

    def test_page_works_at_once_after_an_empty_answer(self, desk: Desk) -> None:
        for _ in range(10):
            assert 500 == desk.run(web.open_page, f"{desk.site}/status/500?body=0").status
            assert 200 == desk.run(web.open_page, f"{desk.site}/bob/").status

    def test_no_content_is_data_and_leaves_the_page_as_it_was(self, desk: Desk) -> None:
        desk.run(web.open_page, f"{desk.site}/alice/")

        assert 204 == desk.run(web.open_page, f"{desk.site}/status/204").status
        assert "Alice Amsel" in desk.run(web.read).title

    @pytest.mark.parametrize("url", ["about:blank", "data:text/html,<title>hello</title>"])
    def test_where_nobody_is_asked_there_is_no_status(self, desk: Desk, url: str) -> None:
        assert desk.run(web.open_page, url).status is None

    def test_lone_surrogate_in_a_title_becomes_a_character_that_json_has(self, desk: Desk) -> None:
        opened = desk.run(web.open_page, r"data:text/html,<script>document.title='a\ud800b'</script>")

        assert "a\ufffdb" == opened.title
        assert opened.model_dump_json()

    def test_unreachable_site_is_the_worker_s_to_name(self, desk: Desk) -> None:
        with pytest.raises(Error, match="ERR_TOO_MANY_REDIRECTS"):
            desk.run(web.open_page, f"{desk.site}/redirect-loop")

    def test_download_is_no_page(self, desk: Desk) -> None:
        refusal = desk.refusal(web.open_page, f"{desk.site}/p/{shortcode_of('alice', 1)}/download")

        assert 415 == refusal.status
        assert "is a download, not a page" in refusal.message

    def test_a_navigation_before_does_not_answer_for_this_one(self, desk: Desk) -> None:
        """Of which there is no request to be asked."""
        for _ in range(3):
            assert 500 == desk.run(web.open_page, f"{desk.site}/status/500?body=0").status
            assert 415 == desk.refusal(web.open_page, "data:application/octet-stream,x").status

    def test_what_the_page_left_loading_is_not_told(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Playwright would make an object, and a message, of each request that is broken off."""
        listened: list[str] = []
        on = Page.on

        def noted(page: Page, event: str, handler: Any) -> None:
            listened.append(event)
            on(page, event, handler)  # type: ignore[call-overload]

        monkeypatch.setattr(Page, "on", noted)
        desk.run(web.open_page, f"{desk.site}/alice/")
        assert not [event for event in listened if event.startswith(("request", "response"))], listened

    @pytest.mark.parametrize("plugin", [web.open_page, web.read, web.screenshot])
    def test_other_schemes_are_refused_before_the_page_moves(
        self, desk: Desk, plugin: Callable[..., Coroutine[Any, Any, object]]
    ) -> None:
        refusal = desk.refusal(plugin, "file:///etc/passwd")

        assert 400 == refusal.status
        assert "scheme 'file' " in refusal.message
        assert "about:blank" == desk.page.url


class TestCheckedUrl:
    """Parsed as the browser will parse it."""

    @pytest.mark.parametrize(
        ("url", "scheme"),
        [("FILE:/etc/passwd", "file"), ("chrome://settings", "chrome"), ("view-source:file:///x", "view-source"),
         ("javascript:alert(1)", "javascript"), (" \x01java\nscri\tpt:1", "javascript"), ("ftp://x/", "ftp"),
         ("devtools://devtools/", "devtools"), ("about:version", "about"), ("blob:http://x/y", "blob")],
    )  # fmt: skip
    def test_other_schemes_are_refused_by_name(self, url: str, scheme: str) -> None:
        with pytest.raises(PluginError, match=f"scheme '{scheme}' ") as caught:
            checked_url(url)

        assert 400 == caught.value.status

    @pytest.mark.parametrize(
        "url", ["example.org/x", "localhost:8200", "example.org:80/", "//example.org", "/x", ""]
    )
    def test_missing_scheme_is_told_how_to_write_it(self, url: str) -> None:
        with pytest.raises(PluginError, match="write https:// before it") as caught:
            checked_url(url)

        assert 400 == caught.value.status

    @pytest.mark.parametrize(
        "url", ["http://", "https:///x", "http://a:99999/", "http://[::1/", "http://:80/"]
    )
    def test_url_without_a_host_is_refused(self, url: str) -> None:
        with pytest.raises(PluginError, match="names no host, or no valid port"):
            checked_url(url)

    @pytest.mark.parametrize(
        ("url", "read_as"),
        [(" https://example.org/a b\n", "https://example.org/a b"), ("HTTP://EXAMPLE.org", "HTTP://EXAMPLE.org"),
         ("http://[::1]:8200/", "http://[::1]:8200/"), ("about:blank#x", "about:blank#x"),
         ("data:,file:///x", "data:,file:///x"), ("http:\\\\example.org", "http:\\\\example.org")],
    )  # fmt: skip
    def test_what_a_page_may_show_is_let_through(self, url: str, read_as: str) -> None:
        assert read_as == checked_url(url)


class TestRead:
    def test_gives_title_text_links_and_metadata(self, desk: Desk) -> None:
        read = desk.run(web.read, f"{desk.site}/alice/")

        assert "Alice Amsel (@alice) · Ithaca" == read.title
        assert "12,480 followers" in read.text
        assert web.Link(text="137 following", href=f"{desk.site}/alice/following") in read.links
        assert "en" == read.metadata.lang
        assert f"{desk.site}/alice/" == read.metadata.canonical
        assert read.metadata.description
        assert {
            "site_name": "Ithaca",
            "type": "profile",
            "title": "Alice Amsel",
        }.items() <= read.metadata.og.items()

    def test_without_a_url_it_reads_what_the_page_shows(self, desk: Desk) -> None:
        desk.run(web.open_page, f"{desk.site}/bob/")
        read = desk.run(web.read)

        assert (f"{desk.site}/bob/", None) == (read.url, read.status)
        assert "Bob Brandt" in read.text

    def test_text_is_cut_where_asked(self, desk: Desk) -> None:
        whole, cut = desk.run(web.read, f"{desk.site}/bob/"), desk.run(web.read, max_chars=12)

        assert (whole.text[:12], True) == (cut.text, cut.text_cut)
        assert not whole.text_cut

    def test_empty_answer_has_nothing_to_read(self, desk: Desk) -> None:
        read = desk.run(web.read, f"{desk.site}/status/404?body=0")

        assert (404, "", "", []) == (read.status, read.title, read.text, read.links)
        assert 409 == desk.refusal(web.read).status

    @pytest.mark.parametrize("page", ["", "<svg xmlns='http://www.w3.org/2000/svg'><a href='x'>y</a></svg>"])
    @pytest.mark.parametrize("kind", ["text/html", "image/svg+xml", "text/plain", "text/xml"])
    def test_odd_documents_are_readable(self, desk: Desk, kind: str, page: str) -> None:
        assert desk.run(web.read, f"data:{kind},{page}").status is None


class TestScreenshot:
    def test_hands_over_a_png_of_the_window(self, desk: Desk) -> None:
        picture = desk.run(web.screenshot, f"{desk.site}/alice/")
        (file,) = desk.host.files

        assert (1280, 720) == (picture.width, picture.height)
        assert file.startswith(b"\x89PNG\r\n\x1a\n")
        assert ("127.0.0.1.png", "image/png", len(file)) == (
            picture.media.filename, picture.media.content_type, picture.media.size
        )  # fmt: skip

    def test_full_page_is_as_high_as_the_page(self, desk: Desk) -> None:
        picture = desk.run(web.screenshot, f"{desk.site}/alice/", full_page=True)

        assert 1280 == picture.width
        assert picture.height > 1500

    def test_jpeg_has_its_size_read_too(self, desk: Desk) -> None:
        desk.run(web.open_page, f"{desk.site}/alice/")
        picture = desk.run(web.screenshot, type="jpeg")

        assert (1280, 720, None) == (picture.width, picture.height, picture.status)
        assert desk.host.files[0].startswith(b"\xff\xd8\xff")


class TestOpenAccount:
    def test_says_what_the_profile_shows(self, desk: Desk) -> None:
        name, posts, followers, follows = RESIDENTS["alice"]
        account = desk.run(instagram.open_account, "alice")

        assert ("alice", f"{desk.site}/alice/", name) == (account.handle, account.url, account.name)
        assert (posts, followers, follows) == (account.posts, account.followers, account.following)
        assert account.bio
        assert not account.is_private

    def test_private_account_is_told(self, desk: Desk) -> None:
        assert desk.run(instagram.open_account, "private-joe").is_private

    @pytest.mark.parametrize(
        ("handle", "status", "words"),
        [("missing-joe", 404, "there is no account missing-joe"),
         ("limited-joe", 429, "Please wait a few minutes before you try again."),
         ("broken-joe", 502, "Something went wrong")],
    )  # fmt: skip
    def test_what_the_site_refuses_is_an_error_with_its_words(
        self, desk: Desk, handle: str, status: int, words: str
    ) -> None:
        refusal = desk.refusal(instagram.open_account, handle)

        assert status == refusal.status
        assert words in refusal.message

    def test_base_url_may_end_with_a_slash(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PENELOPE_INSTAGRAM_BASE_URL", f"{desk.site}/")

        assert f"{desk.site}/bob/" == desk.run(instagram.open_account, "bob").url


class TestGetFollowing:
    def test_takes_the_account_that_was_opened_before(self, desk: Desk) -> None:
        desk.run(instagram.open_account, "alice")
        found = desk.run(instagram.get_following)

        assert ("alice", 137, True, "end") == (found.handle, found.total, found.complete, found.ended_by)
        assert list(following("alice")) == found.following

    def test_can_be_called_again_on_its_own_page(self, desk: Desk) -> None:
        desk.run(instagram.get_following, "bob")

        assert "bob" == desk.run(instagram.get_following).handle

    @pytest.mark.parametrize("path", ["about:blank", "/", "/missing-joe/", "/status/404?body=0"])
    def test_without_an_open_account_it_says_what_to_do(self, desk: Desk, path: str) -> None:
        desk.run(web.open_page, path if path == "about:blank" else desk.site + path)
        refusal = desk.refusal(instagram.get_following)

        assert 409 == refusal.status
        assert "call instagram/open-account before" in refusal.message

    def test_another_site_s_page_is_no_account(self, desk: Desk) -> None:
        with serving() as elsewhere:
            desk.run(web.open_page, f"{elsewhere}/alice/")

            assert 409 == desk.refusal(instagram.get_following).status

    @pytest.mark.parametrize("limit", [1, 20, 30, 137, 138])
    def test_limit_cuts_the_list(self, desk: Desk, limit: int) -> None:
        found = desk.run(instagram.get_following, "alice", limit)

        assert list(following("alice")[:limit]) == found.following
        assert (limit >= 137, "end" if limit >= 137 else "limit") == (found.complete, found.ended_by)

    def test_progress_rises_to_1_and_checkpoints_grow(self, desk: Desk) -> None:
        desk.run(instagram.get_following, "alice")
        fractions = [fraction for fraction, _ in desk.host.progress_made]
        (first, *_, last) = desk.host.checkpoints

        assert sorted(set(fractions)) == fractions
        assert (1.0, "137 of 137") == desk.host.progress_made[-1]
        assert '"following"' in str(first).replace("'", '"')
        assert len(str(first)) < len(str(last))

    def test_nobody_followed_is_a_whole_empty_list(self, desk: Desk) -> None:
        found = desk.run(instagram.get_following, "dave")

        assert ([], 0, True) == (found.following, found.total, found.complete)

    @pytest.mark.parametrize("manner", ["throttled", "stalled"])
    def test_a_site_that_stops_giving_ends_the_list_cleanly(
        self, desk: Desk, manner: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(instagram, "PATIENCE_MS", 500)
        found = desk.run(instagram.get_following, f"{manner}-joe")

        assert list(following(f"{manner}-joe")[:THIN_LIST]) == found.following
        assert (False, "site") == (found.complete, found.ended_by)

    def test_private_account_hides_it(self, desk: Desk) -> None:
        assert 403 == desk.refusal(instagram.get_following, "private-joe").status

    def test_unknown_account_is_not_found(self, desk: Desk) -> None:
        assert 404 == desk.refusal(instagram.get_following, "missing-joe").status
