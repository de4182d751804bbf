"""Section 4: leases."""

from typing import Any

import httpx
import pytest
import trio

from tests.spec.receiver import URL
from tests.spec.world import Life


async def lease(life: Life, ttl: float = 120, page_id: str = "main") -> dict[str, str]:
    """A new lease, as the header that its calls send."""
    answer = await life.http.post(f"/api/v1/{page_id}/lease", json={"ttl": ttl})
    assert 200 == answer.status_code, answer.text
    return {"X-Lease": answer.json()["lease"]}


async def expires_in(life: Life) -> Any:
    shown = (await life.http.get("/api/v1/main")).json()["lease"]
    return None if shown is None else round(shown["expires_in"], 3)


async def test_a_lease_is_taken(life: Life) -> None:
    """`POST …/lease {"ttl": 120}` → `{"lease": "<token>", "ttl", "expires_in"}`."""
    answer = await life.http.post("/api/v1/main/lease", json={"ttl": 120})
    body = answer.json()
    assert ["success", "page_id", "lease", "ttl", "expires_in"] == list(body)
    assert (120.0, 120.0, "main") == (body["ttl"], body["expires_in"], body["page_id"])
    assert len(body["lease"]) >= 32


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ('{"ttl": 0}', 400),
        ('{"ttl": -1}', 400),
        ('{"ttl": 600.1}', 400),
        ('{"ttl": 1e999}', 422),
        ('{"ttl": NaN}', 422),
        ('{"ttl": "soon"}', 400),
        ("{}", 400),
        ('{"ttl": 5, "x": 1}', 400),
        ('{"ttl": null}', 400),
        ("[]", 422),
    ],
)
async def test_a_bad_ttl_takes_none(life: Life, body: str, status: int) -> None:
    """`0 < ttl ≤ 600`."""
    answer = await life.http.post(
        "/api/v1/main/lease", content=body, headers={"Content-Type": "application/json"}
    )
    assert status == answer.status_code, answer.text
    assert await expires_in(life) is None


async def test_a_leased_page_is_for_its_holder(life: Life) -> None:
    """Calls on a leased page need its `X-Lease`; a wrong token is `423`, with `expires_in`; so is a second lease."""
    held = await lease(life)
    await trio.sleep(20)
    refused = [
        await life.call("echo"),
        await life.call("echo", headers={"X-Lease": "wrong"}),
        await life.ask("echo"),
        await life.http.post("/api/v1/main/lease", json={"ttl": 5}),
        await life.http.post("/api/v1/main/lease", json={"ttl": 5}, headers=held),
        await life.http.post("/api/v1/main/text", json={}),
    ]
    for answer in refused:
        assert (423, 100.0) == (answer.status_code, round(answer.json()["expires_in"], 3)), answer.text
        assert held["X-Lease"] not in answer.text
    assert 200 == (await life.call("echo", headers=held)).status_code
    assert held["X-Lease"] not in (await life.http.get("/api/v1/main")).text


async def test_an_expired_token_is_refused(life: Life) -> None:
    """An expired token is `423`, also on a page that nobody leases now; without one the page is free."""
    held = await lease(life, ttl=10)
    await trio.sleep(9.9)
    assert 423 == (await life.call("echo")).status_code
    await trio.sleep(0.1)
    assert 200 == (await life.call("echo")).status_code
    assert 423 == (await life.call("echo", headers=held)).status_code
    assert 423 == (await life.ask("echo", headers=held)).status_code
    other = await lease(life, ttl=10)
    assert 423 == (await life.call("echo", headers=held)).status_code
    assert 200 == (await life.call("echo", headers=other)).status_code


async def test_each_call_starts_the_ttl_again(life: Life) -> None:
    """Each one that has it starts the TTL again, when it starts and when it ends; a refused one does not."""
    held = await lease(life, ttl=60)
    await trio.sleep(50)
    assert 10.0 == await expires_in(life)
    await life.call("work", headers=held, seconds=5)
    assert 60.0 == await expires_in(life)
    await trio.sleep(50)
    await life.call("echo")
    await life.call("echo", headers={**held, "X-Result-Ttl": "nonsense"})
    assert 10.0 == await expires_in(life)


async def test_a_lease_does_not_expire_under_a_call(life: Life) -> None:
    """A lease does not expire while a call works the page under it, and its TTL starts again when that ends."""
    held = await lease(life, ttl=10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: life.call("work", headers=held, seconds=100))
        await trio.sleep(90)
        assert 10.0 == await expires_in(life)
        assert 423 == (await life.call("echo")).status_code
    await trio.sleep(9.9)
    assert 423 == (await life.call("echo")).status_code
    await trio.sleep(0.1)
    assert 200 == (await life.call("echo")).status_code


async def test_a_job_runs_under_its_lease(life: Life) -> None:
    """A job honours leases like a plain call; neither polling nor the webhook renews it."""
    held = await lease(life, ttl=10)
    answer = await life.ask("work", headers=held, seconds=100)
    assert 202 == answer.status_code
    await trio.sleep(90)
    assert 423 == (await life.call("echo")).status_code
    await trio.sleep(11)  # the job ended at 100, and was delivered
    assert 9.0 == await expires_in(life)
    polled = await life.call("work", headers={**held, "X-Result-Ttl": "60"}, seconds=1)
    await trio.sleep(5)
    for _ in range(5):
        await life.poll(polled.json()["job_id"])
        await trio.sleep(1)
    assert 1.0 == await expires_in(life)


async def test_a_call_in_line_holds_its_place(life: Life) -> None:
    """A holder's second call waits for the first, under the same lease."""
    held = await lease(life, ttl=10)
    async with trio.open_nursery() as nursery:
        answers: list[httpx.Response] = []

        async def call(tag: str) -> None:
            answers.append(await life.call("work", headers=held, seconds=15, tag=tag))

        nursery.start_soon(call, "first")
        await trio.sleep(1)
        nursery.start_soon(call, "second")
    assert ["first", "second"] == [answer.json()["tag"] for answer in answers]
    assert 30 == trio.current_time()


async def test_a_lease_is_given_back(life: Life) -> None:
    """`DELETE` with `X-Lease` gives it back; with another token, or none, it does not."""
    held = await lease(life)
    for headers in ({}, {"X-Lease": "wrong"}):
        assert 423 == (await life.http.delete("/api/v1/main/lease", headers=headers)).status_code
    assert 200 == (await life.http.delete("/api/v1/main/lease", headers=held)).status_code
    assert 200 == (await life.call("echo")).status_code
    assert 423 == (await life.http.delete("/api/v1/main/lease", headers=held)).status_code
    assert 404 == (await life.http.delete("/api/v1/main/lease")).status_code


async def test_a_lease_that_was_given_back_during_its_call_stays_so(life: Life) -> None:
    """What was given back is not brought back by the end of the call."""
    held = await lease(life)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: life.call("work", headers=held, seconds=5))
        await trio.sleep(1)
        assert 200 == (await life.http.delete("/api/v1/main/lease", headers=held)).status_code
    assert await expires_in(life) is None


async def test_a_call_without_a_lease_renews_none(life: Life) -> None:
    """A lease taken while somebody else's call runs is not renewed by that call's end, still less revived."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: life.call("work", seconds=20))
        await trio.sleep(1)
        await lease(life, ttl=30)
    assert 11.0 == await expires_in(life)
    await trio.sleep(11)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: life.call("work", seconds=20))
        await trio.sleep(1)
        await lease(life, ttl=5)
    assert await expires_in(life) is None


async def test_a_lease_taken_meanwhile_stops_who_waits(life: Life) -> None:
    """Who waited in line finds the page leased when the turn comes: `423`."""
    async with trio.open_nursery() as nursery:
        answers: dict[str, int] = {}

        async def call(tag: str) -> None:
            answers[tag] = (await life.call("work", seconds=5, tag=tag)).status_code

        nursery.start_soon(call, "first")
        await trio.sleep(1)
        nursery.start_soon(call, "second")
        await trio.sleep(1)
        await lease(life)
    assert {"first": 200, "second": 423} == answers
    assert ["first began", "first ended"] == life.page.seen


@pytest.mark.parametrize("headers", [[("X-Lease", "")], [("X-Lease", "a"), ("X-Lease", "a")]])
async def test_a_bad_lease_header(life: Life, headers: list[tuple[str, str]]) -> None:
    """A bad header is `400`: an empty one is a bad value, not an absent one."""
    for more in ([], [("X-Callback-Url", URL)]):
        answer = await life.call("echo", headers=[*headers, *more])
        assert 400 == answer.status_code
        assert "X-Lease" in answer.json()["error"]


async def test_leases_are_by_page(life: Life) -> None:
    """A lease reserves a page, and a token is of that page only."""
    await life.open("second")
    held = await lease(life)
    assert 200 == (await life.call("echo", "second")).status_code
    assert 423 == (await life.call("echo", "second", headers=held)).status_code
    assert 404 == (await life.http.post("/api/v1/third/lease", json={"ttl": 5})).status_code


async def test_a_leased_page_is_not_closed(life: Life) -> None:
    """A lease reserves a page for one client: others do not close it."""
    await life.open("second")
    held = await lease(life, page_id="second")
    assert 423 == (await life.http.delete("/api/v1/second")).status_code
    assert 200 == (await life.http.delete("/api/v1/second", headers=held)).status_code
    await life.open("second")
    assert 200 == (await life.call("echo", "second")).status_code
