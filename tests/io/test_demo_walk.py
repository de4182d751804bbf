"""What the demo is made of: lines that can be pasted, a receiver that checks, a child that does not outlive it."""

import hashlib
import hmac
import re
import shutil
import signal
import sys
from pathlib import Path

import httpx
import psutil
import pytest
import trio

from penelope.demo.child import StepFailed, open_worker
from penelope.demo.curl import Request, preamble
from penelope.demo.serving import free_port
from penelope.demo.show import shortened
from penelope.demo.webhook import Delivery, serve_receiver, verify
from tests.io.waiting import until

KEY = 'a key\'s "worth" of $HOME'


def signed(body: bytes, key: str = KEY) -> str:
    return "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


async def raw_request(listener: trio.SocketListener) -> bytes:
    """Take one connection, answer 204, and give the bytes that came."""
    async with await listener.accept() as stream:
        taken = await stream.receive_some()
        while (length := re.search(rb"(?i)content-length: (\d+)", taken)) and len(
            taken.partition(b"\r\n\r\n")[2]
        ) < int(length[1]):
            taken += await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
    return taken


def told(raw: bytes) -> tuple[str, dict[str, str], bytes]:
    """The request line, the headers that a client chooses, and the body."""
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    own = {"user-agent", "accept", "accept-encoding", "connection"}
    return first, {name: value for name, value in headers.items() if name not in own}, body


@pytest.mark.parametrize(
    "request_",
    [
        Request(path="/main"),
        Request(path="/main/plugin/instagram/get-following", headers={"X-Result-Ttl": "600"}),
        Request(
            path="/main/plugin/a/b",
            headers={"X-Callback-Url": "http://h/?a=$b&c='d'"},
            body={"it's": 'a "ü" $x'},
        ),
        Request(path="/api/v1/media/token", with_key=False),
    ],
)
async def test_pasted_line_sends_what_the_demo_sends(request_: Request) -> None:
    assert shutil.which("curl"), "needs curl"
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    origin = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
    seen: list[bytes] = []

    async def take() -> None:
        seen.append(await raw_request(listener))

    async with listener:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take)
            await trio.run_process(["bash", "-c", f"{preamble(origin, KEY)}\n{request_.line()}"])
        async with trio.open_nursery() as nursery, httpx.AsyncClient(trust_env=False) as client:
            nursery.start_soon(take)
            await client.request(
                request_.method,
                request_.url(origin),
                headers=request_.sent_headers(KEY),
                content=request_.content(),
            )

    assert told(seen[1]) == told(seen[0])


def test_signature_holds_for_this_body_and_this_key_alone() -> None:
    assert verify(b"{}", signed(b"{}"), KEY)
    assert not verify(b"{} ", signed(b"{}"), KEY)
    assert not verify(b"{}", signed(b"{}"), KEY + "x")
    assert not verify(b"{}", "", KEY)
    assert not verify(b"{}", "sha256=é", KEY)


@pytest.mark.parametrize(("key", "status"), [(KEY, 204), ("another key", 401)])
async def test_receiver_takes_what_is_signed_with_its_key(
    nursery: trio.Nursery, key: str, status: int
) -> None:
    send, receive = trio.open_memory_channel[Delivery](1)
    url = await nursery.start(serve_receiver, KEY, send)
    body = b'{"n": 1.0,  "text": "\xc3\xbc"}'
    async with httpx.AsyncClient(trust_env=False) as client:
        headers = {"X-Penelope-Signature": signed(body, key), "X-Penelope-Job": "5b1d82d4dc257267"}
        answer = await client.post(url, content=body, headers=headers)
    delivery = await receive.receive()

    assert status == answer.status_code
    assert (body, status == 204) == (delivery.body, delivery.verified)
    assert "5b1d82d4dc257267" == delivery.headers["X-Penelope-Job"]


def test_long_parts_of_an_answer_are_cut_for_the_reader() -> None:
    value = {"following": list("abcdefg"), "text": "x" * 101, "n": None}

    assert {"following": ["a", "b", "c", "d", "… 3 more"], "text": "x" * 100 + "…", "n": None} == shortened(
        value
    )


async def test_worker_that_does_not_start_is_told_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENELOPE_BROWSER", str(tmp_path / "no-browser"))
    port = free_port("127.0.0.1")
    async with open_worker(key="k" * 24, port=port, site="http://127.0.0.1:1", home=tmp_path) as worker:
        with pytest.raises(StepFailed, match=r"ended with exit code [1-9]\d* instead of starting"):
            await worker.wait_ready()
        assert "no-browser" in "\n".join(worker.last_log_lines())

    assert not psutil.pid_exists(worker.pid)


async def test_leaving_the_block_ends_a_worker_that_ignores_the_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = tmp_path / "deaf"
    is_deaf = tmp_path / "is deaf"
    deaf.write_text(f"#!/bin/sh\ntrap '' TERM\nsleep 300 &\n: > '{is_deaf}'\nwhile :; do sleep 0.1; done\n")
    deaf.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(deaf))
    monkeypatch.setattr("penelope.demo.child.STOP_S", 0.5)
    async with open_worker(key="k" * 24, port=1, site="http://127.0.0.1:1", home=tmp_path) as worker:
        await until(is_deaf.exists)  # before, the signal would end it
        family = [psutil.Process(worker.pid), *psutil.Process(worker.pid).children(recursive=True)]

    assert len(family) >= 2
    assert [] == [process for process in family if process.is_running() and process.status() != "zombie"]
    assert signal.SIGKILL == -(worker.exit_code or 0)
