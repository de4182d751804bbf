"""`penelope.client` on real sockets, in all three flavours, against servers that answer badly or not at all.

Source: contract, section 11.
"""

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from pydantic import BaseModel

from penelope.client import (
    BadAddress,
    Conflict,
    NotFound,
    StillRunning,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
    Unreachable,
)
from penelope.client.address import find
from tests.io.flavours import FLAVOURS, Scenario, play
from tests.io.receivers import Behaviour, Received, Receiver, Stream, hang, reset, status

KEY = "the-key-of-the-tests-0123456789"
JOB_ID = "5b1d82d4dc257267"
NewReceiver = Callable[..., Awaitable[Receiver]]
Play = Callable[[Scenario, Receiver], Awaitable[Any]]


@pytest.fixture(params=FLAVOURS)
def flavour(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def played(flavour: str) -> Play:
    async def run(scenario: Scenario, receiver: Receiver) -> Any:
        return await play(flavour, scenario, base(receiver), KEY)

    return run


def base(receiver: Receiver) -> str:
    found = re.match(r"http://[^/]+", receiver.url)
    assert found is not None
    return found[0]


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Each connection gets the next one; the last stays."""
    left = list(behaviours)

    async def answer(stream: Stream, received: Received) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(stream, received)

    return answer


def says(code: int, body: object, *headers: str) -> Behaviour:
    kind = "Content-Type: application/json"
    return status(code, kind, "Connection: close", *headers, body=json.dumps(body).encode())


def shown(state: str, **more: Any) -> dict[str, Any]:
    return {
        "success": True, "page_id": "main", "job_id": JOB_ID, "state": state, "plugin": "a/b", "started_at": 1.0,
        "finished_at": None, "expires_in": None, "status": None, "result": None, "callback": None, "delivery": None,
        **more,
    }  # fmt: skip


DONE = shown("done", status=200, result={"success": True, "page_id": "main", "value": 7}, finished_at=2.0)
ACCEPTED = {
    "success": True,
    "page_id": "main",
    "job_id": JOB_ID,
    "status_url": "/x",
    "ttl": 600.0,
    "callback": None,
}


class Value(BaseModel):
    value: int


class TestCalls:
    async def test_the_key_goes_along_and_the_answer_is_typed(
        self, played: Play, new_receiver: NewReceiver
    ) -> None:
        receiver = await new_receiver(says(200, {"success": True, "page_id": "main", "value": 7}))

        async def scenario(client: Any) -> Any:
            return await client.call("main", "a/b", {"n": 1}, result=Value)

        assert Value(value=7) == await played(scenario, receiver)
        (received,) = receiver.received
        assert "POST /api/v1/main/plugin/a/b HTTP/1.1" == received.line
        assert f"Bearer {KEY}" == received.header("Authorization")
        assert {"n": 1} == json.loads(received.body)

    async def test_one_that_may_have_run_is_not_made_again(
        self, played: Play, new_receiver: NewReceiver
    ) -> None:
        receiver = await new_receiver(in_turn(reset, says(200, {"success": True})))

        async def scenario(client: Any) -> Any:
            return await client.call("main", "a/b")

        with pytest.raises(Unreachable) as caught:
            await played(scenario, receiver)
        assert caught.value.maybe_done
        assert 1 == len(receiver.received)

    async def test_nobody_is_there(self, flavour: str) -> None:
        async def scenario(client: Any) -> Any:
            return await client.call("main", "a/b")

        with pytest.raises(
            Unreachable, match=r"the worker at http://127\.0\.0\.1:1 cannot be reached"
        ) as caught:
            await play(flavour, scenario, "http://127.0.0.1:1", KEY)
        assert not caught.value.maybe_done

    @pytest.mark.parametrize(
        ("code", "error"), [(401, Unauthorized), (404, NotFound), (409, Conflict), (503, Unavailable)]
    )
    async def test_a_refusal_has_the_workers_words(
        self, played: Play, new_receiver: NewReceiver, code: int, error: type[Exception]
    ) -> None:
        receiver = await new_receiver(says(code, {"success": False, "error": "its words", "kind": "site"}))

        async def scenario(client: Any) -> Any:
            return await client.call("main", "a/b")

        with pytest.raises(error, match="its words") as caught:
            await played(scenario, receiver)
        assert (code, "site") == (caught.value.status, caught.value.kind)  # type: ignore[attr-defined]

    async def test_retry_after_is_waited_for(self, played: Play, new_receiver: NewReceiver) -> None:
        busy = says(503, {"success": False, "error": "busy"}, "Retry-After: 1")
        receiver = await new_receiver(in_turn(busy, says(200, {"success": True, "value": 7})))

        async def scenario(client: Any) -> Any:
            return await client.call("main", "a/b")

        assert {"value": 7} == await played(scenario, receiver)
        first, second = receiver.received
        assert 1.0 <= second.at - first.at < 3.0


class TestJobs:
    async def test_a_start_whose_answer_is_lost_is_made_again_under_its_key(
        self, played: Play, new_receiver: NewReceiver
    ) -> None:
        receiver = await new_receiver(in_turn(reset, says(202, ACCEPTED)))

        async def scenario(client: Any) -> Any:
            return (await client.start("main", "a/b", {"n": 1})).job_id

        assert JOB_ID == await played(scenario, receiver)
        first, second = receiver.received
        assert first.header("Idempotency-Key") == second.header("Idempotency-Key")
        assert first.body == second.body

    async def test_a_proxy_that_lost_the_worker_for_a_moment(
        self, played: Play, new_receiver: NewReceiver
    ) -> None:
        gone = status(502, "Content-Type: text/html", "Connection: close", body=b"<html>Bad Gateway</html>")
        receiver = await new_receiver(in_turn(gone, says(202, ACCEPTED), gone, gone, says(200, DONE)))

        async def scenario(client: Any) -> Any:
            job = await client.start("main", "a/b", result=Value)
            return await job.result()

        assert Value(value=7) == await played(scenario, receiver)

    async def test_a_worker_that_does_not_know_how_to_wait_is_polled(
        self, played: Play, new_receiver: NewReceiver
    ) -> None:
        running = says(200, shown("running"))
        receiver = await new_receiver(in_turn(running, running, says(200, DONE)))

        async def scenario(client: Any) -> Any:
            return await client.job(JOB_ID).wait()

        job = await played(scenario, receiver)
        assert ("done", {"success": True, "page_id": "main", "value": 7}) == (job.state, job.result)
        first, second, third = receiver.received
        assert "wait=25" == first.header("Prefer")
        assert 0.2 < second.at - first.at < third.at - second.at

    async def test_the_time_given_ends_it(self, played: Play, new_receiver: NewReceiver) -> None:
        receiver = await new_receiver(says(200, shown("running")))

        async def scenario(client: Any) -> Any:
            return await client.job(JOB_ID).wait(timeout_s=0.6)

        with pytest.raises(StillRunning, match=r"still runs after 0\.6 s"):
            await played(scenario, receiver)

    async def test_a_wait_can_be_cancelled(self, new_receiver: NewReceiver) -> None:
        """By the scope around it: what never answers holds nobody."""
        receiver = await new_receiver(hang)

        async def scenario(client: Any) -> Any:
            with trio.move_on_after(0.3) as scope:
                await client.job(JOB_ID).wait()
            return scope.cancelled_caught

        assert await play("trio", scenario, base(receiver), KEY)

    async def test_cancel(self, played: Play, new_receiver: NewReceiver) -> None:
        receiver = await new_receiver(says(200, shown("cancelled", status=499)))

        async def scenario(client: Any) -> Any:
            return await client.job(JOB_ID).cancel()

        assert "cancelled" == (await played(scenario, receiver)).state
        assert f"DELETE /api/v1/jobs/{JOB_ID} HTTP/1.1" == receiver.received[0].line


def stream_of(*events: tuple[str, dict[str, Any], str | None], end: Behaviour | None = None) -> Behaviour:
    """Server-sent events, then the end of the stream: a clean one, or `end`."""

    async def answer(stream: Stream, received: Received) -> None:
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        await stream.send_all(head.encode())
        for kind, data, event_id in events:
            lines = [
                f"event: {kind}",
                f"data: {json.dumps(data)}",
                *([f"id: {event_id}"] if event_id else []),
            ]
            await _chunk(stream, ": a heartbeat\n\n")
            await _chunk(stream, "\n".join((*lines, "", "")))
        if end is not None:
            await end(stream, received)
        else:
            await stream.send_all(b"0\r\n\r\n")

    return answer


async def _chunk(stream: Stream, text: str) -> None:
    data = text.encode()
    await stream.send_all(f"{len(data):x}\r\n".encode() + data + b"\r\n")


RUNNING = ("state", shown("running"), "1")
HALF = ("progress", {"progress": 0.5, "note": "half"}, None)
END = ("end", DONE, "2")


class TestEvents:
    async def kinds(self, played: Play, receiver: Receiver) -> list[str]:
        async def scenario(client: Any) -> Any:
            return [event async for event in client.job(JOB_ID).events()]

        events = await played(scenario, receiver)
        assert DONE["result"] == events[-1].job.result
        return [event.kind for event in events]

    async def test_are_told_as_they_come(self, played: Play, new_receiver: NewReceiver) -> None:
        receiver = await new_receiver(stream_of(RUNNING, HALF, END))

        assert ["state", "progress", "end"] == await self.kinds(played, receiver)
        (received,) = receiver.received
        assert f"GET /api/v1/jobs/{JOB_ID}/events HTTP/1.1" == received.line
        assert "text/event-stream" == received.header("Accept")

    @pytest.mark.parametrize("end", [None, reset], ids=["ends", "breaks"])
    async def test_a_stream_that_stops_is_opened_again_where_it_was(
        self, played: Play, new_receiver: NewReceiver, end: Behaviour | None
    ) -> None:
        receiver = await new_receiver(in_turn(stream_of(RUNNING, HALF, end=end), stream_of(END)))

        assert ["state", "progress", "end"] == await self.kinds(played, receiver)
        first, second = receiver.received
        assert "last-event-id" not in {name.lower() for name, _ in first.headers}
        assert "1" == second.header("Last-Event-ID")

    async def test_a_worker_that_starts_again_is_waited_for(
        self, played: Play, new_receiver: NewReceiver
    ) -> None:
        stopping = says(503, {"success": False, "error": "stopping"}, "Retry-After: 0")
        receiver = await new_receiver(in_turn(stream_of(RUNNING), stopping, reset, stream_of(END)))

        assert ["state", "end"] == await self.kinds(played, receiver)
        assert 4 == len(receiver.received)

    async def test_a_job_that_is_gone_ends_it(self, played: Play, new_receiver: NewReceiver) -> None:
        gone = says(404, {"success": False, "error": "there is no job"})
        receiver = await new_receiver(in_turn(stream_of(RUNNING), gone))

        async def scenario(client: Any) -> Any:
            return [event async for event in client.job(JOB_ID).events()]

        with pytest.raises(NotFound, match="there is no job"):
            await played(scenario, receiver)

    async def test_for_ever_it_does_not_try(self, played: Play, new_receiver: NewReceiver) -> None:
        """A stream that never says anything is not opened again without end."""
        receiver = await new_receiver(stream_of())

        async def scenario(client: Any) -> Any:
            return [event async for event in client.job(JOB_ID).events()]

        with pytest.raises(Unreachable, match=r"ended before job .* did"):
            await played(scenario, receiver)
        assert 5 == len(receiver.received)

    async def test_who_leaves_early_leaves_nothing(self, played: Play, new_receiver: NewReceiver) -> None:
        """Neither a connection nor, under Trio, a generator for the garbage collector."""
        receiver = await new_receiver(stream_of(RUNNING, HALF, HALF, end=hang))

        async def scenario(client: Any) -> Any:
            async with client.job(JOB_ID).events() as events:
                return (await anext(aiter(events))).kind

        assert "state" == await played(scenario, receiver)

    async def test_what_is_no_stream_is_named(self, played: Play, new_receiver: NewReceiver) -> None:
        receiver = await new_receiver(says(200, {"success": True}))

        async def scenario(client: Any) -> Any:
            return [event async for event in client.job(JOB_ID).events()]

        with pytest.raises(UnexpectedAnswer, match="are no stream"):
            await played(scenario, receiver)


CONTENT = bytes(range(256)) * 1000
LINK = {
    "url": "/api/v1/media/abc",
    "filename": "a/b: c.bin",
    "content_type": "x/y",
    "size": len(CONTENT),
    "expires_at": 1.0,
}


def part_of_it(stop: int | None = None) -> Behaviour:
    """The file, or the rest of it that was asked for; broken off at `stop`."""

    async def answer(stream: Stream, received: Received) -> None:
        ranges = [value for name, value in received.headers if name.lower() == "range"]
        begin = int(ranges[0].removeprefix("bytes=").removesuffix("-")) if ranges else 0
        extra = [f"Content-Range: bytes {begin}-{len(CONTENT) - 1}/{len(CONTENT)}"] if begin else []
        head = [
            f"HTTP/1.1 {206 if begin else 200} OK",
            f"Content-Length: {len(CONTENT) - begin}",
            *extra,
            "",
            "",
        ]
        await stream.send_all("\r\n".join(head).encode() + CONTENT[begin:stop])

    return answer


def files_in(folder: Path) -> set[Path]:
    return set(folder.iterdir())


class TestDownloads:
    async def fetch(self, played: Play, receiver: Receiver, to: Path) -> Path:
        async def scenario(client: Any) -> Any:
            return await client.download(LINK, to)

        path: Path = await played(scenario, receiver)
        return path

    async def test_into_a_folder_under_a_safe_name_and_over_nothing(
        self, played: Play, new_receiver: NewReceiver, tmp_path: Path
    ) -> None:
        receiver = await new_receiver(part_of_it())
        first = await self.fetch(played, receiver, tmp_path)
        second = await self.fetch(played, receiver, tmp_path)

        assert ["b_ c.bin", "b_ c-2.bin"] == [first.name, second.name]
        assert [CONTENT, CONTENT] == [first.read_bytes(), second.read_bytes()]
        assert {first, second} == files_in(tmp_path)
        assert [] == [name for name, _ in receiver.received[0].headers if name.lower() == "authorization"]

    async def test_as_a_file(self, played: Play, new_receiver: NewReceiver, tmp_path: Path) -> None:
        (tmp_path / "mine").write_bytes(b"old")
        receiver = await new_receiver(part_of_it())

        assert tmp_path / "mine" == await self.fetch(played, receiver, tmp_path / "mine")
        assert CONTENT == (tmp_path / "mine").read_bytes()

    async def test_what_breaks_off_goes_on_where_it_was(
        self, played: Play, new_receiver: NewReceiver, tmp_path: Path
    ) -> None:
        receiver = await new_receiver(in_turn(part_of_it(1000), reset, part_of_it(5000), part_of_it()))
        path = await self.fetch(played, receiver, tmp_path)

        assert CONTENT == path.read_bytes()
        assert "bytes=1000-" == receiver.received[1].header("Range")
        assert "bytes=5000-" == receiver.received[3].header("Range")

    async def test_a_server_that_begins_anew_is_followed(
        self, played: Play, new_receiver: NewReceiver, tmp_path: Path
    ) -> None:
        whole = status(200, "Connection: close", body=CONTENT)
        receiver = await new_receiver(in_turn(part_of_it(1000), whole))

        assert CONTENT == (await self.fetch(played, receiver, tmp_path)).read_bytes()

    @pytest.mark.parametrize("to", ["", "file"], ids=["folder", "file"])
    async def test_of_what_fails_nothing_is_left(
        self, played: Play, new_receiver: NewReceiver, tmp_path: Path, to: str
    ) -> None:
        gone = says(404, {"success": False, "error": "there is no such file"})
        receiver = await new_receiver(in_turn(part_of_it(1000), gone))

        with pytest.raises(NotFound, match="there is no such file"):
            await self.fetch(played, receiver, tmp_path / to)
        assert set() == files_in(tmp_path)

    async def test_a_link_elsewhere_is_not_followed(
        self, played: Play, new_receiver: NewReceiver, tmp_path: Path
    ) -> None:
        receiver = await new_receiver(part_of_it())

        async def scenario(client: Any) -> Any:
            return await client.download({**LINK, "url": f"{receiver.url}/x"}, tmp_path)

        with pytest.raises(UnexpectedAnswer, match="is no media link"):
            await played(scenario, receiver)
        assert [] == receiver.received


class TestAddress:
    @pytest.fixture(autouse=True)
    def _nowhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        for name in ("PENELOPE_URL", "PENELOPE_HOST", "PENELOPE_PORT", "PENELOPE_KEY"):
            monkeypatch.delenv(name, raising=False)

    @pytest.mark.parametrize(
        ("environ", "url"),
        [
            ({"PENELOPE_URL": "https://penelope.example.org/p/alice/"}, "https://penelope.example.org/p/alice"),
            ({"PENELOPE_PORT": "5001"}, "http://127.0.0.1:5001"),
            ({"PENELOPE_HOST": "0.0.0.0"}, "http://127.0.0.1:5000"),
            ({"PENELOPE_URL": "http://x:1", "PENELOPE_PORT": "5001"}, "http://x:1"),
        ],
    )  # fmt: skip
    def test_of_the_environment(
        self, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], url: str
    ) -> None:
        for name, value in {"PENELOPE_KEY": KEY, **environ}.items():
            monkeypatch.setenv(name, value)

        assert (url, KEY) == (find(None, None).url, find(None, None).key)

    def test_of_an_env_file(self, tmp_path: Path) -> None:
        (tmp_path / ".env").write_text(f"PENELOPE_URL=http://x:1\nPENELOPE_KEY={KEY}\n")

        assert ("http://x:1", KEY) == (find(None, None).url, find(None, None).key)

    @pytest.mark.parametrize(
        ("url", "key", "said"),
        [
            ("127.0.0.1:5000", KEY, "begins with http:// or https://"),
            ("http://:5000", KEY, "names no host"),
            ("http://x:99999999", KEY, "is no URL of a worker"),
            (None, None, "PENELOPE_KEY is not set"),
            ("http://x", "clé", "no header can carry"),
            ("http://x", "a\nb", "no header can carry"),
        ],
    )
    def test_what_cannot_be_used_is_named(self, url: str | None, key: str | None, said: str) -> None:
        with pytest.raises(BadAddress, match=said):
            find(url, key)

    async def test_a_path_before_the_api_is_kept(self, new_receiver: NewReceiver) -> None:
        """So that one address can serve many workers."""
        receiver = await new_receiver(says(200, {"success": True}))

        async def scenario(client: Any) -> Any:
            return await client.get("/api/v1/activity")

        await play("trio", scenario, f"{base(receiver)}/p/alice/", KEY)
        assert "GET /p/alice/api/v1/activity HTTP/1.1" == receiver.received[0].line
