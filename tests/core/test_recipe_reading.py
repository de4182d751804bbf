"""A recipe's file: what is wrong in it is named with its line.

Source: contract, section 10 ("A recipe is …").
"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penelope import registry
from penelope.errors import BadRecipe
from penelope.runs.recipes import book
from penelope.runs.recipes.document import Unreadable, parse
from penelope.runs.recipes.model import Kind
from penelope.runs.recipes.reading import read

PLUGINS = registry.load(())
WHOLE = """\
name: shop
description: Reads a shop.
input:
  type: object
  properties:
    url: {type: string}
  required: [url]
config:
  currency: EUR
page: main
steps:
  - as: shop
    plugin: web/read
    with:
      url: "{{ input.url }}"
    retry: {count: 2, delay: 0.5}
  - as: shots
    when: shop.links
    for_each: shop.links[:3]
    plugin: web/screenshot
    with: {url: "{{ item.href }}", full_page: true}
  - primitive: goto
    with: {url: about:blank}
  - as: report
    file: "{{ shop.title }}.txt"
    with:
      text: |
        {{ shop.title }}
        {{ config.currency }}
output:
  title: "{{ shop.title }}"
  report: "{{ report }}"
runtime:
  job:
    enabled: true
    timeout_sec: 3600
    webhook_url: "${WEBHOOK_URL}"
    idempotency_scope: "session"
    events:
      - completed
      - failed
"""
ENVIRON = {"WEBHOOK_URL": "https://hooks.example/1", "PENELOPE_KEY": "secret"}


def write(folder: Path, text: str | bytes, name: str = "shop") -> Path:
    file = folder / name / "TEMPLATE.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def faults(folder: Path, text: str | bytes) -> list[tuple[int, str]]:
    write(folder, text)
    _, found = book.read_all([folder], PLUGINS, ENVIRON)
    return [(fault.line, fault.message) for fault in found]


def test_a_whole_recipe_is_read(tmp_path: Path) -> None:
    write(tmp_path, WHOLE)

    recipe = book.load([tmp_path], PLUGINS, ENVIRON)["shop"]

    assert ("shop", "Reads a shop.", "main") == (recipe.name, recipe.description, recipe.page)
    assert {"currency": "EUR"} == recipe.config
    assert [
        (1, Kind.PLUGIN, "web/read", "shop", "shop"),
        (2, Kind.PLUGIN, "web/screenshot", "shots", "shots"),
        (3, Kind.PRIMITIVE, "goto", None, "goto"),
        (4, Kind.FILE, "file", "report", "report"),
    ] == [(step.number, step.kind, step.what, step.name, step.label) for step in recipe.steps]
    assert (2, 0.5) == (recipe.steps[0].retry.count, recipe.steps[0].retry.delay)
    assert [False, False] == [step.each_time for step in recipe.steps[:2]]
    assert {"url": "about:blank"} == recipe.steps[2].arguments
    job = recipe.job
    assert (3600.0, "https://hooks.example/1", "session", ("completed", "failed")) == (
        job.timeout_sec,
        job.webhook_url,
        job.idempotency_scope,
        job.events,
    )


def test_the_least_recipe(tmp_path: Path) -> None:
    write(tmp_path, "name: shop\nsteps:\n  - primitive: reload\n")

    recipe = book.load([tmp_path], PLUGINS, {})["shop"]

    assert (None, None, {}, {}) == (recipe.page, recipe.output, recipe.input, recipe.config)
    assert (True, None, None, ("completed", "failed", "cancelled")) == (
        recipe.job.enabled,
        recipe.job.timeout_sec,
        recipe.job.webhook_url,
        recipe.job.events,
    )


def swapped(old: str, new: str) -> str:
    assert old in WHOLE
    return WHOLE.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "is empty"),
        ("- a\n", 1, "is no mapping of keys"),
        ("name: shop\nsteps: [\n", 3, "is no YAML: while parsing a flow node expected the node content"),
        ("name: shop\n\tsteps: 1\n", 2, "is no YAML: while scanning"),
        ("name: shop\n---\nname: shop\n", 2, "is no YAML: expected a single document"),
        ("name: shop\nname: shop\n", 2, "the key name is there twice"),
        ("name: shop\n1: shop\n", 2, "a key is no text"),
        ("name: shop\n? [a]\n: b\n", 2, "a key is no text"),
        ("name: !!python/object:os.system shop\n", 1, "the tag tag:yaml.org,2002:python/object:os.system"),
        ("name: !!binary aGFsbG8=\n", 1, "the tag tag:yaml.org,2002:binary is not taken"),
        ("name: shop\nconfig: {a: !!int x}\n", 2, "'x' is no int"),
        ("name: shop\nconfig: {a: 1e999}\n", 2, "'1e999' is no float"),
        ("name: shop\n", 1, "steps: is missing"),
        ("name: shop\nsteps: []\n", 2, "steps: List should have at least 1 item"),
        ("name: shop\nsteps:\n  - as: a\n", 3, "steps.0: a step has exactly one of plugin, primitive and file"),
        (swapped("    plugin: web/read\n", "    plugin: web/read\n    file: x\n"), 12, "exactly one of"),
        (swapped("page: main", "pages: main"), 10, "pages: there is no such key"),
        (swapped("page: main", "page: a/b"), 10, "page: String should match pattern"),
        (swapped("page: main", "page: plugins"), 10, "page: plugins is a word of the API's and no page"),
        (swapped("name: shop", "name: other"), 1, "name: other is in the folder shop"),
        (swapped("name: shop", "name: ../x"), 1, "name: '../x' is no name"),
        (swapped("type: object", "type: objekt"), 4, "input.type: 'objekt' is not valid"),
        (swapped("{type: string}", "{type: text}"), 6, "input.properties.url.type: 'text' is not valid"),
        (swapped("count: 2", "counts: 2"), 16, "steps.0.retry.count: is missing"),
        (swapped("count: 2", "count: 11"), 16, "steps.0.retry.count: Input should be less than or equal to 10"),
        (swapped("delay: 0.5", "delay: -1"), 16, "steps.0.retry.delay: Input should be greater than"),
        (swapped("plugin: web/read", "plugin: web/reed"), 13, "steps.0.plugin: there is no plugin web/reed"),
        (swapped("primitive: goto", "primitive: go"), 22, "steps.2.primitive: there is no primitive go"),
        (swapped("{url: about:blank}", "{}"), 23, "steps.2.with.url: parameter url is missing"),
        (swapped("{url: about:blank}", "{url: 'file:///etc/hostname'}"), 23, "steps.2.with.url: "),
        (swapped("full_page: true", "full_pages: true"), 21, "steps.1.with.full_pages: parameter full_pages is"),
        (swapped("full_page: true", "full_page: 7"), 21, "steps.1.with.full_page: parameter full_page: Input should"),
        (swapped("text: |", "text: x\n      json: |"), 26, "give exactly one of text, json and csv"),
        (swapped("text: |", "columns: [a]\n      text: |"), 26, "columns and spreadsheet belong to csv"),
        (swapped("text: |", "txt: |"), 27, "steps.3.with.txt: parameter txt is unknown"),
        (swapped("when: shop.links", "when: shp.links"), 18, "nothing is called shp here; there are config, index"),
        (swapped("when: shop.links", "when: 1"), 18, "steps.1.when: is true, false or an expression"),
        (swapped("when: shop.links", "when: a b"), 18, "steps.1.when: expected token"),
        (swapped("for_each: shop.links[:3]", "for_each: item.links"), 19, "nothing is called item here"),
        (swapped("for_each: shop.links[:3]", "for_each: {a: 1}"), 19, "steps.1.for_each: is a list or an expression"),
        (swapped("{{ input.url }}", "{{ item.url }}"), 15, "nothing is called item here; there are config, input"),
        (swapped("{{ input.url }}", "{{ input.url"), 15, "steps.0.with.url: unexpected end of template"),
        (swapped("{{ input.url }}", "{{ shop.url }}"), 15, "nothing is called shop here"),
        (swapped("        {{ config.currency", "        {{ config.currency | money"), 29, "No filter named 'money'"),
        (swapped('title: "{{ shop.title }}"', 'title: "{{ total }}"'), 31, "output.title: nothing is called total"),
        (swapped("as: shots", "as: shop"), 17, "steps.1.as: shop is the name of a step before"),
        (swapped("as: shots", "as: input"), 17, "steps.1.as: input means something else"),
        (swapped("as: shots", "as: two words"), 17, "steps.1.as: String should match pattern"),
        (swapped("timeout_sec: 3600", "timeout_sec: 0"), 36, "runtime.job.timeout_sec: Input should be greater"),
        (swapped("timeout_sec: 3600", 'timeout_sec: "${TIME}"'), 36, "runtime.job.timeout_sec: ${TIME} is not set"),
        (swapped("${WEBHOOK_URL}", "${PENELOPE_KEY}"), 37, "webhook_url: ${PENELOPE_KEY} is the worker's own"),
        (swapped("${WEBHOOK_URL}", "ftp://x"), 37, "runtime.job.webhook_url: String should match pattern"),
        (swapped('"session"', '"user"'), 38, "runtime.job.idempotency_scope: Input should be"),
        (swapped("- failed", "- started"), 41, "runtime.job.events.1: Input should be"),
        (swapped("enabled: true", "enable: true"), 35, "runtime.job.enable: there is no such key"),
    ],
)  # fmt: skip
def test_a_fault_has_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    """And says which key it is about."""
    found = faults(tmp_path, text)

    assert [said for at, said in found if at == line and message in said], found


def test_all_faults_of_all_files_are_found_at_once(tmp_path: Path) -> None:
    text = swapped("web/read", "web/reed").replace("about:blank", "chrome:gpu").replace("full_page", "x")
    write(tmp_path, "steps", name="other")

    found = faults(tmp_path, text)

    assert [1, 13, 21, 23] == [line for line, _ in found]
    with pytest.raises(
        BadRecipe, match=r"other/TEMPLATE.yaml:1: is no mapping .*and 3 more: penelope recipes"
    ):
        book.load([tmp_path], PLUGINS, ENVIRON)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    assert [(2, "is not UTF-8")] == faults(tmp_path, b"name: shop\n\xff\n")
    assert (1, "is no YAML: special characters are not allowed") in faults(tmp_path, b"name: sh\x07op\n")
    assert [(1, "the file has 300000 bytes: at most 262144 are read")] == faults(tmp_path, b" " * 300_000)


def test_one_of_a_name(tmp_path: Path) -> None:
    """Two folders may not have the same recipe; the fault names both files."""
    write(tmp_path / "one", WHOLE)
    write(tmp_path / "two", WHOLE)

    with pytest.raises(
        BadRecipe, match=r"two/shop/TEMPLATE.yaml:1: recipe shop is in .*one/shop/TEMPLATE.yaml"
    ):
        book.load([tmp_path / "one", tmp_path / "two"], PLUGINS, ENVIRON)


@pytest.mark.parametrize("called", ["TEMPLATE.yml", "template.yaml"])
def test_a_file_that_is_called_almost_as_a_recipes_is_named(tmp_path: Path, called: str) -> None:
    """Else its author would look for a long time."""
    write(tmp_path, WHOLE).rename(tmp_path / "shop" / called)

    with pytest.raises(
        BadRecipe, match=rf"shop/{called}:1: is no recipe's file: that is called TEMPLATE.yaml"
    ):
        book.load([tmp_path], PLUGINS, ENVIRON)


def test_a_folder_whose_name_no_recipe_can_have_is_named(tmp_path: Path) -> None:
    write(tmp_path, WHOLE).parent.rename(tmp_path / "a shop")

    with pytest.raises(BadRecipe, match=r"TEMPLATE.yaml:1: name: shop is in the folder a shop"):
        book.load([tmp_path], PLUGINS, ENVIRON)


def test_a_recipes_own_folder_is_not_taken_for_one_of_recipes(tmp_path: Path) -> None:
    write(tmp_path, WHOLE)

    with pytest.raises(
        BadRecipe, match=r"names .*shop, which is a recipe's own folder: name the one around it"
    ):
        book.load([tmp_path / "shop"], PLUGINS, ENVIRON)


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRecipe, match=r"PENELOPE_RECIPES names .*nowhere, which is no folder"):
        book.load([tmp_path / "nowhere"], PLUGINS, ENVIRON)


def test_what_is_no_recipe_is_left_alone(tmp_path: Path) -> None:
    """Files beside the recipes, hidden folders, folders without a TEMPLATE.yaml."""
    write(tmp_path, WHOLE)
    write(tmp_path, "broken: [", name=".git")
    (tmp_path / "README.md").write_text("hello")
    (tmp_path / "notes").mkdir()

    assert ["shop"] == list(book.load([tmp_path], PLUGINS, ENVIRON))


def test_values_are_of_json(tmp_path: Path) -> None:
    """By YAML 1.2: what 1.1 read as a truth, a date or an octal number is a text."""
    text = "{a: no, b: on, c: 2026-01-01, d: 007, e: 1_0, f: 0x1F, g: 12:30, h: .inf, i: true, j: null, k: ~}"

    assert {
        "a": "no",
        "b": "on",
        "c": "2026-01-01",
        "d": "007",
        "e": "1_0",
        "f": "0x1F",
        "g": "12:30",
        "h": ".inf",
        "i": True,
        "j": None,
        "k": None,
    } == parse(text.encode()).value


def test_aliases_are_values_and_no_bomb(tmp_path: Path) -> None:
    """A few lines of them could stand for billions of values."""
    assert {"a": [1], "b": [1]} == parse(b"a: &x [1]\nb: *x\n").value

    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    with pytest.raises(Unreadable, match="more than 20000 values"):
        parse(bomb.encode())
    with pytest.raises(Unreadable, match="nested too deeply"):
        parse(b"a: &a [*a]\n")
    with pytest.raises(Unreadable, match="nested too deeply"):
        parse(b"[" * 10_000)


@given(st.text())
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any" / "TEMPLATE.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text.encode("utf-8", "replace"))

    found = read(file, {})

    assert found.recipe is None
    assert found.faults
    assert all(1 <= fault.line <= text.count("\n") + 2 for fault in found.faults) or "\r" in text


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    # A key of YAML's has to end within 1024 characters, and JSON writes twelve for some.
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=80), inner, max_size=4),
)


@given(VALUES)
def test_json_is_yaml(value: Any) -> None:
    """What a program writes as JSON is read as that."""
    assert value == parse(json.dumps({"value": value}).encode()).value["value"]
