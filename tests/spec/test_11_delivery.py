"""Contract, section 11: signatures and the change of keys, where a POST may go, the ledger, traces."""

import re
from ipaddress import ip_address
from typing import Any

import httpx
import pytest
import trio

from penelope import signing
from penelope.errors import StoreFull
from penelope.jobs import ledger
from penelope.signing import BadSignature
from tests.spec.receiver import ADDRESS, URL, Receiver, slow
from tests.spec.world import KEY, Life, World, live

OLD_KEY = "the-key-before-0123456789"


# Signatures


async def test_each_attempt_is_signed_as_standard_webhooks_has_it(life: Life, receiver: Receiver) -> None:
    """Beside `X-Penelope-Signature`: `webhook-id` (the job), `webhook-timestamp`, `webhook-signature`."""
    receiver.answers(500, 200)
    job_id = await life.start("echo")
    await trio.sleep(61)

    assert 2 == len(receiver.posts)
    for post, now in zip(receiver.posts, (life.now() - 61, life.now() - 1), strict=True):
        assert signing.is_signed(post.body, post.headers["X-Penelope-Signature"], KEY)
        assert job_id == signing.verify(post.body, post.headers, KEY, now=now, tolerance_s=2)
        with pytest.raises(BadSignature):
            signing.verify(post.body, post.headers, OLD_KEY, now=now)


async def test_the_moment_is_the_walls(world: World, life: Life, receiver: Receiver) -> None:
    """Receivers compare it with their own clock. The worker's does not follow a wall that is set back (J93): signed by
    that, what it sends would be hours ahead, and refused.
    """
    receiver.answers(500, 200)
    job_id = await life.start("echo")
    await trio.sleep(10)
    world.skew = -7200
    await trio.sleep(51)

    assert 2 == len(receiver.posts)
    assert job_id == signing.verify(receiver.posts[1].body, receiver.posts[1].headers, KEY, now=world.wall())
    assert life.now() - world.wall() > 7000


async def test_during_a_rotation_both_keys_sign(world: World, receiver: Receiver) -> None:
    """`PENELOPE_KEY_PREVIOUS`; our own signature has one value, the new key's."""
    world.settings["key_previous"] = OLD_KEY
    async with live(world) as life:
        job_id = await life.start("echo")
        await trio.sleep(1)
        (post,) = receiver.posts
        for key in (KEY, OLD_KEY):
            assert job_id == signing.verify(post.body, post.headers, key, now=life.now())
        assert signing.is_signed(post.body, post.headers["X-Penelope-Signature"], KEY)


async def test_during_a_rotation_both_keys_open_the_api(world: World) -> None:
    """And a third one does not; without the setting the old one does not either."""

    async def statuses() -> list[int]:
        async with live(world) as life:
            answers = [await ask(life.http, key) for key in (KEY, OLD_KEY, "another-key-0123456789")]
            return [answer.status_code for answer in answers]

    assert [200, 401, 401] == await statuses()
    world.settings["key_previous"] = OLD_KEY
    assert [200, 200, 401] == await statuses()


async def ask(client: httpx.AsyncClient, key: str) -> httpx.Response:
    return await client.get("/api/v1/pages", headers={"Authorization": f"Bearer {key}"})


# Where a POST may go


@pytest.mark.parametrize(
    ("policy", "url", "says"),
    [
        (
            "public",
            "http://127.0.0.1:9/x",
            "127.0.0.1 is a loopback address, which WEBHOOK_POLICY=public refuses",
        ),
        (
            "public",
            "http://localhost:9/",
            "127.0.0.1 is a loopback address, which WEBHOOK_POLICY=public refuses",
        ),
        (
            "public",
            "http://[::ffff:10.0.0.1]/",
            f"{ip_address('::ffff:a00:1')} is a private address, which WEBHOOK_POLICY=public",  # 3.13 writes dots
        ),
        (
            "lan",
            "http://169.254.169.254/",
            "169.254.169.254 is a cloud's metadata service, which WEBHOOK_POLICY=lan",
        ),
        (
            "lan",
            "http://127.0.0.1:5000/api/v1/pages",
            "127.0.0.1 is the worker itself, which WEBHOOK_POLICY=lan",
        ),
    ],
)
async def test_a_callback_at_an_address_that_is_refused_is_a_bad_one(
    world: World, receiver: Receiver, policy: str, url: str, says: str
) -> None:
    """A refusal names the rule and the setting; nothing starts."""
    world.settings["webhook_policy"] = policy
    async with live(world) as life:
        answer = await life.ask("echo", headers={"X-Callback-Url": url})
        assert 400 == answer.status_code
        assert answer.json()["error"].startswith(f"X-Callback-Url: {says}")
        assert "WEBHOOK_ALLOW" in answer.json()["error"]
        await trio.sleep(1)
        assert [] == life.page.seen
        assert [] == receiver.posts


@pytest.mark.parametrize(
    ("policy", "allow", "url"),
    [
        ("any", (), "http://127.0.0.1:5000/"),
        ("lan", (), "http://127.0.0.1:5001/"),
        ("lan", (), "http://10.0.0.1/"),
        ("lan", ("169.254.0.0/16",), "http://169.254.169.254/"),
        ("public", ("localhost",), "http://localhost/"),
        ("public", ("127.0.0.0/8", "::1"), "http://localhost/"),
        ("public", (), "http://receiver.lan/"),
    ],
)
async def test_other_callbacks_are_taken(
    world: World, receiver: Receiver, policy: str, allow: tuple[str, ...], url: str
) -> None:
    """Where the policy has nothing against it, or `WEBHOOK_ALLOW` lets it through; a name is judged at its dialling."""
    world.settings |= {"webhook_policy": policy, "webhook_allow": allow}
    async with live(world) as life:
        assert 202 == (await life.ask("echo", headers={"X-Callback-Url": url})).status_code
        await trio.sleep(1)
        assert 1 == len(receiver.posts)


async def test_a_polling_job_has_nothing_to_be_refused(world: World) -> None:
    world.settings["webhook_policy"] = "public"
    async with live(world) as life:
        await life.start("echo", ttl=60)


# The ledger


async def rows(life: Life, **query: Any) -> list[dict[str, Any]]:
    answer = await life.http.get("/api/v1/deliveries", params=query)
    assert 200 == answer.status_code, answer.text
    assert answer.json()["next_cursor"] is None
    found: list[dict[str, Any]] = answer.json()["deliveries"]
    return found


async def test_each_post_is_a_row(life: Life, receiver: Receiver) -> None:
    """What was sent when, to which host and address, how it was answered, which error class; newest first."""
    receiver.answers(503, slow(11), httpx.ConnectError("broken"), 200)
    job_id = await life.start("echo")
    began = life.now()
    await trio.sleep(700)
    found = await rows(life)

    assert await life.gone(job_id)
    common = {"job_id": job_id, "receiver": "receiver.lan:80", "address": ADDRESS}
    expected = [
        (4, 600, 200, None, None, "delivered"),
        (3, 300, None, "other", "ConnectError: broken", "retry"),
        (2, 60, None, "timeout", "no answer within 10 s", "retry"),
        (1, 0, 503, "http_5xx", "answered 503", "retry"),
    ]
    for row, (attempt, after, status, error_class, error, verdict) in zip(found, expected, strict=True):
        assert began + after == pytest.approx(row.pop("at"), abs=0.1)
        assert re.fullmatch("[0-9a-f]{16}", row.pop("request_id"))
        assert (10 if error_class == "timeout" else 0) == pytest.approx(row.pop("took_s"), abs=0.1)
        assert {
            **common,
            "attempt": attempt,
            "status": status,
            "error_class": error_class,
            "error": error,
            "verdict": verdict,
        } == row


async def test_no_body_no_credentials_no_path(life: Life, receiver: Receiver) -> None:
    """No bodies, no results, no credentials."""
    receiver.answers(404)
    url = "https://user:pass-word@receiver.lan/hooks/forty-two?token=to-ken"
    await life.call("echo", headers={"X-Callback-Url": url}, text="the-result")
    await trio.sleep(1)
    answer = await life.http.get("/api/v1/deliveries")

    (row,) = answer.json()["deliveries"]
    assert ("receiver.lan:443", "give up", "http_4xx") == (
        row["receiver"],
        row["verdict"],
        row["error_class"],
    )
    for secret in ("pass-word", "user", "forty-two", "hooks", "to-ken", "the-result", KEY):
        assert secret not in answer.text


async def test_the_ledger_is_asked_for_a_part(life: Life, receiver: Receiver) -> None:
    """By job, host, verdict, error class and moment."""
    receiver.answers(503, 200, 404)
    first = await life.start("echo")
    await trio.sleep(61)
    middle = life.now()
    await life.call("echo", headers={"X-Callback-Url": "http://[2001:db8::7]:8080/"})
    await trio.sleep(1)

    for query, attempts in (
        ({}, [(1, 404), (2, 200), (1, 503)]),
        ({"job_id": first}, [(2, 200), (1, 503)]),
        ({"job_id": "0" * 16}, []),
        ({"host": "Receiver.lan"}, [(2, 200), (1, 503)]),
        ({"host": "[2001:db8::7]"}, [(1, 404)]),
        ({"host": "lan"}, []),
        ({"verdict": "retry"}, [(1, 503)]),
        ({"verdict": "give up", "error_class": "http_4xx"}, [(1, 404)]),
        ({"error_class": "tls"}, []),
        ({"since": middle}, [(1, 404)]),
        ({"since": middle + 10}, []),
    ):
        assert attempts == [(row["attempt"], row["status"]) for row in await rows(life, **query)], query
    assert "[2001:db8::7]:8080" == (await rows(life))[0]["receiver"]


async def test_a_cursor_leads_through_all_of_it(life: Life, receiver: Receiver) -> None:
    """No row twice and none left out, while more are written."""
    for _ in range(5):
        await life.start("echo")
        await trio.sleep(1)
    whole = await rows(life)
    seen: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await life.http.get("/api/v1/deliveries", params={"limit": 2, **cursor})).json()
        seen += page["deliveries"]
        await life.start("echo")
        await trio.sleep(1)
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert whole == seen
    assert 5 == len(seen)


@pytest.mark.parametrize(
    "query",
    [
        "job_id=1",
        "host=",
        "verdict=lost",
        "error_class=bad",
        "since=nan",
        "since=-1",
        "limit=0",
        "limit=1001",
        "cursor=0",
        "cursor=-1",
        "cursor=abc",
        "cursor=" + "9" * 30,
        "what=1",
        "limit=1&limit=2",
    ],
)
async def test_a_bad_question_names_what_is_bad(life: Life, query: str) -> None:
    answer = await life.http.get(f"/api/v1/deliveries?{query}")
    assert 400 == answer.status_code
    assert query.partition("=")[0] in answer.json()["error"]


async def test_the_ledger_needs_the_key_and_is_in_no_log(life: Life) -> None:
    answer = await life.http.get("/api/v1/deliveries", headers={"Authorization": "Bearer no"})
    assert 401 == answer.status_code
    await rows(life)
    assert [] == (await life.http.get("/api/v1/requests")).json()["requests"]


async def test_the_ledger_is_kept_for_seven_days(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the request log is."""
    assert 7 * 24 * 3600 == ledger.KEEP_S
    monkeypatch.setattr(ledger, "KEEP_S", 3600.0)  # a week on the mock clock is ten thousand sweeps
    await life.start("echo")
    await trio.sleep(3500)
    assert 1 == len(await rows(life))
    await trio.sleep(200)
    assert [] == await rows(life)


@pytest.mark.parametrize("room_at", [30, 70])
async def test_what_a_full_disk_refuses_is_written_once_there_is_room(
    life: Life, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, room_at: int
) -> None:
    """With what it belongs to, each POST once: whether there is room before the next one or only after."""
    refused = StoreFull("the disk is full")
    receiver.answers(503, 200)
    job_id = await life.start("late", seconds=5)

    async def refuse(*_: object) -> None:
        await trio.lowlevel.checkpoint()
        raise refused

    write = life.database.write
    monkeypatch.setattr(life.database, "write", refuse)
    await trio.sleep(room_at)
    assert 1 == life.supervisor.ends.owed
    assert [] == await rows(life)
    monkeypatch.setattr(life.database, "write", write)
    await trio.sleep(2)
    assert 0 == life.supervisor.ends.owed
    so_far = [(2, 200), (1, 503)] if room_at > 65 else [(1, 503)]
    assert so_far == [(row["attempt"], row["status"]) for row in await rows(life, job_id=job_id)]
    await trio.sleep(70)
    assert [(2, 200), (1, 503)] == [
        (row["attempt"], row["status"]) for row in await rows(life, job_id=job_id)
    ]
    assert await life.gone(job_id)


async def test_an_attempt_and_its_row_are_one_write(life: Life, receiver: Receiver) -> None:
    """No further sync of the disk: as many commits as there were without a ledger."""
    receiver.answers(503, 503, 200)
    await trio.sleep(15)  # out of the way of the sweep
    await life.start("echo")
    await trio.sleep(59.5)
    before = life.database.commits
    await trio.sleep(1)
    assert 2 == len(receiver.posts)
    assert before + 1 == life.database.commits


async def test_a_post_that_a_kill_left_unrecorded_is_no_row(world: World, receiver: Receiver) -> None:
    """An attempt counts when its outcome is stored, and is a row then: the one that was made again."""
    receiver.answers(slow(5))
    async with live(world) as life:
        job_id = await life.start("echo")
        await trio.sleep(1)
        after = world.image()
    after.receiver = receiver.next_life()
    after.receiver.answers(200)
    async with live(after) as life:
        await trio.sleep(1)
        assert [(1, 200)] == [(row["attempt"], row["status"]) for row in await rows(life, job_id=job_id)]
    assert [1, 1] == [post.attempt for post in receiver.posts]


async def test_metrics_count_posts_by_class(life: Life, receiver: Receiver) -> None:
    receiver.answers(503, 200)
    await life.start("echo")
    await trio.sleep(61)
    text = (await life.http.get("/metrics")).text
    assert 'penelope_webhook_posts_total{error_class="http_5xx",verdict="retry"} 1.0' in text
    assert 'penelope_webhook_posts_total{error_class="",verdict="delivered"} 1.0' in text


# Trace

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


async def test_a_trace_goes_on_with_each_post(world: World, receiver: Receiver) -> None:
    """`traceparent` is taken, stored and sent on with a new span id; also by the next life."""
    receiver.answers(503)
    headers = {"X-Callback-Url": URL, "traceparent": f"00-{TRACE}-{SPAN}-01"}
    async with live(world) as life:
        assert 202 == (await life.call("echo", headers=headers)).status_code
        await trio.sleep(30)
        after = world.image()
    async with live(after):
        await trio.sleep(60)

    sent = [post.headers["traceparent"] for post in receiver.posts]
    assert 2 == len(sent)
    spans = [re.fullmatch(f"00-{TRACE}-([0-9a-f]{{16}})-01", one) for one in sent]
    assert None not in spans
    assert 3 == len({SPAN, *(found[1] for found in spans if found)})


@pytest.mark.parametrize("bad", ["", "x", f"00-{TRACE}-{SPAN.upper()}-01", f"ff-{TRACE}-{SPAN}-01", None])
async def test_without_a_good_trace_none_is_sent(life: Life, receiver: Receiver, bad: str | None) -> None:
    """A bad one is ignored: the job starts. Nor does the worker make one up."""
    headers = {"X-Callback-Url": URL} | ({} if bad is None else {"traceparent": bad})
    assert 202 == (await life.call("echo", headers=headers)).status_code
    await trio.sleep(1)
    (post,) = receiver.posts
    assert "traceparent" not in post.headers


async def test_two_traces_are_none(life: Life, receiver: Receiver) -> None:
    twice = [("X-Callback-Url", URL), *[("traceparent", f"00-{TRACE}-{SPAN}-01")] * 2]
    assert 202 == (await life.call("echo", headers=twice)).status_code
    await trio.sleep(1)
    assert "traceparent" not in receiver.posts[0].headers


async def test_log_lines_of_a_post_name_the_trace(life: Life, logged: list[Any]) -> None:
    headers = {"X-Callback-Url": URL, "traceparent": f"00-{TRACE}-{SPAN}-01"}
    await life.call("echo", headers=headers)
    await trio.sleep(1)
    (line,) = [line for line in logged if line["event"] == "webhook posted"]
    assert (TRACE, ADDRESS, None) == (line["trace_id"], line["address"], line["error_class"])


async def test_log_lines_of_a_call_name_the_trace(life: Life, logged: list[Any]) -> None:
    """Those of its request and of its work, and no other's."""
    await life.call("fail", headers={"traceparent": f"00-{TRACE}-{SPAN}-01"}, how="zero")
    await life.call("fail", how="zero")
    traced = [line for line in logged if line.get("trace_id") == TRACE]
    assert {"request", "plugin failed", "page healed"} == {line["event"] for line in traced}
    assert 2 == len([line for line in logged if line["event"] == "request"])
    assert 1 == len({line["request_id"] for line in traced})
