"""Agents written down: what they may say, and what is said of those that say something else."""

from pathlib import Path
from typing import Any

import pytest

from penelope import registry
from penelope.errors import BadAgent, RunRefused
from penelope.runs.agent import book
from penelope.runs.agent.book import Agents, Asked
from penelope.runs.agent.model import DEFAULT_STEPS, DEFAULT_TOOLS, Agent, Endpoint
from penelope.runs.planning import Planning
from penelope.runs.recipes.book import Recipes
from penelope.runs.submission import Submission

PLUGINS = registry.load(())
ENDPOINT = Endpoint("http://127.0.0.1:1/v1", "small")
WHOLE = """\
name: shopper
description: Looks up prices.
instructions: |
  Answer with a number.
tools: [web/read, click]
model: large
page: main
max_steps: 7
max_tokens: 500
max_total_tokens: 9000
stream: true
"""


def planned(prompt: str = "do it", *, agents: Agents | None = None, **asked: Any) -> Agent:
    made = agents or Agents({}, PLUGINS, ENDPOINT)
    return made.plan(Asked(prompt=prompt, **asked)).agent


def refusal(prompt: str = "do it", *, agents: Agents | None = None, **asked: Any) -> str:
    with pytest.raises(RunRefused) as caught:
        planned(prompt, agents=agents, **asked)
    return caught.value.message


def test_a_prompt_alone_is_enough() -> None:
    agent = planned()

    assert ("default", "small", None, DEFAULT_STEPS) == (agent.name, agent.model, agent.page, agent.max_steps)
    assert list(DEFAULT_TOOLS) == [tool.name for tool in agent.tools]


def test_a_whole_agent_is_read() -> None:
    agent = planned(agent_yaml=WHOLE)

    assert ("shopper", "Answer with a number.\n", "large", "main") == (
        agent.name,
        agent.instructions,
        agent.model,
        agent.page,
    )
    assert ["web/read", "click"] == [tool.name for tool in agent.tools]
    assert (7, 500, 9000, True) == (agent.max_steps, agent.max_tokens, agent.max_total_tokens, agent.stream)


def test_without_an_endpoint_it_says_what_to_set() -> None:
    said = refusal(agents=Agents({}, PLUGINS, None))
    assert all(name in said for name in ("PENELOPE_AGENT_URL", "PENELOPE_AGENT_MODEL", "PENELOPE_AGENT_KEY"))


def test_without_a_model_it_says_what_to_set() -> None:
    agents = Agents({}, PLUGINS, Endpoint("http://h/v1"))

    assert "PENELOPE_AGENT_MODEL" in refusal(agents=agents)
    assert "mine" == planned(agents=agents, agent_yaml="model: mine").model
    assert "mine" == planned(agents=agents, config={"model": "mine"}).model


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a", "agent_yaml:1: is no mapping of keys"),
        ("a: b: c", "agent_yaml:1: is no YAML"),
        ("# x\n\ntool: [click]", "agent_yaml:3: tool: there is no such key; there are name, "),
        ("tools:\n  - click\n  - shop/buy", "agent_yaml:3: tools.1: there is no plugin shop/buy"),
        ("tools: click", "agent_yaml:1: tools: Input should be a valid list"),
        ("max_steps: 0", "agent_yaml:1: max_steps: "),
        ("max_steps: 201", "agent_yaml:1: max_steps: "),
        ("max_steps: 2.5", "agent_yaml:1: max_steps: "),
        ("max_steps: '5'", "agent_yaml:1: max_steps: "),
        ("max_total_tokens: 0", "agent_yaml:1: max_total_tokens: "),
        ("page: docs", "agent_yaml:1: page: docs is a word of the API's"),
        ("page: a b", "agent_yaml:1: page: "),
        ("instructions: 5", "agent_yaml:1: instructions: "),
        ("name: ../x", "agent_yaml:1: name: "),
        ("model: ''", "agent_yaml:1: model: "),
    ],
)
def test_each_fault_has_its_line(text: str, words: str) -> None:
    assert words in refusal(agent_yaml=text)


def test_all_faults_are_named() -> None:
    said = refusal(agent_yaml="tools: [shop/buy, buy]\npage: runs")
    assert 3 == said.count("agent_yaml:")


def test_a_frameworks_file_is_told_from_ours() -> None:
    said = refusal(agent_yaml="framework: crewai\ntopic: x\nroles:\n  a:\n    goal: b\n")
    assert 3 == said.count("is a framework's key")
    assert "agent_yaml:3: roles: " in said


@pytest.mark.parametrize("prompt", ["", " \n"])
def test_an_empty_prompt_is_nothing_to_do(prompt: str) -> None:
    assert "prompt: is empty" in refusal(prompt)


def test_a_prompt_is_bounded() -> None:
    assert "100000" in refusal("x" * 100_001)


def test_config_goes_over_it_but_gives_no_tools() -> None:
    agent = planned(agent_yaml=WHOLE, config={"max_steps": 2, "model": "tiny", "page": "other"})

    assert (2, "tiny", "other", 500) == (agent.max_steps, agent.model, agent.page, agent.max_tokens)
    assert "config: instructions, tools cannot be said" in refusal(
        config={"tools": ["*"], "instructions": "x"}
    )
    assert "config: max_steps: " in refusal(config={"max_steps": 1000})
    assert "config: page: runs" in refusal(config={"page": "runs"})


def agents_in(folder: Path, **texts: str) -> Agents:
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    return book.load([folder], PLUGINS, ENDPOINT)


def test_a_file_is_named_with_or_without_its_ending(tmp_path: Path) -> None:
    (tmp_path / "buyer.yml").write_text("max_steps: 3")
    (tmp_path / "readme.txt").write_text("no: [agent")
    agents = agents_in(tmp_path, shop=WHOLE, other="tools: []")

    assert ["shopper", "shopper"] == [
        planned(agents=agents, agent_file=one).name for one in ("shop", "shop.yaml")
    ]
    assert ("buyer", 3) == (
        (agent := planned(agents=agents, agent_file="buyer.yml")).name,
        agent.max_steps,
    )
    assert () == planned(agents=agents, agent_file="other").tools
    assert "there are buyer, other, shop" in refusal(agents=agents, agent_file="nobody")


@pytest.mark.parametrize(
    "given", ["../secret", "/etc/passwd", "sub/one", "..", ".", "secret\0", "../agents/shop.yaml"]
)
def test_a_name_never_leads_out(tmp_path: Path, given: str) -> None:
    """It is looked up among those that were read, and never opened as a path."""
    inner = tmp_path / "agents"
    (inner / "sub").mkdir(parents=True)
    (tmp_path / "secret.yaml").write_text("name: secret")
    (inner / "sub" / "one.yaml").write_text("name: one")

    assert "there is no agent" in refusal(agents=agents_in(inner, shop=WHOLE), agent_file=given)


def test_one_of_both() -> None:
    assert "one of agent_yaml and agent_file" in refusal(agent_yaml="name: a", agent_file="b")
    assert "default" == planned(agent_yaml="", agent_file="").name


def test_a_fault_in_a_file_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(BadAgent, match=r"/bad\.yaml:2: tools\.0: there is no primitive klick"):
        agents_in(tmp_path, bad="name: x\ntools: [klick]")


def test_a_folder_that_is_none_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(BadAgent, match=r"PENELOPE_AGENTS names .*/nowhere, which is no folder"):
        book.load([tmp_path / "nowhere"], PLUGINS, ENDPOINT)


def test_two_of_one_name_stop_the_start(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("name: x")
    with pytest.raises(BadAgent, match=r"a\.yml:1: agent a is in .*/a\.yaml already"):
        agents_in(tmp_path, a="name: y")


def test_a_submit_without_a_recipe_is_the_agents() -> None:
    planning = Planning(Recipes([]), Agents({}, PLUGINS, ENDPOINT))

    work = planning(Submission(prompt="do it", agent_yaml=WHOLE, framework="praisonai")).work
    assert ("agent:shopper", "main") == (work.agent_id, work.page)
    with pytest.raises(RunRefused, match="recipe_config: is a recipe's"):
        planning(Submission(prompt="do it", recipe_config={"a": 1}))
    with pytest.raises(RunRefused, match="there is no recipe 'x'"):
        planning(Submission(prompt="do it", recipe_name="x"))
