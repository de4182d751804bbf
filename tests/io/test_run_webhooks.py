"""Where the webhooks of runs may go, on a real worker that asks a real name server: scenarios J62 to J66.

Source: contract, section 10 ("Runs' webhook targets are screened at submit … and again at delivery").
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import trio

from tests.io.conftest import NewReceiver
from tests.io.name_server import NameServer, asks_it
from tests.io.receivers import Receiver, serve_receiver, status
from tests.io.worker_process import WorkerProcess, end_all

RUNS: Final = "/api/v1/runs"
PUBLIC: Final = "127.0.0.2"  # let through by name of its address: it stands for one of the public internet
RECIPES: Final = {
    "told": "name: told\nsteps: [{as: it, plugin: tested/echo, with: {value: 1}}]\n",
    "untold": "name: untold\nsteps: [{as: it, plugin: tested/echo, with: {value: 1}}]\n"
    "runtime: {job: {events: [failed]}}\n",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("webhooks")


@pytest.fixture(scope="module")
def one(home: Path) -> Iterator[WorkerProcess]:
    before = asks_it(home)
    for name, text in RECIPES.items():
        (home / "recipes" / name).mkdir(parents=True)
        (home / "recipes" / name / "TEMPLATE.yaml").write_text(text)
    worker = WorkerProcess(home / "worker", PENELOPE_RECIPES=str(home / "recipes"), WEBHOOK_ALLOW=PUBLIC)
    worker.before = before
    yield worker
    end_all([worker])


@pytest.fixture
async def server(nursery: trio.Nursery) -> NameServer:
    made = NameServer()
    await nursery.start(made.serve)
    return made


@pytest.fixture
async def http(one: WorkerProcess, server: NameServer) -> AsyncIterator[httpx.AsyncClient]:
    if not one.base_url:
        await one.start()
    async with one.client() as client:
        yield client


@pytest.fixture
async def good_and_bad(nursery: trio.Nursery, new_receiver: NewReceiver) -> tuple[Receiver, Receiver]:
    """Two receivers on one port: that of the address which is let through, and that of loopback."""
    good = await new_receiver(status(200), host=PUBLIC)
    bad: Receiver = await nursery.start(serve_receiver, status(200), None, "127.0.0.1", good.port)
    return good, bad


async def submitted(http: httpx.AsyncClient, url: str, recipe: str = "told") -> str:
    answer = await http.post(RUNS, json={"prompt": "", "recipe_name": recipe, "webhook_url": url})
    assert 202 == answer.status_code, answer.text
    return str(answer.json()["job_id"])


async def refused(http: httpx.AsyncClient, url: str) -> str:
    answer = await http.post(RUNS, json={"prompt": "", "recipe_name": "told", "webhook_url": url})
    assert 422 == answer.status_code, answer.text
    return str(answer.json()["detail"])


async def posts(http: httpx.AsyncClient, run_id: str) -> list[dict[str, Any]]:
    """The POSTs of a run's end, once there is one."""
    with trio.fail_after(15):
        while True:
            found = (await http.get("/api/v1/deliveries", params={"job_id": run_id})).json()["deliveries"]
            if found:
                return list(found)
            await trio.sleep(0.05)


async def test_the_address_that_was_checked_is_the_one_that_is_dialled(
    http: httpx.AsyncClient, server: NameServer, good_and_bad: tuple[Receiver, Receiver]
) -> None:
    """J62: a name that is good when it is checked, and loopback whenever somebody would look again."""
    good, bad = good_and_bad
    server.names["rebind.test"] = [[PUBLIC], [PUBLIC], ["127.0.0.1"]]
    run_id = await submitted(http, f"http://rebind.test:{good.port}/h")
    (post,) = await good.wait_for(1)
    assert run_id == post.job["job_id"]
    assert f"rebind.test:{good.port}" == post.header("host")
    assert [PUBLIC] == [one["address"] for one in await posts(http, run_id)]
    assert 0 == bad.connections
    assert 2 == server.asked["rebind.test"]  # at submit, and for the POST: once


async def test_a_name_that_has_turned_bad_by_the_delivery_is_not_dialled(
    http: httpx.AsyncClient, server: NameServer, good_and_bad: tuple[Receiver, Receiver]
) -> None:
    """J62: screened at submit, and again at delivery."""
    good, bad = good_and_bad
    server.names["turned.test"] = [[PUBLIC], ["127.0.0.1"]]
    run_id = await submitted(http, f"http://turned.test:{good.port}/h")
    (post,) = await posts(http, run_id)
    assert ("policy", None, "retry") == (post["error_class"], post["address"], post["verdict"])
    assert "127.0.0.1 is a loopback address, which RUNS_WEBHOOK_POLICY=public refuses" in post["error"]
    assert (0, 0) == (good.connections, bad.connections)


@pytest.mark.parametrize(
    ("addresses", "word"),
    [
        (["127.0.0.1"], "127.0.0.1 is a loopback address"),
        ([PUBLIC, "::1"], "::1 is a loopback address"),  # J63
        ([*(f"8.8.8.{n}" for n in range(9)), "10.0.0.1"], "10.0.0.1 is a private address"),  # J63
        (["64:ff9b::7f00:1"], "64:ff9b::7f00:1 is a loopback address"),  # J64
        (["2002:7f00:1::"], "2002:7f00:1:: is a loopback address"),
        (["::127.0.0.1"], "::127.0.0.1 is"),
        (["ff02::1"], "ff02::1 is a multicast address"),
        (["224.0.0.1"], "224.0.0.1 is a multicast address"),
        (["fec0::1"], "fec0::1 is"),
        (["100.64.0.1"], "100.64.0.1 is"),  # J66
        (["169.254.169.254"], "169.254.169.254 is"),
    ],
)
async def test_any_bad_address_refuses_the_submit_and_is_named(
    http: httpx.AsyncClient, server: NameServer, addresses: list[str], word: str
) -> None:
    server.names["bad.test"] = [addresses]
    said = await refused(http, "http://bad.test/h")
    assert said.startswith("webhook_url: ")
    assert word in said
    assert "RUNS_WEBHOOK_POLICY=public" in said


async def test_a_public_address_inside_of_another_is_taken(
    http: httpx.AsyncClient, server: NameServer
) -> None:
    """J65. Nothing is dialled: this recipe tells of failures alone."""
    server.names["nat64.test"] = [["64:ff9b::808:808"]]
    await submitted(http, "http://nat64.test/h", recipe="untold")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/", "http://[::1]/", "http://localhost/", "http://2130706433/"]
)
async def test_an_address_needs_no_name_server(http: httpx.AsyncClient, server: NameServer, url: str) -> None:
    said = await refused(http, url)
    assert said.startswith("webhook_url")
    assert not {
        name for name in server.asked if name.rstrip(".") in url
    }  # the browser asks for names of its own


async def test_a_name_that_is_none(http: httpx.AsyncClient) -> None:
    assert "webhook_url: nobody.test could not be looked up: " in await refused(http, "http://nobody.test/h")


async def test_a_name_server_that_is_silent_delays_nobody_else(
    http: httpx.AsyncClient, server: NameServer
) -> None:
    """DNS down: reads unaffected, and other submits."""
    server.names["silent.test"] = None
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(refused, http, "http://silent.test/h")
        await trio.sleep(0.2)
        before = trio.current_time()
        run_id = (await http.post(RUNS, json={"prompt": "", "recipe_name": "told"})).json()["job_id"]
        await http.get(f"{RUNS}/{run_id}", headers={"Prefer": "wait=5"})
        assert "succeeded" == (await http.get(f"{RUNS}/{run_id}")).json()["status"]
        assert trio.current_time() - before < 1.5
    assert trio.current_time() - began < 9


async def test_a_redirect_is_not_followed_and_said(
    http: httpx.AsyncClient, one: WorkerProcess, server: NameServer, good_and_bad: tuple[Receiver, Receiver]
) -> None:
    good, bad = good_and_bad
    good.answers(status(302, f"Location: http://127.0.0.1:{bad.port}/elsewhere"))
    server.names["moved.test"] = [[PUBLIC]]
    run_id = await submitted(http, f"http://moved.test:{good.port}/h")
    (post,) = await posts(http, run_id)
    assert (302, PUBLIC) == (post["status"], post["address"])
    assert f"answered 302 to 'http://127.0.0.1:{bad.port}/elsewhere', not followed" == post["error"]
    assert 0 == bad.connections
    line = await one.wait_for_line("webhook posted", job_id=run_id)
    assert post["error"] == line["error"]
