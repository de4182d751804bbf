"""Section 6: media."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from tests.spec.receiver import Receiver
from tests.spec.world import EPOCH, Life, World, live


def content(size: int) -> bytes:
    return bytes(n % 251 for n in range(size))


async def link(life: Life, **body: Any) -> dict[str, Any]:
    """The link of a file that a plain call made."""
    answer = await life.call("file", **body)
    assert 200 == answer.status_code, answer.text
    return dict(answer.json()["media"])


def files(world: World) -> list[Path]:
    return sorted((world.store / "media").iterdir())


async def fetch(life: Life, url: str, **headers: str) -> httpx.Response:
    """A download by somebody who has the link and no key."""
    return await life.http.get(url, headers={"Authorization": "", **headers})


async def test_one_complete_download_then_gone(life: Life, world: World) -> None:
    """256-bit token, no key needed, one complete download, then gone (`404`)."""
    made = await link(life, size=700_000)
    assert (700_000, "a.csv", "text/csv", EPOCH + 300) == (
        made["size"],
        made["filename"],
        made["content_type"],
        made["expires_at"],
    )
    assert len(made["url"].rpartition("/")[2]) >= 43
    answer = await fetch(life, made["url"])
    assert (200, content(700_000)) == (answer.status_code, answer.content)
    assert 404 == (await fetch(life, made["url"])).status_code
    assert [] == files(world)


async def test_the_headers_of_a_download(life: Life) -> None:
    """`Content-Disposition: attachment` with a safe UTF-8 name, `no-store`, `nosniff` and a sandboxing CSP."""
    made = await link(life, filename='../x/Übersicht "1"\r\n.html', content_type="text/html")
    headers = (await fetch(life, made["url"])).headers
    assert ("text/html", "10", "no-store", "nosniff", "bytes") == tuple(
        headers[name]
        for name in (
            "Content-Type",
            "Content-Length",
            "Cache-Control",
            "X-Content-Type-Options",
            "Accept-Ranges",
        )
    )
    assert headers["Content-Security-Policy"].startswith("sandbox")
    assert (
        "attachment; filename=\"_bersicht _1___.html\"; filename*=UTF-8''%C3%9Cbersicht%20_1___.html"
        == headers["Content-Disposition"]
    )


async def test_a_head_does_not_consume(life: Life) -> None:
    """`HEAD` does not consume it, and says what a download would."""
    made = await link(life, size=1000)
    head = await life.http.head(made["url"])
    for _ in range(2):
        head = await life.http.head(made["url"])
        assert (200, "1000", b"") == (head.status_code, head.headers["Content-Length"], head.content)
    whole = await fetch(life, made["url"])
    assert head.headers["Content-Disposition"] == whole.headers["Content-Disposition"]
    assert 1000 == len(whole.content)


async def test_a_download_that_breaks_off_does_not_consume(life: Life, world: World) -> None:
    """A download that breaks off does not either."""
    made = await link(life, size=2_000_000)
    async with life.http.stream("GET", made["url"]) as answer:
        with trio.CancelScope() as listening:
            async for _ in answer.aiter_raw():
                listening.cancel()
    await trio.sleep(1)
    assert 1 == len(files(world))
    assert content(2_000_000) == (await fetch(life, made["url"])).content


async def test_a_file_that_was_cut_short_is_not_a_download(life: Life, world: World) -> None:
    """Nor does one that ends early because the disk lost a part of the file."""
    made = await link(life, size=1000)
    (path,) = files(world)
    path.write_bytes(content(400))
    assert 400 == len((await fetch(life, made["url"])).content)
    path.write_bytes(content(1000))
    assert 1000 == len((await fetch(life, made["url"])).content)


async def test_one_whole_download_at_a_time(life: Life) -> None:
    """One complete download: a second one beside it is refused, and works when the first broke off."""
    made = await link(life, size=2_000_000)
    async with life.http.stream("GET", made["url"]):
        second = await fetch(life, made["url"])
        assert 409 == second.status_code
        assert int(second.headers["Retry-After"]) > 0
    await trio.sleep(0.1)
    assert 200 == (await fetch(life, made["url"])).status_code


@pytest.mark.parametrize(
    ("asked", "status", "start", "stop"),
    [
        ("bytes=0-99", 206, 0, 100),
        ("bytes=100-", 206, 100, 1000),
        ("bytes=-10", 206, 990, 1000),
        ("bytes=900-5000", 206, 900, 1000),
        ("bytes=0-4,6-9", 200, 0, 1000),
        ("lines=1-2", 200, 0, 1000),
        ("bytes=9-2", 200, 0, 1000),
    ],
)
async def test_a_range(life: Life, asked: str, status: int, start: int, stop: int) -> None:
    """`Range` works."""
    made = await link(life, size=1000)
    answer = await fetch(life, made["url"], Range=asked)
    assert (status, content(1000)[start:stop]) == (answer.status_code, answer.content)
    if status == 206:
        assert f"bytes {start}-{stop - 1}/1000" == answer.headers["Content-Range"]
        assert 200 == (await fetch(life, made["url"])).status_code


@pytest.mark.parametrize("asked", ["bytes=1000-", "bytes=2000-3000", "bytes=-0"])
async def test_a_range_outside(life: Life, asked: str) -> None:
    """A range that the file does not have is `416`, in the envelope, and consumes nothing."""
    made = await link(life, size=1000)
    answer = await fetch(life, made["url"], Range=asked)
    assert (416, "bytes */1000", False) == (
        answer.status_code,
        answer.headers["Content-Range"],
        answer.json()["success"],
    )
    assert 200 == (await fetch(life, made["url"])).status_code


async def test_ranges_that_add_up_are_a_download(life: Life) -> None:
    """One complete download, in whatever pieces: a resumed download ends it as well."""
    made = await link(life, size=1000)
    for asked in ("bytes=500-", "bytes=0-299", "bytes=200-499"):
        assert 206 == (await fetch(life, made["url"], Range=asked)).status_code
    assert 404 == (await fetch(life, made["url"])).status_code


async def test_an_empty_file(life: Life) -> None:
    """A file of no bytes is a file."""
    made = await link(life, size=0)
    answer = await fetch(life, made["url"])
    assert (200, b"", "0") == (answer.status_code, answer.content, answer.headers["Content-Length"])
    assert 404 == (await fetch(life, made["url"])).status_code


@pytest.mark.parametrize("token", ["x", "0" * 43, "..%2f..%2fpenelope.db", "%2e%2e", "é"])
async def test_an_unknown_token(life: Life, token: str) -> None:
    """Unknown, expired and downloaded are one answer: `404` in the envelope."""
    answer = await fetch(life, f"/api/v1/media/{token}")
    assert (404, False) == (answer.status_code, answer.json()["success"])


async def test_an_unclaimed_file_stays_300_s(life: Life, world: World) -> None:
    """Unclaimed files stay 300 s."""
    made = await link(life)
    await trio.sleep(299.9)
    assert 200 == (await life.http.head(made["url"])).status_code
    await trio.sleep(0.1)
    assert 404 == (await fetch(life, made["url"])).status_code
    await trio.sleep(61)
    assert ([], 0) == (files(world), life.worker.media.unclaimed)


async def test_a_polling_job_keeps_its_file(life: Life, world: World) -> None:
    """For polling until the result expires; the result's own `expires_at` still shows the original 300 s."""
    job = await life.start("file", ttl=600, then_s=400)
    await trio.sleep(401)
    made = (await life.shown(job))["result"]["media"]
    assert EPOCH + 300 == made["expires_at"]
    assert 200 == (await life.http.head(made["url"])).status_code
    await trio.sleep(598.9)
    assert 200 == (await life.http.head(made["url"])).status_code
    await trio.sleep(0.1)
    assert 404 == (await life.http.head(made["url"])).status_code
    await trio.sleep(61)
    assert [] == files(world)


async def test_a_short_hold_shortens_its_file(life: Life) -> None:
    """A `/media/` link in the result stays valid as long as the result."""
    job = await life.start("file", ttl=5)
    await trio.sleep(1)
    url = (await life.shown(job))["result"]["media"]["url"]
    await trio.sleep(4)
    assert 404 == (await life.http.head(url)).status_code


async def test_a_delivered_job_keeps_its_file_five_minutes(
    life: Life, receiver: Receiver, world: World
) -> None:
    """Once delivered, a `/media/` link in its result stays valid 5 more minutes, for the download."""
    receiver.answers(500, 500, 200)
    await life.start("file")
    await trio.sleep(300)
    url = receiver.posts[0].json["result"]["media"]["url"]
    await trio.sleep(299.9)
    assert 200 == (await life.http.head(url)).status_code
    await trio.sleep(0.2)
    assert 404 == (await life.http.head(url)).status_code
    await trio.sleep(60)
    assert [] == files(world)


@pytest.mark.parametrize("answers", [[404], [500]])
async def test_a_job_given_up_loses_its_file_at_once(
    life: Life, receiver: Receiver, world: World, answers: list[int]
) -> None:
    """Given up, the job and its media are deleted at once."""
    receiver.answers(*answers)
    await life.start("file")
    await trio.sleep(0 if answers == [404] else 599)
    await trio.sleep(1.5)
    url = receiver.posts[0].json["result"]["media"]["url"]
    assert 404 == (await life.http.head(url)).status_code
    assert ([], 0) == (files(world), life.worker.media.unclaimed)


async def test_the_cap(world: World) -> None:
    """`MEDIA_MAX_MB` caps the unclaimed bytes: past it `call.media` fails and the call answers `507`."""
    world.settings["media_max_mb"] = 1
    async with live(world) as life:
        first = await link(life, size=600_000)
        refused = await life.call("file", size=600_000)
        assert (507, "worker") == (refused.status_code, refused.json()["kind"])
        assert "MEDIA_MAX_MB" in refused.json()["error"]
        assert 1 == len(files(world))
        job = await life.start("file", ttl=60, size=600_000)
        await trio.sleep(1)
        assert 507 == (await life.shown(job))["status"]
        await fetch(life, first["url"])  # claimed: its bytes count no more
        assert 2**20 == (await link(life, size=2**20))["size"]
        assert 507 == (await life.call("file", size=1)).status_code


async def test_the_cap_counts_what_the_last_life_left(world: World) -> None:
    """Files of jobs count against the cap all that time, a restart included."""
    world.settings["media_max_mb"] = 1
    async with live(world) as life:
        await life.start("file", ttl=600, size=900_000)
        await trio.sleep(1)
        await life.stop()
    async with live(world) as life:
        assert 507 == (await life.call("file", size=200_000)).status_code


async def test_a_bad_content_type_is_the_plugins_fault(life: Life) -> None:
    """What cannot be a header is refused: `500`, kind `plugin`."""
    answer = await life.call("file", content_type="text/html\r\nX-Evil: 1")
    assert (500, "plugin") == (answer.status_code, answer.json()["kind"])


async def test_links_survive_a_restart_and_strays_do_not(world: World) -> None:
    """Files with no row, and rows with no file, are removed at the start; media with no owner is dropped."""
    async with live(world) as life:
        kept, lost = await link(life), await link(life)
        running = await life.start("file", then_s=3600)
        await trio.sleep(1)
        by_size = {path.name for path in files(world)}
        after = world.image()
    assert 3 == len(by_size)
    (after.store / "media" / "stray").write_bytes(b"x")

    def names() -> dict[str, str]:
        with closing(sqlite3.connect(after.store / "penelope.db")) as connection:
            return dict(connection.execute("SELECT token, file FROM media"))

    stored = names()
    (after.store / "media" / stored[lost["url"].rpartition("/")[2]]).unlink()
    async with live(after) as life:
        assert 404 == (await fetch(life, lost["url"])).status_code
        assert 200 == (await fetch(life, kept["url"])).status_code
        # The interrupted job's file stays until its webhook is settled.
        assert 1 == len(files(after))
        assert running
    assert "stray" not in {path.name for path in files(after)}
