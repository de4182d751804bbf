"""How long sweeps take on a store that nobody serves: milliseconds, one a line.

python -m bench.sweeping store/penelope.db
"""

import sys
import time
from pathlib import Path

import trio

from penelope import logs
from penelope.clock import Clock
from penelope.jobs.ledger import Ledger
from penelope.jobs.store import JobStore
from penelope.jobs.sweep import sweep
from penelope.store.database import open_database, thread_runner
from penelope.store.media import MediaStore
from penelope.store.request_log import RequestLog

ROUNDS = 101


async def measured(path: Path) -> list[float]:
    taken = []
    async with open_database(path) as database:
        clock = Clock()
        media = MediaStore(
            database, path.parent / "media", cap_bytes=2**30, clock=clock, run=thread_runner(1)
        )
        for _ in range(ROUNDS):
            began = time.perf_counter()
            await sweep(JobStore(database), media, RequestLog(database), Ledger(database), clock.now())
            taken.append((time.perf_counter() - began) * 1000)
    return taken[1:]  # the first reads the file in


if __name__ == "__main__":
    logs.configure("json")  # on stderr
    print(*trio.run(measured, Path(sys.argv[1])), sep="\n")
