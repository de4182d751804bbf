"""Section 3: pages and ops. What only a real browser shows is in tests/browser."""

from typing import Any

import httpx
import pytest
import trio

from penelope.errors import SiteFailed
from tests.spec.world import EPOCH, Life, World, live


async def open_page(life: Life, page_id: Any, **more: Any) -> httpx.Response:
    return await life.http.post("/api/v1/pages", json={"page_id": page_id, **more})


async def listed(life: Life) -> list[str]:
    return [page["page_id"] for page in (await life.http.get("/api/v1/pages")).json()["pages"]]


async def test_main_always_exists(life: Life) -> None:
    """A page shows what it is, its lease without its token."""
    assert ["main"] == await listed(life)
    assert {
        "success": True,
        "page_id": "main",
        "url": "about:blank",
        "title": "title of main",
        "state": "idle",
        "job_id": None,
        "lease": None,
        "created_at": EPOCH,
        "last_used_at": EPOCH,
    } == (await life.http.get("/api/v1/main")).json()


async def test_a_page_is_opened_and_closed(life: Life) -> None:
    """`POST /api/v1/pages {"page_id", "url"?}` → `201`; `DELETE` closes it."""
    await trio.sleep(5)
    answer = await open_page(life, "second", url="https://example.com/")
    assert (201, "/api/v1/second") == (answer.status_code, answer.headers["Location"])
    assert ("second", "https://example.com/", EPOCH + 5) == tuple(
        answer.json()[name] for name in ("page_id", "url", "created_at")
    )
    assert ["main", "second"] == await listed(life)
    tab = life.driver.tabs["second"]
    assert 200 == (await life.http.delete("/api/v1/second")).status_code
    assert tab.closed
    assert ["main"] == await listed(life)
    assert 404 == (await life.http.get("/api/v1/second")).status_code
    assert 404 == (await life.call("echo", "second")).status_code
    assert 201 == (await open_page(life, "second")).status_code


@pytest.mark.parametrize("page_id", ["a", "A-b_9", "x" * 64])
async def test_a_good_name(life: Life, page_id: str) -> None:
    """`[A-Za-z0-9_-]{1,64}`."""
    assert 201 == (await open_page(life, page_id)).status_code
    assert 200 == (await life.call("echo", page_id)).status_code


@pytest.mark.parametrize(
    "page_id",
    [
        *("", "x" * 65, "a b", "a/b", "é", "a.b", "..", "a\n", 5, None),
        *(
            "pages",
            "jobs",
            "plugins",
            "media",
            "activity",
            "requests",
            "runs",
            "tree",
            "deliveries",
            "personas",
        ),
    ],
)
async def test_a_bad_or_reserved_name(life: Life, page_id: Any) -> None:
    """Reserved names and anything but `[A-Za-z0-9_-]{1,64}` are `400`."""
    answer = await open_page(life, page_id)
    assert (400, True) == (answer.status_code, "page_id" in answer.json()["error"])
    assert ["main"] == await listed(life)


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "chrome://settings", "view-source:http://a/", "javascript:1", " file:///x", "x"],
)
async def test_a_dangerous_url(life: Life, url: str) -> None:
    """`file:`, `chrome:`, `view-source:` and the like are `400`."""
    assert 400 == (await open_page(life, "second", url=url)).status_code
    assert ["main"] == await listed(life)


async def test_a_page_that_exists(life: Life) -> None:
    """`409` when it exists."""
    assert 201 == (await open_page(life, "second")).status_code
    assert 409 == (await open_page(life, "second")).status_code
    assert 409 == (await open_page(life, "main")).status_code


async def test_max_pages(world: World) -> None:
    """`409` when `MAX_PAGES` is reached; two that open at once do not share the last place."""
    world.settings["max_pages"] = 3
    async with live(world) as life:
        life.driver.open_takes_s = 1
        statuses: list[int] = []

        async def ask(page_id: str) -> None:
            statuses.append((await open_page(life, page_id)).status_code)

        async with trio.open_nursery() as nursery:
            for page_id in "abcd":
                nursery.start_soon(ask, page_id)
        assert [201, 201, 409, 409] == sorted(statuses)
        assert 3 == len(await listed(life))


async def test_a_page_that_does_not_open_leaves_nothing(life: Life) -> None:
    """The browser could not open it: `502`, and its name is free."""
    life.driver.refuse_tab = SiteFailed("no such name")
    answer = await open_page(life, "second", url="http://nowhere.example/")
    assert (502, "site") == (answer.status_code, answer.json()["kind"])
    assert ["main"] == await listed(life)
    life.driver.refuse_tab = None
    assert 201 == (await open_page(life, "second")).status_code


async def test_what_cannot_be_closed(life: Life) -> None:
    """`main` cannot be closed: `409`; a page at work: `409`."""
    assert 409 == (await life.http.delete("/api/v1/main")).status_code
    assert 404 == (await life.http.delete("/api/v1/nowhere")).status_code
    await life.open("second")
    job = await life.start("work", "second", ttl=60, seconds=5)
    answer = await life.http.delete("/api/v1/second")
    assert (409, True) == (answer.status_code, job in answer.json()["error"])
    await trio.sleep(6)
    assert 200 == (await life.http.delete("/api/v1/second")).status_code
    assert "done" == (await life.shown(job))["state"]  # the result stays


async def test_the_state_of_a_page(life: Life) -> None:
    """`idle`, `busy`, `job`, `crashed`; its `job_id`."""

    async def state() -> tuple[str, str | None]:
        page = (await life.http.get("/api/v1/main")).json()
        return page["state"], page["job_id"]

    assert ("idle", None) == await state()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: life.call("work", seconds=5))
        await trio.sleep(1)
        assert ("busy", None) == await state()
    job = await life.start("work", ttl=60, seconds=5)
    assert ("job", job) == await state()
    await trio.sleep(6)
    life.tab.crashed_now = True
    assert ("crashed", None) == await state()
    assert EPOCH + 10 == (await life.http.get("/api/v1/main")).json()["last_used_at"]


async def test_a_page_at_work_is_listed_without_waiting(life: Life) -> None:
    """Listing pages waits for nobody's work."""
    await life.start("work", ttl=60, seconds=500)
    began = trio.current_time()
    assert ["main"] == await listed(life)
    assert began == trio.current_time()


async def test_a_page_closed_under_who_waits(life: Life) -> None:
    """Who waited in line for a page that is closed meanwhile gets `404`."""
    await life.open("second")
    async with trio.open_nursery() as nursery:
        answers: list[int] = []

        async def call() -> None:
            answers.append((await life.call("work", "second", seconds=5)).status_code)

        nursery.start_soon(call)
        await trio.sleep(1)
        assert 409 == (await life.http.delete("/api/v1/second")).status_code
        nursery.start_soon(call)
    assert [200, 200] == answers
