"""The lines of the docs, typed into a real shell: a real worker, the stand-in site, a receiver.

Only the addresses and the key are changed.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from penelope.demo.site import serve_site
from penelope.signing import is_signed
from tests.io.conftest import NewReceiver, NewWorker
from tests.io.worker_process import KEY, WorkerProcess
from tests.test_docs import DOCS, README, blocks

CALLBACK = "https://scheduler.lan/hooks/42"

# For machines without jq: as much of it as the lines use.
JQ = f"""#!{sys.executable}
import json, sys
value = json.load(sys.stdin)
for name in sys.argv[-1].lstrip(".").split("."):
    value = value[name]
print(value)
"""


@pytest.fixture
async def site(nursery: trio.Nursery) -> str:
    base_url: str = await nursery.start(serve_site, 0)
    return base_url


@pytest.fixture
async def worker(new_worker: NewWorker, site: str) -> WorkerProcess:
    """A worker whose instagram is the stand-in site."""
    made = new_worker(PENELOPE_INSTAGRAM_BASE_URL=site)
    await made.start()
    return made


async def typed(worker: WorkerProcess, *lines: str, callback: str = CALLBACK) -> str:
    """What the shell says to these lines."""
    assert shutil.which("curl"), "needs curl"
    if shutil.which("jq") is None:
        shim = worker.home / "jq"
        shim.write_text(JQ)
        shim.chmod(0o755)
    address = re.sub(r"^http://", "", worker.base_url)
    script = "\n".join(lines).replace("localhost:5000", address).replace(CALLBACK, callback)
    done = await trio.run_process(
        ["bash", "-euo", "pipefail", "-c", script],
        capture_stdout=True,
        cwd=worker.home,
        env={
            **os.environ,
            "PENELOPE_KEY": KEY,
            "PATH": f"{os.environ['PATH']}:{worker.home}",
            "no_proxy": "*",
        },
    )
    return done.stdout.decode()


async def ended(worker: WorkerProcess, job_id: str) -> dict[str, Any]:
    """The job, once it does not run any more."""
    async with worker.client() as client:
        with trio.fail_after(30):
            while True:
                job: dict[str, Any] = (await client.get(f"/api/v1/jobs/{job_id}")).json()
                if job["state"] != "running":
                    return job
                await trio.sleep(0.1)


def lines_of(page: Path) -> list[str]:
    """The blocks of a page that talk to a worker."""
    return [block for block in blocks(page, "bash") if "curl -s" in block]


@pytest.mark.parametrize("page", [README, DOCS / "jobs.md"], ids=lambda page: page.name)
async def test_both_ways_work_as_written(
    page: Path, worker: WorkerProcess, new_receiver: NewReceiver
) -> None:
    """A webhook arrives, signed; then the account that it left on the page is the next job's."""
    webhook, polling = lines_of(page)[:2]
    receiver = await new_receiver()

    accepted = json.loads(await typed(worker, webhook, callback=receiver.url))
    (post,) = await receiver.wait_for(1, within_s=30)
    assert accepted["job_id"] == post.job["job_id"]
    assert "alice" == post.job["result"]["handle"]
    assert is_signed(post.body, post.header("X-Penelope-Signature"), KEY)

    variables = webhook.partition("\n\n")[0]
    first = json.loads(await typed(worker, variables, polling))
    assert "running" == first["state"]
    job = await ended(worker, first["job_id"])
    assert ("done", 200) == (job["state"], job["status"])
    assert "alice" == job["result"]["handle"]
    assert job["result"]["complete"]


async def test_waiting_and_watching_work_as_written(worker: WorkerProcess) -> None:
    """A start that is answered plainly; then a job that is watched to its end, and one that is waited for."""
    webhook, polling, *more = lines_of(DOCS / "jobs.md")
    variables = webhook.partition("\n\n")[0]
    job = polling.replace('curl -s "$BASE/jobs/$JOB" -H "$AUTH"', ":")
    (watch,) = [line for line in more if "/events" in line]
    (wait,) = [line for line in more if "wait=30" in line]
    (start,) = [line for line in more if "wait=10" in line]
    await typed(
        worker, variables, 'curl -s "$BASE/main/plugin/instagram/open-account?handle=alice" -H "$AUTH"'
    )

    assert "Alice Amsel" == json.loads(await typed(worker, variables, start))["name"]
    heard = await typed(worker, variables, job, watch)
    assert heard.startswith("retry: ")
    assert ["state", "progress", "end"] == sorted(
        set(re.findall(r"^event: (\w+)$", heard, re.MULTILINE)), key=heard.index
    )
    ended_job = json.loads(await typed(worker, variables, job, wait))
    assert ("done", 200) == (ended_job["state"], ended_job["status"])


async def test_the_quick_start_works_as_written(worker: WorkerProcess) -> None:
    """From the first call to a file on the disk."""
    call, job, file = lines_of(DOCS / "quickstart.md")
    variables = call.partition("\n\n")[0]

    answer = json.loads(await typed(worker, call))
    assert ("alice", "Alice Amsel") == (answer["handle"], answer["name"])
    first = json.loads(await typed(worker, variables, job))
    assert 200 == (await ended(worker, first["job_id"]))["status"]
    await typed(worker, variables, file)
    assert (worker.home / "page.png").read_bytes().startswith(b"\x89PNG")
    assert 0 == await worker.stop()


def answers(text: str) -> list[dict[str, Any]]:
    """The JSON objects that curl wrote one after the other."""
    found, at = [], 0
    while at < len(text):
        value, at = json.JSONDecoder().raw_decode(text, at)
        found.append(value)
    return found


async def test_a_login_a_search_and_a_download_work_with_primitives_alone(
    worker: WorkerProcess, site: str
) -> None:
    """As the page has them, and what it says that they answer is what they answer."""
    page = DOCS / "primitives.md"
    variables, *steps = [block for block in blocks(page, "bash") if "$" in block]
    written = "http://127.0.0.1:8200"
    log_in, search, download = [step.replace(written, site) for step in steps]
    shown = [json.loads(block.replace(written, site)) for block in blocks(page, "json")]

    logged_in = answers(await typed(worker, variables, log_in))
    assert 6 == len(logged_in)
    assert shown[:3] == [logged_in[0], logged_in[4], logged_in[5]]

    searched = answers(await typed(worker, variables, search))
    assert 6 == len(searched)
    assert shown[3:5] == searched[4:]

    opened = answers(await typed(worker, variables, download))
    assert 2 == len(opened)
    assert shown[5]["url"] == opened[1]["url"]
    assert (worker.home / "picture.png").read_bytes().startswith(b"\x89PNG")

    again = answers(
        await typed(worker, variables, download.splitlines()[2].partition("$(")[2].partition(" | ")[0])
    )
    assert shown[5].keys() == again[0].keys()
    assert shown[5]["download"].keys() == again[0]["download"].keys()
    for name in ("filename", "content_type"):
        assert shown[5]["download"][name] == again[0]["download"][name], name
