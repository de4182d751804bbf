"""Section 5: jobs."""

import hashlib
import hmac
import socket
import ssl
from typing import Any

import httpx
import pytest
import trio

from tests.spec.receiver import URL, Drip, Receiver, dripping, slow
from tests.spec.world import EPOCH, KEY, Life, World

RUNNING = (
    "success page_id job_id state plugin started_at finished_at expires_in status result callback delivery"
)
SCHEDULE = [0, 60, 300, 600]


def seconds_since_end(receiver: Receiver, job_id: str) -> list[float]:
    """When a job's POSTs came, seconds after its end."""
    return [round(EPOCH + post.at - post.json["finished_at"], 3) for post in receiver.of(job_id)]


async def rows(life: Life) -> int:
    """How many jobs the store has, expired or not."""

    def count(connection: Any) -> int:
        (number,) = connection.execute("SELECT count(*) FROM jobs").fetchone()
        return int(number)

    return await life.database.read(count)


# Starting


async def test_a_polling_start_answers_the_document_of_the_seed(life: Life) -> None:
    """`ttl` is the polling hold, `callback` null; `Location` is its status URL."""
    answer = await life.call("echo", headers={"X-Result-Ttl": "600"})
    job = answer.json()["job_id"]
    assert 202 == answer.status_code
    assert (
        f'{{"success": true, "page_id": "main", "job_id": "{job}", "status_url": "/api/v1/jobs/{job}", '
        '"ttl": 600.0, "callback": null}'
    ) == answer.text
    assert f"/api/v1/jobs/{job}" == answer.headers["Location"]
    assert 16 == len(job)
    assert set(job) <= set("0123456789abcdef")


async def test_a_webhook_start_answers_the_document_of_the_seed(life: Life) -> None:
    """`ttl` is null for a webhook, `callback` its URL."""
    answer = await life.ask("echo")
    assert 202 == answer.status_code
    assert (None, URL) == (answer.json()["ttl"], answer.json()["callback"])


async def test_a_get_starts_a_job_too(life: Life, receiver: Receiver) -> None:
    """Parameters come from the query string on GET; the headers are the same."""
    answer = await life.http.get("/api/v1/main/plugin/test/echo?text=a", headers={"X-Callback-Url": URL})
    assert 202 == answer.status_code
    await trio.sleep(1)
    assert "a" == receiver.posts[0].json["result"]["text"]


@pytest.mark.parametrize(
    "headers",
    [
        [("X-Callback-Url", URL), ("X-Result-Ttl", "60")],
        [("X-Callback-Url", ""), ("X-Result-Ttl", "60")],
        [("X-Result-Ttl", "60"), ("X-Result-Ttl", "60")],
        [("X-Callback-Url", URL), ("x-callback-url", URL)],
        [("X-Result-Ttl", "600.1")],
        [("X-Result-Ttl", "")],
        [("X-Result-Ttl", "600, 600")],
        [("X-Callback-Url", "")],
        [("X-Callback-Url", "ftp://h/")],
        [("X-Callback-Url", "/hooks/42")],
        [("X-Callback-Url", "http://h/%0d%0aX-Evil:1")],
    ],
)
async def test_bad_options_start_nothing(life: Life, headers: list[tuple[str, str]]) -> None:
    """Sending both headers answers `400`, as does a bad value; nothing starts."""
    answer = await life.call("work", headers=headers)
    assert 400 == answer.status_code
    assert headers[-1][0].lower() in answer.json()["error"].lower()
    await trio.sleep(5)
    assert ([], 0) == (life.page.seen, await rows(life))


async def test_the_headers_are_read_on_plugin_routes_only(life: Life) -> None:
    """Ops and primitives stay synchronous."""
    answer = await life.http.get("/api/v1/pages", headers={"X-Result-Ttl": "nonsense"})
    assert 200 == answer.status_code


async def test_a_page_runs_at_most_one_job(life: Life) -> None:
    """Page already runs a job: `409` at once, without starting anything."""
    job = await life.start("work", ttl=60, seconds=50)
    began = trio.current_time()
    answer = await life.ask("work", tag="second")
    assert (409, f"Page main already runs job {job}") == (answer.status_code, answer.json()["error"])
    assert began == trio.current_time()
    await trio.sleep(100)
    assert ["work began", "work ended"] == life.page.seen


async def test_a_job_does_not_wait_for_a_plain_call(life: Life) -> None:
    """The page is not idle: `409` at once; there is no queue."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: life.call("work", seconds=5))
        await trio.sleep(1)
        answer = await life.ask("echo")
        assert 409 == answer.status_code
        assert "not idle" in answer.json()["error"]
        assert 1 == trio.current_time()
    assert 202 == (await life.ask("echo")).status_code


async def test_two_starts_at_the_same_instant(life: Life) -> None:
    """Two starts at the same instant on one page: one `202`, one `409`."""
    answers: list[int] = []

    async def ask() -> None:
        answers.append((await life.ask("work")).status_code)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask)
    assert [202, 409, 409, 409, 409] == sorted(answers)
    await trio.sleep(5)
    assert ["work began", "work ended"] == life.page.seen


async def test_several_pages_run_several_jobs(life: Life, receiver: Receiver) -> None:
    """To run several jobs at once use several pages."""
    await life.open("second")
    await life.start("work", seconds=5)
    await life.start("work", "second", seconds=5)
    await trio.sleep(6)
    assert {"main", "second"} == {post.json["page_id"] for post in receiver.posts}


async def test_the_page_is_free_at_once_after_a_job(life: Life) -> None:
    """To run them one after another wait for each to end."""
    job = await life.start("work", ttl=60, seconds=5)
    await trio.sleep(5.001)
    assert "done" == (await life.shown(job))["state"]
    assert 202 == (await life.ask("work")).status_code


async def test_one_more_than_a_thousand_is_refused(life: Life) -> None:
    """At most 1000 jobs held at once (running or holding a result); one more answers `503` with `Retry-After`."""
    now = life.now()

    def fill(connection: Any) -> None:
        connection.executemany(
            "INSERT INTO jobs (job_id, page_id, plugin, ttl, request_id, state, started_at, finished_at, forget_at)"
            " VALUES (?, 'p', 'a/b', 100, 'r', 'done', ?, ?, ?)",
            [(f"{n:016x}", now, now, now + 100) for n in range(999)],
        )

    await life.database.write(fill)
    job = await life.start("work", ttl=200, seconds=50)
    await life.open("second")
    refused = await life.ask("work", "second", tag="refused")
    assert 503 == refused.status_code
    assert int(refused.headers["Retry-After"]) > 0
    assert 200 == (await life.call("echo", "second")).status_code  # the page is free again
    assert [] == life.driver.tabs["second"].page.seen
    await trio.sleep(101)  # the held ones expire
    assert 202 == (await life.ask("echo", "second")).status_code
    assert "done" == (await life.shown(job))["state"]


async def test_a_client_that_leaves_while_starting(life: Life) -> None:
    """Reset the connection at any moment of a start: the job exists and runs, or not at all."""
    ran = 0
    for steps in range(40):
        life.page.seen.clear()
        known = await rows(life)
        with trio.CancelScope() as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: life.call("work", headers={"X-Result-Ttl": "600"}, seconds=1))
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                client.cancel()
        await trio.sleep(2)
        exists = await rows(life) - known
        assert exists == life.page.seen.count("work ended") == life.page.seen.count("work began")
        ran += exists
        assert 200 == (await life.call("echo")).status_code  # never left claimed
    assert ran


# Polling


async def test_a_running_job_is_shown_with_nulls(life: Life) -> None:
    """`null` where the seed has `null`."""
    job = await life.start("work", ttl=60, seconds=5)
    await trio.sleep(1)
    seen = await life.shown(job)
    assert RUNNING.split() == list(seen)
    assert {
        "success": True,
        "page_id": "main",
        "job_id": job,
        "state": "running",
        "plugin": "test/work",
        "started_at": EPOCH,
    } | dict.fromkeys(["finished_at", "expires_in", "status", "result", "callback", "delivery"]) == seen


async def test_an_ended_job_is_shown_with_its_result(life: Life) -> None:
    """`expires_in` a float from the deadline: `finished_at + ttl`; the result can be read any number of times."""
    job = await life.start("work", ttl=60, seconds=5)
    await trio.sleep(15)
    for _ in range(3):
        seen = await life.shown(job)
        assert ("done", EPOCH + 5, 200) == (seen["state"], seen["finished_at"], seen["status"])
        assert {"success": True, "page_id": "main", "tag": "work"} == seen["result"]
        assert 50.0 == seen["expires_in"]


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("echo", {"text": "😀/<", "n": 2**62}),
        ("result", {"what": "emoji"}),
        ("result", {"what": "surrogate"}),
        ("result", {"what": "nan"}),
        ("result", {"what": "envelope"}),
        ("fail", {"how": "word", "status": 409}),
        ("fail", {"how": "TimedOut"}),
        ("fail", {"how": "PageLost"}),
        ("fail", {"how": "group"}),
        ("fail", {"how": "bug"}),
    ],
)
async def test_a_job_answers_what_the_plain_call_answers(life: Life, name: str, body: dict[str, Any]) -> None:
    """`status` and `result` are exactly what the plain call would have answered."""
    plain = await life.call(name, **body)
    job = await life.start(name, ttl=60, **body)
    await trio.sleep(1)
    polled = await life.poll(job)
    expected = plain.json()
    if "job" in expected:  # the one plugin that tells
        assert (False, True) == (expected.pop("job"), polled.json()["result"].pop("job"))
        assert {**polled.json()["result"], "job": None} == {**expected, "job": None}
    else:
        assert f'"result": {plain.text}, ' in polled.text
    assert plain.status_code == polled.json()["status"]


async def test_a_result_expires_whether_swept_or_not(life: Life) -> None:
    """When `ttl` runs out the result is deleted and the job answers `404`, as an unknown id does."""
    await trio.sleep(10)  # sweeps at 60 and 120
    job = await life.start("echo", ttl=60)
    await trio.sleep(59.999)
    assert 200 == (await life.poll(job)).status_code
    await trio.sleep(0.001)
    assert 70 == trio.current_time()
    answer = await life.poll(job)
    assert (404, 1) == (answer.status_code, await rows(life))
    unknown = await life.poll("0" * 16)
    assert unknown.json() == {**answer.json(), "error": unknown.json()["error"]}
    await trio.sleep(51)
    assert 0 == await rows(life)


async def test_polled_in_a_loop_it_is_whole_or_gone(life: Life) -> None:
    """Poll over the `ttl` while the sweep runs: a whole `200` or `404`."""
    job = await life.start("result", ttl=90, what="big")
    seen: list[int] = []
    for _ in range(130):
        answer = await life.poll(job)
        seen.append(answer.status_code)
        if answer.status_code == 200:
            result = answer.json()["result"]
            assert result is None or 1_000_000 == len(result["a"])
        await trio.sleep(1)
    assert [200] * 90 + [404] * 40 == seen


@pytest.mark.parametrize("job", ["0" * 16, "x", "0" * 15, "F" * 16, "%20", "0" * 16 + "%0a", "é"])
async def test_an_unknown_id_is_404(life: Life, job: str) -> None:
    """As an unknown id does; with a control character it is a bad path."""
    answer = await life.poll(job)
    assert (400 if "%0a" in job else 404) == answer.status_code
    assert answer.json()["success"] is False


# Delivery


async def test_four_attempts_then_given_up(life: Life, receiver: Receiver) -> None:
    """The four attempts are at 0, 1, 5 and 10 minutes after the job ended; after the 4th failed one it is deleted."""
    receiver.answers(500)
    await trio.sleep(7)
    job = await life.start("work", seconds=13)
    await trio.sleep(13 + 599)
    assert SCHEDULE[:3] == seconds_since_end(receiver, job)
    assert 3 == (await life.shown(job))["delivery"]["attempts"]
    await trio.sleep(2)
    assert SCHEDULE == seconds_since_end(receiver, job)
    assert [1, 2, 3, 4] == [post.attempt for post in receiver.posts]
    assert await life.gone(job)
    assert 0 == await rows(life)
    await trio.sleep(3600)
    assert 4 == len(receiver.posts)


async def test_what_is_posted(life: Life, receiver: Receiver) -> None:
    """The worker POSTs the job, as a poll would show it, with its headers."""
    job = await life.start("work", seconds=5)
    await trio.sleep(6)
    (post,) = receiver.posts
    assert URL == post.url
    assert ("application/json", job, "1") == tuple(
        post.headers[name] for name in ("Content-Type", "X-Penelope-Job", "X-Penelope-Attempt")
    )
    assert {
        "success": True,
        "page_id": "main",
        "job_id": job,
        "state": "done",
        "plugin": "test/work",
        "started_at": EPOCH,
        "finished_at": EPOCH + 5,
        "expires_in": 610.0,
        "status": 200,
        "result": {"success": True, "page_id": "main", "tag": "work"},
        "callback": URL,
        "delivery": {"attempts": 1, "delivered": False, "error": None},
    } == post.json
    assert RUNNING.split() == list(post.json)


@pytest.mark.parametrize("what", ["emoji", "surrogate", "big"])
async def test_the_signature_is_over_the_very_bytes_sent(life: Life, receiver: Receiver, what: str) -> None:
    """HMAC over the captured bytes matches, every attempt; the result does not change on the way."""
    receiver.answers(503)
    job = await life.start("result", what=what)
    await trio.sleep(601)
    assert 4 == len(receiver.of(job))
    plain = (await life.call("result", what=what)).text
    for post in receiver.posts:
        expected = "sha256=" + hmac.new(KEY.encode(), post.body, hashlib.sha256).hexdigest()
        assert expected == post.headers["X-Penelope-Signature"]
        assert f'"result": {plain}, '.encode() in post.body
        assert str(len(post.body)) == post.headers["Content-Length"]


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_any_2xx_delivers(life: Life, receiver: Receiver, status: int) -> None:
    """Until one is answered `2xx`: once delivered, the job is deleted."""
    receiver.answers(500, status)
    job = await life.start("echo")
    await trio.sleep(59)
    assert not await life.gone(job)
    await trio.sleep(2)
    assert await life.gone(job)
    await trio.sleep(700)
    assert SCHEDULE[:2] == seconds_since_end(receiver, job)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 599])
async def test_429_and_5xx_wait_for_the_next_attempt(life: Life, receiver: Receiver, status: int) -> None:
    """`429` or a `5xx` waits for the next attempt."""
    receiver.answers(status, 200)
    job = await life.start("echo")
    await trio.sleep(1)
    assert {"attempts": 1, "delivered": False, "error": f"answered {status}"} == (await life.shown(job))[
        "delivery"
    ]
    await trio.sleep(700)
    assert SCHEDULE[:2] == seconds_since_end(receiver, job)
    assert {"attempts": 2, "delivered": False, "error": f"answered {status}"} == receiver.posts[1].json[
        "delivery"
    ]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 410, 301, 302, 303, 304, 307, 308])
async def test_any_other_answer_gives_up_at_once(life: Life, receiver: Receiver, status: int) -> None:
    """Any other answer (a `4xx`) gives up at once; redirects are not followed."""

    async def reply(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(status, headers={"Location": "http://elsewhere.lan/"})

    receiver.answers(reply)
    job = await life.start("echo")
    await trio.sleep(1)
    assert await life.gone(job)
    await trio.sleep(700)
    assert [URL] == [post.url for post in receiver.posts]


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (caused(httpx.ConnectError("x"), socket.gaierror(-2, "Name or service not known")), "no such host"),
        (caused(httpx.ConnectError("x"), ConnectionRefusedError(111, "refused")), "connection refused"),
        (caused(httpx.ReadError("x"), ConnectionResetError(104, "reset")), "connection reset"),
        (caused(httpx.ConnectError("x"), ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] x")), "TLS"),
        (httpx.RemoteProtocolError("Server disconnected without sending a response."), "broken answer"),
        (OSError(113, "No route to host"), "No route to host"),
        (ValueError("whatever a library may raise"), "ValueError"),
        (ExceptionGroup("several", [OSError(113, "No route to host")]), "No route to host"),
    ],
)
async def test_a_network_error_waits_for_the_next_attempt(
    life: Life, receiver: Receiver, error: Exception, reason: str
) -> None:
    """No such name, refused, reset, no route, a wrong certificate: each waits, each with its own short reason."""
    receiver.answers(error)
    job = await life.start("echo")
    await trio.sleep(1)
    delivery = (await life.shown(job))["delivery"]
    assert (1, False) == (delivery["attempts"], delivery["delivered"])
    assert reason in delivery["error"]
    await trio.sleep(700)
    assert SCHEDULE == seconds_since_end(receiver, job)
    assert await life.gone(job)


async def test_an_answer_within_ten_seconds_counts(life: Life, receiver: Receiver) -> None:
    """A timeout is 10 s."""
    receiver.answers(slow(9.99))
    job = await life.start("echo")
    await trio.sleep(9.98)
    assert not await life.gone(job)
    await trio.sleep(0.02)
    assert await life.gone(job)


async def test_no_answer_within_ten_seconds_does_not(life: Life, receiver: Receiver) -> None:
    """Fails at 10 s, next at 60 s."""
    receiver.answers(slow(3600), 200)
    job = await life.start("echo")
    await trio.sleep(9.99)
    assert (0, 1) == ((await life.shown(job))["delivery"]["attempts"], receiver.now)
    await trio.sleep(0.02)
    assert (1, 0) == ((await life.shown(job))["delivery"]["attempts"], receiver.now)
    assert "10 s" in (await life.shown(job))["delivery"]["error"]
    await trio.sleep(60)
    assert SCHEDULE[:2] == seconds_since_end(receiver, job)


async def test_slow_attempts_do_not_shift_the_rest(life: Life, receiver: Receiver) -> None:
    """Attempts 1 and 2 take 9.9 s each: 0, 60, 300, 600, in a schedule that does not drift."""
    receiver.answers(slow(9.9, 500), slow(9.9, 500), slow(3600), 500)
    job = await life.start("echo")
    await trio.sleep(700)
    assert SCHEDULE == seconds_since_end(receiver, job)


@pytest.mark.parametrize(("status", "delivered"), [(200, True), (500, False)])
async def test_a_body_that_drips(life: Life, receiver: Receiver, status: int, delivered: bool) -> None:
    """`200`, then a byte every 2 s: `2xx` seen = delivered; the connection is dropped within 10 s in all."""
    drip = Drip(every_s=0.3)
    receiver.answers(dripping(status, drip), 200)
    job = await life.start("echo")
    await trio.sleep(10)
    assert drip.closed
    assert delivered == await life.gone(job)


async def test_an_endless_answer_is_not_read(life: Life, receiver: Receiver) -> None:
    """At most 64 KiB of an answer is read."""
    drip = Drip(every_s=0, size=10_000)
    receiver.answers(dripping(200, drip))
    job = await life.start("echo")
    await trio.sleep(2)
    assert await life.gone(job)
    assert drip.closed
    assert drip.sent <= 64 * 1024 + 10_000


async def test_a_slow_receiver_does_not_delay_another(life: Life, receiver: Receiver) -> None:
    """At most 32 POSTs at a time to one host, the rest wait their turn; another receiver's go at once."""
    receiver.answers(slow(9))
    first = [await life.start("echo") for _ in range(40)]
    healthy = {"X-Callback-Url": "http://healthy.lan:8080/"}
    job = (await life.call("echo", headers=healthy)).json()["job_id"]
    assert 0 == trio.current_time()
    await trio.sleep(0.5)
    assert 1 == len(receiver.of(job))
    assert 32 == sum(len(receiver.of(one)) for one in first)
    await trio.sleep(20)
    # The 10 s start when the POST does: those that waited were not given up.
    assert {0.0: 32, 9.0: 8} == {at: sum(receiver.of(one)[0].at == at for one in first) for at in (0.0, 9.0)}
    assert 33 == receiver.most
    assert all([await life.gone(one) for one in [*first, job]])


async def test_at_most_128_posts_at_once(life: Life, receiver: Receiver) -> None:
    """128 in all, the rest wait their turn."""
    receiver.answers(slow(9))
    for n in range(160):
        headers = {"X-Callback-Url": f"http://host-{n % 8}.lan/"}
        assert 202 == (await life.call("echo", headers=headers)).status_code
    await trio.sleep(5)
    assert (128, 128) == (len(receiver.posts), receiver.most)
    await trio.sleep(20)
    assert (160, 128) == (len(receiver.posts), receiver.most)


# The wall clock


async def test_a_wall_that_goes_back_moves_nothing(life: Life, world: World, receiver: Receiver) -> None:
    """The clock goes back 2 h between attempts 1 and 2: attempt 2 about 60 s later."""
    receiver.answers(500)
    job = await life.start("echo")
    held = await life.start("echo", ttl=600)
    await trio.sleep(20)
    world.skew = -7200
    await trio.sleep(579)
    assert 200 == (await life.poll(held)).status_code
    await trio.sleep(200)
    assert SCHEDULE == [post.at for post in receiver.of(job)]
    assert await life.gone(held)


@pytest.mark.parametrize("moved_at", [5, 70])
async def test_a_wall_that_goes_forward_is_followed(
    life: Life, world: World, receiver: Receiver, moved_at: int
) -> None:
    """Wall-clock steps neither lose a job nor fire an attempt early by more than the step."""
    receiver.answers(500)
    job = await life.start("echo")
    await trio.sleep(moved_at)
    world.skew = 100
    await trio.sleep(700)
    assert [0, 60, 200, 500] == [post.at for post in receiver.of(job)]
    assert await life.gone(job)


async def test_a_machine_that_slept_over_the_deadline(life: Life, world: World, receiver: Receiver) -> None:
    """No job is given up before at least one POST was made for it: one that waited gets the one it missed."""
    receiver.answers(500)
    job = await life.start("echo")
    late = await life.start("work", seconds=70)
    await trio.sleep(5)
    world.skew = 8 * 3600
    await trio.sleep(100)
    assert 2 == len(receiver.of(job))
    assert await life.gone(job)
    # It ended after the step, so its schedule is whole.
    await trio.sleep(700)
    assert SCHEDULE == seconds_since_end_skewed(receiver, late, world.skew)


def seconds_since_end_skewed(receiver: Receiver, job_id: str, skew: float) -> list[float]:
    return [round(EPOCH + skew + post.at - post.json["finished_at"], 3) for post in receiver.of(job_id)]


# What nobody should have to think of


async def test_a_callback_that_cannot_be_dialled_does_not_end_the_worker(
    life: Life, receiver: Receiver
) -> None:
    """A bad name fails its own POSTs, and nothing else."""
    answer = await life.call("echo", headers={"X-Callback-Url": "http://xn--/"})
    await trio.sleep(700)
    assert 202 == answer.status_code
    assert await life.gone(answer.json()["job_id"])
    assert 200 == (await life.call("echo")).status_code


async def test_a_password_in_a_callback_is_not_logged(
    life: Life, receiver: Receiver, logged: list[Any]
) -> None:
    """A callback may hold a password: the log names the receiver only."""
    receiver.answers(500)
    await life.call("echo", headers={"X-Callback-Url": "http://user:pa55word@h.lan/t0ken?x=1"})
    await trio.sleep(700)
    assert "h.lan:80" in str(logged)
    assert "pa55word" not in str(logged)
    assert "t0ken" not in str(logged)
