"""The page about the agent says what is so: its example is read, its tables and numbers are those of the code."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from penelope import registry
from penelope.runs.agent import asking, book, conversation, model, work
from penelope.runs.agent.book import Agents, Asked
from penelope.runs.agent.model import AgentPart, Endpoint
from penelope.runs.agent.wire import Said, Usage
from penelope.runs.recipes.document import MAX_FILE_BYTES
from tests.spec.recipe_desk import FakeDesk

PAGE = (Path(__file__).parent.parent / "docs" / "agent.md").read_text("utf-8")
PLUGINS = registry.load(())
AGENTS = Agents({}, PLUGINS, Endpoint("http://127.0.0.1:1/v1", "qwen3"))


def section(heading: str) -> str:
    found = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1]


def table(heading: str) -> list[list[str]]:
    lines = [line for line in section(heading).splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def words(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def test_the_example_is_read() -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    agent = AGENTS.plan(Asked(prompt="x", agent_yaml=block)).agent

    assert ("price-checker", 12) == (agent.name, agent.max_steps)
    assert ["web/open", "web/read", "click"] == [tool.name for tool in agent.tools]


def test_every_key_is_explained() -> None:
    """With what it is unless it is given, and at most."""
    assert list(AgentPart.model_fields) == [words(row[0])[0] for row in table("Agents in YAML")]
    said = section("Agents in YAML")
    assert (
        f"| `max_steps` | {model.DEFAULT_STEPS} | questions to the model; at most {model.MAX_STEPS} |" in said
    )
    assert f"| {model.DEFAULT_TOTAL_TOKENS} |" in said
    assert f"at most {model.MAX_TOTAL_TOKENS} |" in said
    (config,) = re.findall(r"A run's `config` may say (.*?) over an", said, re.DOTALL)
    assert set(words(config)) == model.OF_CONFIG
    assert set(book.SUFFIXES) == {".yaml", ".yml"}


def test_the_tools_unless_given() -> None:
    (said,) = re.findall(r"^Without a list (.*?)\. What runs", section("Tools"), re.MULTILINE | re.DOTALL)
    assert list(model.DEFAULT_TOOLS) == words(said)
    assert f"At most {model.MAX_TOOLS}." in section("Tools")


def test_the_numbers() -> None:
    spaced = PAGE.replace("\N{NO-BREAK SPACE}", " ")
    for said in (
        f"at most {conversation.MAX_RESULT_CHARS // 1000} 000 characters",
        f"past {conversation.MAX_CHARS // 1000} 000\ncharacters",
        f"{asking.ANSWER_S:.0f} s and {asking.MAX_ANSWER_BYTES // 2**20} MiB",
        f"up to {asking.MAX_PAUSE_S:.0f} s",
        f"More than {model.MAX_CALLS} calls",
        f"{model.MAX_USELESS} answers of the model in a row",
        f"no answer after {model.DEFAULT_STEPS} steps",
        f"less than {asking.MIN_SECRET_CHARS} characters",
        f"| a prompt | {model.MAX_PROMPT_CHARS // 1000} 000 characters |",
        f"| `instructions` | {model.MAX_INSTRUCTIONS_CHARS // 1000} 000 characters |",
        f"{MAX_FILE_BYTES // 1024} KiB",
        f"{work.MAX_ARGUMENT_CHARS // 1000} {work.MAX_ARGUMENT_CHARS % 1000} characters",
    ):
        assert said in spaced, said
    assert asking.TRIES == 4
    (passing,) = re.findall(r"^(`408`.*?) and broken connections", section("The endpoint"), re.MULTILINE)
    assert set(map(int, words(passing))) == asking._PASSING


async def test_the_result_is_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = (
        json.loads(block) for block in re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    )

    async def ask(*_: Any) -> Said:
        return Said(text=example["answer"], finish="stop", usage=Usage(5120, 96))

    monkeypatch.setattr(asking.Asking, "ask", ask)
    result = await AGENTS.plan(Asked(prompt="x")).run(FakeDesk())

    assert list(example) == list(result)
    assert {**example, "steps": 1, "tool_calls": 0} == result
    assert {word for row in table("The result") for word in words(row[0])} == result.keys()
