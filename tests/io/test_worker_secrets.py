"""The keys and the proxy's password are nowhere: not in a log, a command line, an environment, an answer, or a file."""

from pathlib import Path

import psutil
import pytest
import trio

from tests.io.conftest import NewReceiver, NewWorker
from tests.io.receivers import Received, Stream
from tests.io.worker_process import KEY, WorkerProcess

PASSWORD = "hush-hush-0815"
KEY_BEFORE = "the-key-before-0123456789"
AGENT_KEY = "sk-of-the-agents-endpoint-4711"
SECRETS = (KEY, KEY_BEFORE, AGENT_KEY, PASSWORD)
PLUGIN = "/api/v1/main/plugin/tested"


async def test_secrets_are_nowhere(new_worker: NewWorker, new_receiver: NewReceiver) -> None:
    """B55, with a proxy that wants the password, calls that fail, and an end by a signal."""
    proxied: list[Received] = []

    async def proxy(stream: Stream, received: Received) -> None:
        proxied.append(received)
        wanted = b"Proxy-Authenticate: Basic realm=x\r\n" if len(proxied) == 1 else b""
        status = b"407 Who" if wanted else b"502 Never"
        await stream.send_all(b"HTTP/1.1 " + status + b"\r\n" + wanted + b"Content-Length: 0\r\n\r\n")

    gate = await new_receiver(proxy)
    receiver = await new_receiver()
    worker = new_worker(
        PENELOPE_PROXY=f"http://me:{PASSWORD}@127.0.0.1:{gate.port}",
        PENELOPE_KEY_PREVIOUS=KEY_BEFORE,
        PENELOPE_AGENT_KEY=AGENT_KEY,
    )
    worker.executed = True  # its command line and its environment are its own
    await worker.start()
    answers = bytearray()
    async with worker.client() as client:
        for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/api/v1/activity"):
            answers += (await client.get(path)).content
        for path in ("/api/v1/pages", "/api/v1/plugins", "/api/v1/requests", "/api/v1/none"):
            answers += (await client.get(path)).content
        goto = {"url": "http://site.example/", "timeout_ms": 5000}
        answers += (await client.post("/api/v1/main/goto", json=goto)).content
        bad = await client.post("/api/v1/main/goto", json=goto, headers={"Authorization": f"Basic {KEY}"})
        answers += bad.content
        answers += (await client.post(f"{PLUGIN}/fail", json={"text": "no"})).content
        headers = {"X-Callback-Url": receiver.url}
        answers += (await client.post(f"{PLUGIN}/echo", json={}, headers=headers)).content
        (received,) = await receiver.wait_for(1)
        answers += received.body
        answers += (await client.post(f"{PLUGIN}/environment", json={})).content
    assert proxied, "the proxy was never asked"

    for secret in SECRETS:
        assert secret.encode() not in answers
        assert secret not in "".join(f"{name}: {value}" for name, value in received.headers)
        for process in worker.look():
            assert secret not in " ".join(command_line(process)), process
            if process.pid != worker.pid:
                assert secret not in str(environment(process)), process
    assert 0 == await worker.stop()
    assert "**********" in worker.log
    for secret in SECRETS:
        assert secret not in worker.log
        assert [] == await trio.to_thread.run_sync(files_with, worker, secret)


def environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


def files_with(worker: WorkerProcess, secret: str) -> list[Path]:
    """Files of the worker's home that hold it; its own code's plugin file does not."""
    found = [file for file in worker.home.rglob("*") if file.is_file() and not file.is_symlink()]
    return [file for file in found if secret.encode() in file.read_bytes()]


@pytest.mark.parametrize("name", ["store", "store/penelope.db", "store/profile"])
async def test_others_cannot_read_the_store(shared_worker: WorkerProcess, name: str) -> None:
    assert 0 == (shared_worker.home / name).stat().st_mode & 0o077


def command_line(process: psutil.Process) -> list[str]:
    """Empty when it has ended meanwhile, as renderers do."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []
