"""The public PraisonAI jobs server, unmodified but for what a job does: nothing. Runs in an environment of its own.

    PYTHON bench/peers/jobs_server.py DATABASE PORT

It imports nothing of Penelope. Its store is SQLite, its limits are the ones that `bench.runs` gives the worker.
"""

import importlib
import sys
from typing import Any

CONCURRENT = 10
ADMITTED = 200


async def nothing(_job: Any) -> dict[str, bool]:
    """What a job does."""
    return {"ok": True}


def main() -> None:
    jobs: Any = importlib.import_module("praisonai.jobs")
    uvicorn: Any = importlib.import_module("uvicorn")
    store = jobs.SqliteJobStore(path=sys.argv[1])
    executor = jobs.JobExecutor(store=store, max_concurrent=CONCURRENT, max_queued=ADMITTED)
    executor._run_agent = nothing
    app = jobs.create_app(store=store, executor=executor)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
