"""What runs in the public client's own environment: it does what standard input says, and says what came of it.

A line of JSON each way. It imports nothing of Penelope, and nothing here is a stand-in: `praisonai` is the package.
"""

import contextlib
import importlib
import io
import json
import sys
from collections.abc import Callable
from typing import Any

recipe: Any = importlib.import_module("praisonai.recipe")
operations: Any = importlib.import_module("praisonai.recipe.operations")
cli: Any = importlib.import_module("praisonai_code.cli.features.jobs")
handles: dict[str, Any] = {}


def submit_job(**given: Any) -> dict[str, Any]:
    """`recipe.submit_job`; what the handle says of itself."""
    handle = recipe.submit_job(given.pop("recipe_name"), **given)
    handles[handle.job_id] = handle
    return {"job_id": handle.job_id, "status": handle.status, "recipe_name": handle.recipe_name}


def handle(job_id: str, method: str, api_url: str, **given: Any) -> Any:
    """A method of a `JobHandle`."""
    known = handles.get(job_id) or operations.JobHandle(job_id=job_id, recipe_name="x", api_url=api_url)
    return getattr(known, method)(**given)


def command(words: list[str], api_url: str) -> dict[str, Any]:
    """`handle_run_command`, as its command line calls it: what it printed, and its exit code."""
    printed, code = io.StringIO(), 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            cli.handle_run_command([*words, "--api-url", api_url])
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    return {"code": code, "printed": printed.getvalue()}


DOES: dict[str, Callable[..., Any]] = {"submit_job": submit_job, "handle": handle, "command": command}


def main() -> None:
    out = sys.stdout
    sys.stdout = sys.stderr  # what the package prints while it works is no answer
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            said = {"said": DOES[asked["do"]](**asked["given"])}
        except Exception as error:
            said = {"raised": type(error).__name__, "words": str(error)}
        out.write(json.dumps(said) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
