"""Receivers of webhooks: the vectors of the docs against `penelope.client`, and against the very code of each page.

Source: contract, section 11 ("Signatures"); docs/receiving.
"""

import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import httpx
import pytest
import standardwebhooks
import trio
from playwright._impl._driver import compute_driver_executable
from werkzeug.datastructures import Headers

from penelope import signing
from penelope.client import BadSignature, verify
from penelope.client.webhooks import is_signed
from penelope.demo.serving import free_port
from tests.test_docs import DOCS, ROOT, blocks

RECEIVING = DOCS / "receiving"
Vector = dict[str, Any]
VECTORS: list[Vector] = json.loads((RECEIVING / "vectors.json").read_text("utf-8"))["vectors"]
NODE = compute_driver_executable()[0]  # Playwright brings one: this runs wherever the worker does
KEY = "the-key-of-the-tests-0123456789"
JOB_ID = "5b1d82d4dc257267"
BODY = json.dumps({"success": True, "job_id": JOB_ID, "text": "é 🧵"}).encode()

STRICT = [one for one in VECTORS if not one["name"].startswith("a timestamp that is no whole number")]

each_vector = pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])


def expected(vector: Vector) -> tuple[bool, bool]:
    """Is `webhook-signature` good, is `X-Penelope-Signature`?"""
    said = vector["expected"]
    return said["webhook-signature"], said["x-penelope-signature"]


def signed(body: bytes = BODY, key: str = KEY, at: float | None = None) -> dict[str, str]:
    """Headers as the worker sends them."""
    moment = int(time.time() if at is None else at)
    ours = {"Content-Type": "application/json", "X-Penelope-Signature": signing.sign(body, key)}
    return {**ours, **signing.standard(JOB_ID, moment, body, [key])}


class TestVectors:
    def test_there_are_some_of_every_kind(self) -> None:
        """Else the tests below would say little."""
        assert {(True, True), (True, False), (False, True), (False, False)} == {
            expected(one) for one in VECTORS
        }
        assert len(VECTORS) == len({vector["name"] for vector in VECTORS}) >= 30

    @each_vector
    def test_the_workers_own_side(self, vector: Vector) -> None:
        body, headers = vector["body"].encode(), vector["headers"]
        try:
            signing.verify(body, headers, vector["keys"], now=vector["now"])
        except signing.BadSignature:
            standard = False
        else:
            standard = True
        ours = is_signed(body, headers.get("x-penelope-signature", ""), vector["keys"])

        assert expected(vector) == (standard, ours)

    @each_vector
    def test_the_client(self, vector: Vector) -> None:
        body, headers, keys = vector["body"].encode(), vector["headers"], vector["keys"]
        standard, ours = expected(vector)

        def believed(tolerance_s: float | None, given: dict[str, str]) -> bool:
            try:
                job = verify(body, given, keys, tolerance_s=tolerance_s, now=vector["now"])
            except BadSignature:
                return False
            return job.job_id == JOB_ID

        assert standard == believed(300, headers)
        # Where the other signature is missing, and the moment does not matter, ours alone decides.
        bare = {name: value for name, value in headers.items() if not name.startswith("webhook-")}
        assert ours == believed(None, bare)
        assert not believed(300, bare)

    def test_what_is_signed_and_no_job_is_not_believed(self) -> None:
        for body in (b"", b"[]", b"{}", b"\xff", b'{"job_id": 1}'):
            with pytest.raises(BadSignature, match="signed, but the body is no job"):
                verify(body, signed(body), KEY)

    @pytest.mark.parametrize("vector", STRICT, ids=[vector["name"] for vector in STRICT])
    def test_a_library_of_standard_webhooks(self, vector: Vector, monkeypatch: pytest.MonkeyPatch) -> None:
        """They agree, but for the form of a timestamp, where that library takes what Python's `float` takes."""

        class Then(dt.datetime):
            @classmethod
            def now(cls, tz: dt.tzinfo | None = None) -> "Then":
                return cls.fromtimestamp(vector["now"], tz)

        monkeypatch.setattr(standardwebhooks.webhooks, "datetime", Then)

        def good(key: str) -> bool:
            try:
                standardwebhooks.Webhook(signing.secret(key)).verify(vector["body"], vector["headers"])
            except (standardwebhooks.WebhookVerificationError, ValueError):
                return False
            return True

        assert expected(vector)[0] == any(good(key) for key in vector["keys"])

    @each_vector
    @pytest.mark.parametrize("page", ["python-flask.md", "python-fastapi.md"])
    def test_the_python_pages(self, vector: Vector, page: str, receivers: dict[str, Any]) -> None:
        code = receivers[page]
        body, headers = vector["body"].encode(), Headers(vector["headers"])
        standard = code.verify(body, headers, vector["keys"], vector["now"])
        ours = code.is_signed(body, vector["headers"].get("x-penelope-signature", ""), vector["keys"])

        assert expected(vector) == (standard, ours)

    @pytest.mark.parametrize("language", ["node", "go", "php"])
    def test_the_other_pages(self, language: str, tmp_path: Path) -> None:
        """Node's always; the others' where their tools are."""
        found = RUNNERS[language](tmp_path)

        assert [] == [
            (vector["name"], tuple(verdict))
            for vector, verdict in zip(VECTORS, found, strict=True)
            if expected(vector) != tuple(verdict)
        ]


@pytest.fixture(scope="module")
def receivers() -> Iterator[dict[str, Any]]:
    """The modules of the Python pages, as somebody would have them in a file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PENELOPE_KEY", KEY)
        yield {page: module_of(page) for page in ("python-flask.md", "python-fastapi.md")}


def module_of(page: str) -> Any:
    (block,) = blocks(RECEIVING / page, "python")
    names: dict[str, Any] = {"__name__": "inbox"}
    exec(compile(block, page, "exec"), names)
    return SimpleNamespace(**names)


def files_of(page: str, language: str, folder: Path) -> None:
    """Write the code of a page into files of the names that stand before it."""
    text = (RECEIVING / page).read_text("utf-8")
    for name, code in re.findall(
        rf"^`([\w.]+)`:\n\n```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
    ):
        (folder / name).write_text(code)


def ran(*words: str, cwd: Path, **environ: str) -> str:
    done = subprocess.run(
        words,
        cwd=cwd,
        env={**os.environ, **environ},
        input=json.dumps(VECTORS),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


def with_node(folder: Path) -> Any:
    files_of("node.md", "js", folder)
    (folder / "run.mjs").write_text(
        """\
import { readFileSync } from "node:fs";
import { isSigned, verify } from "./verify.mjs";
const found = JSON.parse(readFileSync(0, "utf8")).map(({ body, headers, keys, now }) => [
  verify(Buffer.from(body), headers, keys, now),
  isSigned(Buffer.from(body), headers["x-penelope-signature"] ?? "", keys),
]);
console.log(JSON.stringify(found));
"""
    )
    return json.loads(ran(NODE, "run.mjs", cwd=folder))


def with_php(folder: Path) -> Any:
    php = shutil.which("php") or pytest.skip("there is no php on this machine")
    files_of("php.md", "php", folder)
    (folder / "run.php").write_text(
        """\
<?php
require __DIR__ . '/verify.php';
$found = [];
foreach (json_decode(stream_get_contents(STDIN), true) as $one) {
    $found[] = [
        verify($one['body'], $one['headers'], $one['keys'], $one['now']),
        is_signed($one['body'], $one['headers']['x-penelope-signature'] ?? '', $one['keys']),
    ];
}
echo json_encode($found);
"""
    )
    ran(php, "-l", "receiver.php", cwd=folder)
    return json.loads(ran(php, "run.php", cwd=folder))


def with_go(folder: Path) -> Any:
    go = shutil.which("go") or pytest.skip("there is no go on this machine")
    files_of("go.md", "go", folder)
    (folder / "go.mod").write_text("module receiver\n\ngo 1.19\n")
    (folder / "run_test.go").write_text(
        """\
package main

import ("encoding/json"; "os"; "testing"; "time")

func TestVectors(t *testing.T) {
	var vectors []struct {
		Body string
		Headers map[string]string
		Keys []string
		Now float64
	}
	if err := json.NewDecoder(os.Stdin).Decode(&vectors); err != nil { t.Fatal(err) }
	found := [][2]bool{}
	for _, one := range vectors {
		h, body := one.Headers, []byte(one.Body)
		now := time.Unix(int64(one.Now), 0)
		found = append(found, [2]bool{
			verify(body, h["webhook-id"], h["webhook-timestamp"], h["webhook-signature"], one.Keys, now),
			isSigned(body, h["x-penelope-signature"], one.Keys),
		})
	}
	text, _ := json.Marshal(found)
	if err := os.WriteFile("found.json", text, 0o600); err != nil { t.Fatal(err) }
}
"""
    )
    cache = {"GOCACHE": str(ROOT / ".cache" / "go"), "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
    ran(go, "vet", ".", cwd=folder, **cache)
    ran(go, "test", "-c", "-o", "run", ".", cwd=folder, **cache)
    ran(str(folder / "run"), cwd=folder)
    return json.loads((folder / "found.json").read_text())


RUNNERS: dict[str, Callable[[Path], Any]] = {"node": with_node, "go": with_go, "php": with_php}


class TestWholeReceivers:
    """Each verifies, stores a job once, and refuses what is not the worker's."""

    def asked(self, post: Callable[[dict[str, str], bytes], int]) -> list[int]:
        """The answers to a good one, the same again, a changed one, another key's, an old one, and a bare one."""
        bare = {"X-Penelope-Signature": signing.sign(BODY, KEY)}
        return [
            post(signed(), BODY),
            post(signed(), BODY),
            post(signed(), BODY + b" "),
            post(signed(key=KEY + "x"), BODY),
            post(signed(at=time.time() - 400), BODY),
            post(bare, BODY),
        ]

    ANSWERS: Final = [204, 204, 401, 401, 401, 401]

    def test_flask(self, receivers: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        client = receivers["python-flask.md"].app.test_client()

        assert self.ANSWERS == self.asked(
            lambda headers, body: int(client.post("/hooks/penelope", data=body, headers=headers).status_code)
        )
        assert [(JOB_ID, BODY)] == rows(tmp_path / "inbox.db")

    def test_fastapi(
        self, receivers: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        app = receivers["python-fastapi.md"].app

        async def post(headers: dict[str, str], body: bytes) -> int:
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://receiver") as client:
                return (await client.post("/hooks/penelope", content=body, headers=headers)).status_code

        assert self.ANSWERS == self.asked(lambda headers, body: trio.run(post, headers, body))
        assert [(JOB_ID, BODY)] == rows(tmp_path / "inbox.db")

    def test_node(self, tmp_path: Path) -> None:
        files_of("node.md", "js", tmp_path)
        with listening(NODE, "receiver.mjs", cwd=tmp_path) as url, httpx.Client(trust_env=False) as client:
            answers = self.asked(
                lambda headers, body: client.post(url, content=body, headers=headers).status_code
            )
            elsewhere = client.post(url + "/else", content=BODY, headers=signed()).status_code

        assert (self.ANSWERS, 404) == (answers, elsewhere)
        assert {f"{JOB_ID}.json": BODY} == {
            file.name: file.read_bytes() for file in (tmp_path / "inbox").iterdir()
        }

    def test_php(self, tmp_path: Path) -> None:
        php = shutil.which("php") or pytest.skip("there is no php on this machine")
        files_of("php.md", "php", tmp_path)
        port = free_port("127.0.0.1")
        server = (php, "-S", f"127.0.0.1:{port}", "receiver.php")
        with listening(*server, cwd=tmp_path), httpx.Client(trust_env=False) as client:
            url = f"http://127.0.0.1:{port}/hooks/penelope"
            answers = self.asked(
                lambda headers, body: client.post(url, content=body, headers=headers).status_code
            )

        assert self.ANSWERS == answers
        assert [(JOB_ID, BODY)] == rows(tmp_path / "inbox.db")

    def test_one_that_cannot_store_asks_for_another_attempt(self, tmp_path: Path) -> None:
        """Not a 4xx, at which the worker gives up."""
        files_of("node.md", "js", tmp_path)
        with listening(NODE, "receiver.mjs", cwd=tmp_path) as url:
            (tmp_path / "inbox").rmdir()
            answer = httpx.post(url, content=BODY, headers=signed(), trust_env=False)

        assert 500 == answer.status_code


def rows(database: Path) -> list[tuple[str, bytes]]:
    code = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT * FROM jobs').fetchall())"
    # From outside: what another process sees is what was committed.
    done = subprocess.run([sys.executable, "-c", code, database], capture_output=True, text=True, check=True)
    found: list[tuple[str, bytes]] = eval(done.stdout)
    return found


@contextmanager
def listening(*words: str, cwd: Path) -> Iterator[str]:
    """A receiver that runs; its URL, which it prints."""
    process = subprocess.Popen(
        words,
        cwd=cwd,
        env={**os.environ, "PENELOPE_KEY": KEY, "PORT": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.communicate(timeout=20)
