"""Section 2: plugin calls."""

from typing import Any

import httpx
import pytest
import trio

from tests.spec.receiver import URL
from tests.spec.world import Life, World, live

PLUGIN = "/api/v1/main/plugin/test"


async def test_get_and_post_are_one_call(life: Life) -> None:
    """Parameters come from the query string on GET, from the JSON object on POST."""
    posted = await life.call("echo", text="é😀/<", n=2**40)
    got = await life.http.get(f"{PLUGIN}/echo", params={"text": "é😀/<", "n": str(2**40)})
    assert (200, posted.text) == (got.status_code, got.text)
    assert {"success": True, "page_id": "main", "text": "é😀/<", "n": 2**40, "job": False} == posted.json()
    assert ["success", "page_id"] == list(posted.json())[:2]


@pytest.mark.parametrize("body", [b"", b" \n", b"{}"])
async def test_an_empty_body_is_no_parameters(life: Life, body: bytes) -> None:
    """An empty body is `{}`."""
    answer = await life.http.post(
        f"{PLUGIN}/echo", content=body, headers={"Content-Type": "application/json"}
    )
    assert (200, "hello") == (answer.status_code, answer.json()["text"])


BAD_PARAMETERS = [
    ("test/echo", {"n": "many"}, "n"),
    ("test/echo", {"nn": 1}, "nn"),
    ("test/fail", {}, "how"),
    ("test/echo", {"text": None}, "text"),
]


@pytest.mark.parametrize(("name", "body", "named"), BAD_PARAMETERS)
async def test_a_bad_parameter_is_400_and_named(
    life: Life, name: str, body: dict[str, Any], named: str
) -> None:
    """A bad, missing or unknown parameter is `400` and names it; for a job alike."""
    for headers in ({}, {"X-Callback-Url": URL}):
        answer = await life.http.post(f"/api/v1/main/plugin/{name}", json=body, headers=headers)
        assert 400 == answer.status_code
        assert f"parameter {named}" in answer.json()["error"]
        assert "main" == answer.json()["page_id"]


@pytest.mark.parametrize("query", ["text=%ff", "text=a%c3", "n=1&text=%ed%a0%80"])
async def test_a_query_that_is_not_utf_8_is_400_and_named(life: Life, query: str) -> None:
    """A bad parameter is `400`, and never read as something else."""
    answer = await life.http.get(f"{PLUGIN}/echo?{query}")
    assert (400, "parameter 'text' is not UTF-8") == (answer.status_code, answer.json()["error"])
    assert 200 == (await life.http.get(f"{PLUGIN}/echo?text=%c3%a4+%f0%9f%98%80")).status_code


async def test_a_repeated_query_parameter_is_400(life: Life) -> None:
    """Of two values neither is taken in silence."""
    answer = await life.http.get(f"{PLUGIN}/echo?text=a&text=b")
    assert (400, True) == (answer.status_code, "text" in answer.json()["error"])


async def test_the_order_of_checks(life: Life) -> None:
    """Key (`401`), route and plugin (`404`), headers and parameters (`400`, `422`), page (`404`), lease (`423`)."""
    await life.http.post("/api/v1/main/lease", json={"ttl": 600})
    wrong: dict[str, Any] = {
        "headers": {"Authorization": "Bearer no", "X-Result-Ttl": "x", "X-Request-Id": "\x01"},
        "url": "/api/v1/nowhere/plugin/no/such",
        "content": b"[",
    }
    statuses = []

    async def ask() -> httpx.Response:
        headers = {"Content-Type": "application/json", **wrong["headers"]}
        answer = await life.http.post(wrong["url"], content=wrong["content"], headers=headers)
        statuses.append(answer.status_code)
        return answer

    async with trio.open_nursery() as nursery:
        await ask()
        del wrong["headers"]["Authorization"], wrong["headers"]["X-Request-Id"]
        assert "plugin" in (await ask()).json()["error"]
        wrong["url"] = "/api/v1/nowhere/plugin/test/echo"
        assert "X-Result-Ttl" in (await ask()).json()["error"]
        wrong["headers"] = {}
        await ask()
        wrong["content"] = b'{"nn": 1}'
        assert "nn" in (await ask()).json()["error"]
        wrong["content"] = b"{}"
        assert "page 'nowhere'" in (await ask()).json()["error"]
        wrong["url"] = f"{PLUGIN}/echo"
        await ask()
        nursery.cancel_scope.cancel()
    assert [401, 404, 400, 422, 400, 404, 423] == statuses


@pytest.mark.parametrize(
    ("body", "status", "kind", "healed"),
    [
        ({"how": "word", "status": 409}, 409, None, 1),
        ({"how": "word", "status": 599}, 599, None, 1),
        ({"how": "TimedOut"}, 408, "timeout", 1),
        ({"how": "PageLost"}, 502, "page", 1),
        ({"how": "BrowserLost"}, 502, "browser", 0),  # told at once: the driver starts another
        ({"how": "SiteFailed"}, 502, "site", 1),
        ({"how": "ProxyFailed"}, 502, "proxy", 1),
        ({"how": "MediaFull"}, 507, "worker", 1),
        ({"how": "bug"}, 500, "plugin", 1),
        ({"how": "group"}, 500, "plugin", 1),
    ],
)
async def test_whose_fault_it_was(
    life: Life, logged: list[Any], body: dict[str, Any], status: int, kind: str | None, healed: int
) -> None:
    """Failures that are not the plugin's own word also carry `kind`; then the page is made to answer."""
    answer = await life.call("fail", **body)
    assert (status, kind, False) == (answer.status_code, answer.json().get("kind"), answer.json()["success"])
    assert "main" == answer.json()["page_id"]
    assert healed == life.tab.healed
    for inner in ("secret", "Traceback", "plugin.py", "/home"):
        assert inner not in answer.text
    if kind == "plugin":  # logged with its traceback
        assert any(line.get("exc_info") for line in logged)
    assert 200 == (await life.call("echo")).status_code


async def test_a_plugins_own_word_is_its_own(life: Life) -> None:
    """`PluginError("…", status=409)` gives the error envelope with that status."""
    answer = await life.call("fail", how="word", status=409)
    assert '{"success": false, "error": "the account is private", "page_id": "main"}' == answer.text


@pytest.mark.parametrize("what", ["nan", "object", "envelope"])
async def test_a_result_that_is_no_json(life: Life, what: str) -> None:
    """A result that is no JSON is a `500`."""
    answer = await life.call("result", what=what)
    assert (500, "plugin", False) == (answer.status_code, answer.json()["kind"], answer.json()["success"])


async def test_bad_progress_is_the_plugins_fault(life: Life) -> None:
    """NaN in progress: `500`, valid JSON on every wire."""
    assert 200 == (await life.call("report", fraction=0.5)).status_code
    assert 500 == (await life.call("report", fraction=1.5)).status_code


async def test_a_browser_that_is_gone(life: Life) -> None:
    """The browser dies: `502`, and the next call works once it is back."""
    life.driver.up = False
    answer = await life.call("echo")
    assert (502, "browser") == (answer.status_code, answer.json()["kind"])
    assert 503 == (await life.http.get("/readyz")).status_code
    assert "browser" == (await life.http.get("/api/v1/activity")).json()["pressure"]["why"]
    life.driver.up = True
    assert 200 == (await life.call("echo")).status_code


# The line


async def test_calls_wait_in_order_of_arrival(life: Life) -> None:
    """A plain call on a page that is busy waits in order of arrival."""
    async with trio.open_nursery() as nursery:
        for tag in "abcde":
            nursery.start_soon(lambda tag=tag: life.call("work", seconds=5, tag=tag))  # type: ignore[misc]
            await trio.sleep(0.1)
    assert [f"{tag} {what}" for tag in "abcde" for what in ("began", "ended")] == life.page.seen
    assert 25 == round(trio.current_time(), 3)


@pytest.mark.parametrize("as_job", [False, True])
async def test_a_call_waits_for_thirty_seconds(life: Life, as_job: bool) -> None:
    """Up to 30 s, then `409`; whoever works the page is named."""
    async with trio.open_nursery() as nursery:
        if as_job:
            job = await life.start("work", ttl=60, seconds=100)
        else:
            job = ""
            nursery.start_soon(lambda: life.call("work", seconds=100))
        await trio.sleep(1)
        answer = await life.call("echo")
        assert 31 == trio.current_time()
        assert 409 == answer.status_code
        assert (f"job {job}" if as_job else "test/work") in answer.json()["error"]
        await trio.sleep(40)
        assert 200 == (await life.call("echo")).status_code  # it came 29 s before the end
        assert 100 == trio.current_time()


async def test_a_client_that_leaves_the_line_never_runs(life: Life) -> None:
    """A client that goes away while waiting leaves the line."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: life.call("work", seconds=10, tag="first"))
        await trio.sleep(1)
        with trio.move_on_after(3):
            await life.call("work", tag="left")
        assert 1 == (await life.http.get("/api/v1/activity")).json()["in_flight"]
        answer = await life.call("work", tag="second")
        assert 200 == answer.status_code
        assert 11 == trio.current_time()
    assert ["first began", "first ended", "second began", "second ended"] == life.page.seen


async def test_a_client_that_leaves_does_not_stop_its_plugin(life: Life) -> None:
    """One that goes away while its plugin runs does not stop it: the plugin runs to its end."""
    with trio.move_on_after(2):
        await life.call("work", seconds=10)
    assert 1 == (await life.http.get("/api/v1/activity")).json()["in_flight"]
    assert 200 == (await life.call("echo")).status_code
    assert 10 == trio.current_time()
    assert ["work began", "work ended"] == life.page.seen


async def test_a_client_that_leaves_at_any_moment(life: Life) -> None:
    """Wherever it is when its client leaves, a call runs whole or not at all, and the page is free afterwards."""
    for steps in range(30):
        for busy in (False, True):
            life.page.seen.clear()
            async with trio.open_nursery() as nursery:
                if busy:
                    nursery.start_soon(lambda: life.call("work", seconds=0.5, tag="first"))
                    await trio.sleep(0.5 if steps % 2 else 0.1)
                with trio.CancelScope() as client:
                    async with trio.open_nursery() as calling:
                        calling.start_soon(lambda: life.call("work", seconds=1))
                        for _ in range(steps):
                            await trio.lowlevel.checkpoint()
                        client.cancel()
            await trio.sleep(3)
            assert life.page.seen.count("work began") == life.page.seen.count("work ended")
            assert "work cut off" not in life.page.seen
            activity = (await life.http.get("/api/v1/activity")).json()
            assert (0, "ok") == (activity["in_flight"], activity["pressure"]["why"])


async def test_pages_do_not_wait_for_each_other(life: Life) -> None:
    """A claim is the exclusive right to work one page."""
    await life.open("second")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: life.call("work", seconds=10))
        nursery.start_soon(lambda: life.call("work", "second", seconds=10))
    assert 10 == trio.current_time()


# What comes with a call


async def test_cookies_are_kept_after_each_call(life: Life) -> None:
    """Cookies are kept in the store after each call, when they changed, plain or job."""
    saved: list[str] = []
    for number, start in enumerate([life.call, life.ask, life.call]):
        life.driver.jar = f'[{{"name": "n", "value": "{number}"}}]'
        await start("echo")
        await trio.sleep(0.1)
        saved.append(
            await life.database.read(
                lambda c: c.execute("SELECT value FROM persona WHERE name = 'cookies'").fetchone()[0]
            )
        )
    assert ["0", "1", "2"] == [text.split('"')[-2] for text in saved]
    commits = life.database.commits
    await life.call("echo")
    assert commits == life.database.commits


async def test_progress_is_seen_while_it_lasts(life: Life) -> None:
    """A fraction, a few words; a plain call's too."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: life.call("report", steps=4))
        await trio.sleep(1.5)
        (call,) = (await life.http.get("/api/v1/activity")).json()["calls"]
    assert ("test/report", 0.5, "step 2", "running") == (
        call["what"],
        call["progress"],
        call["note"],
        call["state"],
    )


async def test_plugins_are_listed_with_their_schemas(life: Life) -> None:
    """`GET /api/v1/plugins` lists them with their JSON schemas."""
    listed = {plugin["name"]: plugin for plugin in (await life.http.get("/api/v1/plugins")).json()["plugins"]}
    assert ["how"] == listed["test/fail"]["parameters"]["required"]
    assert "Give back what was given." == listed["test/echo"]["description"]
    assert "integer" == listed["test/echo"]["parameters"]["properties"]["n"]["type"]


async def test_head_does_not_run_a_plugin(life: Life) -> None:
    """A HEAD of a route that works is refused: a link checker must not start anything."""
    answer = await life.http.head(f"{PLUGIN}/work")
    assert (405, "GET, POST") == (answer.status_code, answer.headers["Allow"])
    assert [] == life.page.seen


async def test_a_slow_start_of_the_browser_does_not_lose_a_page(world: World) -> None:
    """Opening a page is not cut off by a client that leaves: it opens, once."""
    async with live(world) as life:
        life.driver.open_takes_s = 5
        with trio.move_on_after(1):
            await life.http.post("/api/v1/pages", json={"page_id": "second"})
        assert 409 == (await life.http.post("/api/v1/pages", json={"page_id": "second"})).status_code
        assert 404 == (await life.call("echo", "second")).status_code
        await trio.sleep(5)
        assert 200 == (await life.call("echo", "second")).status_code
