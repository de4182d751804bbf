"""Every primitive over HTTP: a real worker, a real browser, the stand-in site. What each option does, what is refused,
and that the page takes the next call.

Source: contract, section 3 (primitives).
"""

import base64
import re
import struct
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import trio

from penelope.demo.accounts import shortcode_of
from penelope.pages.primitives.model import MAX_RESULT_CHARS
from penelope.pages.primitives.table import PRIMITIVES
from tests.browser.desk import serving
from tests.io.worker_process import KEY, WorkerProcess

POST = shortcode_of("alice", 1)
FORM = """<!doctype html><title>form</title><body style="margin: 0">
<input id=text value=old><textarea id=area></textarea><div id=edit contenteditable></div>
<input id=box type=checkbox><input name=r id=one type=radio><input name=r id=two type=radio>
<select id=some multiple><option value=a>First<option value=b>Second<option value=c>Third</select>
<select id=single><option value=a>First<option value=b>Second</select>
<input id=file type=file multiple>
<style>#button { position: absolute; left: 400px; top: 100px; width: 100px; height: 100px; border: 0; padding: 0 }
</style>
<button id=button>press</button>
<button class=twin>twin</button><button class=twin>twin</button><button id=off disabled>off</button>
<p id=hidden style="display: none">hidden</p><pre id=said></pre>
<script>
const say = (event) => { said.textContent += [event.type, event.button, event.detail, event.offsetX, event.offsetY,
  ["alt", "ctrl", "meta", "shift"].filter((key) => event[key + "Key"]).join("+")].join(" ") + "\\n"; };
for (const type of ["click", "dblclick", "contextmenu", "mouseover"]) button.addEventListener(type, say);
let down; button.onmousedown = (e) => down = e.timeStamp; button.onmouseup = (e) => window.heldFor = e.timeStamp - down;
document.addEventListener("keydown", (e) => { window.keys = (window.keys ?? "") + e.key + " "; });
</script></body>"""


class Hands:
    """A client that works `main` with primitives."""

    def __init__(self, client: httpx.Client, site: str) -> None:
        self.client = client
        self.site = site

    def ask(self, name: str, /, **options: Any) -> httpx.Response:
        return self.client.post(f"/api/v1/main/{name}", json=options)

    def do(self, name: str, /, **options: Any) -> Any:
        """The answer, which must be a success, without the envelope's own."""
        answer = self.ask(name, **options)
        body = answer.json()
        assert (200, True, "main") == (answer.status_code, body.pop("success"), body.pop("page_id")), body
        return body

    def refused(self, status: int, name: str, /, **options: Any) -> str:
        """The sentence of a failure; the page takes the next call."""
        answer = self.ask(name, **options)
        body = answer.json()
        assert (status, False, "main") == (answer.status_code, body["success"], body["page_id"]), body
        assert 2 == self.js("1 + 1")
        return str(body["error"])

    def js(self, expression: str) -> Any:
        return self.do("evaluate", expression=expression)["result"]

    def show(self, html: str) -> None:
        self.do("goto", url="data:text/html;charset=utf-8," + quote(html))

    def file(self, link: dict[str, Any]) -> bytes:
        answer = self.client.get(link["url"])
        assert 200 == answer.status_code
        assert link["size"] == len(answer.content)
        return answer.content


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hands]:
    """One worker and one site for all of these tests."""
    worker = WorkerProcess(tmp_path_factory.mktemp("primitives"))
    try:
        trio.run(worker.start)
        headers = {"Authorization": f"Bearer {KEY}"}
        with (
            serving() as site,
            httpx.Client(base_url=worker.base_url, headers=headers, trust_env=False, timeout=60) as client,
        ):
            yield Hands(client, site)
    finally:
        worker.end()


@pytest.fixture
def hands(both: Hands) -> Hands:
    """On a page that has nothing of the test before."""
    both.do("goto", url="about:blank")
    return both


@pytest.fixture
def form(both: Hands) -> Hands:
    """On the form, a new document; by way of none."""
    both.show(FORM)
    return both


def size_of(png: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", png, 16)
    return width, height


class TestOfAll:
    @pytest.mark.parametrize("name", sorted(PRIMITIVES))
    def test_an_unknown_option_is_named(self, both: Hands, name: str) -> None:
        assert "parameter wait_untl is unknown" in both.refused(400, name, wait_untl="load")

    @pytest.mark.parametrize("timeout_ms", [0, -1, 600_001, "soon", None])
    def test_a_time_out_is_a_number_above_0(self, both: Hands, timeout_ms: object) -> None:
        assert "parameter timeout_ms" in both.refused(400, "text", timeout_ms=timeout_ms)

    @pytest.mark.parametrize(
        ("name", "more"),
        [("click", {}), ("fill", {"value": "x"}), ("type", {"text": "x"}), ("press", {"key": "a"}), ("hover", {}),
         ("select", {"value": "a"}), ("check", {}), ("scroll", {}), ("upload", {"files": []}), ("text", {}),
         ("html", {}), ("attribute", {"name": "id"}), ("wait", {}), ("screenshot", {})],
    )  # fmt: skip
    def test_of_an_element(self, form: Hands, name: str, more: dict[str, Any]) -> None:
        """One that is not there is a `408` in its time, a selector that is none a `400`, several under `strict` too."""
        error = form.refused(408, name, selector="#nothing", timeout_ms=200, **more)
        assert "200" in error or "0.2" in error
        for selector in ("a[", "xpath=//[", "nosuch=engine"):
            assert form.refused(400, name, selector=selector, timeout_ms=2000, **more)
        if "strict" in PRIMITIVES[name].options.model_fields:
            said = form.refused(400, name, selector=".twin", strict=True, timeout_ms=2000, **more)
            assert "strict mode violation" in said

    def test_a_page_that_is_not_there(self, both: Hands) -> None:
        assert 404 == both.client.post("/api/v1/nope/text", json={}).status_code


class TestMoving:
    def test_goto_says_where_it_led(self, hands: Hands) -> None:
        went = hands.do("goto", url=f"{hands.site}/alice")

        title = "Alice Amsel (@alice) · Ithaca"
        assert {
            "url": f"{hands.site}/alice/",
            "status": 200,
            "title": title,
            "download": None,
            "popups": 0,
        } == went

    @pytest.mark.parametrize("code", [401, 404, 500])
    @pytest.mark.parametrize("body", ["", "?body=0"])
    def test_what_the_site_says_is_data(self, hands: Hands, code: int, body: str) -> None:
        assert code == hands.do("goto", url=f"{hands.site}/status/{code}{body}")["status"]

    def test_a_url_that_is_a_download_comes_as_a_file(self, hands: Hands) -> None:
        went = hands.do("goto", url=f"{hands.site}/p/{POST}/download")

        assert ("alice-1.png", 200) == (went["download"]["filename"], went["status"])
        assert hands.file(went["download"]).startswith(b"\x89PNG")

    def test_the_referer_goes_along(self, hands: Hands) -> None:
        hands.do("goto", url=f"{hands.site}/echo-headers", referer=f"{hands.site}/bob/")

        assert f'["referer","{hands.site}/bob/"]' in hands.do("text")["text"]

    @pytest.mark.parametrize("wait_until", ["commit", "domcontentloaded", "load", "networkidle"])
    def test_it_waits_until(self, hands: Hands, wait_until: str) -> None:
        assert 200 == hands.do("goto", url=f"{hands.site}/bob/", wait_until=wait_until)["status"]

    def test_commit_does_not_wait_for_the_rest(self, hands: Hands) -> None:
        url = f"{hands.site}/drip?every=1&pieces=20"
        assert 200 == hands.do("goto", url=url, wait_until="commit", timeout_ms=5000)["status"]
        hands.refused(408, "goto", url=url, timeout_ms=500)

    def test_what_cannot_be_is_refused(self, hands: Hands) -> None:
        for url in (
            "file:///etc/passwd",
            "chrome://settings",
            "javascript:1",
            "view-source:http://x/",
            "data:text/html",
            "x",
            "",
        ):
            hands.refused(400, "goto", url=url)
        hands.refused(400, "goto")
        hands.refused(400, "goto", url=f"{hands.site}/", wait_until="later")

    def test_a_site_that_is_not_reached_is_told_from_one_that_is_slow(self, hands: Hands) -> None:
        unreached = hands.ask("goto", url="http://127.0.0.1:9/")
        assert (502, "site") == (unreached.status_code, unreached.json()["kind"])
        loop = hands.ask("goto", url=f"{hands.site}/redirect-loop")
        assert (502, "site") == (loop.status_code, loop.json()["kind"])
        hands.refused(408, "goto", url=f"{hands.site}/hang", timeout_ms=400)

    def test_back_and_forward_and_their_ends(self, hands: Hands) -> None:
        """Where there is no step, the page stays where it is."""
        assert 201 == hands.client.post("/api/v1/pages", json={"page_id": "fresh"}).status_code
        try:

            def move(name: str, **options: Any) -> tuple[str, int | None]:
                body = hands.client.post(f"/api/v1/fresh/{name}", json=options).json()
                return body["url"].removeprefix(hands.site), body["status"]

            assert ("about:blank", None) == move("back")
            assert ("about:blank", None) == move("forward")
            for path in ("/alice/", "/bob/"):
                assert (path, 200) == move("goto", url=hands.site + path)
            assert ("/bob/", None) == move("forward")
            assert "/alice/" == move("back")[0]
            assert "/bob/" == move("forward", wait_until="domcontentloaded")[0]
            assert [("/alice/"), ("about:blank"), ("about:blank")] == [move("back")[0] for _ in range(3)]
        finally:
            assert 200 == hands.client.delete("/api/v1/fresh").status_code

    def test_reload(self, hands: Hands) -> None:
        hands.do("goto", url=f"{hands.site}/bob/")
        hands.js("window.mark = 1")

        assert (f"{hands.site}/bob/", 200) == tuple(hands.do("reload")[name] for name in ("url", "status"))
        assert hands.js("window.mark") is None


class TestWait:
    @pytest.mark.parametrize(
        ("state", "script"),
        [("visible", "hidden.style.display = 'block'"), ("hidden", "button.hidden = true"),
         ("detached", "button.remove()"),
         ("attached", "document.body.insertAdjacentHTML('beforeend', '<i id=new hidden>')")],
    )  # fmt: skip
    def test_for_a_state_of_an_element(self, form: Hands, state: str, script: str) -> None:
        selector = {"visible": "#hidden", "attached": "#new"}.get(state, "#button")
        form.refused(408, "wait", selector=selector, state=state, timeout_ms=150)
        form.js(f"setTimeout(() => {{ {script} }}, 200), 0")
        form.do("wait", selector=selector, state=state, timeout_ms=5000)

    def test_for_a_url(self, hands: Hands) -> None:
        hands.do("goto", url=f"{hands.site}/alice/")
        hands.refused(408, "wait", url="**/bob/", timeout_ms=150)
        hands.js("setTimeout(() => location.href = '/bob/', 100), 0")
        hands.do("wait", url="**/bob/", timeout_ms=5000)
        hands.do("wait", url=f"{hands.site}/bob/", timeout_ms=5000)

    def test_for_a_load_state(self, hands: Hands) -> None:
        hands.do("goto", url=f"{hands.site}/drip?every=0.05&pieces=10", wait_until="commit")
        hands.do("wait", load_state="load", timeout_ms=10_000)
        assert "complete" == hands.js("document.readyState")
        hands.refused(400, "wait", load_state="commit")

    def test_for_a_function(self, form: Hands) -> None:
        form.refused(408, "wait", function="(n) => window.count > n", arg=3, timeout_ms=150)
        form.js("window.count = 4")
        form.do("wait", function="(n) => window.count > n", arg=3)
        form.do("wait", function="window.count === 4")

    @pytest.mark.parametrize("function", ["() => { throw new Error('no') }", "() => {", "nothing.there"])
    def test_a_function_that_throws_is_refused(self, form: Hands, function: str) -> None:
        form.refused(400, "wait", function=function, timeout_ms=2000)

    def test_for_some_time(self, form: Hands) -> None:
        before = form.js("performance.now()")
        form.do("wait", delay_ms=300)
        assert form.js("performance.now()") - before >= 300
        form.refused(408, "wait", delay_ms=60_000, timeout_ms=200)

    @pytest.mark.parametrize("options", [{}, {"selector": "a", "delay_ms": 1}, {"state": "hidden"}])
    def test_for_exactly_one_thing(self, hands: Hands, options: dict[str, Any]) -> None:
        assert "exactly one" in hands.refused(400, "wait", **options)


class TestClick:
    def test_says_where_the_page_is(self, hands: Hands) -> None:
        hands.do("goto", url=f"{hands.site}/alice/")
        clicked = hands.do("click", selector="text=Feed")

        assert {"url": f"{hands.site}/", "download": None, "popups": 0} == clicked

    @pytest.mark.parametrize(
        ("options", "said"),
        [({}, "click 0 1 50 50 "), ({"button": "right"}, "contextmenu 2 0 50 50 "),
         ({"click_count": 2}, "dblclick 0 2 50 50 "), ({"position": {"x": 7, "y": 9}}, "click 0 1 7 9 "),
         ({"modifiers": ["Shift", "Alt"]}, "click 0 1 50 50 alt+shift"),
         ({"selector": "text=press"}, "click 0 1 50 50 "), ({"force": True}, "click 0 1 50 50 ")],
    )  # fmt: skip
    def test_as_asked(self, form: Hands, options: dict[str, Any], said: str) -> None:
        form.do("click", **{"selector": "#button", **options})

        assert said in form.js("said.textContent").split("\n")

    def test_delay_is_between_down_and_up(self, form: Hands) -> None:
        form.do("click", selector="#button", delay=200)

        assert form.js("heldFor") >= 190

    def test_trial_does_everything_but_the_click(self, form: Hands) -> None:
        form.do("click", selector="#button", trial=True)
        assert "click" not in form.js("said.textContent")
        form.refused(408, "click", selector="#off", trial=True, timeout_ms=200)

    def test_what_cannot_be_clicked_is_waited_for(self, form: Hands) -> None:
        form.refused(408, "click", selector="#hidden", timeout_ms=200)
        form.refused(408, "click", selector="#off", timeout_ms=200)

    @pytest.mark.parametrize(
        "options",
        [{"button": "side"}, {"click_count": 0}, {"delay": -1}, {"modifiers": ["Hyper"]}, {"position": {"x": 1}},
         {"position": {"x": 1, "y": 2, "z": 3}}, {"selector": ""}, {"force": "maybe"}],
    )  # fmt: skip
    def test_what_is_none_is_refused(self, form: Hands, options: dict[str, Any]) -> None:
        form.refused(400, "click", **{"selector": "#button", **options})

    def test_a_download_that_it_begins(self, hands: Hands) -> None:
        hands.do("goto", url=f"{hands.site}/p/{POST}/")
        clicked = hands.do("click", selector="text=Download the picture", expect_download=True)

        assert (f"{hands.site}/p/{POST}/", "alice-1.png") == (clicked["url"], clicked["download"]["filename"])
        assert hands.file(clicked["download"]).startswith(b"\x89PNG")

    def test_a_download_has_the_type_that_its_name_says(self, hands: Hands) -> None:
        for name, content_type in (("a.csv", "text/csv"), ("a.unheard-of", "application/octet-stream")):
            hands.show(f"<a id=a download={name} href='data:text/plain,abc'>d</a>")
            link = hands.do("click", selector="#a", expect_download=True)["download"]
            assert (name, content_type) == (link["filename"], link["content_type"])

    def test_the_windows_that_it_opens_are_counted_and_closed(self, hands: Hands) -> None:
        """B34."""
        hands.show(
            "<button id=a onclick='for (let n = 0; n < 3; n++) window.open(\"about:blank\")'>open</button>"
        )
        assert 3 == hands.do("click", selector="#a")["popups"]
        assert {"popups": 3} == hands.do("press", selector="#a", key="Enter")
        assert 0 == hands.do("click", selector="body")["popups"]

    def test_a_download_that_it_does_not_begin(self, form: Hands) -> None:
        form.refused(408, "click", selector="#button", expect_download=True, timeout_ms=400)


class TestFields:
    def test_fill_sets_the_value_at_once(self, form: Hands) -> None:
        form.do("fill", selector="#text", value="né🦊")
        form.do("fill", selector="#area", value="two\nlines")
        form.do("fill", selector="#edit", value="edited")

        assert ["né🦊", "two\nlines", "edited"] == form.js("[text.value, area.value, edit.textContent]")
        form.do("fill", selector="#text", value="")
        assert "" == form.js("text.value")

    def test_type_goes_key_by_key(self, form: Hands) -> None:
        form.do("type", selector="#text", text="ab", delay=30)

        assert ("a b ", True) == (form.js("keys"), form.js("text.value").count("ab") == 1)

    def test_press_goes_to_the_element_or_to_what_has_focus(self, form: Hands) -> None:
        form.do("press", selector="#text", key="Control+A")
        form.do("press", key="Delete")
        form.do("press", key="x")
        assert "x" == form.js("text.value")
        form.do("press", selector="#text", key="Shift+Y", delay=20)
        assert form.js("text.value").endswith("Y") or form.js("text.value").startswith("Y")

    @pytest.mark.parametrize(
        ("name", "options"),
        [("fill", {"selector": "#button", "value": "x"}), ("press", {"key": "Nokey"}), ("press", {"key": ""}),
         ("press", {"selector": "#text", "key": "Nokey"}), ("fill", {"selector": "#text"}),
         ("check", {"selector": "#text"}), ("select", {"selector": "#text", "value": "a"}),
         ("upload", {"selector": "#text", "files": [{"name": "a", "content": ""}]}),
         ("type", {"selector": "#text", "text": "x", "delay": -1})],
    )  # fmt: skip
    def test_what_is_asked_of_the_wrong_element_is_refused(
        self, form: Hands, name: str, options: dict[str, Any]
    ) -> None:
        form.refused(400, name, timeout_ms=2000, **options)

    def test_hover(self, form: Hands) -> None:
        form.do("hover", selector="#button", position={"x": 5, "y": 6}, modifiers=["Shift"])
        assert "mouseover 0 0 5 6 shift" in form.js("said.textContent")
        form.refused(408, "hover", selector="#hidden", trial=True, timeout_ms=200)

    @pytest.mark.parametrize(
        ("selector", "way", "values"),
        [("#single", {"value": "b"}, ["b"]), ("#single", {"label": "Second"}, ["b"]), ("#single", {"index": 1}, ["b"]),
         ("#some", {"value": ["a", "c"]}, ["a", "c"]), ("#some", {"index": [0, 2]}, ["a", "c"]),
         ("#some", {"label": ["Third"]}, ["c"]), ("#some", {"value": []}, [])],
    )  # fmt: skip
    def test_select(self, form: Hands, selector: str, way: dict[str, Any], values: list[str]) -> None:
        assert {"values": values} == form.do("select", selector=selector, **way)
        assert values == form.js(
            f"[...document.querySelector('{selector}').selectedOptions].map((o) => o.value)"
        )

    def test_select_is_refused(self, form: Hands) -> None:
        for ways in ({}, {"value": "a", "index": 0}, {"index": "x"}):
            form.refused(400, "select", selector="#single", **ways)
        form.refused(408, "select", selector="#single", value="nope", timeout_ms=200)

    def test_check_and_uncheck(self, form: Hands) -> None:
        form.do("check", selector="#box")
        form.do("check", selector="#two")
        assert [True, False, True] == form.js("[box.checked, one.checked, two.checked]")
        form.do("check", selector="#box")
        form.do("check", selector="#one", force=True)
        form.do("check", selector="#box", checked=False)
        assert [False, True, False] == form.js("[box.checked, one.checked, two.checked]")

    def test_a_radio_button_cannot_be_unchecked(self, form: Hands) -> None:
        form.do("check", selector="#one")
        form.refused(400, "check", selector="#one", checked=False, timeout_ms=1000)

    def test_upload(self, form: Hands) -> None:
        files = [
            {"name": "a é.txt", "mime_type": "text/plain", "content": base64.b64encode(b"hello").decode()},
            {"name": "b.bin", "content": base64.b64encode(bytes(range(256))).decode()},
        ]
        form.do("upload", selector="#file", files=files)
        assert [["a é.txt", "text/plain", 5], ["b.bin", "application/octet-stream", 256]] == form.js(
            "[...file.files].map((f) => [f.name, f.type, f.size])"
        )
        assert "hello" == form.js("file.files[0].text()")
        form.do("upload", selector="#file", files=[])
        assert 0 == form.js("file.files.length")

    @pytest.mark.parametrize("content", ["not base64", "YQ", "YQ=é", "YQ==\n"])
    def test_what_is_no_base64_is_refused_by_name(self, form: Hands, content: str) -> None:
        error = form.refused(400, "upload", selector="#file", files=[{"name": "a.txt", "content": content}])

        assert "parameter files" in error
        assert "'a.txt'" in error

    def test_scroll(self, hands: Hands) -> None:
        hands.show("<body style='margin: 0'><p style='height: 5000px; width: 3000px'>tall<p id=end>end")
        there = hands.do("scroll", delta_y=700, delta_x=300)
        assert (300, 700) == (there["x"], there["y"])
        assert (there["width"], there["height"]) > (2999, 5000)
        assert hands.do("scroll", selector="#end")["y"] > 3000
        assert 0 == hands.do("scroll", delta_y=-100_000)["y"]
        for options in ({}, {"selector": "#end", "delta_y": 1}, {"delta_y": "far"}):
            hands.refused(400, "scroll", **options)


class TestReading:
    def test_text_is_what_a_visitor_reads(self, hands: Hands) -> None:
        hands.show(
            "<p>one  <b>two</b></p><p style='display: none'>not this</p><script>let no</script><p>three"
        )

        assert {"text": "one two\n\nthree"} == hands.do("text")
        assert {"text": "two"} == hands.do("text", selector="b")

    def test_html_is_the_document_s_or_what_is_inside(self, hands: Hands) -> None:
        hands.show("<!doctype html><title>t</title><p id=a>one <b>two</b>")
        whole = hands.do("html")["html"]

        assert whole.startswith("<!DOCTYPE html><html>")
        assert '<p id="a">one <b>two</b></p>' in whole
        assert {"html": "one <b>two</b>"} == hands.do("html", selector="#a")

    def test_attribute_is_as_it_is_written(self, hands: Hands) -> None:
        hands.show("<a id=a href='/x?1' hidden>x</a>")

        assert "/x?1" == hands.do("attribute", selector="#a", name="href")["value"]
        assert "" == hands.do("attribute", selector="#a", name="hidden")["value"]
        assert hands.do("attribute", selector="#a", name="title") == {"value": None}

    def test_half_a_character_becomes_one_that_json_has(self, hands: Hands) -> None:
        hands.show("<p id=a title=x>x</p>")
        hands.js(r"a.textContent = a.title = document.title = 'a\ud800b', 0")

        assert "a\ufffdb" == hands.do("text", selector="#a")["text"]
        assert "a\ufffdb" in hands.do("html")["html"]
        assert "a\ufffdb" == hands.do("attribute", selector="#a", name="title")["value"]
        assert "a\ufffdb" == hands.js("document.title").replace("\ud800", "\ufffd")

    @pytest.mark.parametrize(
        ("name", "options"),
        [("text", {"selector": "#a"}), ("html", {"selector": "#a"}), ("attribute", {"selector": "#a", "name": "title"}),
         ("evaluate", {"expression": f"'x'.repeat({MAX_RESULT_CHARS + 1})"})],
    )  # fmt: skip
    def test_what_is_too_much_is_measured_in_the_page(
        self, hands: Hands, name: str, options: dict[str, Any]
    ) -> None:
        hands.show(
            "<script id=a type=text/plain></script>"
        )  # which is never laid out: that alone would take gigabytes
        if name != "evaluate":
            hands.js(f"a.textContent = 'x'.repeat({MAX_RESULT_CHARS + 1}), a.title = a.textContent, 0")

        assert f"at most {MAX_RESULT_CHARS} are brought back" in hands.refused(413, name, **options)

    @pytest.mark.parametrize(
        ("expression", "result"),
        [("1 + 1", 2), ("() => 3", 3), ("async () => 4", 4), ("Promise.resolve(5)", 5), ("function () { return 6 }", 6),
         ("undefined", None), ("null", None), ("() => {}", None), ("NaN", None), ("1/0", None),
         ("2n ** 70n", str(2**70)),
         ("[1, 'a', null, {b: true}]", [1, "a", None, {"b": True}]), ("({a: undefined, b: 1})", {"b": 1}),
         ("new Date(0)", "1970-01-01T00:00:00.000Z"), ("Symbol('x')", None), ("-0", 0), ("'\\u2028'", "\u2028"),
         ("let a = 2; a * 4", 8), ("const f = () => 9; f()", 9), ("if (true) { 7 } else { 8 }", 7),
         ("1 // a comment", 1), ("document.querySelector('p')", {})],
    )  # fmt: skip
    def test_evaluate_answers_what_json_can_say(self, hands: Hands, expression: str, result: Any) -> None:
        hands.show("<p>x")

        assert result == hands.js(expression)

    def test_evaluate_calls_a_function_with_its_argument(self, hands: Hands) -> None:
        value = {"a": [1, None, "é🦊", {"b": 1e100}]}

        assert value == hands.do("evaluate", expression="(arg) => arg", arg=value)["result"]

    @pytest.mark.parametrize(
        ("expression", "said"),
        [("() => { throw new Error('not today') }", "not today"), ("nothing.there", "nothing is not defined"),
         ("() => { throw 'a string' }", "a string"), ("Promise.reject(new TypeError('later'))", "later"),
         ("() => {", "SyntaxError"), ("1 +", "SyntaxError"), ("(", "SyntaxError"), ("a b", "SyntaxError"),
         ("const a = {}; a.a = a; a", "circular"), ("(() => { const a = []; a.push(a); return a })()", "circular"),
         ("({toJSON() { throw new Error('no json') }})", "no json"), ("throw new Error('as a statement')", "statement"),
         ("() => { throw {toString() { throw 1 }} }", "")],
    )  # fmt: skip
    def test_what_a_script_throws_is_a_400_with_its_words(
        self, hands: Hands, expression: str, said: str
    ) -> None:
        assert said in hands.refused(400, "evaluate", expression=expression)

    def test_of_what_a_script_throws_the_beginning_is_brought_back(self, hands: Hands) -> None:
        """Half a gigabyte of it must not cross to be cut off here; nor half a character at the cut."""
        words = hands.refused(400, "evaluate", expression=r"() => { throw '\u{1f600}'.repeat(2 ** 27) }")

        assert "the script threw " + "\U0001f600" * 250 == words
        assert (
            "\ufffd"
            == hands.refused(400, "evaluate", expression=r"() => { throw 'x' + '\u{1f600}'.repeat(300) }")[-1]
        )

    def test_a_script_without_an_end_is_ended_in_time(self, hands: Hands) -> None:
        assert hands.refused(408, "evaluate", expression="() => { while (true); }", timeout_ms=500)
        hands.refused(408, "evaluate", expression="new Promise(() => {})", timeout_ms=300)


class TestFiles:
    def test_screenshot_of_the_window_the_page_an_element_and_a_part(self, hands: Hands) -> None:
        hands.show("<body style='margin: 0'><div id=a style='width: 50px; height: 40px; background: red'>"
                   "</div><p style='height: 3000px'>")  # fmt: skip

        def picture(**options: Any) -> tuple[int, int]:
            link = hands.do("screenshot", **options)["media"]
            assert ("screenshot.png", "image/png") == (link["filename"], link["content_type"])
            return size_of(hands.file(link))

        width, height = picture()
        assert picture(full_page=True)[1] > 3000 > height
        assert (50, 40) == picture(selector="#a")
        assert (30, 20) == picture(clip={"x": 1, "y": 2, "width": 30, "height": 20})
        assert (width, height) == picture(animations="disabled", omit_background=True)

    def test_screenshot_as_jpeg_of_a_quality(self, hands: Hands) -> None:
        hands.do("goto", url=f"{hands.site}/alice/")
        good, bad = (hands.do("screenshot", type="jpeg", quality=q)["media"] for q in (95, 5))

        assert hands.file(good).startswith(b"\xff\xd8\xff")
        assert good["size"] > bad["size"] > 0

    @pytest.mark.parametrize(
        "options",
        [{"type": "gif"}, {"quality": 101, "type": "jpeg"}, {"quality": 5},
         {"clip": {"x": 0, "y": 0, "width": 0, "height": 1}},
         {"clip": {"x": 1e6, "y": 1e6, "width": 5, "height": 5}}, {"animations": "off"}],
    )  # fmt: skip
    def test_screenshots_that_cannot_be(self, hands: Hands, options: dict[str, Any]) -> None:
        hands.refused(400, "screenshot", **options)

    def test_pdf(self, hands: Hands) -> None:
        hands.show("<style>p { margin: 0; height: 4cm }</style>" + "<p>x</p>" * 20)

        def box(**options: Any) -> tuple[bytes, int]:
            link = hands.do("pdf", **options)["media"]
            assert ("page.pdf", "application/pdf") == (link["filename"], link["content_type"])
            printed = hands.file(link)
            assert printed.startswith(b"%PDF-")
            found = re.search(rb"/MediaBox \[0 0 ([^\]]+)\]", printed)
            assert found is not None
            return found[1], len(re.findall(rb"/Type /Page\b(?!s)", printed))

        assert box(format="A4")[0] != box(format="Letter")[0]
        width, height = box(format="A5")[0].split()
        assert [height, width] == box(format="A5", landscape=True)[0].split()
        assert [b"144", b"288"] == [
            number.partition(b".")[0] for number in box(width="2in", height="4in")[0].split()
        ]
        whole = box(format="A6")[1]
        assert 1 == box(format="A6", page_ranges="1")[1] < whole
        assert (
            box(format="A6", scale=0.5)[1]
            < whole
            < box(format="A6", margin={"top": "9cm", "bottom": "3cm"})[1]
        )

    @pytest.mark.parametrize(
        "options",
        [{"format": "A99"}, {"width": "wide"}, {"scale": 3}, {"page_ranges": "x"}, {"margin": {"top": "x"}},
         {"margin": {"middle": "1cm"}}],
    )  # fmt: skip
    def test_pdfs_that_cannot_be(self, hands: Hands, options: dict[str, Any]) -> None:
        hands.refused(400, "pdf", **options)


class TestKeeping:
    def names(self, hands: Hands, **options: Any) -> dict[str, str]:
        return {one["name"]: one["value"] for one in hands.do("cookies", **options)["cookies"]}

    def test_cookies_are_set_read_and_cleared(self, hands: Hands) -> None:
        site = hands.site
        hands.do("set-cookies", clear=True)
        assert {} == self.names(hands)
        here = {"name": "a", "value": "1", "url": site, "httpOnly": True, "sameSite": "Strict"}
        there = {
            "name": "b",
            "value": "é",
            "domain": "example.org",
            "path": "/x",
            "secure": True,
            "expires": 4e9,
        }
        hands.do("set-cookies", cookies=[here, there])

        assert {"a": "1", "b": "é"} == self.names(hands)
        assert {"a": "1"} == self.names(hands, urls=[site])
        assert {"b": "é"} == self.names(hands, urls=["https://example.org/x/y"])
        (cookie,) = hands.do("cookies", urls=[site])["cookies"]
        assert (True, "Strict", -1) == (cookie["httpOnly"], cookie["sameSite"], cookie["expires"])
        hands.do("goto", url=f"{site}/echo-headers")
        assert '["cookie","a=1"]' in hands.do("text")["text"]
        hands.do("set-cookies", clear=True, cookies=[{"name": "c", "value": "", "url": site}])
        assert {"c": ""} == self.names(hands)

    def test_a_login_by_form_is_among_them(self, hands: Hands) -> None:
        hands.do("set-cookies", clear=True)
        hands.do("goto", url=f"{hands.site}/login")
        hands.do("fill", selector="[name=handle]", value="alice")
        hands.do("click", selector="main button")

        assert {"ithaca_session": "alice", "ithaca_remember": "alice"} == self.names(hands)
        hands.do("set-cookies", clear=True)

    @pytest.mark.parametrize(
        "cookie",
        [{"name": "a", "value": "1"}, {"name": "a", "value": "1", "url": "http://x/", "domain": "x"},
         {"name": "a", "value": "1", "url": "nowhere"}, {"name": "a", "value": "1", "domain": "x"},
         {"name": "a", "value": "1", "url": "http://x/", "sameSite": "Maybe"}, {"value": "1", "url": "http://x/"},
         {"name": "a", "value": "1", "url": "about:blank"},
         {"name": "a", "value": "1", "url": "http://x/", "expires": -5}],
    )  # fmt: skip
    def test_cookies_that_cannot_be(self, hands: Hands, cookie: dict[str, Any]) -> None:
        hands.refused(400, "set-cookies", cookies=[cookie])

    @pytest.mark.parametrize("kind", ["local", "session"])
    def test_storage_is_read_and_changed(self, hands: Hands, kind: str) -> None:
        hands.do("goto", url=f"{hands.site}/bob/")
        hands.do("storage", kind=kind, clear=True)

        assert {"a": "1", "b": "é🦊"} == hands.do("storage", kind=kind, set={"a": "1", "b": "é🦊"})["items"]
        assert "1" == hands.js(f"{kind}Storage.getItem('a')")
        assert {"b": "2"} == hands.do("storage", kind=kind, remove=["a", "none"], set={"b": "2"})["items"]
        hands.js(f"{kind}Storage.setItem('c', 'x\\ud800')")
        assert {"b": "2", "c": "x\ufffd"} == hands.do("storage", kind=kind)["items"]
        assert {"d": "4"} == hands.do("storage", kind=kind, clear=True, set={"d": "4"})["items"]
        assert {} == hands.do("storage", kind=kind, clear=True)["items"]

    def test_local_and_session_are_apart_and_the_origin_s_own(self, hands: Hands) -> None:
        hands.do("goto", url=f"{hands.site}/bob/")
        hands.do("storage", set={"a": "1"})

        assert {} == hands.do("storage", kind="session")["items"]
        hands.do("goto", url=hands.site.replace("127.0.0.1", "localhost") + "/bob/")
        assert {} == hands.do("storage")["items"]

    def test_storage_that_cannot_be(self, hands: Hands) -> None:
        hands.refused(400, "storage", kind="cookie")
        hands.refused(400, "storage", set={"a": 1})
        assert "storage" in hands.refused(409, "storage").lower()  # about:blank has none
        hands.do("goto", url=f"{hands.site}/bob/")
        error = hands.refused(413, "storage", set={"a": "x" * 6_000_000})
        assert "storage" in error.lower()
