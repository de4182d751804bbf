"""Section 1: conventions of HTTP."""

import random
import re
from typing import Any

import httpx
import pytest

from penelope.http.worker import Worker
from penelope.store.media import MediaStore
from tests.spec.world import KEY, Life, World, live

JSON = {"Content-Type": "application/json"}
ECHO = "/api/v1/main/plugin/test/echo"


def check_envelope(answer: httpx.Response, status: int) -> Any:
    """A failure in the envelope and nothing else; its body."""
    assert status == answer.status_code, answer.text
    assert "application/json" == answer.headers["Content-Type"]
    body = answer.json()
    assert ["success", "error"] == list(body)[:2]
    assert body["success"] is False
    assert body["error"]
    assert not re.search(r"<html|<!doctype|Traceback|site-packages|\.py\b", answer.text, re.IGNORECASE)
    assert answer.headers["X-Request-Id"]
    return body


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/no/such/route", 404),
        ("GET", "/api/v1", 404),
        ("GET", "/api/v1/", 404),
        ("GET", "/", 404),
        ("GET", "/favicon.ico", 404),
        ("GET", "/api/v2/pages", 404),
        ("GET", "/static/x.css", 404),
        ("GET", "/api/v1/pages/", 404),
        ("GET", "//api/v1/pages", 404),
        ("GET", "/api/v1/nowhere", 404),
        ("GET", "/api/v1/jobs/0000000000000000", 404),
        ("GET", "/api/v1/media/x", 404),
        ("GET", "/api/v1/main/plugin/no/such", 404),
        ("GET", "/api/v1/nowhere/plugin/test/echo", 404),
        ("PUT", "/api/v1/pages", 405),
        ("PATCH", ECHO, 405),
        ("OPTIONS", ECHO, 405),
        ("TRACE", ECHO, 405),
        ("BREW", ECHO, 405),
        ("POST", "/healthz", 405),
        ("PATCH", "/api/v1/jobs/0000000000000000", 405),
        ("GET", "/api/v1/main/goto", 405),
        ("GET", f"{ECHO}?nn=1", 400),
        ("GET", f"{ECHO}?text=a%0d%0ab", 400),
        ("GET", f"{ECHO}?text=%00", 400),
        ("GET", "/api/v1/ma%0ain", 400),
        ("GET", "/api/v1/requests?limit=0", 400),
        ("GET", "/api/v1/requests?nonsense=1", 400),
        ("DELETE", "/api/v1/main", 409),
    ],
)
async def test_every_failure_has_the_envelope(life: Life, method: str, path: str, status: int) -> None:
    """Every failure, an unknown route (`404`) and a wrong method (`405` with `Allow`) included, has that form."""
    answer = await life.http.request(method, path, headers={} if method in {"GET", "DELETE"} else JSON)
    check_envelope(answer, status)
    if status == 405:
        assert answer.headers["Allow"]
        assert method not in answer.headers["Allow"].split(", ")


async def test_a_head_is_a_get(life: Life) -> None:
    """HEAD answers as GET does, without the body."""
    for path, status in (("/api/v1/nowhere", 404), ("/api/v1/pages", 200), ("/api/v1/no/such/route", 404)):
        head, got = await life.http.head(path), await life.http.get(path)
        assert status == head.status_code == got.status_code
        assert got.headers["Content-Length"] == head.headers["Content-Length"]


async def test_a_page_that_is_meant_is_named(life: Life) -> None:
    """`page_id` where a page is meant."""
    body = check_envelope(await life.http.get("/api/v1/nowhere/plugin/test/echo"), 404)
    assert "nowhere" == body["page_id"]
    assert "page_id" not in check_envelope(await life.http.get("/api/v1/no/such/route"), 404)


@pytest.mark.parametrize(
    "body",
    [
        *(b"{", b"[]", b'"x"', b"null", b"1", b"\xff", b'{"text": "\xed\xa0\x80"}', b"NaN", b'{"n": NaN}'),
        *(b"\x00", b"[" * 100_000, b'{"a":' * 100_000, b"\xef\xbb\xbf{}", '{"text": "é"}'.encode("utf-16")),
    ],
)
async def test_a_malformed_body_is_422(life: Life, body: bytes) -> None:
    """A malformed body (not JSON, not an object, not UTF-8) is `422`."""
    check_envelope(await life.http.post(ECHO, content=body, headers=JSON), 422)
    check_envelope(await life.http.post("/api/v1/pages", content=body, headers=JSON), 422)


async def test_a_body_too_large_is_413(life: Life) -> None:
    """A body too large (`413`)."""
    answer = await life.http.post(ECHO, content=b" " * (17 * 2**20), headers=JSON)
    check_envelope(answer, 413)


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
        "application/jsonp",
        "text/json",
        "application/json; charset=latin-1",
        "application/jsoñ",
    ],
)
async def test_other_content_types_are_415(life: Life, kind: str) -> None:
    """JSON routes refuse other content types: a page's form reaches nothing."""
    headers = [(b"Content-Type", kind.encode("latin-1"))]
    for path in (ECHO, "/api/v1/pages", "/api/v1/main/lease", "/api/v1/main/text"):
        check_envelope(await life.http.post(path, content=b'{"ttl": 5}', headers=headers), 415)
    assert (await life.http.get("/api/v1/main")).json()["lease"] is None


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON; charset=UTF-8", 'application/json;charset="utf-8"']
)
async def test_json_is_taken_however_it_is_written(life: Life, kind: str) -> None:
    """JSON in UTF-8."""
    answer = await life.http.post(ECHO, content='{"text": "é"}'.encode(), headers={"Content-Type": kind})
    assert (200, "é") == (answer.status_code, answer.json()["text"])


async def test_a_post_without_a_body_needs_no_content_type(life: Life) -> None:
    """An empty body is `{}`, as `curl -X POST` sends it."""
    answer = await life.http.post(ECHO, headers={"Content-Length": "0"})
    assert 200 == answer.status_code


# The key


@pytest.mark.parametrize(
    "given",
    [
        *([], [""], ["Bearer"], ["Bearer "], ["Basic " + KEY], [KEY], [f"Bearer {KEY}x"]),
        [f"Bearer {KEY[:-1]}"],
        [f"Bearer {KEY}", f"Bearer {KEY}"],
        ["Bearer é"],
        ["Bearer \xff\xfe"],
        [f"Bearer {KEY} x"],
        [f"Bearer {KEY.upper()}"],
    ],
)
async def test_a_missing_or_wrong_key(life: Life, given: list[str]) -> None:
    """Missing or wrong: `401`, `WWW-Authenticate: Bearer`; a bearer with `é` is no `500`."""
    headers = [("Host", "127.0.0.1"), *(("Authorization", one) for one in given)]
    for path in ("/api/v1/pages", ECHO, "/api/v1/no/such/route", "/metrics", "/api/v1/jobs/0000000000000000"):
        request = httpx.Request(
            "GET",
            f"http://127.0.0.1:5000{path}",
            headers=[(n.encode(), v.encode("latin-1")) for n, v in headers],
        )
        answer = await life.http._transport.handle_async_request(request)
        await answer.aread()
        check_envelope(answer, 401)
        assert "Bearer" == answer.headers["WWW-Authenticate"]


async def test_the_scheme_is_case_insensitive(life: Life) -> None:
    """As HTTP says."""
    answer = await life.http.get("/api/v1/pages", headers={"Authorization": f"bearer {KEY}"})
    assert 200 == answer.status_code


async def test_what_needs_no_key(life: Life) -> None:
    """`GET /healthz` and `GET /readyz` need no key, nor do `/openapi.json`, `/docs` and a media link."""
    for path in ("/healthz", "/readyz", "/openapi.json", "/docs"):
        answer = await life.http.get(path, headers={"Authorization": ""})
        assert 200 == answer.status_code
    check_envelope(await life.http.get("/api/v1/media/x", headers={"Authorization": ""}), 404)


async def test_routes_without_a_key_have_no_side_effect(life: Life) -> None:
    """Web pages that the browser shows can reach loopback too: there is no CORS."""
    for path in ("/healthz", "/openapi.json", ECHO):
        answer = await life.http.get(path, headers={"Origin": "https://evil.example"})
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


# The Host


@pytest.mark.parametrize(
    "host", ["127.0.0.1:5000", "localhost", "localhost:9", "[::1]:5000", "127.9.9.9", "a.localhost"]
)
async def test_loopback_names_are_answered(life: Life, host: str) -> None:
    """`Host` must be loopback while the worker binds to loopback."""
    assert 200 == (await life.http.get("/api/v1/pages", headers={"Host": host})).status_code


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil", "10.0.0.1", "evil:5000", "[::2]"]
)
async def test_other_names_are_421(life: Life, host: str) -> None:
    """A name that someone else's DNS points at loopback is not ours: `421`, before the key is looked at."""
    for path in ("/api/v1/pages", "/healthz", "/api/v1/media/x"):
        check_envelope(await life.http.get(path, headers={"Host": host, "Authorization": "x"}), 421)


async def test_hosts_by_setting(world: World) -> None:
    """Else one of `PENELOPE_HOSTS` if set."""
    world.settings.update(host="0.0.0.0", hosts=("worker.lan",))
    async with live(world) as life:
        assert 200 == (await life.http.get("/api/v1/pages", headers={"Host": "Worker.LAN:5000"})).status_code
        check_envelope(await life.http.get("/api/v1/pages", headers={"Host": "evil.example"}), 421)


async def test_beyond_loopback_any_name(world: World) -> None:
    """Without `PENELOPE_HOSTS` a worker that binds beyond loopback answers to any name."""
    world.settings.update(host="0.0.0.0")
    async with live(world) as life:
        assert 200 == (await life.http.get("/api/v1/pages", headers={"Host": "worker.lan"})).status_code


# The request id


async def test_a_request_id_is_echoed(life: Life, logged: list[Any]) -> None:
    """`X-Request-Id` is echoed; it is in every log line of that request and of the job it started."""
    answer = await life.call("fail", headers={"X-Request-Id": "mine-1:a/b"}, how="bug")
    assert "mine-1:a/b" == answer.headers["X-Request-Id"]
    assert {"mine-1:a/b"} == {
        line["request_id"] for line in logged if line["event"] in {"request", "plugin failed"}
    }


async def test_a_request_id_is_made(life: Life) -> None:
    """Or made, each its own; for a failure as well."""
    answers = [await life.http.get(path) for path in ("/api/v1/pages", "/api/v1/x/y/z", "/healthz")]
    assert 3 == len({answer.headers["X-Request-Id"] for answer in answers})


async def test_ids_are_new_whatever_a_plugin_does_with_the_interpreters_numbers(life: Life) -> None:
    ids = set()
    for at in (
        "/healthz",
        "/api/v1/activity",
        "/api/v1/jobs/0123456789abcdef",
        "/api/v1/main/plugin/test/echo",
    ):
        for _ in range(2):
            random.seed(1)
            ids.add((await life.http.get(at)).headers["X-Request-Id"])
    assert 8 == len(ids)


@pytest.mark.parametrize("given", ["", " ", "a b", "a\tb", "é", "a" * 129, "a%0d%0ab", '"', "a,b", "<x>"])
async def test_a_bad_request_id_is_400(life: Life, given: str) -> None:
    """A bad header is `400` and is named; it is never echoed, and never runs anything."""
    headers = [(b"X-Request-Id", given.encode("latin-1")), (b"Content-Type", b"application/json")]
    answer = await life.http.post("/api/v1/main/plugin/test/work", content=b"{}", headers=headers)
    assert "X-Request-Id" in check_envelope(answer, 400)["error"]
    assert given != answer.headers["X-Request-Id"]
    assert [] == life.page.seen


async def test_a_repeated_request_id_is_400(life: Life) -> None:
    """Of two, neither."""
    answer = await life.http.get("/api/v1/pages", headers=[("X-Request-Id", "a"), ("X-Request-Id", "b")])
    check_envelope(answer, 400)


async def test_a_bad_request_id_keeps_the_order_of_checks(life: Life) -> None:
    """The key first (`401`), then the headers."""
    headers = {"X-Request-Id": "a b", "Authorization": "Bearer no"}
    check_envelope(await life.http.get("/api/v1/pages", headers=headers), 401)


# Exceptions


async def test_an_unexpected_exception_is_a_500(
    life: Life, monkeypatch: pytest.MonkeyPatch, logged: list[Any]
) -> None:
    """An unexpected exception (`500`): no HTML, no traceback, no internal path; the log has it."""

    async def broken(self: MediaStore, token: str) -> None:
        raise RuntimeError("in /srv/penelope/store/media.py")

    monkeypatch.setattr(MediaStore, "find", broken)
    body = check_envelope(await life.http.get("/api/v1/media/x"), 500)
    assert "worker" == body["kind"]
    assert any(isinstance(line.get("exc_info"), RuntimeError) for line in logged)
    assert 200 == (await life.call("echo")).status_code


async def test_an_exception_in_a_gate_is_a_500_too(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it comes from."""

    def broken(self: Worker) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(Worker, "touch", broken)
    check_envelope(await life.http.get("/api/v1/pages"), 500)


# The documents


async def test_openapi_describes_each_plugin(life: Life) -> None:
    """`GET /openapi.json`: each plugin as a path of its own with its real parameter and result schema."""
    paths = (await life.http.get("/openapi.json")).json()["paths"]
    operations = paths["/api/v1/{page_id}/plugin/test/fail"]
    assert {"get", "post"} <= set(operations)
    assert "how" in str(operations["post"]["requestBody"])
    assert {"how", "status"} <= {
        parameter["name"] for parameter in operations["get"]["parameters"] if parameter["in"] == "query"
    }


async def test_the_docs_are_a_page(life: Life) -> None:
    """`GET /docs` renders it; nothing of it runs scripts."""
    answer = await life.http.get("/docs")
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "test/echo" in answer.text


async def test_metrics_need_the_key(life: Life) -> None:
    """`GET /metrics` (Prometheus) needs it."""
    check_envelope(await life.http.get("/metrics", headers={"Authorization": ""}), 401)
    await life.call("echo")
    text = (await life.http.get("/metrics")).text
    assert 'penelope_calls_total{status="200",work="test/echo"} 1.0' in text
    assert "penelope_in_flight 0.0" in text


async def test_nothing_is_cached(life: Life) -> None:
    """Answers are of the moment."""
    for path in ("/api/v1/pages", "/api/v1/nowhere", "/healthz"):
        answer = await life.http.get(path)
        assert ("no-store", "nosniff") == (
            answer.headers["Cache-Control"],
            answer.headers["X-Content-Type-Options"],
        )
