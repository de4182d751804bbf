"""A large file through a real worker, on a real disk and over a real socket: never through its memory."""

import hashlib
import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from tests.io.worker_process import KEY, WorkerProcess

MIB = 2**20
SIZE_MIB = 200
GROWTH_MAX_MIB = 30


@pytest.fixture
def large(tmp_path: Path) -> Iterator[Path]:
    """No MiB of it is like another."""
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        for number in range(SIZE_MIB):
            file.write(block(number))
    yield path
    path.unlink()


def block(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest() * (MIB // 32)


@contextmanager
def memory_watched(pid: int) -> Iterator[list[int]]:
    """What the process takes meanwhile, bytes: a list that grows."""
    process, over = psutil.Process(pid), threading.Event()
    seen = [process.memory_info().rss]

    def look() -> None:
        while not over.wait(0.01):
            seen.append(process.memory_info().rss)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        over.set()
        looking.join()


def test_200_mib_pass_with_flat_memory(shared_worker: WorkerProcess, large: Path) -> None:
    """Files are streamed, never held in memory: handed over, in part, broken off, and whole."""
    with httpx.Client(base_url=shared_worker.base_url, trust_env=False, timeout=60) as client:
        with memory_watched(shared_worker.pid) as seen:
            answer = client.post(
                "/api/v1/main/plugin/tested/file",
                json={"path": str(large)},
                headers={"Authorization": f"Bearer {KEY}"},
            )
            link = answer.json()["media"]
            assert SIZE_MIB * MIB == link["size"]

            assert str(SIZE_MIB * MIB) == client.head(link["url"]).headers["Content-Length"]
            middle = f"bytes={100 * MIB}-{101 * MIB - 1}"
            part = client.get(link["url"], headers={"Range": middle})
            assert (206, f"bytes {100 * MIB}-{101 * MIB - 1}/{SIZE_MIB * MIB}") == (
                part.status_code,
                part.headers["Content-Range"],
            )
            assert block(100) == part.content
            with client.stream("GET", link["url"]) as broken:
                assert next(broken.iter_bytes(MIB))

            digest = hashlib.sha256()
            with whole(client, link["url"]) as download:
                for data in download.iter_bytes(MIB):
                    digest.update(data)
        with large.open("rb") as file:
            assert hashlib.file_digest(file, "sha256").digest() == digest.digest(), "other bytes"
        assert 404 == client.get(link["url"]).status_code, "one complete download, then gone"
    assert len(seen) > 20, "it was not looked at"
    assert (max(seen) - seen[0]) / MIB < GROWTH_MAX_MIB


@pytest.mark.parametrize("size", [1_000, 3 * MIB])
def test_a_client_that_hangs_up_once_it_has_everything_has_had_it(
    shared_worker: WorkerProcess, tmp_path: Path, size: int
) -> None:
    """As most do: it is gone then, at once or in a moment, each time."""
    path = tmp_path / "file.bin"
    path.write_bytes(b"x" * size)
    with httpx.Client(base_url=shared_worker.base_url, trust_env=False, timeout=30) as client:
        for _ in range(10):
            answer = client.post(
                "/api/v1/main/plugin/tested/file",
                json={"path": str(path)},
                headers={"Authorization": f"Bearer {KEY}"},
            )
            url = answer.json()["media"]["url"]
            assert size == len(hung_up(client.base_url, url))
            until = time.monotonic() + 3
            while client.head(url).status_code != 404:
                assert time.monotonic() < until, "it is still there"
                time.sleep(0.02)


def hung_up(base: httpx.URL, url: str) -> bytes:
    """The body of one download, whose connection is closed with its last byte."""
    connection = http.client.HTTPConnection(base.host, base.port or 80, timeout=30)
    connection.request("GET", url)
    with closing(connection), connection.getresponse() as answer:
        return answer.read()


@contextmanager
def whole(client: httpx.Client, url: str) -> Iterator[httpx.Response]:
    """The download; a worker that has not heard yet that the last one broke off says `409`."""
    until = time.monotonic() + 5
    while True:
        with client.stream("GET", url) as answer:
            if answer.status_code == 200:
                yield answer
                return
            assert (409, True) == (answer.status_code, time.monotonic() < until)
        time.sleep(0.05)
