"""Real parts: worker processes, webhook receivers, stores on the disk."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import pytest
import trio

from penelope.demo.serving import free_port
from penelope.store.database import Database, open_database
from tests.io.receivers import Behaviour, Receiver, serve_receiver, status
from tests.io.worker_process import WorkerProcess, end_all

ROOT = Path(__file__).parent.parent.parent

SITE_PORT = free_port("127.0.0.1")
NewWorker = Callable[..., WorkerProcess]
NewReceiver = Callable[..., Awaitable[Receiver]]


@pytest.fixture
def new_worker(tmp_path: Path) -> Iterator[NewWorker]:
    """Makes workers, each with a home of its own; none outlives the test."""
    made: list[WorkerProcess] = []

    def make(**settings: str) -> WorkerProcess:
        made.append(WorkerProcess(tmp_path / f"worker-{len(made)}", **settings))
        return made[-1]

    yield make
    end_all(made)


@pytest.fixture
async def new_receiver(nursery: trio.Nursery) -> NewReceiver:
    """Starts receivers, which receive as long as the test lasts."""

    async def start(
        behaviour: Behaviour | None = status(200),  # a pure value
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> Receiver:
        receiver: Receiver = await nursery.start(serve_receiver, behaviour, tls, host, port)
        return receiver

    return start


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with open_database(tmp_path / "penelope.db") as opened:
        yield opened


@pytest.fixture(scope="session")
def shared_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """One worker for the tests that leave it as they found it; it looks for the stand-in site at `SITE_PORT`."""
    worker = WorkerProcess(
        tmp_path_factory.mktemp("shared"),
        PENELOPE_INSTAGRAM_BASE_URL=f"http://127.0.0.1:{SITE_PORT}",
        PENELOPE_RECIPES=str(ROOT / "docs" / "examples" / "recipes"),
    )
    try:
        trio.run(worker.start)
        yield worker
    finally:
        worker.end()


@pytest.fixture
async def client(shared_worker: WorkerProcess) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the shared worker."""
    async with shared_worker.client() as opened:
        yield opened
