"""`penelope jobs`, `deliveries` and `verify`: the real commands, a real worker, real webhooks.

Source: contract, section 11.
"""

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
import trio

from tests.io.commands import ESCAPE, printed, printed_until, refused, run, terminal, without_colours
from tests.io.receivers import Received, Receiver, status
from tests.io.waiting import until
from tests.io.worker_process import KEY, WorkerProcess

NewReceiver = Callable[..., Awaitable[Receiver]]
NOBODY = "0" * 16


async def start(client: httpx.AsyncClient, call: str, **headers: str) -> str:
    """Start a job of one of the tests' plugins, once the page is free; its id."""

    async def is_free() -> bool:
        return bool((await client.get("/api/v1/main")).json()["state"] == "idle")

    await until(is_free, 20)
    names = {name.replace("_", "-"): value for name, value in headers.items()} or {"X-Result-Ttl": "30"}
    answer = await client.get(f"/api/v1/main/plugin/tested/{call}", headers=names)
    assert 202 == answer.status_code, answer.text
    job_id: str = answer.json()["job_id"]
    return job_id


async def ended(client: httpx.AsyncClient, job_id: str) -> str:
    """The same id, once the job has ended."""
    answer = await client.get(f"/api/v1/jobs/{job_id}", headers={"Prefer": "wait=20"})
    assert answer.json()["state"] != "running", answer.text
    return job_id


class TestWatch:
    async def test_tells_each_event_in_a_line(
        self, shared_worker: WorkerProcess, client: httpx.AsyncClient, tmp_path: Path
    ) -> None:
        go_on = tmp_path / "go on"
        job_id = await start(client, f"until?file={go_on}&note=half of it")
        words = ("jobs", "watch", job_id)
        text = await printed_until(
            *words, worker=shared_worker, cwd=tmp_path, seen="half of it", then=go_on.touch
        )

        running, half, done = text.splitlines()
        assert f"{job_id}  running tested/until on main" == running
        assert f"{job_id}   50%  half of it" == half
        assert re.fullmatch(rf"{job_id}  done 200 after \d+\.\d s", done)

    async def test_without_an_id_it_follows_those_that_run(
        self, shared_worker: WorkerProcess, client: httpx.AsyncClient, tmp_path: Path
    ) -> None:
        go_on = tmp_path / "go on"
        job_id = await start(client, f"until?file={go_on}")
        words = ("jobs", "watch", "--json")
        text = await printed_until(*words, worker=shared_worker, cwd=tmp_path, seen="half", then=go_on.touch)
        none = await run("jobs", "watch", worker=shared_worker, cwd=tmp_path)
        events = [json.loads(line) for line in text.splitlines()]

        assert ["state", "progress", "end"] == [event["event"] for event in events]
        assert {job_id} == {event["job_id"] for event in events}
        assert ("half", "done") == (events[1]["data"]["note"], events[2]["data"]["state"])
        assert (0, b"", b"no job runs\n") == (none.returncode, none.stdout, none.stderr)

    async def test_a_job_that_failed_says_so_by_its_exit_code(
        self, shared_worker: WorkerProcess, client: httpx.AsyncClient, tmp_path: Path
    ) -> None:
        job_id = await start(client, "fail?text=not today")
        done = await run("jobs", "watch", job_id, worker=shared_worker, cwd=tmp_path, executed=True)

        assert 1 == done.returncode
        assert re.search(
            rf"^{job_id}  done 409 after 0\.\d s: not today$", done.stdout.decode(), re.MULTILINE
        )

    async def test_one_that_is_not_there_disturbs_no_other(
        self, shared_worker: WorkerProcess, client: httpx.AsyncClient, tmp_path: Path
    ) -> None:
        job_id = await start(client, "steps?seconds=1")
        done = await run("jobs", "watch", NOBODY, job_id, worker=shared_worker, cwd=tmp_path)

        assert 1 == done.returncode
        assert f"{job_id}  done 200" in done.stdout.decode()
        assert f"penelope: {NOBODY}: there is no job '{NOBODY}'" in done.stderr.decode()

    async def test_in_a_terminal_each_job_has_a_bar(
        self, shared_worker: WorkerProcess, client: httpx.AsyncClient, tmp_path: Path
    ) -> None:
        go_on = tmp_path / "go on"
        over = await ended(client, await start(client, "echo?value=1"))
        job_id = await start(client, f"until?file={go_on}&note=half of it")
        words = ("jobs", "watch", job_id, over)
        found = await terminal(
            *words, worker=shared_worker, cwd=tmp_path, seen=" 50%  half of it", then=go_on.touch
        )
        seen = without_colours(found)

        assert f"{job_id}  tested/until on main" in seen
        assert f"{over}  tested/echo on main" in seen
        assert re.search(r"━{30} +done 200 after \d+\.\d s", seen)


class TestList:
    async def test_a_line_for_each_job_newest_first(
        self, shared_worker: WorkerProcess, client: httpx.AsyncClient, tmp_path: Path
    ) -> None:
        first = await start(client, "echo?value=1")
        second = await start(client, "fail?text=no")
        await printed("jobs", "list", worker=shared_worker, cwd=tmp_path)
        text = await printed("jobs", "list", "--plugin", "tested/fail", worker=shared_worker, cwd=tmp_path)
        both = await printed("jobs", "list", "--state", "done", worker=shared_worker, cwd=tmp_path)

        assert ["job", "state", "started", "took", "plugin"] == text.splitlines()[0].split()
        row = rf"^{second}  done 409  \d\d:\d\d:\d\d  \d\.\d s +tested/fail on main$"
        assert re.search(row, text, re.MULTILINE)
        assert first not in text
        assert both.index(second) < both.index(first)
        assert ESCAPE not in both

    async def test_json_is_what_the_worker_answers(
        self, shared_worker: WorkerProcess, client: httpx.AsyncClient, tmp_path: Path
    ) -> None:
        go_on = tmp_path / "go on"
        job_id = await start(client, f"until?file={go_on}")
        words = ("jobs", "list", "--state", "running", "--json")
        shown = json.loads(await printed(*words, worker=shared_worker, cwd=tmp_path))
        go_on.touch()

        assert [job_id] == [job["job_id"] for job in shown["jobs"]]
        assert shown["success"]

    async def test_none_is_said_aside(self, shared_worker: WorkerProcess, tmp_path: Path) -> None:
        done = await run("jobs", "list", "--page", "nope", worker=shared_worker, cwd=tmp_path)

        assert (0, b"", b"the worker holds no such job\n") == (done.returncode, done.stdout, done.stderr)

    async def test_in_a_terminal_ids_stay_whole(
        self, shared_worker: WorkerProcess, client: httpx.AsyncClient, tmp_path: Path
    ) -> None:
        """They are what the other commands want."""
        job_id = await start(client, "echo?value=1")
        seen = without_colours(await terminal("jobs", "list", worker=shared_worker, cwd=tmp_path))

        assert job_id in seen


class TestDeliveries:
    async def test_a_line_for_each_post(
        self,
        shared_worker: WorkerProcess,
        client: httpx.AsyncClient,
        new_receiver: NewReceiver,
        tmp_path: Path,
    ) -> None:
        receiver = await new_receiver(status(403))
        job_id = await start(client, "echo?value=1", X_Callback_Url=receiver.url)
        await receiver.wait_for(1)

        async def is_noted() -> bool:
            answer = await client.get("/api/v1/deliveries", params={"job_id": job_id})
            return bool(answer.json()["deliveries"])

        await until(is_noted)
        words = ("deliveries", "--job", job_id, "--verdict", "give up")
        text = await printed(*words, worker=shared_worker, cwd=tmp_path)
        shown = json.loads(await printed(*words, "--json", worker=shared_worker, cwd=tmp_path))

        there = re.escape(f"127.0.0.1:{receiver.port}")
        assert re.search(
            rf"  {job_id}  1 +give up  \d\.\d s  {there}  http_4xx: answered 403$", text, re.MULTILINE
        )
        assert [(job_id, 403)] == [(one["job_id"], one["status"]) for one in shown["deliveries"]]

    async def test_none_is_said_aside(self, shared_worker: WorkerProcess, tmp_path: Path) -> None:
        done = await run("deliveries", "--job", NOBODY, worker=shared_worker, cwd=tmp_path)

        assert (0, b"") == (done.returncode, done.stdout)
        assert b"no such POST" in done.stderr

    async def test_what_the_worker_does_not_know_is_one_line(
        self, shared_worker: WorkerProcess, tmp_path: Path
    ) -> None:
        assert "error_class" in await refused(
            "deliveries", "--error", "x", worker=shared_worker, cwd=tmp_path
        )


class TestShow:
    async def test_shows_the_job_and_its_result(
        self, shared_worker: WorkerProcess, client: httpx.AsyncClient, tmp_path: Path
    ) -> None:
        job_id = await start(client, "echo?value=hello")
        await ended(client, job_id)
        text = await printed("jobs", "show", job_id, worker=shared_worker, cwd=tmp_path)

        assert re.search(rf"^job +{job_id}$", text, re.MULTILINE)
        assert re.search(r"^plugin +tested/echo on main$", text, re.MULTILINE)
        assert re.search(r"^state +done$", text, re.MULTILINE)
        assert re.search(r"^result\n  value +hello$", text, re.MULTILINE)
        assert ESCAPE not in text

    async def test_json_is_the_poll_as_it_is(
        self, shared_worker: WorkerProcess, client: httpx.AsyncClient, tmp_path: Path
    ) -> None:
        job_id = await start(client, "echo?value=hello")
        await ended(client, job_id)
        shown = json.loads(
            await printed("jobs", "show", job_id, "--json", worker=shared_worker, cwd=tmp_path)
        )
        polled = (await client.get(f"/api/v1/jobs/{job_id}")).json()

        assert {**polled, "expires_in": None} == {**shown, "expires_in": None}

    async def test_its_files_can_be_had(
        self, shared_worker: WorkerProcess, client: httpx.AsyncClient, tmp_path: Path
    ) -> None:
        job_id = await start(client, "files?filenames=a.txt")
        await ended(client, job_id)
        waiting = await printed("jobs", "show", job_id, worker=shared_worker, cwd=tmp_path)
        saved = await printed("jobs", "show", job_id, "--dir", ".", worker=shared_worker, cwd=tmp_path)

        assert "/api/v1/media/" in waiting
        assert "/api/v1/media/" not in saved, "it is used up"
        assert "a.txt" in saved
        assert "content" == (tmp_path / "a.txt").read_text()

    async def test_one_that_is_not_there(self, shared_worker: WorkerProcess, tmp_path: Path) -> None:
        line = await refused("jobs", "show", NOBODY, worker=shared_worker, cwd=tmp_path)

        assert f"there is no job '{NOBODY}': unknown, expired or delivered (404)" in line


class TestCancel:
    async def test_ends_a_job(
        self, shared_worker: WorkerProcess, client: httpx.AsyncClient, tmp_path: Path
    ) -> None:
        job_id = await start(client, "steps?seconds=60")
        text = await printed("jobs", "cancel", job_id, worker=shared_worker, cwd=tmp_path)
        again = await run("jobs", "cancel", job_id, worker=shared_worker, cwd=tmp_path)

        assert re.fullmatch(rf"{job_id}  cancelled after \d\.\d s\n", text)
        assert (0, text) == (again.returncode, again.stdout.decode())
        assert "cancelled" == (await client.get(f"/api/v1/jobs/{job_id}")).json()["state"]

    async def test_what_has_ended_is_not_cancelled(
        self, shared_worker: WorkerProcess, client: httpx.AsyncClient, tmp_path: Path
    ) -> None:
        job_id = await start(client, "echo?value=1")
        await ended(client, job_id)
        line = await refused("jobs", "cancel", job_id, worker=shared_worker, cwd=tmp_path)

        assert "has ended already: it is done (409)" in line


class TestVerify:
    """A webhook of the worker's own, as a receiver has kept it."""

    async def caught(self, client: httpx.AsyncClient, new_receiver: NewReceiver) -> Received:
        receiver = await new_receiver()
        await start(client, "echo?value=é", X_Callback_Url=receiver.url)
        (received,) = await receiver.wait_for(1)
        return received

    def kept(self, received: Received, folder: Path, **other: str) -> Path:
        """The whole request in a file."""
        headers = [
            (name, other.get(name.lower().replace("-", "_"), value)) for name, value in received.headers
        ]
        head = "\r\n".join([received.line, *(f"{name}: {value}" for name, value in headers if value), "", ""])
        (folder / "request.txt").write_bytes(head.encode() + received.body)
        return folder / "request.txt"

    async def test_a_whole_request_is_believed(
        self, client: httpx.AsyncClient, new_receiver: NewReceiver, tmp_path: Path
    ) -> None:
        received = await self.caught(client, new_receiver)
        path = self.kept(received, tmp_path)
        done = await run("verify", str(path), worker=None, cwd=tmp_path)

        assert 0 == done.returncode, done
        standard, ours, last = done.stdout.decode().splitlines()
        assert re.fullmatch(r"webhook-signature     good, of \d\.\d s ago", standard)
        assert "X-Penelope-Signature  good" == ours
        assert f"verified: job {received.header('X-Penelope-Job')}, done 200" == last

    async def test_body_and_headers_apart_and_from_standard_input(
        self, client: httpx.AsyncClient, new_receiver: NewReceiver, tmp_path: Path
    ) -> None:
        received = await self.caught(client, new_receiver)
        (tmp_path / "headers.json").write_text(json.dumps(dict(received.headers)))
        (tmp_path / "headers.txt").write_text(
            "".join(f"{name}: {value}\n" for name, value in received.headers)
        )
        for headers in ("headers.json", "headers.txt"):
            with trio.fail_after(60):
                done = await run(
                    "verify",
                    "-",
                    "--headers",
                    headers,
                    "--json",
                    worker=None,
                    cwd=tmp_path,
                    stdin=received.body,
                )
            assert 0 == done.returncode, done
            found = json.loads(done.stdout)
            assert (True, True, True) == (
                found["verified"],
                found["webhook-signature"],
                found["x-penelope-signature"],
            )

    async def test_what_was_changed_is_not(
        self, client: httpx.AsyncClient, new_receiver: NewReceiver, tmp_path: Path
    ) -> None:
        received = await self.caught(client, new_receiver)
        path = self.kept(received, tmp_path)
        path.write_bytes(path.read_bytes().replace(b'"done"', b'"dOne"'))
        done = await run("verify", str(path), worker=None, cwd=tmp_path)

        assert 1 == done.returncode
        assert 3 == done.stdout.count(b"not over this body with this key")  # each, and why
        assert "not verified: the signature is not over this body with this key" in done.stdout.decode()

    async def test_another_key_and_the_previous_one(
        self, client: httpx.AsyncClient, new_receiver: NewReceiver, tmp_path: Path
    ) -> None:
        path = self.kept(await self.caught(client, new_receiver), tmp_path)
        words, other = ("verify", str(path)), "another-key-0123456789"
        wrong = await run(*words, worker=None, cwd=tmp_path, PENELOPE_KEY=other)
        both = await run(*words, worker=None, cwd=tmp_path, PENELOPE_KEY=other, PENELOPE_KEY_PREVIOUS=KEY)

        assert (1, 0) == (wrong.returncode, both.returncode)

    async def test_an_old_one_is_a_replay_unless_any_age_will_do(
        self, client: httpx.AsyncClient, new_receiver: NewReceiver, tmp_path: Path
    ) -> None:
        path = self.kept(await self.caught(client, new_receiver), tmp_path)
        await trio.sleep(1.1)
        old = await run("verify", str(path), "--tolerance", "0.5", worker=None, cwd=tmp_path)
        kept = await run("verify", str(path), "--any-age", worker=None, cwd=tmp_path)

        assert 1 == old.returncode
        assert "a replay, or a wrong clock" in old.stdout.decode()
        assert 0 == kept.returncode

    async def test_our_own_signature_alone_says_nothing_of_when(
        self, client: httpx.AsyncClient, new_receiver: NewReceiver, tmp_path: Path
    ) -> None:
        bare = {"webhook_id": "", "webhook_timestamp": "", "webhook_signature": ""}
        path = self.kept(await self.caught(client, new_receiver), tmp_path, **bare)
        strict = await run("verify", str(path), worker=None, cwd=tmp_path)
        lax = await run("verify", str(path), "--any-age", worker=None, cwd=tmp_path)

        assert (1, 0) == (strict.returncode, lax.returncode)
        assert "not verified: the header webhook-id is missing" in strict.stdout.decode()

    @pytest.mark.parametrize(
        ("content", "said"),
        [("", "is no whole request"), ("{}", "is no whole request"), ("POST / HTTP/1.1\r\nnone\r\n\r\n", "no header")],
    )  # fmt: skip
    async def test_what_is_no_request_is_one_line(self, tmp_path: Path, content: str, said: str) -> None:
        (tmp_path / "request.txt").write_text(content)

        assert said in await refused("verify", "request.txt", worker=None, cwd=tmp_path)

    async def test_no_file_and_no_key(self, tmp_path: Path) -> None:
        assert "cannot read nothing: No such file" in await refused(
            "verify", "nothing", worker=None, cwd=tmp_path
        )
        line = await refused("verify", "nothing", worker=None, cwd=tmp_path, PENELOPE_KEY="")
        assert "PENELOPE_KEY is not set" in line
