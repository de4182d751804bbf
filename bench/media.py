"""Does a large file pass through a worker without passing through its memory?

python -m bench.media                 2 GiB, about a minute; needs three times that on the disk
python -m bench.media --mb 200
python -m bench.media --folder DIR    where the file and the store are made; default: a temporary folder

A plugin hands a file over, and a client that keeps nothing downloads it: a part, a download that breaks off, and then
the whole, which is compared with what was written. The worker's memory is looked at fifty times a second.
"""

import argparse
import hashlib
import http.client
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.processes import Worker, worker
from bench.telling import machine

MIB = 2**20
LOOK_EVERY_S = 0.02
BROKEN_MIB = 64  # after which one download is given up
GROWTH_MAX_MIB = 30
WARM_MIB = 1  # of a first file, which takes what a worker takes once


@dataclass(slots=True)
class Step:
    """What was done. `growth`: bytes of memory at the highest, over what there was before it."""

    what: str
    seconds: float = 0.0
    growth: int = 0
    moved: int = 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.media", description=__doc__)
    parser.add_argument("--mb", type=int, default=2048, help="of the file, MiB")
    parser.add_argument("--folder", type=Path, help="where the file and the store are made")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="penelope-media-") as name:
        folder = Path(name)
        free = shutil.disk_usage(folder).free
        if free < 3 * given.mb * MIB:
            raise SystemExit(f"{folder} has {free // MIB} MiB free; {3 * given.mb} are needed")
        print(*machine("bench.media"), sep="\n")
        with worker(folder) as one:
            steps = list(moved(one, folder, given.mb))
    print(f"\n### A file of {given.mb:,} MiB\n\n| | took | worker's memory, at most |\n|---|---|---|")
    for step in steps:
        speed = f", {step.moved / MIB / step.seconds:,.0f} MiB/s" if step.moved else ""
        print(f"| {step.what} | {step.seconds:.2f} s{speed} | {step.growth / MIB:+.1f} MiB |")
    worst = max(step.growth for step in steps) / MIB
    if worst > GROWTH_MAX_MIB:
        raise SystemExit(f"the worker grew by {worst:.0f} MiB: a file passes through its memory")


def moved(one: Worker, folder: Path, mib: int) -> Iterator[Step]:
    """Hand it over, and fetch it in every way."""
    for _ in range(2):
        fetched(one, handed_over(one, made(folder / "warm.bin", WARM_MIB)[0]))
    source, written = made(folder / "large.bin", mib)
    base = psutil.Process(one.process.pid).memory_info().rss
    with watched(one, base, "handed over with `call.media`: copied and synced") as step:
        url = handed_over(one, source)
        step.moved = mib * MIB
    yield step
    with watched(one, base, "`HEAD`") as step:
        check(int(head(one, url)) == mib * MIB, "HEAD says another size")
    yield step
    with watched(one, base, "`Range`: 1 MiB out of the middle") as step:
        check(part(one, url, mib // 2) == block(mib // 2), "the range has other bytes")
    yield step
    with watched(one, base, f"a download that breaks off after {BROKEN_MIB} MiB") as step:
        broken(one, url, min(BROKEN_MIB, mib // 2) * MIB)
    yield step
    with watched(one, base, "the whole download, compared") as step:
        check(fetched(one, url) == written, "other bytes than were written")
        step.moved = mib * MIB
    yield step
    time.sleep(1.0)  # for the removal, which may come after the last byte
    check(asked(one, "HEAD", url).status == 404, "it is still there")


@contextmanager
def watched(one: Worker, base: int, what: str) -> Iterator[Step]:
    """Time the block, and watch the worker's memory in it."""
    step, over = Step(what), threading.Event()
    process = psutil.Process(one.process.pid)

    def look() -> None:
        while not over.wait(LOOK_EVERY_S):
            step.growth = max(step.growth, process.memory_info().rss - base)

    looking = threading.Thread(target=look)
    looking.start()
    began = time.perf_counter()
    try:
        yield step
    finally:
        step.seconds = time.perf_counter() - began
        over.set()
        looking.join()


def block(number: int) -> bytes:
    """The MiB of that number: no two are the same, and no file system makes less of them."""
    return hashlib.sha256(str(number).encode()).digest() * (MIB // 32)


def made(path: Path, mib: int) -> tuple[Path, str]:
    """A file, and its hash."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for number in range(mib):
            data = block(number)
            file.write(data)
            digest.update(data)
    return path, digest.hexdigest()


def handed_over(one: Worker, path: Path) -> str:
    return str(one.post("/main/plugin/bench/given", {"path": str(path)})["file"]["url"])


def asked(
    one: Worker, method: str, url: str, headers: dict[str, str] | None = None
) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=60)
    connection.request(method, url, headers={"Connection": "close", **(headers or {})})
    return connection.getresponse()


def head(one: Worker, url: str) -> str:
    with asked(one, "HEAD", url) as answer:
        return answer.headers["Content-Length"]


def part(one: Worker, url: str, number: int) -> bytes:
    with asked(one, "GET", url, {"Range": f"bytes={number * MIB}-{(number + 1) * MIB - 1}"}) as answer:
        check(answer.status == 206, f"a range is answered {answer.status}")
        return answer.read()


def broken(one: Worker, url: str, size: int) -> None:
    with asked(one, "GET", url) as answer:
        while size > 0:
            size -= len(answer.read(min(size, MIB)))
    time.sleep(0.2)  # the worker hears of it


def fetched(one: Worker, url: str) -> str:
    """Download it all, keeping nothing; its hash."""
    digest = hashlib.sha256()
    with asked(one, "GET", url) as answer:
        check(answer.status == 200, f"the download is answered {answer.status}")
        while data := answer.read(MIB):
            digest.update(data)
    return digest.hexdigest()


def check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise SystemExit(f"not so: {otherwise}")


if __name__ == "__main__":
    main()
