"""Pages at their worst: what a caller gets, in bounded time. That the next call works holds the fixture `desk`."""

import time

import pytest

from tests.browser.hostile_worker import NEXT_S, Desk


class TestDialogs:
    @pytest.mark.parametrize(
        ("path", "title"), [("alert", "alert"), ("confirm", "confirm false"), ("prompt", "prompt null")]
    )
    def test_one_at_load_is_dismissed_and_noted(self, desk: Desk, path: str, title: str) -> None:
        since = desk.lines()
        answer = desk.goto(path, timeout_ms=10_000)
        assert (200, title) == (answer.status, answer["title"])
        assert [path] == [line["type"] for line in desk.wait_said("dialog answered", since)]

    def test_one_between_calls_is_dismissed(self, desk: Desk) -> None:
        since = desk.lines()
        assert 200 == desk.goto("alert-later").status
        desk.wait_said("dialog answered", since)
        assert "alert-later" == desk.evaluate("document.title")

    def test_one_that_asks_whether_to_leave_is_accepted(self, desk: Desk) -> None:
        desk.goto("stay")
        assert 200 == desk.call("type", selector="#field", text="typed").status  # without it no browser asks
        since = desk.lines()
        assert 200 == desk.goto("good", timeout_ms=10_000).status
        assert "beforeunload" == desk.wait_said("dialog answered", since)[0]["type"]

    def test_those_at_unload_hold_nothing_up(self, desk: Desk) -> None:
        desk.goto("stay-unload")
        assert 200 == desk.goto("good", timeout_ms=10_000).status

    def test_without_end_they_end_their_page(self, desk: Desk) -> None:
        answer = desk.goto("alerts", timeout_ms=20_000)
        assert (502, "page") == (answer.status, answer["kind"])
        assert "dialogs without end" in answer["error"]
        assert answer.took_s < 20


class TestLoads:
    @pytest.mark.parametrize("path", ["silent-frame", "silent-script", "never-ends", "wire/cut-page", "busy"])
    async def test_a_picture_can_be_taken_of_what_came(self, desk: Desk, path: str) -> None:
        """B13: it waits for the fonts of the page, which would wait for the load that was stopped."""
        assert desk.goto(path, timeout_ms=800).status == 408
        picture = desk.call("screenshot", timeout_ms=10_000)
        assert picture.status == 200, picture

    @pytest.mark.parametrize(
        "path", ["silent-picture", "silent-frame", "silent-script", "never-ends", "wire/cut-page"]
    )
    def test_one_that_does_not_end_is_a_408_and_the_document_stays(self, desk: Desk, path: str) -> None:
        answer = desk.goto(path, timeout_ms=1_500)
        assert (408, "timeout") == (answer.status, answer["kind"])
        assert answer.took_s < 5
        assert "/hostile" in desk.evaluate("location.href") or "cut-page" in path
        assert "complete" == desk.evaluate("document.readyState"), "its load was not stopped"

    def test_the_document_is_enough_when_asked_for(self, desk: Desk) -> None:
        answer = desk.goto("silent-picture", wait_until="domcontentloaded", timeout_ms=10_000)
        assert (200, "silent-picture") == (answer.status, answer["title"])
        assert "text" == desk.call("text", timeout_ms=5_000)["text"]

    @pytest.mark.parametrize("path", ["wire/slow-head", "wire/silence"])
    def test_one_that_does_not_begin_is_a_408_and_the_old_document_stays(self, desk: Desk, path: str) -> None:
        desk.goto("good")
        answer = desk.goto(path, timeout_ms=1_500)
        assert (408, "timeout") == (answer.status, answer["kind"])
        assert answer.took_s < 5
        assert "good" == desk.call("text", timeout_ms=5_000)["text"]

    def test_a_page_that_leaves_for_a_silent_site_can_be_read_after_one_408(self, desk: Desk) -> None:
        desk.goto("leaves-for-nowhere")
        time.sleep(0.4)
        first = desk.call("text", timeout_ms=1_500)
        assert first.status in (200, 408)
        assert "after" == desk.call("text", timeout_ms=5_000)["text"]


class TestMoves:
    def test_a_read_outlives_a_redirect_of_the_page(self, desk: Desk) -> None:
        desk.goto("moves-once", wait_until="commit")
        assert 200 == desk.call("web/read").status  # of the one or the other
        assert 200 == desk.call("wait", selector="#good", timeout_ms=10_000).status

    @pytest.mark.parametrize("path", ["refresh", "reload"])
    def test_one_that_does_not_stay_is_answered_in_time(self, desk: Desk, path: str) -> None:
        answer = desk.goto(path, timeout_ms=5_000)
        assert 200 == answer.status
        read = desk.call("evaluate", expression="document.title", timeout_ms=3_000)
        assert read.status in (200, 408, 502), read
        if read.status == 502:
            assert ("page", "page main went to another document while the call was running") == (
                read["kind"],
                read["error"],
            )
        assert read.took_s < NEXT_S
        assert 200 == desk.goto("good", timeout_ms=10_000).status

    def test_a_history_without_end_is_read(self, desk: Desk) -> None:
        assert 200 == desk.goto("history", timeout_ms=10_000).status
        assert "text" in desk.call("text", timeout_ms=10_000)["text"]

    def test_other_schemes_lead_nowhere(self, desk: Desk) -> None:
        assert 200 == desk.goto("schemes", timeout_ms=10_000).status
        assert desk.evaluate("location.href").endswith("/hostile/schemes")


class TestLoops:
    @pytest.mark.parametrize("path", ["busy", "busy-later", "busy-promises"])
    def test_a_loop_is_a_408_and_ended(self, desk: Desk, path: str) -> None:
        answer = desk.goto(path, timeout_ms=1_500)
        if answer.status == 200:
            time.sleep(0.3)
            answer = desk.call("evaluate", expression="1", timeout_ms=1_000)
        assert (408, "timeout") == (answer.status, answer["kind"])
        assert answer.took_s < NEXT_S

    def test_a_loop_in_evaluate_is_a_408(self, desk: Desk) -> None:
        desk.goto("good")
        answer = desk.call("evaluate", expression="for (;;);", timeout_ms=1_000)
        assert (408, "timeout") == (answer.status, answer["kind"])
        assert "good" == desk.evaluate("document.title"), "the document is lost"

    def test_a_loop_that_comes_back_ends_with_its_page(self, desk: Desk) -> None:
        desk.goto("busy-always")
        time.sleep(0.3)
        answer = desk.call("evaluate", expression="1", timeout_ms=1_000)
        assert 408 == answer.status
        assert answer.took_s < NEXT_S
        assert "about:blank" == desk.evaluate("location.href")

    def test_a_page_that_does_not_let_go_is_left_after_one_408(self, desk: Desk) -> None:
        desk.goto("busy-leaving")
        answer = desk.goto("good", timeout_ms=1_500)
        assert 408 == answer.status
        assert answer.took_s < NEXT_S
        assert 200 == desk.goto("good", timeout_ms=10_000).status


class TestFloods:
    @pytest.mark.parametrize("path", ["console", "fetches", "socket"])
    def test_the_page_is_read_all_the_same(self, desk: Desk, path: str) -> None:
        assert 200 == desk.goto(path, timeout_ms=10_000).status
        assert "after" == desk.call("text", timeout_ms=10_000)["text"]

    def test_popups_are_closed_and_counted(self, desk: Desk) -> None:
        since = desk.lines()
        answer = desk.goto("popups", timeout_ms=4_000)
        assert answer.status != 200 or answer["popups"] > 5, "the count is in the answer"
        assert answer.status in (200, 408)
        assert answer.took_s < 4 + NEXT_S
        assert desk.wait_said("popups closed", since)[0]["seen"] > 5
        desk.works()
        until = time.monotonic() + 10
        while len(desk.get("/api/v1/pages").json()["pages"]) > 1:
            assert time.monotonic() < until
            time.sleep(0.1)

    def test_dialogs_in_popups_hold_nothing_up(self, desk: Desk) -> None:
        answer = desk.goto("popup-dialogs", timeout_ms=2_000)
        assert answer.status in (200, 408)
        assert answer.took_s < 2 + NEXT_S


class TestPrompts:
    def test_print_does_not_hang(self, desk: Desk) -> None:
        assert "printed" == desk.goto("print", timeout_ms=10_000)["title"]

    def test_nobody_is_asked(self, desk: Desk) -> None:
        assert 200 == desk.goto("prompts", timeout_ms=10_000).status
        assert "after" == desk.call("text", timeout_ms=5_000)["text"]


class TestCrashes:
    def test_the_caller_is_told_once_and_the_page_is_at_its_place(self, desk: Desk) -> None:
        desk.goto("good")
        answer = desk.call("hostile/crash")
        assert (502, "page") == (answer.status, answer["kind"])
        assert answer.took_s < NEXT_S
        assert "good" == desk.evaluate("document.title")

    def test_one_that_crashes_wherever_it_is_opened_is_left(self, desk: Desk) -> None:
        answer = desk.goto("deep", timeout_ms=10_000)
        assert answer.status in (200, 502)
        assert answer.took_s < 10 + NEXT_S
