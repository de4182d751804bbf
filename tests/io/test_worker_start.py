"""`penelope serve` that cannot start: one clear line, a non-zero exit code, no traceback, nothing left."""

import socket
from pathlib import Path

from tests.io.conftest import NewWorker
from tests.io.worker_process import WorkerProcess

OTHER_PLUGIN = """
from penelope import Call, plugin

@plugin("tested/echo")
async def also_echo(call: Call) -> None:
    pass
"""


async def refusal(worker: WorkerProcess, **settings: str) -> str:
    """The one line that it ends with."""
    worker.launch(**settings)
    assert 1 == await worker.wait()
    said = [line for line in worker.log.splitlines() if not line.startswith("{")]
    assert 1 == len(said), worker.log
    assert said[0].startswith("penelope: ")
    assert "Traceback" not in worker.log
    assert not worker.lines("ready")
    return said[0].removeprefix("penelope: ")


async def test_no_key(new_worker: NewWorker) -> None:
    worker = new_worker()
    worker.executed = True
    assert "PENELOPE_KEY is empty" == await refusal(worker, PENELOPE_KEY="  \n")
    worker.unset.add("PENELOPE_KEY")
    assert (await refusal(worker)).startswith("PENELOPE_KEY is not set")


async def test_a_short_key_beyond_loopback(new_worker: NewWorker) -> None:
    said = await refusal(new_worker(), PENELOPE_HOST="0.0.0.0", PENELOPE_KEY="fifteen-letters")
    assert said.startswith("PENELOPE_KEY has 15 characters: at least 16 are needed to listen on 0.0.0.0")


BAD_VALUES = {
    "PENELOPE_KEY": "schlüssel-mit-umlaut",
    "PENELOPE_PORT": "65536",
    "PENELOPE_VIEWPORT": "large",
    "PENELOPE_PROXY": "http://me:hush@",
    "PENELOPE_LOG": "xml",
    "PENELOPE_HEADLESS": "perhaps",
    "MAX_PAGES": "0",
    "MEDIA_MAX_MB": "4 GB",
    "PENELOPE_STOP_GRACE_S": "soon",
}


async def test_values_that_do_not_parse_are_all_named(new_worker: NewWorker) -> None:
    worker = new_worker()
    clauses = (await refusal(worker, **BAD_VALUES)).split("; ")
    named = {clause.partition(" ")[0] for clause in clauses}
    assert {name.replace("PENELOPE_STOP", "STOP") for name in BAD_VALUES} == named
    assert "hush" not in worker.log


async def test_the_port_is_taken(new_worker: NewWorker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = await refusal(new_worker(), PENELOPE_PORT=str(port))
    assert f"port {port} of 127.0.0.1 is taken: set PENELOPE_PORT to another" == said


async def test_the_store_is_not_writable(new_worker: NewWorker) -> None:
    worker = new_worker()
    (worker.home / "file").write_text("")
    said = await refusal(worker, PENELOPE_STORE=str(worker.home / "file" / "store"))
    assert f"store {worker.home}/file/store is not writable: Not a directory" == said


async def test_the_store_is_damaged(new_worker: NewWorker) -> None:
    worker = new_worker()
    worker.store.mkdir()
    worker.database.write_text("no database " * 1000)
    said = await refusal(worker)
    assert said.startswith(f"{worker.database} is damaged")
    assert "restore it from a copy, or move it away" in said
    assert "no database " * 1000 == worker.database.read_text()


async def test_a_browser_that_is_not_there(new_worker: NewWorker) -> None:
    said = await refusal(new_worker(), PENELOPE_BROWSER="/nonexistent")
    assert "PENELOPE_BROWSER is /nonexistent: there is no such file" == said


async def test_no_browser_on_the_machine(new_worker: NewWorker, tmp_path: Path) -> None:
    worker = new_worker()
    worker.unset.add("PENELOPE_BROWSER")
    said = await refusal(worker, PATH=str(tmp_path), PLAYWRIGHT_BROWSERS_PATH=str(tmp_path))
    assert said.startswith("no browser found: get one with `")


async def test_a_browser_that_ends_at_once(new_worker: NewWorker, tmp_path: Path) -> None:
    fake = tmp_path / "browser"
    fake.write_text("#!/bin/sh\necho no display >&2\nexit 3\n")
    fake.chmod(0o755)
    said = await refusal(new_worker(), PENELOPE_BROWSER=str(fake))
    assert f"the browser {fake} did not start: no display" == said


async def test_a_plugin_file_that_does_not_import(new_worker: NewWorker) -> None:
    worker = new_worker()
    file = worker.home / "plugins" / "broken.py"
    file.write_text("def broken(:\n")
    assert (await refusal(worker)).startswith(f"plugin file {file} does not import: SyntaxError: ")


async def test_two_plugins_of_one_name(new_worker: NewWorker) -> None:
    worker = new_worker()
    file = worker.home / "plugins" / "twin.py"
    file.write_text(OTHER_PLUGIN)
    said = await refusal(worker)
    assert "tested/echo" in said
    assert str(file) in said
    assert str(worker.home / "plugins" / "tested.py") in said


async def test_a_second_worker_on_one_store_names_the_first(
    new_worker: NewWorker, shared_worker: WorkerProcess
) -> None:
    second = new_worker()
    second.executed = True
    said = await refusal(second, PENELOPE_STORE=str(shared_worker.store))
    assert f"store {shared_worker.store} is in use by the worker with pid {shared_worker.pid}" == said
    async with shared_worker.client() as client:
        assert 200 == (await client.get("/readyz")).status_code


async def test_what_makes_a_start_quick_ends_with_it(new_worker: NewWorker) -> None:
    """Garbage is collected again; and what only others could use of what is installed was never imported."""
    worker = new_worker()
    worker.executed = True
    await worker.start()
    async with worker.client() as client:
        said = (await client.post("/api/v1/main/plugin/tested/interpreter")).json()
    assert said["collects"]
    assert said["spared"] > 100_000
    assert [] == said["imported"]
    assert 0 == await worker.stop()
