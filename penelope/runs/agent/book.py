"""All agents of the folders, and the plan of a run of one.

For whoever queues runs: `load` at the start, `Agents.plan` at each submit, and again for a run that waited in the store
over a restart. A plan depends on its arguments, on the files and on the endpoint's settings alone.

Source: contract, section 10 ("A prompt alone goes to the agent").
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from penelope.errors import BadAgent, RunRefused
from penelope.pages.manager import RESERVED
from penelope.registry import Registry
from penelope.runs.agent import reading, tools
from penelope.runs.agent.model import MAX_PROMPT_CHARS, OF_CONFIG, Agent, AgentPart, Endpoint
from penelope.runs.agent.work import AgentWork
from penelope.runs.recipes.document import MAX_FILE_BYTES, Fault
from penelope.runs.submission import NO_AGENT
from penelope.settings import Settings

SUFFIXES: Final = (".yaml", ".yml")
INLINE: Final = "agent_yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a submit says of its agent, as it is in the request's body."""

    prompt: str
    agent_yaml: str | None = None
    agent_file: str | None = None
    config: Mapping[str, Any] | None = None


class Agents:
    """The agents of the folders by name. A name is looked up here and nowhere else: it is never part of a path."""

    def __init__(
        self, agents: Mapping[str, AgentPart], registry: Registry, endpoint: Endpoint | None
    ) -> None:
        """Args: endpoint: None: none is configured, and no run of an agent is taken."""
        self._agents = dict(agents)
        self._registry = registry
        self._endpoint = endpoint

    def plan(self, asked: Asked) -> AgentWork:
        """The work of a run. Quick, and touches nothing.

        Raises:
            RunRefused: it cannot be run; the message is the answer's `detail`.
        """
        if self._endpoint is None:
            raise RunRefused(NO_AGENT)
        if not asked.prompt.strip():
            raise RunRefused("prompt: is empty: the agent has nothing to do")
        if len(asked.prompt) > MAX_PROMPT_CHARS:
            raise RunRefused(
                f"prompt: has {len(asked.prompt)} characters: an agent takes at most {MAX_PROMPT_CHARS}"
            )
        name, part = self._named(asked)
        return AgentWork(
            self._agent(name, _configured(part, asked.config or {}), self._endpoint),
            asked.prompt,
            self._endpoint,
        )

    def _named(self, asked: Asked) -> tuple[str, AgentPart]:
        if asked.agent_yaml and asked.agent_file:
            raise RunRefused("agent_file: give one of agent_yaml and agent_file")
        if asked.agent_yaml:
            data = asked.agent_yaml.encode("utf-8", "replace")
            part, faults = reading.read(data, Path(INLINE), self._registry)
            if part is None:
                raise RunRefused("; ".join(map(str, faults[:5])))
            return part.name or "inline", part
        if asked.agent_file:
            return self._of_file(asked.agent_file)
        return "default", AgentPart()

    def _of_file(self, given: str) -> tuple[str, AgentPart]:
        name = next((given.removesuffix(end) for end in SUFFIXES if given.endswith(end)), given)
        part = self._agents.get(name)
        if part is None:
            there = ", ".join(list(self._agents)[:20])[:500]
            known = f"there are {there}" if there else "PENELOPE_AGENTS names no folder with agents"
            raise RunRefused(f"agent_file: there is no agent {given[:80]!r}: {known}")
        return part.name or name, part

    def _agent(self, name: str, part: AgentPart, endpoint: Endpoint) -> Agent:
        model = part.model or endpoint.model
        if model is None:
            raise RunRefused("model: no model is named: set PENELOPE_AGENT_MODEL, or let the agent name one")
        chosen, _ = tools.chosen(part.tools, self._registry)
        return Agent(
            name=name,
            instructions=part.instructions,
            tools=tuple(chosen),
            model=model,
            page=part.page,
            max_steps=part.max_steps,
            max_tokens=part.max_tokens,
            max_total_tokens=part.max_total_tokens,
            stream=part.stream,
        )


def endpoint(settings: Settings) -> Endpoint | None:
    """Where models are asked; None: nowhere."""
    if settings.agent_url is None:
        return None
    return Endpoint(settings.agent_url, settings.agent_model, settings.agent_key)


def load(folders: Iterable[Path], registry: Registry, endpoint: Endpoint | None) -> Agents:
    """All agents, as `serve` has them: `NAME.yaml` and `NAME.yml` in the folders.

    Raises:
        BadAgent: a folder that is none, two files of one name, or anything wrong in one; the message has file and line.
    """
    found: dict[str, AgentPart] = {}
    files: dict[str, Path] = {}
    for file in (file for folder in folders for file in _files(folder)):
        part, faults = reading.read(_bytes(file), file, registry)
        other = files.setdefault(file.stem, file)
        if other is not file:
            faults.append(Fault(file, 1, f"agent {file.stem} is in {other} already"))
        if part is None or faults:
            more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
            raise BadAgent(f"{faults[0]}{more}")
        found[file.stem] = part
    return Agents(found, registry, endpoint)


def _configured(part: AgentPart, config: Mapping[str, Any]) -> AgentPart:
    """The agent with what a request's `config` says over it.

    Raises:
        RunRefused: it says something that it may not, or that cannot be.
    """
    if unknown := sorted(map(str, config.keys() - OF_CONFIG)):
        known = ", ".join(sorted(OF_CONFIG))
        raise RunRefused(f"config: {', '.join(unknown)[:200]} cannot be said of an agent; {known} can")
    try:
        made = AgentPart.model_validate({**part.model_dump(), **config})
    except ValidationError as exc:
        wrong = exc.errors(include_input=False, include_url=False, include_context=False)[:5]
        said = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in wrong)
        raise RunRefused(f"config: {said}") from exc
    if made.page in RESERVED:
        raise RunRefused(f"config: page: {made.page} is a word of the API's and no page")
    return made


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise BadAgent(f"PENELOPE_AGENTS names {folder}, which is no folder")
    return [file for file in sorted(folder.iterdir()) if file.suffix in SUFFIXES and file.is_file()]


def _bytes(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_FILE_BYTES + 1)
    except OSError as exc:
        raise BadAgent(f"{file}:1: cannot be read: {exc.strerror}") from exc
