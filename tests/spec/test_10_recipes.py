"""Recipes at work: steps on one desk, on the mock clock. The desk is a fake; its page is what the tests say.

Source: contract, section 10 ("A recipe is …"); docs/recipes.md.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from penelope import registry
from penelope.errors import BadParameter, RunRefused
from penelope.runs.port import Desk, RunFailed, StepFailed, Work
from penelope.runs.recipes import book
from penelope.runs.recipes.book import PlannedRecipe, Recipes
from penelope.runs.recipes.model import EVENTS
from tests.spec.recipe_desk import FakeDesk

PLUGINS: Final = registry.load(())


def recipes(folder: Path, *texts: str, **environ: str) -> Recipes:
    for text in texts:
        (name,) = re.findall(r"^name: (.+)$", text, re.MULTILINE)
        file = folder / name / "TEMPLATE.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    found, faults = book.read_all([folder], PLUGINS, environ)
    assert [] == faults
    return Recipes(found)


def planned(folder: Path, steps: str, prompt: str = "{}", **more: Any) -> PlannedRecipe:
    return recipes(folder, f"name: one\nsteps:\n{steps}").plan("one", prompt, **more)


async def run(work: Work, desk: Desk) -> Any:
    """Through the port's own types: the fake and the recipe are what the engine knows."""
    return await work.run(desk)


# Steps, results, output


async def test_steps_run_in_order_and_know_what_came_before(tmp_path: Path) -> None:
    """Steps are plugin calls and primitives with templated parameters; each has the results of those before."""
    desk = FakeDesk(
        {"web/open": [{"url": "https://shop.example/", "status": 200}], "text": [{"text": "Hello"}]}
    )

    plan = planned(
        tmp_path,
        """
  - {as: opened, plugin: web/open, with: {url: "{{ input.url }}"}}
  - {primitive: scroll, with: {delta_y: 100}}
  - {as: read, primitive: text, with: {selector: "h1[data-n='{{ opened.status }}']"}}
""",
        "{'url': 'https://shop.example'}",
    )
    result = await run(plan.work, desk)

    assert [
        ("web/open", {"url": "https://shop.example"}),
        ("scroll", {"delta_y": 100}),
        ("text", {"selector": "h1[data-n='200']"}),
    ] == desk.asked
    assert {"opened": {"url": "https://shop.example/", "status": 200}, "read": {"text": "Hello"}} == result


async def test_output_is_a_template_with_types(tmp_path: Path) -> None:
    desk = FakeDesk({"text": [{"text": "42"}]})
    made = recipes(
        tmp_path,
        """
name: one
steps: [{as: read, primitive: text, with: {selector: h1}}]
output:
  raw: "{{ read.text }}"
  number: "{{ read.text | int }}"
  list: ["{{ read }}", fixed, 1]
""",
    )

    assert {"raw": "42", "number": 42, "list": [{"text": "42"}, "fixed", 1]} == await run(
        made.plan("one", "{}").work, desk
    )


async def test_an_output_that_cannot_be_fails_the_run(tmp_path: Path) -> None:
    made = recipes(tmp_path, 'name: one\nsteps: [{as: a, primitive: reload}]\noutput: "{{ a.titel }}"\n')

    with pytest.raises(RunFailed, match=r"^output \(line 3\): there is no field 'titel'; there are: title$"):
        await run(made.plan("one", "{}").work, FakeDesk({"reload": [{"title": "x"}]}))


async def test_what_a_page_says_is_data(tmp_path: Path) -> None:
    """A template in a page's text is never one of ours."""
    desk = FakeDesk({"text": [{"text": "{{ config.secret }} ${HOME}"}]})
    plan = planned(
        tmp_path,
        """
  - {as: read, primitive: text, with: {selector: h1}}
  - {primitive: fill, with: {selector: input, value: "{{ read.text }}"}}
""",
        config={"secret": "s3cret"},
    )

    await run(plan.work, desk)

    assert "{{ config.secret }} ${HOME}" == desk.asked[1][1]["value"]


# when, for_each


@pytest.mark.parametrize(
    ("full", "asked"), [(True, 2), (False, 1), (0, 1), ("", 1), (None, 1), ([], 1), (1, 2)]
)
async def test_when_it_is_false_the_step_is_skipped_and_said_so(
    tmp_path: Path, full: Any, asked: int
) -> None:
    desk = FakeDesk()
    plan = planned(
        tmp_path,
        """
  - {as: first, primitive: reload}
  - {as: second, primitive: back, when: config.full}
""",
        config={"full": full},
    )

    result = await run(plan.work, desk)

    assert asked == len(desk.asked)
    assert (result["second"] is None) == (asked == 1)
    assert ((1.0, "second: skipped", 1, 2) in desk.told) == (asked == 1)


async def test_for_each_runs_a_step_for_each_item(tmp_path: Path) -> None:
    """With `item` and `index`; its result is the list of theirs."""

    async def opened(given: Mapping[str, Any]) -> dict[str, Any]:
        return {"url": given["url"]}

    desk = FakeDesk({"web/open": [opened]})
    plan = planned(
        tmp_path,
        """
  - as: pages
    for_each: input.names
    plugin: web/open
    with: {url: "https://shop.example/{{ item }}?n={{ index }}"}
""",
        '{"names": ["a", "b"]}',
    )

    assert {
        "pages": [{"url": "https://shop.example/a?n=0"}, {"url": "https://shop.example/b?n=1"}]
    } == await run(plan.work, desk)
    assert [(0.0, "pages 1 of 2", 0, 1), (0.5, "pages 2 of 2", 0, 1), (1.0, "done", 1, 1)] == desk.told[1:]


async def test_a_list_may_be_written_out(tmp_path: Path) -> None:
    desk = FakeDesk()
    plan = planned(
        tmp_path,
        '  - {for_each: [1, "{{ input.two }}"], primitive: scroll, with: {delta_y: "{{ item }}"}}\n',
        '{"two": 2}',
    )

    await run(plan.work, desk)

    assert [{"delta_y": 1}, {"delta_y": 2}] == [given for _, given in desk.asked]


async def test_when_is_asked_of_each_item_if_it_names_one(tmp_path: Path) -> None:
    """And its place in the result is null, so that the list goes with that of the items."""
    desk = FakeDesk({"scroll": [{"y": 1}]})
    plan = planned(
        tmp_path,
        '  - {as: odd, for_each: "range(4)", when: item is odd, primitive: scroll, with: {delta_y: "{{ item }}"}}\n',
    )

    assert {"odd": [None, {"y": 1}, None, {"y": 1}]} == await run(plan.work, desk)
    assert [1, 3] == [given["delta_y"] for _, given in desk.asked]


async def test_when_without_an_item_is_asked_before_the_list(tmp_path: Path) -> None:
    """So that a step whose list is not there can be left out."""
    plan = planned(
        tmp_path,
        "  - {as: all, when: input.xs is defined, for_each: input.xs, primitive: reload}\n",
    )

    assert {"all": None} == await run(plan.work, FakeDesk())


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ('"abc"', "for_each gives a text, not a list"),
        ("{}", "for_each gives an object, not a list"),
        ("null", "for_each gives null, not a list"),
        (str(list(range(1001))), "for_each gives 1001 items: at most 1000"),
    ],
)
async def test_for_each_is_bounded_and_wants_a_list(tmp_path: Path, items: str, words: str) -> None:
    plan = planned(tmp_path, "  - {for_each: input.xs, primitive: reload}\n", f'{{"xs": {items}}}')
    desk = FakeDesk()

    with pytest.raises(RunFailed, match=words):
        await run(plan.work, desk)
    assert [] == desk.asked


# Failures, retry


async def test_a_failing_step_fails_the_run_and_is_named(tmp_path: Path) -> None:
    """Its number, its `as`, what it did, and the sentence."""
    desk = FakeDesk({"web/open": [StepFailed("there is no account x", answered=404)]})
    plan = planned(
        tmp_path,
        "  - primitive: reload\n  - {as: account, plugin: web/open, with: {url: 'https://x.example'}}\n",
    )

    with pytest.raises(RunFailed, match=r"^step 2 \(account, web/open\): there is no account x$"):
        await run(plan.work, desk)


async def test_a_failing_round_is_named(tmp_path: Path) -> None:
    desk = FakeDesk({"scroll": [{}, StepFailed("gone", answered=502, kind="page")]})
    plan = planned(tmp_path, '  - {for_each: [1, 2, 3], primitive: scroll, with: {delta_y: "{{ item }}"}}\n')

    with pytest.raises(RunFailed, match=r"^step 1, 2 of 3 \(scroll\): gone$"):
        await run(plan.work, desk)


async def test_a_bad_template_value_fails_its_step(tmp_path: Path) -> None:
    plan = planned(tmp_path, '  - {as: a, primitive: scroll, with: {delta_y: "{{ input.y }}"}}\n')

    with pytest.raises(
        RunFailed, match=r"^step 1 \(a, scroll\): steps.0.with.delta_y \(line 3\): there is no field 'y'"
    ):
        await run(plan.work, FakeDesk())


async def test_a_parameter_that_the_plugin_refuses_fails_its_step(tmp_path: Path) -> None:
    plan = planned(tmp_path, '  - {plugin: web/open, with: {url: "{{ input.url }}"}}\n', '{"url": 1}')

    with pytest.raises(RunFailed, match=r"^step 1 \(web/open\): parameter url: no string$"):
        await run(plan.work, FakeDesk({"web/open": [BadParameter("parameter url: no string")]}))


RETRIED = '  - {as: a, plugin: web/open, with: {url: "https://x.example"}, retry: {count: 2, delay: 5}}\n'


@pytest.mark.parametrize(
    ("answered", "kind"),
    [
        *((502, kind) for kind in ("site", "proxy", "page", "browser")),
        (408, "timeout"),
        *((status, None) for status in (408, 502, 503, 504)),
    ],
)
async def test_what_can_pass_is_tried_again(tmp_path: Path, answered: int, kind: str | None) -> None:
    """Timeouts, and 5xx of site, proxy, page and browser; after the delay."""
    failure = StepFailed("not now", answered=answered, kind=kind)
    desk = FakeDesk({"web/open": [failure, failure, {"url": "x"}]})
    began = trio.current_time()

    assert {"a": {"url": "x"}} == await run(planned(tmp_path, RETRIED).work, desk)
    assert [0.0, 5.0, 10.0] == pytest.approx([at - began for at in desk.times])
    assert [words for _, words, _, _ in desk.told].count("a: failed, tried again in 5 s") == 2


@pytest.mark.parametrize(
    ("answered", "kind"),
    [(404, None), (429, None), (400, None), (500, None), (500, "plugin"), (403, "worker"), (507, "worker")],
)
async def test_what_cannot_pass_is_not_tried_again(tmp_path: Path, answered: int, kind: str | None) -> None:
    desk = FakeDesk({"web/open": [StepFailed("never", answered=answered, kind=kind)]})

    with pytest.raises(RunFailed, match="never"):
        await run(planned(tmp_path, RETRIED).work, desk)
    assert 1 == len(desk.asked)


async def test_it_is_tried_so_often_and_no_more(tmp_path: Path) -> None:
    desk = FakeDesk({"web/open": [StepFailed("not now", answered=502, kind="site")]})

    with pytest.raises(RunFailed, match="not now"):
        await run(planned(tmp_path, RETRIED).work, desk)
    assert 3 == len(desk.asked)


async def test_without_retry_nothing_is_tried_again(tmp_path: Path) -> None:
    desk = FakeDesk({"reload": [StepFailed("not now", answered=502, kind="site")]})

    with pytest.raises(RunFailed):
        await run(planned(tmp_path, "  - primitive: reload\n").work, desk)
    assert 1 == len(desk.asked)


# Progress, cancel


async def test_progress_is_steps_done_and_a_plugins_own_within_its_step(tmp_path: Path) -> None:
    desk = FakeDesk(progress_of={"web/open": [(0.5, "half"), (0.25, "back"), (1.0, "")]})
    plan = planned(
        tmp_path,
        """
  - primitive: reload
  - {as: shop, plugin: web/open, with: {url: "https://x.example"}}
""",
    )

    await run(plan.work, desk)

    assert [
        (0.0, "reload", 0, 2),
        (0.5, "shop", 1, 2),
        (0.75, "shop: half", 1, 2),
        (0.75, "shop: back", 1, 2),  # it never goes back
        (1.0, "shop", 1, 2),
        (1.0, "done", 2, 2),
    ] == desk.told


@pytest.mark.parametrize("where", ["in a step", "between tries"])
async def test_a_cancelled_run_stops_where_it_is(tmp_path: Path, where: str) -> None:
    async def slow(_: Mapping[str, Any]) -> dict[str, Any]:
        await trio.sleep(100)
        return {}

    failure = StepFailed("not now", answered=502, kind="site")
    desk = FakeDesk({"web/open": [slow if where == "in a step" else failure]})

    with trio.move_on_after(3) as scope:
        await run(planned(tmp_path, RETRIED + "  - primitive: reload\n").work, desk)

    assert scope.cancelled_caught
    assert ["web/open"] == [name for name, _ in desk.asked]


# Files


async def written(folder: Path, step: str, prompt: str = "{}") -> tuple[bytes, str]:
    desk = FakeDesk()
    result = await run(planned(folder, f"  - as: f\n    {step}\n", prompt).work, desk)
    ((name, (content, content_type)),) = desk.files.items()
    assert {
        "f": {
            "url": f"/api/v1/media/{name}",
            "filename": name,
            "content_type": content_type,
            "size": len(content),
            "expires_at": 300.0,
        }
    } == result
    return content, content_type


PEOPLE = """{"rows": [{"name": "Ada, A.", "n": 1, "on": true}, {"name": "Bo \\"B\\"", "n": null, "tags": ["x"]}]}"""


@pytest.mark.parametrize(
    ("with_", "content", "content_type"),
    [
        ("{text: 'Hello {{ input.who }}'}", "Hello Ünal", "text/plain; charset=utf-8"),
        ("{text: '{{ input.n }}'}", "7", "text/plain; charset=utf-8"),
        ("{text: '', content_type: text/markdown}", "", "text/markdown"),
        ("{json: '{{ input.n }}'}", "7\n", "application/json"),
        ("{json: null}", "null\n", "application/json"),
        ("{json: {a: ['{{ input.who }}']}}", '{\n  "a": [\n    "Ünal"\n  ]\n}\n', "application/json"),
        ("{csv: []}", "", "text/csv; charset=utf-8"),
        ("{csv: [a, 1, null]}", "a\r\n1\r\n\r\n", "text/csv; charset=utf-8"),
        ("{csv: ['{{ input.who }}'], columns: [who]}", "who\r\nÜnal\r\n", "text/csv; charset=utf-8"),
        ("{csv: [[1, 2], [3, 4]], columns: [a, b]}", "a,b\r\n1,2\r\n3,4\r\n", "text/csv; charset=utf-8"),
    ],
)
async def test_a_file_is_a_text_json_or_csv(
    tmp_path: Path, with_: str, content: str, content_type: str
) -> None:
    found = await written(tmp_path, f"file: a.txt\n    with: {with_}", '{"who": "Ünal", "n": 7}')

    if content == "\r\n" or ("null" in with_ and "csv" in with_):
        content = content.replace("\r\n\r\n", '\r\n""\r\n')  # as RFC 4180's readers need it
    assert (content.encode(), content_type) == found


async def test_csv_of_objects(tmp_path: Path) -> None:
    """The columns are those of all rows, in the order in which they come, or those that are named."""
    all_of_it, _ = await written(tmp_path, 'file: a.csv\n    with: {csv: "{{ input.rows }}"}', PEOPLE)
    some, _ = await written(
        tmp_path, 'file: a.csv\n    with: {csv: "{{ input.rows }}", columns: [n, name]}', PEOPLE
    )

    assert b'name,n,on,tags\r\n"Ada, A.",1,true,\r\n"Bo ""B""",,,"[""x""]"\r\n' == all_of_it
    assert b'n,name\r\n1,"Ada, A."\r\n,"Bo ""B"""\r\n' == some


async def test_for_a_spreadsheet_no_text_is_a_formula(tmp_path: Path) -> None:
    """If asked for; else a file holds what the page said."""
    rows = '{"rows": [["=1+1", "-x", -1, "@a", "a=b"]]}'

    safe, _ = await written(
        tmp_path, 'file: a.csv\n    with: {csv: "{{ input.rows }}", spreadsheet: true}', rows
    )
    plain, _ = await written(tmp_path, 'file: a.csv\n    with: {csv: "{{ input.rows }}"}', rows)

    assert b"'=1+1,'-x,-1,'@a,a=b\r\n" == safe
    assert b"=1+1,-x,-1,@a,a=b\r\n" == plain


async def test_a_file_may_be_named_by_a_number(tmp_path: Path) -> None:
    desk = FakeDesk()

    await run(planned(tmp_path, '  - {file: "{{ input.n }}", with: {text: x}}\n', '{"n": 7}').work, desk)

    assert ["7"] == list(desk.files)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("{file: a, with: {csv: '{{ input.n }}'}}", "parameter csv: Input should be a valid list"),
        ("{file: a, with: {csv: [[1, 2], [3]], columns: [a, b]}}", "csv: row 2 has 1 cells for 2 columns"),
        ("{file: a, with: {csv: [1], columns: [a, b]}}", "csv: row 1 is one value for 2 columns"),
        ("{file: a, with: {csv: [{a: 1}], columns: [a, b, c]}}", "csv: no row has b, c"),
        ("{file: '{{ input.e }}', with: {text: x}}", "parameter name: String should have at least 1"),
        (
            "{file: a, with: {json: '{{ input.n }}', content_type: '{{ input.e }}'}}",
            "parameter content_type: ",
        ),
        ("{file: full.txt, with: {text: x}}", "the files that wait have 4096 MiB"),
        ("{file: a, with: {csv: '{{ range(2) | batch(1) }}', columns: [a, b]}}", "csv: row 1 has 1 cells"),
    ],
)
async def test_a_file_that_cannot_be_fails_its_step(tmp_path: Path, step: str, words: str) -> None:
    with pytest.raises(RunFailed) as failed:
        await run(planned(tmp_path, f"  - {step}\n", '{"n": 7, "e": ""}').work, FakeDesk())
    assert failed.value.message.startswith(f"step 1 (file): {words}")


# Plans


CONFIG = {"currency": "EUR", "depth": 1}
JOB = """
name: shop
description: Reads a shop.
input: {properties: {url: {type: string}, limit: {type: integer, default: 10}}, required: [url]}
config: {currency: EUR, depth: 1}
page: second
steps: [{as: page, plugin: web/open, with: {url: "{{ input.url }}"}}]
output: ["{{ input }}", "{{ config }}"]
runtime:
  job:
    timeout_sec: "${LIMIT}"
    webhook_url: "https://${HOOK_HOST}/hooks"
    idempotency_scope: session
    events: [failed]
"""


async def test_a_plan_has_the_recipes_defaults(tmp_path: Path) -> None:
    """The seed's `runtime.job` block, with `${VAR}` from the environment."""
    made = recipes(tmp_path, JOB, LIMIT="90", HOOK_HOST="hooks.example")

    plan = made.plan("shop", "{'url': 'x'}")

    assert (90.0, "https://hooks.example/hooks", "session", ("failed",)) == (
        plan.timeout_s,
        plan.webhook_url,
        plan.idempotency_scope,
        plan.events,
    )
    assert ("second", "recipe:shop") == (plan.work.page, plan.work.agent_id)


async def test_a_recipe_without_the_block_has_no_defaults(tmp_path: Path) -> None:
    plan = planned(tmp_path, "  - primitive: reload\n")

    assert (None, None, None, EVENTS) == (
        plan.timeout_s,
        plan.webhook_url,
        plan.idempotency_scope,
        plan.events,
    )
    assert plan.work.page is None


@pytest.mark.parametrize(
    ("config", "recipe_config", "expected"),
    [
        (None, None, [{"url": "x", "limit": 10}, {**CONFIG}]),
        ({"tokens": 9}, None, [{"url": "x", "limit": 10}, {**CONFIG, "tokens": 9}]),
        ({"depth": 2}, {"depth": 3}, [{"url": "x", "limit": 10}, {"currency": "EUR", "depth": 3}]),
        ({"limit": 5}, {"url": "y"}, [{"url": "y", "limit": 5}, {**CONFIG, "limit": 5, "url": "y"}]),
    ],
)  # fmt: skip
async def test_configurations_override(
    tmp_path: Path, config: dict[str, Any] | None, recipe_config: dict[str, Any] | None, expected: list[Any]
) -> None:
    """The recipe's own `config`, and what its input declares; `recipe_config` wins over `config`."""
    made = recipes(tmp_path, JOB, LIMIT="90", HOOK_HOST="h.example")

    plan = made.plan("shop", '{"url": "x"}', config, recipe_config)

    assert expected == await run(plan.work, FakeDesk())


@pytest.mark.parametrize(
    ("name", "prompt", "words"),
    [
        ("none", "{}", "there is no recipe 'none': there are off, shop"),
        ("../shop", "{}", "there is no recipe '../shop'"),
        ("/etc/passwd", "{}", "there is no recipe '/etc/passwd'"),
        ("shop/TEMPLATE.yaml", "{}", "there is no recipe"),
        ("", "{}", "there is no recipe ''"),
        ("x" * 100_000, "{}", "there is no recipe 'xxx"),
        ("off", "{}", "recipe off is not enabled: runtime.job.enabled is false"),
        ("shop", "{}", "recipe shop: input: 'url' is a required property"),
        ("shop", "hello", "recipe shop: input: 'url' is a required property"),
        ("shop", "{'url': 1}", "recipe shop: input.url: 1 is not of type 'string'"),
    ],
)
async def test_what_cannot_be_planned_is_refused(tmp_path: Path, name: str, prompt: str, words: str) -> None:
    """An unknown recipe, a bad input: 422 at submit. Names are looked up, never opened."""
    off = "name: off\nsteps: [{primitive: reload}]\nruntime: {job: {enabled: false}}\n"
    made = recipes(tmp_path, JOB, off, LIMIT="90", HOOK_HOST="h.example")

    with pytest.raises(RunRefused) as refused:
        made.plan(name, prompt)
    assert words in refused.value.message
    assert 422 == refused.value.status
    assert len(refused.value.message) < 300


async def test_without_folders_the_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunRefused, match="PENELOPE_RECIPES names no folder with recipes"):
        Recipes([]).plan("shop", "{}")
