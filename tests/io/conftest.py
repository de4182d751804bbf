"""Real parts: worker processes, webhook receivers, stores on the disk."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import trio

from penelope.store.database import Database, open_database
from tests.io.receivers import Behaviour, Receiver, serve_receiver, status
from tests.io.worker_process import WorkerProcess, end_all

NewWorker = Callable[..., WorkerProcess]
NewReceiver = Callable[..., Awaitable[Receiver]]


@pytest.fixture
def new_worker(tmp_path: Path) -> Iterator[NewWorker]:
    """Makes workers, each with a home of its own; none outlives the test."""
    made: list[WorkerProcess] = []

    def make(plugins: str = "", **settings: str) -> WorkerProcess:
        made.append(WorkerProcess(tmp_path / f"worker-{len(made)}", plugins, **settings))
        return made[-1]

    yield make
    end_all(made)


@pytest.fixture
async def new_receiver(nursery: trio.Nursery) -> NewReceiver:
    """Starts receivers, which receive as long as the test lasts."""

    async def start(
        behaviour: Behaviour | None = status(200),  # a pure value
        tls: ssl.SSLContext | None = None,
    ) -> Receiver:
        receiver: Receiver = await nursery.start(serve_receiver, behaviour, tls)
        return receiver

    return start


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with open_database(tmp_path / "penelope.db") as opened:
        yield opened
