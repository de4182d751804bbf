"""What the client's methods give, as a type checker sees it and as it is. mypy reads this file, too."""

from typing import Any, assert_type

import httpx
from pydantic import BaseModel
from pydantic.dataclasses import dataclass
from typing_extensions import TypedDict  # pydantic's wish before Python 3.12

from penelope.client import AsyncClient, AsyncJobHandle, Client, JobHandle


class Model(BaseModel):
    value: int


@dataclass
class Data:
    value: int


class Dict(TypedDict):
    value: int


def answer(request: httpx.Request) -> httpx.Response:
    body: dict[str, Any] = {"success": True, "page_id": "main", "value": 7}
    if "X-Result-Ttl" in request.headers and "Prefer" not in request.headers:
        return httpx.Response(202, json={"success": True, "job_id": "5b1d82d4dc257267"})
    if request.method == "GET":
        job = {
            "job_id": "5b1d82d4dc257267",
            "state": "done",
            "plugin": "a/b",
            "started_at": 1.0,
            "status": 200,
        }
        body = {"success": True, "page_id": "main", **job, "result": body}
    return httpx.Response(200, json=body)


def test_a_result_is_what_was_asked_for() -> None:
    with Client("http://worker", "key", transport=httpx.MockTransport(answer)) as client:
        bare = client.call("main", "a/b")
        model = client.call("main", "a/b", result=Model)
        data = client.run("main", "a/b", result=Data)
        typed = client.run("main", "a/b", result=Dict)
        job = client.start("main", "a/b", result=Model)
        other = client.start("main", "a/b")
        assert_type(bare, dict[str, Any])
        assert_type(model, Model)
        assert_type(data, Data)
        assert_type(typed, Dict)
        assert_type(job, JobHandle[Model])
        assert_type(job.result(), Model)
        assert_type(other.result(), dict[str, Any])

        assert ({"value": 7}, Model(value=7), Data(value=7), {"value": 7}) == (bare, model, data, typed)
        assert (Model(value=7), {"value": 7}) == (job.result(), other.result())


async def test_the_asynchronous_one_too() -> None:
    transport = httpx.MockTransport(answer)
    async with AsyncClient("http://worker", "key", transport=transport) as client:
        job = await client.start("main", "a/b", result=Model)
        bare = await client.call("main", "a/b")
        assert_type(job, AsyncJobHandle[Model])
        assert_type(bare, dict[str, Any])

        assert (Model(value=7), {"value": 7}) == (await job.result(), bare)
