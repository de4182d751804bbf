"""YAML as an agent, with all that is wrong in it: each fault has its line.

Source: contract, section 10 ("`agent_yaml` / `agent_file`").
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from penelope.pages.manager import RESERVED
from penelope.registry import Registry
from penelope.runs.agent import tools
from penelope.runs.agent.model import AgentPart
from penelope.runs.recipes.document import Document, Fault, Unreadable, Where, parse

# Keys by which the files of agent frameworks are told: several agents and their tasks, which are not run here.
FRAMEWORKS: Final = frozenset({"framework", "topic", "roles", "agents", "tasks", "process", "workflow"})


def read(data: bytes, file: Path, registry: Registry) -> tuple[AgentPart | None, list[Fault]]:
    """An agent, if nothing is wrong with it.

    Args:
        file: what its faults are said to be in.
    """
    try:
        document = parse(data)
    except Unreadable as exc:
        return None, [Fault(file, exc.line, exc.message)]
    if not isinstance(document.value, dict):
        return None, [Fault(file, 1, "is no mapping of keys")]
    faults = [
        Fault(file, document.line(where), f"{'.'.join(map(str, where))}: {message}")
        for where, message in _wrong(document, registry)
    ]
    part = None if faults else AgentPart.model_validate(document.value)
    return part, sorted(faults, key=lambda fault: fault.line)


def _wrong(document: Document, registry: Registry) -> Iterator[tuple[Where, str]]:
    try:
        part = AgentPart.model_validate(document.value)
    except ValidationError as exc:
        yield from _explained(exc)
        return
    if part.page in RESERVED:
        yield ("page",), f"{part.page} is a word of the API's and no page"
    for at, message in tools.chosen(part.tools, registry)[1]:
        yield ("tools", at), message


def _explained(error: ValidationError) -> Iterator[tuple[Where, str]]:
    known = ", ".join(AgentPart.model_fields)
    for fault in error.errors(include_input=False, include_url=False, include_context=False):
        where = fault["loc"]
        if fault["type"] != "extra_forbidden":
            yield where, fault["msg"].removeprefix("Value error, ")
        elif where[0] in FRAMEWORKS:
            yield where, f"is a framework's key: one agent is taken, with the keys {known}"
        else:
            yield where, f"there is no such key; there are {known}"
