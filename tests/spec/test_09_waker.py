"""Contract, section 9: personas that sleep until they are needed."""

import math
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from penelope.store import opening
from tests.spec.waker_world import WakerLife, WakerWorld, live_waker
from tests.spec.world import EPOCH

FIELDS = ["name", "mode", "state", "pid", "port", "started_at", "idle_for_s", "in_flight", "last_error"]
ALWAYS = '[personas.alice]\nmode = "always"\n'


@pytest.fixture
def world(tmp_path: Path) -> WakerWorld:
    return WakerWorld(tmp_path)


@pytest.fixture
async def waker(world: WakerWorld) -> AsyncGenerator[WakerLife]:
    async with live_waker(world) as one:
        yield one


async def side_by_side(*calls: Callable[[], Any]) -> list[Any]:
    """What each returned, in order."""
    found: dict[int, Any] = {}

    async def run(at: int, call: Callable[[], Any]) -> None:
        found[at] = await call()

    async with trio.open_nursery() as nursery:
        for at, call in enumerate(calls):
            nursery.start_soon(run, at, call)
    return [found[at] for at in range(len(calls))]


# The API


async def test_personas_are_shown_with_the_contracts_fields(waker: WakerLife) -> None:
    """`GET /personas` (`personas: […]`), `GET /personas/{name}`."""
    shown = (await waker.get("/personas"))["personas"]
    assert ["alice", "bob"] == [one["name"] for one in shown]
    assert [FIELDS] * 2 == [list(one) for one in shown]
    one = await waker.get("/personas/alice")
    assert ["success", *FIELDS] == list(one)
    assert ("sleepy", "stopped", None, None, None) == tuple(
        one[name] for name in ("mode", "state", "pid", "port", "in_flight")
    )

    await waker.order("start")
    waker.worker().in_flight = 3
    await trio.sleep(1)
    one = await waker.get("/personas/alice")
    life = waker.worker().life
    assert ("running", life.pid, 3, 0) == tuple(
        one[name] for name in ("state", "pid", "in_flight", "idle_for_s")
    )
    assert life.address == f"http://127.0.0.1:{one['port']}"
    assert life.started_at == one["started_at"]


async def test_the_key_is_asked_for_and_healthz_is_open(waker: WakerLife) -> None:
    for path in ("/api/v1/personas", "/api/v1/personas/alice", "/metrics", "/p/alice/api/v1/pages", "/nope"):
        answer = await waker.http.get(path, headers={"Authorization": "Bearer wrong"})
        assert (401, "Bearer") == (answer.status_code, answer.headers["WWW-Authenticate"]), path
        assert not answer.json()["success"]
    assert 200 == (await waker.http.get("/healthz", headers={"Authorization": ""})).status_code
    assert not waker.driver.starts


async def test_a_foreign_host_is_refused(waker: WakerLife) -> None:
    for path in ("/healthz", "/api/v1/personas", "/p/alice/api/v1/pages"):
        answer = await waker.http.get(path, headers={"Host": "evil.example"})
        assert 421 == answer.status_code, path


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/api/v1/personas/nobody", None, 404),
        ("POST", "/api/v1/personas/nobody/start", None, 404),
        ("GET", "/api/v1/nope", None, 404),
        ("GET", "/api/v1/personas/alice/start", None, 405),
        ("GET", "/api/v1/personas?x=1", None, 400),
        ("GET", "/api/v1/personas/alice/logs?lines=0", None, 400),
        ("GET", "/api/v1/personas/alice/logs?lines=1&lines=2", None, 400),
        ("GET", "/api/v1/personas/alice/workload?hours=169", None, 400),
        ("POST", "/api/v1/personas/alice/stop", b'{"now": true}', 400),
        ("POST", "/api/v1/personas/alice/stop", b"[]", 422),
        ("POST", "/api/v1/personas/alice/stop", b"{", 422),
        ("GET", "/p/nobody/api/v1/pages", None, 404),
        ("GET", "/p/alice/metrics", None, 404),
        ("GET", "/p/alice/api/v1/%2e%2e/metrics", None, 400),
    ],
)
async def test_failures_have_the_envelope(
    waker: WakerLife, method: str, path: str, body: bytes | None, status: int
) -> None:
    headers = {"Content-Type": "application/json"} if body else {}
    request = waker.http.build_request(method, "/", content=body, headers=headers)
    request.url = httpx.URL("http://127.0.0.1:5050", raw_path=path.encode())
    answer = await waker.http.send(request)

    assert status == answer.status_code, answer.text
    assert answer.json()["success"] is False
    assert answer.json()["error"]
    assert not waker.driver.starts


async def test_logs(waker: WakerLife) -> None:
    """`GET /personas/{name}/logs`: of one that sleeps, too."""
    assert ["line 198 of bob", "line 199 of bob"] == (await waker.get("/personas/bob/logs?lines=2"))["lines"]
    assert 100 == len((await waker.get("/personas/bob/logs"))["lines"])


async def test_metrics_per_persona(waker: WakerLife) -> None:
    await waker.call()
    waker.worker().in_flight = 2
    text = (await waker.http.get("/metrics")).text

    for line in (
        'penelope_persona_state{persona="alice",state="running"} 1.0',
        'penelope_persona_state{persona="bob",state="stopped"} 1.0',
        'penelope_persona_in_flight{persona="alice"} 2.0',
        'penelope_persona_memory_bytes{persona="alice"} 3.145728e+08',
        'penelope_persona_starts_total{persona="alice"} 1.0',
        'penelope_persona_start_seconds{persona="alice"} 2.0',
        'penelope_gateway_requests_total{persona="alice",status="201"} 1.0',
    ):
        assert line in text.splitlines()


# Starting


async def test_start_answers_when_the_worker_is_ready(waker: WakerLife) -> None:
    began = trio.current_time()
    answer = await waker.order("start")

    assert (200, "running") == (answer.status_code, answer.json()["state"])
    assert 2 == trio.current_time() - began
    assert "running" == (await waker.order("start")).json()["state"]
    assert 1 == waker.driver.starts["alice"]


async def test_start_answers_with_the_last_log_lines_when_it_is_not(waker: WakerLife) -> None:
    waker.driver.fails["alice"] = "ended with 1 instead of starting: no browser found"
    answer = await waker.order("start")

    assert 502 == answer.status_code
    assert {
        "success": False,
        "error": "the worker of alice ended with 1 instead of starting: no browser found",
        "kind": "worker",
        "log": ["one", "two"],
    } == answer.json()
    shown = await waker.get("/personas/alice")
    assert ("failed", answer.json()["error"]) == (shown["state"], shown["last_error"])
    del waker.driver.fails["alice"]
    assert 200 == (await waker.order("start")).status_code  # by hand: at once


async def test_a_worker_that_is_not_ready_in_time(waker: WakerLife) -> None:
    waker.driver.ready_s = math.inf
    answer = await waker.order("start")

    assert (504, 60) == (answer.status_code, trio.current_time())
    assert "failed" == await waker.state()


async def test_first_requests_start_it_once_and_all_wait(waker: WakerLife) -> None:
    """Started by the first request through the gateway; concurrent first requests start it once and all wait."""
    answers = await side_by_side(*[waker.call] * 20, *[lambda: waker.order("start")] * 5)

    assert [201] * 20 + [200] * 5 == [answer.status_code for answer in answers]
    assert 2 == trio.current_time()
    assert 1 == waker.driver.starts["alice"]
    assert 20 == len(waker.worker().asked)


async def test_ten_that_start_at_once_do_not_time_each_other_out(tmp_path: Path) -> None:
    """A start's time is its own: who waits for a turn loses none of it."""
    names = [f"p{number}" for number in range(10)]
    text = "[defaults]\nstart_within_s = 21\n" + "".join(f"[personas.{name}]\n" for name in names)
    async with live_waker(WakerWorld(tmp_path, text)) as waker:
        waker.driver.ready_s = 20
        answers = await side_by_side(*[lambda name=name: waker.call(name=name) for name in names])

        assert [201] * 10 == [answer.status_code for answer in answers]
        assert (2, 100) == (waker.driver.at_once, trio.current_time())


async def test_a_client_that_leaves_while_it_starts_disturbs_nobody(waker: WakerLife) -> None:
    with trio.move_on_after(1):
        await waker.call()
    assert "starting" == await waker.state()
    await trio.sleep(2)

    assert "running" == await waker.state()
    assert [] == waker.worker().asked  # nothing was done for one who had left
    assert 0 == waker.keeper().traffic.passing


# Sleeping


async def test_a_sleepy_worker_stops_after_its_idle_timeout(waker: WakerLife) -> None:
    """By the worker's own `/activity`, to the moment."""
    await waker.call()
    await trio.sleep(59)
    assert "running" == await waker.state()
    await trio.sleep(2)

    assert "stopped" == await waker.state()
    assert {} == waker.driver.workers


async def test_questions_do_not_keep_it_up(waker: WakerLife) -> None:
    """Neither the waker's own nor those about it."""
    await waker.call()
    for _ in range(30):
        await waker.get("/personas")
        await waker.http.get("/metrics")
        await trio.sleep(2.1)

    assert "stopped" == await waker.state()


async def test_never_while_something_is_in_flight(waker: WakerLife) -> None:
    """A webhook job that waits for its attempt included; then the idle clock starts."""
    await waker.call()
    waker.worker().in_flight = 1
    await trio.sleep(3600)
    assert "running" == await waker.state()
    assert waker.worker().questions < 65  # it was asked when its stop could be due, not all the time

    waker.worker().in_flight = 0
    waker.worker().touched_at = trio.current_time()
    await trio.sleep(59)
    assert "running" == await waker.state()
    await trio.sleep(3)
    assert "stopped" == await waker.state()


async def test_a_direct_client_keeps_it_up_too(waker: WakerLife) -> None:
    await waker.order("start")
    for _ in range(10):
        await trio.sleep(50)
        waker.worker().touched_at = trio.current_time()

    assert (1, "running") == (waker.driver.starts["alice"], await waker.state())


async def test_a_request_that_is_passed_on_keeps_it_up(waker: WakerLife) -> None:
    """However long it takes, even if the worker does not count it."""
    await waker.call("main/slow?s=500")
    waker.worker().in_flight = 0

    assert (1, 502) == (waker.driver.starts["alice"], trio.current_time())


async def test_sleeping_personas_cost_no_question(waker: WakerLife) -> None:
    """No measurable CPU: nothing is due while they sleep."""
    await trio.sleep(1)
    before = trio.lowlevel.current_statistics().seconds_to_next_deadline

    assert before > 3600  # the clock of the world is not run here: nothing else is due


async def test_a_request_that_comes_with_the_stop_starts_it_again(waker: WakerLife) -> None:
    """The request wins, or waits and starts it again; it is never lost."""
    for early in (0.4, 0.1, 0.0, -0.1, -0.4, -0.6):
        await waker.call()
        await trio.sleep(60 - early)
        answer = await waker.call()
        assert 201 == answer.status_code, early


async def test_stop_sleeps_until_the_next_request(waker: WakerLife) -> None:
    await waker.order("start")
    answer = await waker.order("stop")
    assert (200, "stopped", 2.5) == (answer.status_code, answer.json()["state"], trio.current_time())
    assert 200 == (await waker.order("stop")).status_code

    assert 201 == (await waker.call()).status_code


async def test_stop_while_it_starts(waker: WakerLife) -> None:
    async def stop() -> httpx.Response:
        await trio.sleep(1)
        return await waker.order("stop")

    started, stopped = await side_by_side(lambda: waker.order("start"), stop)

    assert (503, "alice was stopped while it started") == (started.status_code, started.json()["error"])
    assert (200, "stopped", 1) == (stopped.status_code, stopped.json()["state"], trio.current_time())


async def test_restart(waker: WakerLife) -> None:
    await waker.order("start")
    first = waker.worker()
    answer = await waker.order("restart")

    assert (200, "running") == (answer.status_code, answer.json()["state"])
    assert first is not waker.worker()
    assert first.gone.is_set()
    await waker.order("stop")
    assert "running" == (await waker.order("restart")).json()["state"]


@pytest.mark.parametrize("waits_for", ["a restart", "a request"])
async def test_the_last_order_holds(waker: WakerLife, waits_for: str) -> None:
    """A stop takes back what waits for the next start: a restart that is under way, a request that came with a stop."""
    await waker.order("start")
    waker.worker().stop_s = 10

    async def earlier() -> httpx.Response:
        if waits_for == "a restart":
            return await waker.order("restart")
        await trio.sleep(61)  # its worker stops for idleness
        return await waker.call()

    async def stop() -> httpx.Response:
        await trio.sleep(2 if waits_for == "a restart" else 63)
        return await waker.order("stop")

    answers = await side_by_side(earlier, stop)
    assert [503, 200] == [answer.status_code for answer in answers]
    await trio.sleep(20)

    assert ("stopped", 1) == (await waker.state(), waker.driver.starts["alice"])


async def test_one_that_ignores_the_signal_is_killed_after_its_grace(tmp_path: Path) -> None:
    async with live_waker(WakerWorld(tmp_path, "[personas.alice]\nkill_after_s = 7\n")) as waker:
        await waker.order("start")
        waker.worker().stop_s = math.inf
        assert 200 == (await waker.order("stop")).status_code

        assert (9, ["alice"]) == (trio.current_time(), waker.driver.kills)


# Kept up


async def test_an_always_one_is_there_without_being_asked(tmp_path: Path) -> None:
    async with live_waker(WakerWorld(tmp_path, ALWAYS)) as waker:
        await trio.sleep(2.1)
        assert "running" == await waker.state()
        await trio.sleep(36_000)

        assert ("running", 1) == (await waker.state(), waker.driver.starts["alice"])


async def test_an_always_one_is_kept_up_with_back_off(tmp_path: Path) -> None:
    """At once after the first crash; more and more slowly while it does not start; never given up."""
    async with live_waker(WakerWorld(tmp_path, ALWAYS)) as waker:
        await trio.sleep(100)
        waker.driver.end("alice", "was ended by SIGKILL")
        await trio.sleep(2.1)
        assert ("running", 2) == (await waker.state(), waker.driver.starts["alice"])

        waker.driver.fails["alice"] = "ended with 1 instead of starting"
        waker.driver.end("alice")
        await trio.sleep(10)
        assert "failed" == await waker.state()
        answer = await waker.call()
        assert 503 == answer.status_code
        assert "ended with 1" in answer.json()["error"]
        assert 1 <= int(answer.headers["Retry-After"]) <= 6
        await trio.sleep(3600)
        tries = waker.driver.starts["alice"]
        assert 55 <= tries <= 70

        del waker.driver.fails["alice"]
        await trio.sleep(63)
        assert "running" == await waker.state()
        shown = await waker.get("/personas/alice")
        assert shown["last_error"] is not None


async def test_recycled_by_age_only_when_nothing_is_in_flight(tmp_path: Path) -> None:
    text = ALWAYS + "recycle_after_h = 1\n"
    async with live_waker(WakerWorld(tmp_path, text)) as waker:
        await trio.sleep(10)
        waker.worker().in_flight = 1
        await trio.sleep(4000)
        assert 1 == waker.driver.starts["alice"]
        waker.worker().in_flight = 0
        await trio.sleep(10)

        assert ("running", 2) == (await waker.state(), waker.driver.starts["alice"])


async def test_recycled_by_memory(tmp_path: Path) -> None:
    async with live_waker(WakerWorld(tmp_path, ALWAYS + "recycle_above_mb = 500\n")) as waker:
        await trio.sleep(10)
        waker.worker().memory_mb = 499
        await trio.sleep(600)
        assert 1 == waker.driver.starts["alice"]
        waker.worker().memory_mb = 501
        await trio.sleep(70)

        assert 2 == waker.driver.starts["alice"]
        assert 'why="memory"} 1.0' in (await waker.http.get("/metrics")).text


async def test_an_always_one_that_was_stopped_by_hand_stays_down(tmp_path: Path) -> None:
    """Until it is started: not even a request wakes it."""
    async with live_waker(WakerWorld(tmp_path, ALWAYS)) as waker:
        await trio.sleep(3)
        await waker.order("stop")
        await trio.sleep(3600)
        answer = await waker.call()
        assert (503, "alice was stopped by hand: start it first") == (
            answer.status_code,
            answer.json()["error"],
        )
        await waker.order("start")

        assert 201 == (await waker.call()).status_code


async def test_a_sleepy_one_that_dies_is_started_again(waker: WakerLife) -> None:
    """It may have left interrupted jobs and webhooks that wait; then it sleeps as usual. In the end it is given up."""
    await waker.order("start")
    waker.driver.end("alice", "was ended by SIGSEGV")
    await trio.sleep(2.1)
    assert ("running", 2) == (await waker.state(), waker.driver.starts["alice"])
    await trio.sleep(70)
    assert "stopped" == await waker.state()

    await waker.order("start")
    waker.driver.fails["alice"] = "ended with 1 instead of starting"
    waker.driver.end("alice")
    await trio.sleep(3600)
    assert ("failed", 8) == (await waker.state(), waker.driver.starts["alice"])


async def test_one_that_answers_nothing_any_more_is_ended(waker: WakerLife) -> None:
    """A minute of silence: it hangs."""
    await waker.order("start")
    first = waker.worker()
    first.silent = True
    await trio.sleep(200)

    assert first.gone.is_set()
    assert 2 == waker.driver.starts["alice"]


# The gateway


async def test_a_request_goes_on_as_it_came(waker: WakerLife) -> None:
    """Headers and status unchanged, hop-by-hop headers dropped; the worker gets its own key."""
    answer = await waker.call(
        "main/plugin/x/y?a=%2F&b",
        content=b"body",
        headers={"X-Lease": "t", "X-Request-Id": "mine", "TE": "x"},
    )

    assert (201, b"body", "alice") == (answer.status_code, answer.content, answer.headers["X-Of"])
    assert "X-Hop" not in answer.headers
    (asked,) = waker.worker().asked
    assert b"/api/v1/main/plugin/x/y?a=%2F&b" == asked.extensions["target"]
    assert ("t", "mine", "4") == tuple(
        asked.headers[name] for name in ("X-Lease", "X-Request-Id", "Content-Length")
    )
    assert "TE" not in asked.headers
    assert waker.worker().life.address == f"http://{asked.headers['Host']}"


KEYS = '[personas.alice]\nkey = "the-key-of-alice"\n[personas.bob]\n'


async def test_keys(tmp_path: Path) -> None:
    """Each persona has its own key or the waker's: the waker's reaches all, a persona's own that one alone."""
    async with live_waker(WakerWorld(tmp_path, KEYS)) as waker:

        async def status(path: str, key: str) -> int:
            return (await waker.http.get(path, headers={"Authorization": f"Bearer {key}"})).status_code

        assert 201 == await status("/p/alice/api/v1/pages", "the-key-of-alice")
        assert 401 == await status("/p/bob/api/v1/pages", "the-key-of-alice")
        assert 401 == await status("/p/nobody/api/v1/pages", "the-key-of-alice")
        assert 401 == await status("/api/v1/personas", "the-key-of-alice")
        assert 201 == (await waker.call()).status_code
        assert 201 == (await waker.call(name="bob")).status_code
        assert ["Bearer the-key-of-alice"] * 2 == [
            asked.headers["Authorization"] for asked in waker.worker().asked
        ]
        by_api_key = {"Authorization": "", "X-API-Key": "the-key-of-alice"}
        del waker.http.headers["Authorization"]
        answer = await waker.http.get("/p/alice/api/v1/runs", headers={"X-API-Key": by_api_key["X-API-Key"]})
        assert 201 == answer.status_code


async def test_a_files_link_needs_no_key_and_wakes_nobody(waker: WakerLife) -> None:
    del waker.http.headers["Authorization"]
    path = "/p/alice/api/v1/media/token"
    assert 401 == (await waker.http.get(path)).status_code
    assert not waker.driver.starts
    await waker.keeper().start()

    assert 201 == (await waker.http.get(path)).status_code
    assert "Authorization" not in waker.worker().asked[0].headers


async def test_a_personas_key_is_changed(tmp_path: Path) -> None:
    """The one before still opens it, as it does at the worker itself; and no other persona."""
    text = """
        [personas.alice]
        key = "the-key-of-alice"
        env = { PENELOPE_KEY_PREVIOUS = "the-one-before" }
        [personas.bob]
        key = "the-key-of-bob"
    """
    world = WakerWorld(tmp_path, text, keys=("the-wakers-new-key", "the-wakers-old-key"))
    async with live_waker(world) as waker:
        for key, statuses in {
            "the-one-before": (201, 401, 401),
            "the-key-of-alice": (201, 401, 401),
            "the-wakers-old-key": (201, 201, 200),
            "the-wakers-new-key": (201, 201, 200),
        }.items():
            waker.http.headers["Authorization"] = f"Bearer {key}"
            paths = ("/p/alice/api/v1/pages", "/p/bob/api/v1/pages", "/api/v1/personas")
            assert statuses == tuple([(await waker.http.get(path)).status_code for path in paths]), key
        assert {"Bearer the-key-of-alice"} == {
            asked.headers["Authorization"] for asked in waker.worker().asked
        }


async def test_a_worker_that_breaks_off(waker: WakerLife, logged: list[Any]) -> None:
    """`502` before its answer has begun; afterwards the answer is cut off, and looks so."""
    answer = await waker.call("main/hangs-up")
    assert (502, "worker") == (answer.status_code, answer.json()["kind"])
    async with waker.http.stream("GET", "/p/alice/api/v1/main/cut") as cut:
        assert 200 == cut.status_code
        with trio.move_on_after(1) as scope:
            await cut.aread()

    assert scope.cancelled_caught  # no end was sent: the server hangs up
    assert any("broke off in its answer" in line["event"] for line in logged)
    assert 0 == waker.keeper().traffic.passing


async def test_a_worker_that_dies_under_a_request(waker: WakerLife) -> None:
    async def die() -> None:
        await trio.sleep(10)
        waker.driver.end("alice", "was ended by SIGKILL")

    answer, _ = await side_by_side(lambda: waker.call("main/slow?s=100"), die)

    assert 502 == answer.status_code
    assert 201 == (await waker.call()).status_code


async def test_a_client_that_leaves_ends_its_request(waker: WakerLife) -> None:
    await waker.order("start")
    with trio.move_on_after(5):
        await waker.call("main/slow?s=100")
    await trio.sleep(0.1)

    assert (0, 0) == (waker.worker().in_flight, waker.keeper().traffic.passing)


async def test_a_start_that_fails_is_told_and_not_tried_all_the_time(waker: WakerLife) -> None:
    waker.driver.fails["alice"] = "ended with 1 instead of starting: no browser found"
    answers = await side_by_side(*[waker.call] * 5)
    assert [502] * 5 == [answer.status_code for answer in answers]
    assert "log" not in answers[0].json()  # it may hold more than a persona's clients should see
    for _ in range(100):
        await waker.call()
        await trio.sleep(0.1)

    assert waker.driver.starts["alice"] <= 5


# The file


async def test_reload_restarts_only_what_changed_after_its_drain(waker: WakerLife) -> None:
    for name in ("alice", "bob"):
        await waker.order("start", name)
    alice, bob = waker.worker("alice"), waker.worker("bob")
    alice.in_flight = 1
    waker.write(
        '[personas.alice]\nlocale = "de-DE"\n[personas.bob]\nidle_timeout_s = 500\n[personas.carol]\n'
    )
    answer = await waker.http.post("/api/v1/personas/reload")
    assert {
        "success": True,
        "added": ["carol"],
        "removed": [],
        "changed": ["alice", "bob"],
        "restarting": ["alice"],
    } == answer.json()
    await trio.sleep(100)
    assert waker.worker("alice") is alice
    assert 201 == (await waker.call()).status_code  # meanwhile it works as ever
    alice.in_flight = 0
    await trio.sleep(10)

    assert waker.worker("alice") is not alice
    assert {"PENELOPE_LOCALE": "de-DE"} == dict(waker.worker("alice").order.variables)
    assert waker.worker("bob") is bob
    assert ["alice", "bob", "carol"] == [one["name"] for one in (await waker.get("/personas"))["personas"]]
    assert 201 == (await waker.call(name="carol")).status_code


async def test_a_persona_with_a_new_key_is_asked_with_its_old_one_until_it_restarts(waker: WakerLife) -> None:
    await waker.order("start")
    alice = waker.worker()
    alice.in_flight = 1
    waker.write('[personas.alice]\nkey = "a-new-key-of-alice"\n')
    await waker.http.post("/api/v1/personas/reload")
    await trio.sleep(500)
    assert waker.worker() is alice
    assert 201 == (await waker.call()).status_code
    alice.in_flight = 0
    await trio.sleep(10)

    assert "a-new-key-of-alice" == waker.worker().order.key


async def test_a_removed_persona_ends_with_its_quiet_moment(waker: WakerLife) -> None:
    await waker.order("start")
    alice = waker.worker()
    alice.in_flight = 1
    waker.write("[personas.bob]\n")
    answer = await waker.http.post("/api/v1/personas/reload")
    assert ["alice"] == answer.json()["removed"]
    assert 404 == (await waker.http.get("/api/v1/personas/alice")).status_code
    await trio.sleep(100)
    assert not alice.gone.is_set()
    waker.write("[personas.alice]\n[personas.bob]\n")
    await waker.http.post("/api/v1/personas/reload")
    assert waker.worker() is alice  # back in time
    waker.write("[personas.bob]\n")
    await waker.http.post("/api/v1/personas/reload")
    alice.in_flight = 0
    await trio.sleep(10)
    assert alice.gone.is_set()
    waker.write("[personas.alice]\n[personas.bob]\n")
    await waker.http.post("/api/v1/personas/reload")

    assert 201 == (await waker.call()).status_code


async def test_a_file_that_is_not_good_changes_nothing(waker: WakerLife) -> None:
    await waker.order("start")
    waker.write("[personas.alice]\nport = 1\n[personas.bob]\nport = 1\n")
    answer = await waker.http.post("/api/v1/personas/reload")

    assert 422 == answer.status_code
    assert "personas.toml, line 4: personas.bob.port is 1, which alice has" == answer.json()["error"]
    assert 201 == (await waker.call()).status_code
    assert 1 == waker.driver.starts["alice"]


# The waker's own stops


async def test_a_stop_of_the_waker_stops_its_workers(world: WakerWorld) -> None:
    """Side by side; who waits is told."""
    async with live_waker(world) as waker:
        for name in ("alice", "bob"):
            await waker.order("start", name)
            waker.worker(name).stop_s = 5
        began = trio.current_time()
        await waker.house.close()

        assert (5, {}) == (trio.current_time() - began, waker.driver.workers)
        assert 503 == (await waker.call()).status_code
        assert 503 == (await waker.order("start")).status_code


async def test_the_wakers_crash_leaves_workers_running_and_the_next_takes_them_over(
    world: WakerWorld,
) -> None:
    async with live_waker(world) as waker:
        await waker.call()
        await waker.call(name="bob")
        alice = waker.worker()
    await trio.sleep(5)
    world.text = '[personas.alice]\n[personas.bob]\nlocale = "de-DE"\n'
    async with live_waker(world) as waker:
        assert "running" == await waker.state()
        assert waker.worker() is alice
        assert 201 == (await waker.call()).status_code
        await trio.sleep(10)
        assert (1, 2) == (waker.driver.starts["alice"], waker.driver.starts["bob"])  # bob's file had changed
        await trio.sleep(70)

        assert "stopped" == await waker.state()


async def test_a_worker_whose_key_nobody_has_any_more_is_started_anew(world: WakerWorld) -> None:
    """It cannot be asked whether it is quiet, and nobody could reach it: its own grace is its drain."""
    async with live_waker(world) as waker:
        await waker.call()
        waker.worker().in_flight = 1
    world.text = '[personas.alice]\nkey = "another-key-of-alice"\n'
    async with live_waker(world) as waker:
        await trio.sleep(3)

        assert ("running", 2) == (await waker.state(), waker.driver.starts["alice"])
        assert 201 == (await waker.call()).status_code


@pytest.mark.parametrize(
    "after",
    ["", 'key = "the-key-of-alice"\nenv = { PENELOPE_KEY_PREVIOUS = "the-key-of-before" }'],
    ids=["the waker's", "its own"],
)
async def test_a_worker_with_the_key_before_goes_on_until_it_is_quiet(world: WakerWorld, after: str) -> None:
    """A key was changed while no waker was there: the next one asks with the one before, and cuts nothing off."""
    old = "the-key-of-before"
    world.keys = (old,)
    async with live_waker(world) as waker:
        waker.http.headers["Authorization"] = f"Bearer {old}"
        await waker.call()
        alice = waker.worker()
        alice.in_flight = 1
    world.keys = ("the-key-of-the-waker-9876543210",) if after else ("the-key-of-the-waker-9876543210", old)
    world.text = f"[personas.alice]\n{after}\n"
    async with live_waker(world) as waker:
        waker.http.headers["Authorization"] = f"Bearer {world.keys[0]}"
        await trio.sleep(300)
        assert waker.worker() is alice
        assert 201 == (await waker.call()).status_code
        alice.in_flight = 0
        await trio.sleep(10)

        assert waker.worker() is not alice
        assert waker.keeper().persona.order.key == waker.worker().key


async def test_a_slow_answer_is_no_reason_to_cut_off_what_is_in_flight(world: WakerWorld) -> None:
    """Taken over with other settings, from a machine that is overloaded: only a refusal is told for sure."""
    async with live_waker(world) as waker:
        await waker.call()
        alice = waker.worker()
        alice.in_flight, alice.silent = 1, True
    world.text = '[personas.alice]\nlocale = "de-DE"\n'
    async with live_waker(world) as waker:
        await trio.sleep(30)
        assert waker.worker() is alice
        alice.silent = False
        await trio.sleep(300)
        assert waker.worker() is alice
        alice.in_flight = 0
        await trio.sleep(10)

        assert waker.worker() is not alice


async def test_a_worker_of_no_persona_is_stopped(world: WakerWorld) -> None:
    async with live_waker(world) as waker:
        await waker.call()
    world.text = "[personas.bob]\n"
    async with live_waker(world) as waker:
        await trio.sleep(1)

        assert {} == waker.driver.workers


async def test_what_died_while_no_waker_was_there_is_started_again(world: WakerWorld) -> None:
    """A machine that lost its power: jobs that were running have to be told, webhooks go on."""
    async with live_waker(world) as waker:
        await waker.call()
        await waker.call(name="bob")
        await waker.order("stop", "bob")
        waker.driver.workers.clear()
    async with live_waker(world) as waker:
        await trio.sleep(3)

        assert ("running", "stopped") == (await waker.state("alice"), await waker.state("bob"))


@pytest.mark.parametrize(("in_flight", "state"), [(1, "running"), (0, "stopped")])
async def test_what_a_stop_of_the_waker_cut_off_goes_on_with_the_next(
    world: WakerWorld, in_flight: int, state: str
) -> None:
    """Webhook jobs that wait for an attempt do not wait for a client besides."""
    async with live_waker(world) as waker:
        await waker.call()
        waker.worker().in_flight = in_flight
        await waker.house.close()
    async with live_waker(world) as waker:
        await trio.sleep(3)

        assert state == await waker.state()


def owe(waker: WakerLife, callback: str | None, forget_at: float | None) -> None:
    """Put a job into alice's store, as a worker that was stopped in the middle of it leaves one."""
    store = waker.keeper().persona.order.store
    store.mkdir(parents=True)
    with closing(sqlite3.connect(store / "penelope.db")) as connection:
        connection.executescript(opening.schema())
        connection.execute(
            "INSERT INTO jobs (job_id, page_id, plugin, callback, ttl, request_id, state, started_at, finished_at,"
            " forget_at) VALUES ('0123456789abcdef', 'main', 'a/b', ?, ?, 'r', 'done', 1.0, 2.0, ?)",
            (callback, None if callback else 60.0, forget_at),
        )
        connection.commit()


@pytest.mark.parametrize(
    ("callback", "left_s", "state"),
    [("http://127.0.0.1:1/", 600, "running"), ("http://127.0.0.1:1/", -1, "stopped"), (None, 600, "stopped")],
    ids=["a webhook", "one past its deadline", "a polling job"],
)
async def test_webhooks_that_a_stop_caught_are_not_left_behind(
    waker: WakerLife, callback: str | None, left_s: float, state: str
) -> None:
    """A direct client started a job just when its worker was told to stop for idleness: it is up again at once."""
    await waker.call()
    await trio.sleep(59)
    owe(waker, callback, EPOCH + trio.current_time() + left_s)
    await trio.sleep(5)
    assert state == await waker.state()

    assert "stopped" == (await waker.order("stop")).json()["state"]  # by hand: so be it
    await trio.sleep(10)
    assert "stopped" == await waker.state()


async def test_runs_in_the_queue_are_not_left_behind(waker: WakerLife) -> None:
    await waker.call()
    await trio.sleep(59)
    owe(waker, None, EPOCH + 1000)
    with closing(sqlite3.connect(waker.keeper().persona.order.store / "penelope.db")) as connection:
        connection.execute(
            "INSERT INTO runs (run_id, state, request, agent_id, timeout_s, request_id, created_at)"
            " VALUES ('run_0123456789ab', 'queued', '{}', 'a', 60.0, 'r', 1.0)"
        )
        connection.commit()
    await trio.sleep(5)

    assert "running" == await waker.state()


async def test_webhooks_that_a_stop_of_the_waker_caught(world: WakerWorld) -> None:
    """The store knows, whatever the worker said before."""
    async with live_waker(world) as waker:
        await waker.call()
        owe(waker, "http://127.0.0.1:1/", EPOCH + 1000)
        await waker.house.close()
    async with live_waker(world) as waker:
        await trio.sleep(3)
        assert ("running", "stopped") == (await waker.state(), await waker.state("bob"))
