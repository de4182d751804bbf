"""`penelope call` and `penelope tree`: the real commands against a real worker, in a pipe and in a terminal.

Source: contract, section 7 (`penelope tree`).
"""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import trio

from penelope.client.files import safe_name
from penelope.demo.site import serve_site
from penelope.terminal import plain
from penelope.terminal.client import Trouble
from penelope.terminal.values import parse
from tests.io.commands import ESCAPE, printed, refused, run, terminal, without_colours
from tests.io.conftest import SITE_PORT
from tests.io.receivers import Receiver, serve_receiver, status
from tests.io.waiting import until
from tests.io.worker_process import WorkerProcess


def contents(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir()}


@pytest.fixture
async def site(nursery: trio.Nursery) -> str:
    """The stand-in site, where the shared worker's family looks for it."""
    base_url: str = await nursery.start(partial(serve_site, SITE_PORT, list_latency_s=0))
    return base_url


class TestCall:
    async def test_shows_the_answer_to_read(
        self, shared_worker: WorkerProcess, site: str, tmp_path: Path
    ) -> None:
        """Plainly in a pipe: no colours, nothing wrapped, no white space at the ends."""
        text = await printed(
            "call", "main", "web/read", f"url={site}/alice/", worker=shared_worker, cwd=tmp_path
        )

        assert f"url       {site}/alice/\n" in text
        assert "status    200\n" in text
        assert "  12,480 followers\n" in text
        assert re.search(rf"^  137 following +{site}/alice/following$", text, re.MULTILINE)
        assert ESCAPE not in text
        assert [] == [line for line in text.splitlines() if line != line.rstrip()]

    async def test_json_is_the_envelope_as_it_is(self, shared_worker: WorkerProcess, tmp_path: Path) -> None:
        words = ("call", "main", "tested/echo", 'value:={"a": [1, null, "é"]}', "--json")
        text = await printed(*words, worker=shared_worker, cwd=tmp_path)

        assert {"success": True, "page_id": "main", "value": {"a": [1, None, "é"]}} == json.loads(text)

    async def test_json_of_a_failure_is_its_envelope_and_the_exit_code_says_so(
        self, shared_worker: WorkerProcess, tmp_path: Path
    ) -> None:
        done = await run(
            *("call", "main", "tested/fail", "text=not today", "--json"),
            worker=shared_worker,
            cwd=tmp_path,
            executed=True,
        )

        assert 1 == done.returncode
        assert {"success": False, "error": "not today", "page_id": "main"} == json.loads(done.stdout)
        assert b"" == done.stderr

    async def test_a_failure_is_one_line(self, shared_worker: WorkerProcess, tmp_path: Path) -> None:
        line = await refused(
            "call", "main", "tested/fail", "text=not today", worker=shared_worker, cwd=tmp_path
        )

        assert "penelope: not today (409)" == line

    async def test_files_are_saved_next_to_the_caller_and_never_over_another(
        self, shared_worker: WorkerProcess, tmp_path: Path
    ) -> None:
        (tmp_path / "a.txt").write_text("mine")
        words = ["filenames=a.txt", "filenames=../../b c.txt", "filenames=a.txt", "content=theirs"]
        done = await run("call", "main", "tested/files", *words, worker=shared_worker, cwd=tmp_path)

        assert 0 == done.returncode, done.stderr
        assert {"a.txt": "mine", "a-2.txt": "theirs", "a-3.txt": "theirs", "b c.txt": "theirs"} == contents(
            tmp_path
        )
        assert ["saved a-2.txt", "saved b c.txt", "saved a-3.txt"] == done.stderr.decode().splitlines()
        assert b"/api/v1/media/" not in done.stdout
        assert b"b c.txt" in done.stdout, "what is left of a link: its name, type and size"
        assert b"none" not in done.stdout

    async def test_files_go_where_they_are_told(self, shared_worker: WorkerProcess, tmp_path: Path) -> None:
        folder = tmp_path / "out"
        folder.mkdir()
        words = ("call", "main", "tested/files", "filenames=a.txt", "--dir", "out")
        await printed(*words, worker=shared_worker, cwd=tmp_path)

        assert {"a.txt": "content"} == contents(folder)

    async def test_with_json_files_wait_behind_their_links(
        self, shared_worker: WorkerProcess, tmp_path: Path, client: httpx.AsyncClient
    ) -> None:
        words = ("call", "main", "tested/files", "filenames=a.txt", "--json")
        (link,) = json.loads(await printed(*words, worker=shared_worker, cwd=tmp_path))["files"]

        assert {} == contents(tmp_path)
        assert "content" == (await client.get(link["url"])).text

    async def test_job_prints_the_id_and_returns(
        self, shared_worker: WorkerProcess, tmp_path: Path, client: httpx.AsyncClient
    ) -> None:
        words = ("call", "main", "tested/steps", "seconds=4", "--job", "--ttl", "30")
        job_id = (await printed(*words, worker=shared_worker, cwd=tmp_path)).strip()
        job = (await client.get(f"/api/v1/jobs/{job_id}")).json()

        assert ("tested/steps", "running") == (job["plugin"], job["state"])

        async def has_ended() -> bool:
            polled = (await client.get(f"/api/v1/jobs/{job_id}")).json()
            return bool(polled["state"] == "done" and 0 < polled["expires_in"] <= 30)

        await until(has_ended)

    async def test_a_lease_goes_along(
        self, shared_worker: WorkerProcess, tmp_path: Path, client: httpx.AsyncClient
    ) -> None:
        token = (await client.post("/api/v1/main/lease", json={"ttl": 60})).json()["lease"]
        line = await refused("call", "main", "tested/look", worker=shared_worker, cwd=tmp_path)
        text = await printed(
            "call", "main", "tested/look", f"--lease={token}", worker=shared_worker, cwd=tmp_path
        )
        await client.delete("/api/v1/main/lease", headers={"X-Lease": token})

        assert line.endswith("(423)")
        assert "sum  2\n" == text

    async def test_in_a_terminal_progress_is_shown_while_it_works(
        self, shared_worker: WorkerProcess, tmp_path: Path
    ) -> None:
        """A bar with the plugin's own fraction and note; and the answer in colours."""
        words = ("call", "main", "tested/steps", "seconds=2", "note=half of it")
        seen = await terminal(*words, worker=shared_worker, cwd=tmp_path)

        assert "tested/steps on main" in without_colours(seen)
        assert " 50%  half of it" in without_colours(seen)
        coloured = await terminal(
            "call", "main", "tested/echo", "value=hello", worker=shared_worker, cwd=tmp_path
        )
        assert f"{ESCAPE}[1;36mvalue" in coloured
        assert "hello" in coloured

    async def test_who_waits_in_line_is_told_so(
        self, shared_worker: WorkerProcess, tmp_path: Path, client: httpx.AsyncClient
    ) -> None:
        started = await client.get(
            "/api/v1/main/plugin/tested/steps?seconds=4", headers={"X-Result-Ttl": "1"}
        )
        assert 202 == started.status_code
        seen = await terminal("call", "main", "tested/look", worker=shared_worker, cwd=tmp_path)

        assert "waits for the page" in without_colours(seen)
        assert "sum  2" in without_colours(seen)

    async def test_the_words_of_a_page_do_not_steer_the_terminal(
        self, shared_worker: WorkerProcess, tmp_path: Path
    ) -> None:
        """Neither in an answer nor in an error."""
        evil = r'"\u001b]0;owned\u0007\u009b31m\u202e"'
        words = ("call", "main", "tested/echo", f"value:={evil}")
        error = ("call", "main", "tested/fail", f"text:={evil}")
        nested = ("call", "main", "tested/echo", f'value:=[[{{"a": [{evil}]}}]]')
        for done in [await run(*each, worker=shared_worker, cwd=tmp_path) for each in (words, error, nested)]:
            text = (done.stdout + done.stderr).decode()
            assert "]0;owned" in text
            assert not set(text) & {ESCAPE, "\x07", "\x9b", "\u202e"}

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["web/raed"], "there is no plugin web/raed; did you mean web/read"),
            (["screenshot"], "there is no plugin screenshot; did you mean web/screenshot?"),
            (["web/read", "ulr=x"], "parameter ulr is unknown; did you mean url?"),
            (["web/read", "max_chars=many"], "parameter max_chars: 'many' is not a whole number"),
            (["web/read", "max_chars=0"], "parameter max_chars: Input should be greater than or equal to 1 (400)"),
            (["web/read", "https://x/"], "'https://x/' is no parameter: write key=value, key=@file or key:=json"),
            (["web/read", "url:=x"], "parameter url: what stands behind := is no JSON"),
            (["web/read", "url=@nothing.txt"], "parameter url: cannot read nothing.txt: No such file"),
            (["web/read", "url=a", "url=b"], "parameter url is given more than once"),
        ],
    )  # fmt: skip
    async def test_what_is_wrong_is_one_line(
        self, shared_worker: WorkerProcess, tmp_path: Path, words: list[str], said: str
    ) -> None:
        assert said in await refused("call", "main", *words, worker=shared_worker, cwd=tmp_path)

    async def test_a_page_that_is_not_there(self, shared_worker: WorkerProcess, tmp_path: Path) -> None:
        line = await refused("call", "nope/x", "tested/look", worker=shared_worker, cwd=tmp_path)

        assert line.endswith("(404)")


class TestWithoutAWorker:
    @pytest.mark.parametrize(
        "words",
        [
            ["tree"], ["call", "main", "web/open"], ["jobs", "list"], ["jobs", "watch", "0" * 16], ["deliveries"],
            ["run", "list"], ["run", "submit", "x"],
        ],
    )  # fmt: skip
    async def test_none_is_running(self, tmp_path: Path, words: list[str]) -> None:
        """Each as a script starts it, with what it imports."""
        line = await refused(*words, worker=None, cwd=tmp_path, executed=True)

        assert "there is no worker at http://127.0.0.1:1: start one with `penelope serve`" in line

    async def test_another_key(self, shared_worker: WorkerProcess, tmp_path: Path) -> None:
        line = await refused(
            "tree", worker=shared_worker, cwd=tmp_path, PENELOPE_KEY="another-key-0123456789"
        )

        assert "does not take this key: set PENELOPE_KEY" in line

    @pytest.mark.parametrize(
        ("key", "said"), [("", "PENELOPE_KEY is not set"), ("clé-0123456789abcdef", "no header can carry")]
    )
    async def test_no_key_that_can_be_sent(self, tmp_path: Path, key: str, said: str) -> None:
        assert said in await refused("tree", worker=None, cwd=tmp_path, PENELOPE_KEY=key)

    async def test_something_else_listens_there(self, tmp_path: Path, nursery: trio.Nursery) -> None:
        receiver: Receiver = await nursery.start(serve_receiver, status(200), None)
        url = re.match(r"http://[^/]+", receiver.url)
        assert url is not None

        line = await refused("tree", "--url", url[0], worker=None, cwd=tmp_path)
        assert f"what answers at {url[0]} is no Penelope worker" in line

    async def test_a_url_that_is_none(self, tmp_path: Path) -> None:
        line = await refused("tree", "--url", "127.0.0.1:5000", worker=None, cwd=tmp_path)

        assert "begins with http:// or https://" in line

    async def test_a_setting_that_does_not_parse(self, tmp_path: Path) -> None:
        assert "PENELOPE_PORT" in await refused("tree", worker=None, cwd=tmp_path, PENELOPE_PORT="many")


class TestTree:
    async def at_work(self, client: httpx.AsyncClient, nursery: trio.Nursery) -> str:
        """A job on `main` for some seconds, and a call in line behind it; the job's id."""
        path = "/api/v1/main/plugin/tested"
        started = await client.get(f"{path}/steps?seconds=4&note=half", headers={"X-Result-Ttl": "1"})
        assert 202 == started.status_code
        nursery.start_soon(client.get, f"{path}/look")
        job_id: str = started.json()["job_id"]
        return job_id

    async def at_rest(self, client: httpx.AsyncClient) -> None:
        async def rests() -> bool:
            activity = (await client.get("/api/v1/activity")).json()
            return bool(activity["in_flight"] == 0)

        await until(rests, 20)

    async def test_draws_who_works_what_and_who_waits(
        self, shared_worker: WorkerProcess, tmp_path: Path, client: httpx.AsyncClient
    ) -> None:
        async with trio.open_nursery() as nursery:
            job_id = await self.at_work(client, nursery)
            text = await printed("tree", worker=shared_worker, cwd=tmp_path)
        await self.at_rest(client)

        assert ESCAPE not in text
        assert re.search(r"^└── main  job  ", text, re.MULTILINE), text
        assert re.search(rf"held by  job {job_id} of tested/steps  \d\.\d s  50%  half$", text, re.MULTILINE)
        assert re.search(r"1\. in line  tested/look  \d\.\d s$", text, re.MULTILINE)
        assert "main.run" in text
        calls, job, work = (
            text.index(f"── {name}  ")
            for name in ("calls", f"job {job_id} of tested/steps on main", "work tested/steps")
        )
        assert calls < job < work
        assert re.search(r"\d+ tasks without a name; --all draws them", text)

    async def test_all_draws_the_servers_tasks_too(
        self, shared_worker: WorkerProcess, tmp_path: Path
    ) -> None:
        text = await printed("tree", "--all", worker=shared_worker, cwd=tmp_path)

        assert "serve_listeners" in text
        assert "without a name" not in text

    async def test_in_a_terminal_there_are_colours_and_no_line_is_broken(
        self, shared_worker: WorkerProcess, tmp_path: Path
    ) -> None:
        seen = await terminal("tree", worker=shared_worker, cwd=tmp_path)

        assert f"{ESCAPE}[1mpages" in seen
        assert all(len(line) <= 100 for line in without_colours(seen).splitlines())

    async def test_json_is_what_the_worker_answers(
        self, shared_worker: WorkerProcess, tmp_path: Path
    ) -> None:
        shown: dict[str, Any] = json.loads(
            await printed("tree", "--json", worker=shared_worker, cwd=tmp_path)
        )

        assert "penelope.main.run" == shown["tree"][0]["task"]
        assert ["main"] == [page["page_id"] for page in shown["pages"]]


class TestValues:
    """`key=value` by the plugin's schema."""

    SCHEMA: Final[dict[str, Any]] = {
        "properties": {
            "text": {"type": "string"},
            "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "number": {"type": "number"},
            "flag": {"type": "boolean"},
            "names": {"type": "array", "items": {"type": "string"}},
            "counts": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Count"}}, {"type": "null"}]},
            "fields": {"type": "object"},
            "size": {"$ref": "#/$defs/Size"},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "anything": {},
        },
        "$defs": {"Count": {"type": "integer"}, "Size": {"type": "string", "enum": ["a", "b"]}},
    }

    @pytest.mark.parametrize(
        ("words", "given"),
        [
            (["text=5"], {"text": "5"}), (["text="], {"text": ""}), (["text=a=b:=c"], {"text": "a=b:=c"}),
            (["maybe=null"], {"maybe": "null"}), (["maybe:=null"], {"maybe": None}),
            (["count=-7"], {"count": -7}), (["number=1e3"], {"number": 1000.0}), (["number=.5"], {"number": 0.5}),
            (["flag=true"], {"flag": True}), (["flag=No"], {"flag": False}), (["flag=1"], {"flag": True}),
            (["names=a", "names=b,c"], {"names": ["a", "b,c"]}), (["names=a"], {"names": ["a"]}),
            (["counts=1", "counts=2"], {"counts": [1, 2]}), (["names:=[]"], {"names": []}),
            (['fields={"a": 1}'], {"fields": {"a": 1}}), (["size=b"], {"size": "b"}),
            (["either=5"], {"either": 5}), (["either=x"], {"either": "x"}), (["anything=x"], {"anything": "x"}),
            ([], {}),
        ],
    )  # fmt: skip
    def test_is_read_by_the_schema(self, words: list[str], given: dict[str, Any]) -> None:
        assert given == parse(words, self.SCHEMA)

    @pytest.mark.parametrize(
        "word",
        ["count=x", "count=1.5", "count=٣", "number=nan", "number=1_0", "flag=maybe", "counts=x", "fields=[]",
         "fields=x", "nope=1", "=1", "text", "anything:=NaN", "names=@/nothing/here"],
    )  # fmt: skip
    def test_what_it_cannot_be_is_told(self, word: str) -> None:
        with pytest.raises(Trouble):
            parse([word], self.SCHEMA)

    def test_a_file_is_read(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text('{"a": "é"}\n')

        assert {"fields": {"a": "é"}, "text": '{"a": "é"}\n', "anything": {"a": "é"}} == parse(
            [f"fields=@{tmp_path}/a", f"text=@{tmp_path}/a", f"anything:=@{tmp_path}/a"], self.SCHEMA
        )

    def test_a_file_that_is_no_text_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"\xff\xfe")

        with pytest.raises(Trouble, match="no text in UTF-8"):
            parse([f"text=@{tmp_path}/a"], self.SCHEMA)


@pytest.mark.parametrize(
    ("given", "safe"),
    [
        ("a.png", "a.png"), ("../../etc/passwd", "passwd"), ("a\\b.txt", "b.txt"), (".bashrc", "bashrc"),
        ("-rf", "rf"), ("..", "file"), ("", "file"), ("a\nb\x1b[2J.txt", "a b_[2J.txt"), ("a:b?.txt", "a_b_.txt"),
        ("naïve 🦊.csv", "naïve 🦊.csv"), ("x" * 300 + ".tar.gz", "x" * 147 + ".gz"),
    ],
)  # fmt: skip
def test_names_of_files_are_safe(given: str, safe: str) -> None:
    assert safe == safe_name(given)


def test_long_names_fit_the_file_system(tmp_path: Path) -> None:
    name = safe_name("🦊" * 200 + ".csv")

    (tmp_path / f"{name}-999").touch()
    assert name.endswith(".csv")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.04, "0.0 s"), (59.9, "59.9 s"), (60, "1 min"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (3600, "1 h"),
     (349_200, "4 d 1 h"), (None, "")],
)  # fmt: skip
def test_durations_are_for_people(seconds: float | None, shown: str) -> None:
    assert shown == plain.duration(seconds)
