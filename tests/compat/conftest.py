"""The real public client, in an environment of its own, against a real worker with recipes.

`nox -s compat` makes that environment; the variable `PENELOPE_COMPAT_PYTHON` names its Python.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from tests.io.worker_process import WorkerProcess, end_all

PYTHON: Final = os.environ.get("PENELOPE_COMPAT_PYTHON", "")
RECIPES: Final = {
    "my-recipe": """
name: my-recipe
steps:
  - {as: said, plugin: tested/echo, with: {value: {input: "{{ input }}", config: "{{ config }}"}}}
output: "{{ said.value }}"
""",
    "text": """
name: text
steps: [{as: said, plugin: tested/echo, with: {value: "{{ input.prompt }}"}}]
output: "{{ said.value }}"
""",
    "slow": """
name: slow
steps:
  - {as: first, plugin: tested/steps, with: {seconds: "{{ config.seconds | default(1) }}", note: "half of it"}}
  - {as: second, plugin: tested/echo, with: {value: 2}}
""",
    "slow-on-main": """
name: slow-on-main
page: main
steps:
  - {as: first, plugin: tested/steps, with: {seconds: "{{ config.seconds }}"}}
""",
    "fails": """
name: fails
steps: [{as: it, plugin: tested/fail, with: {text: "no luck"}}]
""",
    "strict": """
name: strict
input: {properties: {n: {type: integer}}, required: [n]}
steps: [{as: said, plugin: tested/echo, with: {value: "{{ input.n }}"}}]
""",
}


class Raised(Exception):
    """What the client raised: the name of its type, and its words."""


class Client:
    """The process that has the client."""

    def __init__(self, api_url: str, home: Path) -> None:
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith(("PENELOPE_", "PYTHON"))
        }
        self._api_url = api_url
        self._errors = (home / "client.err").open("wb")
        self._process = subprocess.Popen(
            [PYTHON, str(Path(__file__).with_name("client_side.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=home,
            env={**environ, "HOME": str(home), "COLUMNS": "200"},
        )

    async def submit(self, recipe_name: str, **given: Any) -> Any:
        return await self.ask("submit_job", recipe_name=recipe_name, api_url=self._api_url, **given)

    async def handle(self, job_id: str, method: str, **given: Any) -> Any:
        return await self.ask("handle", job_id=job_id, method=method, api_url=self._api_url, **given)

    async def command(self, *words: str) -> Any:
        return await self.ask("command", words=list(words), api_url=self._api_url)

    async def ask(self, do: str, **given: Any) -> Any:
        """
        Raises:
            Raised: the client did.
        """
        said = await trio.to_thread.run_sync(self._ask, {"do": do, "given": given})
        if "raised" in said:
            raise Raised(f"{said['raised']}: {said['words']}")
        return said["said"]

    def _ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the client's process is gone: {Path(self._errors.name).read_text()[-2000:]}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not PYTHON:
        pytest.skip("needs the package praisonai in an environment of its own: nox -s compat")
    return tmp_path_factory.mktemp("compat")


@pytest.fixture(scope="session")
def shared(home: Path) -> Iterator[WorkerProcess]:
    """A worker that lets callers of this machine in without a key, as the client has none."""
    for name, text in RECIPES.items():
        file = home / "recipes" / name / "TEMPLATE.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(text)
    worker = WorkerProcess(
        home / "worker",
        PENELOPE_RUNS_AUTH="loopback",
        PENELOPE_RECIPES=str(home / "recipes"),
        RUNS_WEBHOOK_POLICY="public",
        WEBHOOK_ALLOW="127.0.0.7",
    )
    yield worker
    end_all([worker])


@pytest.fixture
async def worker(shared: WorkerProcess) -> WorkerProcess:
    if not shared.base_url:
        await shared.start()
    return shared


@pytest.fixture(scope="session")
def _clients() -> Iterator[dict[str, Client]]:
    made: dict[str, Client] = {}
    yield made
    for client in made.values():
        client.end()


@pytest.fixture
async def client(worker: WorkerProcess, home: Path, _clients: dict[str, Client]) -> Client:
    """The client, of this worker's present life."""
    if worker.base_url not in _clients:
        _clients[worker.base_url] = Client(worker.base_url, home)
    return _clients[worker.base_url]
