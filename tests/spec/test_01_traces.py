"""Section 1: who leaves a trace and who does not; and what is no text, no host, no download."""

from typing import Any

import httpx
import pytest
import trio

from tests.spec.world import KEY, Life, World, live

ECHO = "/api/v1/main/plugin/test/echo"


async def log(life: Life) -> list[dict[str, Any]]:
    answer = await life.http.get("/api/v1/requests")
    return list(answer.json()["requests"])


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE"])
@pytest.mark.parametrize(
    "path", ["/api/v1/media/guessed", "/api/v1/media/", "/api/v1/pages", "/nowhere", ECHO]
)
async def test_without_a_key_nothing_is_left_behind(life: Life, method: str, path: str) -> None:
    """Routes without a key have no side effect: neither a row of the log, nor a client's activity."""
    answer = await life.http.request(method, path, headers={"Authorization": ""})
    assert answer.status_code in {401, 404, 405}
    assert life.worker.last_client_activity is None
    assert [] == await log(life)


async def test_a_download_is_a_clients(life: Life) -> None:
    """The token is as good as the key: the download is in the log, and counts as activity."""
    made = (await life.call("file", size=10)).json()["media"]
    await trio.sleep(5)
    assert 200 == (await life.http.get(made["url"], headers={"Authorization": ""})).status_code
    assert life.now() == life.worker.last_client_activity
    end, begin = (await log(life))[:2]
    assert ("op", "end", 200) == (end["kind"], end["phase"], end["status"])
    assert "begin" == begin["phase"]
    assert made["url"] not in end["route"]


@pytest.mark.parametrize("work_s", [5.0, 100.0])
async def test_a_client_that_leaves_leaves_a_pair_of_rows(life: Life, work_s: float) -> None:
    """In pairs of rows (begin, end), whoever is still there to be answered."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: life.call("work", seconds=work_s))
        await trio.sleep(2)
        nursery.cancel_scope.cancel()
    await trio.sleep(work_s)
    end, begin = await log(life)
    assert ("begin", None) == (begin["phase"], begin["status"])
    assert ("end", 499, 2.0) == (end["phase"], end["status"], end["duration_s"])
    assert ["work began", "work ended"] == life.page.seen


@pytest.mark.parametrize(
    "body",
    [
        rb'{"text": "\ud800"}',
        rb'{"text": "a\uDFFFb"}',
        rb'{"text": "\udc00\ud800"}',
        rb'{"\ud800": 1}',
        rb'{"text": {"deep": ["\ud83d"]}}',
    ],
)
@pytest.mark.parametrize("path", [ECHO, "/api/v1/pages", "/api/v1/main/goto", "/api/v1/main/text"])
async def test_half_a_surrogate_pair_is_no_text(life: Life, path: str, body: bytes) -> None:
    """A malformed body (not UTF-8) is `422`: neither browser nor store takes such a string."""
    answer = await life.http.post(path, content=body, headers={"Content-Type": "application/json"})
    assert 422 == answer.status_code
    assert "surrogate" in answer.json()["error"]


async def test_a_whole_surrogate_pair_is_text(life: Life) -> None:
    answer = await life.http.post(
        ECHO, content=rb'{"text": "\ud83d\ude00 \\ud800"}', headers={"Content-Type": "application/json"}
    )
    assert "😀 \\ud800" == answer.json()["text"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("LOCALHOST:5000", 200),
        ("localhost.", 200),
        ("[::1]:5000", 200),
        ("penelope.localhost", 200),
        ("[::1]evil", 421),
        ("[::1].evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("evil@127.0.0.1", 421),
        ("localhost:5000@evil.example", 421),
        ("127.0.0.1:5000:5000", 421),
        ("localhost..", 421),
        ("", 421),
    ],
)
async def test_the_host_is_read_whole(life: Life, host: str, status: int) -> None:
    """`Host` must be loopback while the worker binds to loopback, else `421`."""
    assert status == (await life.http.get("/healthz", headers={"Host": host})).status_code


@pytest.mark.parametrize("host", ["a..b", ".", "x" * 64, "x" * 64 + ".localhost", "ü.example", "a b", "[::1"])
async def test_a_host_that_is_none_is_refused_beyond_loopback_too(world: World, host: str) -> None:
    """Beyond loopback any name is answered, but it has to be one."""
    world.settings = {"host": "0.0.0.0", "key": KEY}
    async with live(world) as life:
        for path in ("/healthz", "/api/v1/pages", "/nowhere"):
            answer = await life.http.get(path, headers=[(b"Host", host.encode())])
            assert 421 == answer.status_code
            assert answer.json()["success"] is False
        assert 200 == (await life.http.get("/healthz", headers={"Host": "worker.lan"})).status_code


async def test_a_download_that_never_began_does_not_hold_the_file(life: Life) -> None:
    """A download that breaks off does not consume the file: nor does one whose client left before its first byte."""
    made = (await life.call("file", size=1_000_000)).json()["media"]
    request = httpx.Request("GET", f"http://127.0.0.1:5000{made['url']}")
    for _ in range(10):
        with trio.CancelScope() as scope:
            life.worker.media.find = _cancelling(life.worker.media.find, scope)  # type: ignore[method-assign]
            await life.http.send(request)
        del life.worker.media.find
    await trio.sleep(1)
    answer = await life.http.get(made["url"])
    assert (200, 1_000_000) == (answer.status_code, len(answer.content))


def _cancelling(find: Any, scope: trio.CancelScope) -> Any:
    """The client leaves while its file is looked up: the answer is made, and nobody is there."""

    async def found(token: str) -> Any:
        scope.cancel()
        return await find(token)

    return found
