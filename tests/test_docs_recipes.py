"""The page about recipes says what is so: its examples are read and run, its tables are those of the code."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from penelope import recipe_tools, registry
from penelope.runs.recipes import book, budget, document, filters, inputs, model
from penelope.runs.recipes.templates import TemplateFailed
from tests.spec.recipe_desk import FakeDesk

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "recipes.md").read_text("utf-8")
EXAMPLES = DOCS / "examples" / "recipes"
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PLUGINS = registry.load(())
ENVIRON = {"WEBHOOK_URL": "https://hooks.example/1"}


def section(heading: str) -> str:
    found = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1]


def keys(heading: str) -> list[str]:
    """The keys that a section's table explains."""
    return [
        word
        for line in section(heading).splitlines()
        if line.startswith("| `")
        for word in re.findall(r"`([^`]+)`", line.split(" | ")[0])
    ]


def written(part: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in part.model_fields.items()]


@pytest.fixture
def recipes(tmp_path: Path) -> book.Recipes:
    """Those of the page."""
    for block in BLOCKS:
        folder = tmp_path / yaml.safe_load(block)["name"]
        folder.mkdir()
        (folder / "TEMPLATE.yaml").write_text(block)
    return book.load([tmp_path], PLUGINS, ENVIRON)


def test_every_example_is_read(recipes: book.Recipes) -> None:
    assert {"follow-report", "price-watch", "nightly"} == set(recipes)


def test_the_whole_one_is_the_one_that_is_shipped() -> None:
    assert (EXAMPLES / "follow-report" / "TEMPLATE.yaml").read_text("utf-8") == BLOCKS[0]


ACCOUNT = {"handle": "alice", "name": "Alice Amsel", "following": 2, "is_private": False}


async def test_the_whole_one_works(recipes: book.Recipes) -> None:
    desk = FakeDesk(
        {
            "instagram/open-account": [ACCOUNT],
            "instagram/get-following": [{"following": ["bob", "carol"], "complete": True}],
        }
    )

    result = await recipes.plan("follow-report", "{'handle': 'alice'}").work.run(desk)

    assert [
        ("instagram/open-account", {"handle": "alice"}),
        ("instagram/get-following", {"handle": "alice", "limit": 200}),
    ] == desk.asked
    assert {"alice-follows.csv": (b"handle\r\nbob\r\ncarol\r\n", "text/csv; charset=utf-8")} == desk.files
    report = result.pop("report")
    assert ("alice-follows.csv", 20) == (report["filename"], report["size"])
    assert {"handle": "alice", "name": "Alice Amsel", "follows": 2, "listed": 2, "complete": True} == result


@pytest.mark.parametrize(("following", "is_private", "complete"), [(0, False, True), (9, True, False)])
async def test_it_works_for_those_who_show_nothing(
    recipes: book.Recipes, following: int, is_private: bool, complete: bool
) -> None:
    account = {**ACCOUNT, "following": following, "is_private": is_private}
    desk = FakeDesk({"instagram/open-account": [account]})

    result = await recipes.plan("follow-report", '{"handle": "dave"}').work.run(desk)

    assert (0, complete, None) == (result["listed"], result["complete"], result["report"])
    assert 1 == len(desk.asked)


async def test_the_shop_works(recipes: book.Recipes) -> None:
    offers = [{"url": "https://s.example/1", "price": 120}, {"url": "https://s.example/2", "price": 80}]
    desk = FakeDesk({"evaluate": [{"result": offers}], "web/screenshot": [{"width": 1}]})

    result = await recipes.plan("price-watch", "{'shop': 'https://s.example'}").work.run(desk)

    assert [{"width": 1}, None] == result["pictures"]
    assert (
        b"price,url\r\n120,https://s.example/1\r\n80,https://s.example/2\r\n" == desk.files["offers.csv"][0]
    )


async def test_the_skeleton_works(tmp_path: Path) -> None:
    """What `penelope recipes new` writes."""
    recipe_tools.write_skeleton("mine", tmp_path)
    links = [{"text": "A", "href": "https://a.example/"}, {"text": "B", "href": "https://b.example/"}]
    desk = FakeDesk({"web/read": [{"title": "Home", "links": links}]})

    plan = book.load([tmp_path], PLUGINS, {}).plan("mine", '{"url": "https://x.example", "limit": 1}')
    result = await plan.work.run(desk)

    assert ("Home", 2, "links.csv") == (result["title"], result["links"], result["file"]["filename"])
    assert b"text,href\r\nA,https://a.example/\r\n" == desk.files["links.csv"][0]


def test_the_tables_have_every_key_and_no_other() -> None:
    job = keys("The job block")

    assert written(model.RecipePart) == keys("The file")
    assert sorted(written(model.StepPart)) == sorted(keys("Steps"))
    assert sorted(set(written(model.FileOptions)) - {"name"}) == sorted(keys("Files"))
    assert written(model.Job) == job
    assert set(model.EVENTS) <= set(re.findall(r"`(\w+)`", section("The job block")))


def test_every_filter_and_test_is_named() -> None:
    """And no others."""
    said, tests = section("Filters and tests").split("Tests:")
    named = {
        re.split(r"[( ]", word)[0]
        for line in said.splitlines()
        if line.startswith("| `")
        for word in re.findall(r"`([^`]+)`", line.split(" | ")[0])
    }
    assert filters.FILTERS.keys() == named

    asked = {re.split(r"\(", word)[0] for word in re.findall(r"`([^`]+)`", tests)}
    others = {"equalto", "greaterthan", "lessthan", "sameas", *"== != < <= > >=".split()}
    assert filters.TESTS.keys() - others == asked


def test_the_limits_are_those_of_the_code() -> None:
    said = section("Limits")

    for words in (
        f"a file | {document.MAX_FILE_BYTES // 1024} KiB",
        f"steps | {model.MAX_STEPS}",
        f"`for_each` | {model.MAX_ROUNDS}",
        f"{inputs.MAX_OBJECT_CHARS // 1000} {inputs.MAX_OBJECT_CHARS % 1000:03} characters",
        f"{inputs.MAX_DEPTH} deep; {inputs.MAX_VALUES} values",
        f"template | {budget.MAX_ITEMS // 1000} 000",
        f"makes | {budget.MAX_CHARS // 2**20} MiB, {budget.MAX_SECONDS:.0f} s",
        f"`timeout_sec` | {model.MAX_TIMEOUT_S / 86400:.0f} days",
    ):
        assert words in said
    assert (
        f"at most {model.MAX_RETRIES}) and `delay` in seconds (1 unless given, at most {model.MAX_DELAY_S:.0f})"
        in PAGE
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [("plugin: instagram/open-account", "steps.0.plugin: there is no plugin instagram/open-acount")],
)
def test_the_fault_is_the_codes(tmp_path: Path, text: str, message: str) -> None:
    folder = tmp_path / "follow-report"
    folder.mkdir()
    (folder / "TEMPLATE.yaml").write_text(BLOCKS[0].replace(text, text.replace("account", "acount")))

    _, (fault,) = book.read_all([tmp_path], PLUGINS, {})

    assert f"recipes/follow-report/TEMPLATE.yaml:{fault.line}: {fault.message}" in PAGE
    assert message == fault.message


async def test_the_failure_is_the_codes(recipes: book.Recipes) -> None:
    from penelope.runs.port import RunFailed, StepFailed

    words = "the account alice is private: whom it follows is hidden"
    desk = FakeDesk(
        {
            "instagram/open-account": [ACCOUNT],
            "instagram/get-following": [StepFailed(words, answered=403)],
        }
    )

    with pytest.raises(RunFailed) as failed:
        await recipes.plan("follow-report", "{'handle': 'alice'}").work.run(desk)
    assert f"`{failed.value.message}`" in PAGE


LANGUAGE: list[tuple[str, Any]] = [
    ("{{ account.bio | default('') }}", ""),
    ('{{ "%03d of %s" | format(7, name) }}', "007 of x"),
    ("{% raw %}{{ a }}{% endraw %}", "{{ a }}"),
]


@pytest.mark.parametrize(("source", "expected"), LANGUAGE)
def test_the_language_is_the_codes(source: str, expected: Any) -> None:
    from penelope.runs.recipes import templates

    assert expected == templates.compiled(source, "here").value({"account": {}, "name": "x"})
    with pytest.raises(TemplateFailed):
        templates.compiled("{{ account.bio }}", "here").value({"account": {}})
