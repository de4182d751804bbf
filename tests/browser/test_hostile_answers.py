"""Answers at their worst: what a caller gets, in bounded time. That the next call works holds the fixture `desk`."""

import time
from pathlib import Path

import pytest
import trio

from penelope.demo.site import serve_site
from penelope.errors import PageLost
from penelope.pages.browser.driver import open_browser
from penelope.pages.browser.guard import Limits
from penelope.pages.browser.persona import BrowserOptions
from tests.browser.browsers import goto
from tests.browser.hostile_worker import MEDIA_MAX_MB, Desk

MIB = 2**20


def downloads(desk: Desk) -> list[Path]:
    """What the browser has on the disk of downloads."""
    return list(desk.temp.glob("*/downloads/*"))


def assert_nothing_left(desk: Desk) -> None:
    until = time.monotonic() + 5
    while found := downloads(desk):
        assert time.monotonic() < until, found
        time.sleep(0.05)


class TestSites:
    @pytest.mark.parametrize(
        ("path", "word"),
        [
            ("redirects", "redirects in a loop"),
            ("wire/nothing", "answered nothing"),
            ("wire/garbage", "did not answer in HTTP"),
            ("wire/huge-head", "headers too big"),
            ("wire/self-signed", "TLS"),
            ("wire/no-tls", ""),
        ],
    )
    def test_one_that_cannot_be_reached_is_a_502_and_the_next_goto_works(
        self, desk: Desk, path: str, word: str
    ) -> None:
        answer = desk.goto(path, timeout_ms=10_000)
        assert (502, "site") == (answer.status, answer["kind"])
        assert word in answer["error"]
        assert 200 == desk.goto("good", timeout_ms=10_000).status, "a goto right after a failed one"

    def test_a_login_of_http_is_data(self, desk: Desk) -> None:
        answer = desk.goto("login", timeout_ms=10_000)
        assert (200, 401) == (answer.status, answer["status"])

    @pytest.mark.parametrize(
        ("name", "title"),
        [
            ("utf-16", "Ünïcödé"),
            ("latin-1", "Café"),
            ("wrong", "Caf\ufffd"),
            ("unknown", "unknown"),
            ("nul", "a\ufffdb"),
            ("surrogate", "half \ufffd"),
        ],
    )
    def test_an_encoding_is_read_or_replaced(self, desk: Desk, name: str, title: str) -> None:
        assert title == desk.goto(f"encoding/{name}")["title"]
        assert title == desk.call("web/read")["title"]

    def test_a_service_workers_answer_is_data(self, desk: Desk) -> None:
        desk.goto("worker")
        assert (
            200 == desk.call("wait", function="document.title === 'worker ready'", timeout_ms=10_000).status
        )
        answer = desk.goto("worked", timeout_ms=10_000)
        assert (200, 418, "worked") == (answer.status, answer["status"], answer["title"])
        silent = desk.goto("worked-never", timeout_ms=1_500)
        assert 408 == silent.status
        desk.goto("good")
        desk.evaluate("navigator.serviceWorker.getRegistration().then((r) => r?.unregister())")


class TestDownloads:
    @pytest.mark.parametrize(
        ("name", "filename"),
        [
            ("", "file.bin"),
            ("folders", "_.._.._._etc_passwd"),
            ("windows", "_.._boot.ini"),
            ("quotes", "a_b'c.txt"),
            ("utf-8", "_gnp.exe__X-Evil_ 1"),
            ("dots", "download"),
            ("nothing", "download"),
        ],
    )
    def test_a_goto_answers_the_link_of_a_clean_name(self, desk: Desk, name: str, filename: str) -> None:
        answer = desk.goto(f"download?name={name}", timeout_ms=10_000)
        assert (200, 200) == (answer.status, answer["status"])
        link = answer["download"]
        assert (filename, 1_000) == (link["filename"], link["size"])
        assert b"\0" * 1_000 == desk.get(link["url"]).content
        assert_nothing_left(desk)

    def test_a_long_name_is_cut(self, desk: Desk) -> None:
        name = desk.goto("download?name=long", timeout_ms=10_000)["download"]["filename"]
        assert len(name) <= 200
        assert name.endswith(".pdf")

    def test_a_failure_that_calls_itself_an_attachment_is_data(self, desk: Desk) -> None:
        answer = desk.goto("download?status=404", timeout_ms=10_000)
        assert (200, 404, None) == (answer.status, answer["status"], answer["download"])

    def test_a_plugin_that_wants_a_page_is_a_415(self, desk: Desk) -> None:
        answer = desk.call("web/open", url=f"{desk.site}/hostile/download")
        assert 415 == answer.status
        assert_nothing_left(desk)

    def test_one_that_breaks_off_is_the_sites_fault(self, desk: Desk) -> None:
        answer = desk.goto("wire/cut-download", timeout_ms=10_000)
        assert (502, "site") == (answer.status, answer["kind"])
        assert_nothing_left(desk)

    def test_one_that_never_ends_is_ended_by_the_deadline(self, desk: Desk) -> None:
        answer = desk.goto("download-endless", timeout_ms=1_000)
        assert (408, "timeout") == (answer.status, answer["kind"])
        assert answer.took_s < 6
        assert_nothing_left(desk)

    def test_one_that_passes_the_cap_is_ended_while_it_loads(self, desk: Desk) -> None:
        answer = desk.goto("download-endless?fast=1", timeout_ms=30_000)
        assert (507, "worker") == (answer.status, answer["kind"])
        assert f"{MEDIA_MAX_MB} MB" in answer["error"]
        assert answer.took_s < 20
        assert_nothing_left(desk)

    def test_one_that_is_larger_than_the_cap_is_a_507(self, desk: Desk) -> None:
        answer = desk.goto(f"download?size={(MEDIA_MAX_MB + 4) * MIB}", timeout_ms=30_000)
        assert (507, "worker") == (answer.status, answer["kind"])
        assert_nothing_left(desk)

    def test_a_click_brings_what_the_page_made(self, desk: Desk) -> None:
        desk.goto("blob")
        answer = desk.call("click", selector="#save", expect_download=True, timeout_ms=10_000)
        link = answer["download"]
        assert "made.txt" == link["filename"]
        assert "made in the page" == desk.get(link["url"]).text

    def test_those_that_nobody_expects_are_dropped(self, desk: Desk) -> None:
        desk.goto("blob")
        assert 200 == desk.call("click", selector="#many", timeout_ms=10_000).status
        assert 200 == desk.goto("good", timeout_ms=10_000).status
        assert_nothing_left(desk)


class TestSizes:
    def test_a_document_of_100_mb_is_opened_and_not_brought(self, desk: Desk) -> None:
        before = desk.worker_rss()
        opened = desk.goto("large?mb=100", timeout_ms=60_000)
        assert (200, "large") == (opened.status, opened["title"])
        assert "text" == desk.call("text", timeout_ms=30_000)["text"]
        for answer in (
            desk.call("html", timeout_ms=30_000),
            desk.call("text", selector="pre", timeout_ms=30_000),
        ):
            assert 413 == answer.status, answer.body.keys()
            assert "characters" in answer["error"]
        assert desk.worker_rss() - before < 48 * MIB


async def test_a_document_that_takes_the_machines_memory_is_ended(tmp_path: Path) -> None:
    """200 kB of gzip inflate to 200 MB of tags, and those to some GB: with a lower limit than the worker's, for the
    sake of the time that it takes.
    """
    limits = Limits(renderer=500 * MIB)
    async with trio.open_nursery() as nursery:
        site = await nursery.start(serve_site, 0)
        async with open_browser(BrowserOptions(profile=tmp_path / "profile"), None, limits) as driver:
            tab = await driver.open_tab("main")
            with pytest.raises(PageLost, match="page main took more than 500 MB of memory and was ended"):
                await goto(tab, f"{site}/hostile/bomb", timeout_ms=60_000)
            await tab.heal()
            assert "about:blank" == tab.url, "it would do so again"
            assert "good" == await goto(tab, f"{site}/hostile/good")
        nursery.cancel_scope.cancel(reason="the test is over")
