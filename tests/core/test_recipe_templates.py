"""Templates of recipes: values come out as they went in, nothing gets out of the sandbox, and nothing makes too much.

Source: contract, section 10 ("Templates are sandboxed").
"""

import contextlib
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penelope.runs.recipes import templates
from penelope.runs.recipes.budget import MAX_ITEMS, MAX_SECONDS, Budget, spending
from penelope.runs.recipes.filters import FILTERS
from penelope.runs.recipes.templates import BadTemplate, TemplateFailed

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)
ACCOUNT = {"handle": "alice", "items": 5, "keys": None, "urls": ["a", "b", "c"], "of": [{"n": 2}, {"n": 1}]}


def value(source: str, budget: Budget | None = None, **names: Any) -> Any:
    template = templates.compiled(source, "here")
    with spending(budget or Budget()):
        return template.value({"input": ACCOUNT, **names})


@given(JSON)
def test_an_expression_gives_the_value_as_it_is(given_value: Any) -> None:
    """With its type: a page's "123" stays a text, and its "[1, 2]" does not become a list."""
    found = value("{{ it }}", it=given_value)

    assert (repr(given_value), given_value) == (repr(found), found)


@given(st.text())
def test_what_a_page_says_is_never_a_template(said: str) -> None:
    """Values are not read again, whatever stands in them."""
    assert f"says: {said}" == value("says: {{ it }}", it=said)
    assert said == value("{{ it }}", it="{{ 1 }}" + said)[7:]


@given(st.text(st.characters(exclude_characters="{")))
def test_a_text_without_marks_is_itself(source: str) -> None:
    assert not templates.is_template(source)
    lines = re.sub("\r\n|\r", "\n", source)  # as Jinja reads lines
    assert lines == value(source)


@given(
    st.text(st.sampled_from("{}%# ()[]|.,:'\"_~*+-0123456789abfilter input range for in if else set endfor"))
)
def test_no_text_does_more_than_fail(source: str) -> None:
    """Whatever is written is a template or is none."""
    try:
        template = templates.compiled(source, "here")
    except BadTemplate:
        return
    with contextlib.suppress(TemplateFailed), spending(Budget(100_000, 2.0)):
        template.value({"input": ACCOUNT})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ input.handle }}", "alice"),
        ("{{ input['handle'] }}.csv", "alice.csv"),
        ("{{ input.items }}", 5),  # a field, whatever Python's objects have under that name
        ("{{ input.keys }}", None),
        ("{{ input.urls[0] }}{{ input.urls[-1] }}", "ac"),
        ("{{ input.urls[1:] }}", ["b", "c"]),
        ("{{ input.handle[:2] }}", "al"),
        ("{{ 1 + 2 * 3 }}", 7),
        ("{{ 7 // 2 }}-{{ 7 % 4 }}-{{ 2 ** 5 }}-{{ 7 / 2 }}", "3-3-32-3.5"),
        ("{{ input.items > 4 and not input.keys }}", True),
        ("{{ 'a' in input.urls }}", True),
        ("{{ 'ab' * 2 }}", "abab"),
        ("{{ 'a' ~ 1 ~ none ~ true ~ [1] }}", "a1nulltrue[1]"),
        ("is {{ true }}, {{ none }}, {{ input.of }}", 'is true, null, [{"n": 2}, {"n": 1}]'),
        ("{{ range(2, 5) }}", [2, 3, 4]),
        ("{{ {'a': [1, input.items]} }}", {"a": [1, 5]}),
        ("{{ input.urls | join(', ') }}", "a, b, c"),
        ("{{ input.of | map(attribute='n') | sort }}", [1, 2]),
        ("{{ input.of | sort(attribute='n') | map(attribute='n') | first }}", 1),
        ("{{ input.of | selectattr('n', '>', 1) | length }}", 1),
        ("{{ input.of | sum('n') }}", 3),
        ("{{ input.of | groupby('n') }}", [[1, [{"n": 1}]], [2, [{"n": 2}]]]),
        ("{{ input.nothing | default('x') }}", "x"),
        ("{{ input.keys.nothing | default('x') }}", "x"),
        ("{{ input.nothing is defined }}", False),
        ("{{ 'a,b' | split(',') }}", ["a", "b"]),
        ("{{ ' a  b ' | split }}", ["a", "b"]),
        ("{{ 'aXbX' | replace('X', '-') }}", "a-b-"),
        ("{{ '%03d %s 100%%' | format(7, 'of') }}", "007 of 100%"),
        ("{{ 2.345 | round(1) }}", 2.3),
        ("{{ input.of | tojson }}", '[{"n": 2}, {"n": 1}]'),
        ("{{ '<b>' | e }}", "&lt;b&gt;"),
        ("{{ 'a b' | urlencode }}", "a%20b"),
        ("{{ 'abcdefghij' | truncate(6) }}", "abc..."),
        ("{{ range(5) | batch(2) }}", [[0, 1], [2, 3], [4]]),
        ("{{ input.handle is startswith('al') }}", True),
        ("{{ '12' | int + 1 }}", 13),
        ("{% for url in input.urls %}{{ loop.index }}/{{ loop.length }} {{ url }};{% endfor %}", "1/3 a;2/3 b;3/3 c;"),
        ("{% for at in range(4) if at is even %}{{ at }}{% else %}none{% endfor %}", "02"),
        ("{% for key, part in {'a': 1} | items %}{{ key }}={{ part }}{% endfor %}", "a=1"),
        ("{% if input.items > 4 %}many{% else %}few{% endif %}", "many"),
        ("{% set twice = input.items * 2 %}{{ twice }}", "10"),
        ("line\n", "line\n"),
        ("${HOME}", "${HOME}"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_language(source: str, expected: Any) -> None:
    found = value(source)

    assert (expected, type(expected)) == (found, type(found))


def test_a_step_may_have_any_name() -> None:
    """Also that under which an expression's value is kept."""
    assert 9 == value("{{ result.x }}", result={"x": 9})


def test_every_filter_is_tried_or_harmless() -> None:
    """A filter that is added comes with an example above or in the docs, or is one of these."""
    plain_ones = set(
        "abs capitalize count cut counted d dictsort escape float last list lower max min reject rejectattr reverse "
        "select string title trim unique upper wordcount".split()
    )
    source = Path(__file__).read_text("utf-8")

    assert [] == sorted(
        name for name in FILTERS.keys() - plain_ones if not re.search(rf"\| {name}\b", source)
    )


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ input.handl }}", "there is no field 'handl'; there are: handle, items, keys, urls, of"),
        ("{{ input.keys.x }}", "there is no field 'x' of null"),
        ("{{ input.items.x }}", "there is no field 'x' of a number"),
        ("{{ input.urls[3] }}", "there is no item 3 in a list of 3"),
        ("{{ input.a.b | default(1) }}", "there is no field 'a'"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ 'a' + 1 }}", "can only concatenate str"),
        ("{{ 1 if false }}", "no else section"),
        ("{{ {1: 2} }}", "the key 1 is no text"),
        ("{{ 1e300 * 1e300 }}", "the number is not finite"),
        ("{{ '%s' % input }}", "format"),
        ("{{ '%d' | format('x') }}", "%d format"),
        ("{{ '%(x)s' | format(1) }}", "a conversion that is not taken"),
        ("{{ [] | first }}", "No first item"),
        ("{% for x in [1] %}{{ loop }}{% endfor %}", "is no value"),
        ("{{ range }}", "is no value"),
        ("{{ input.handle | int | string | abs }}", "bad operand"),
    ],
)
def test_what_cannot_be_says_why(source: str, words: str) -> None:
    with pytest.raises(TemplateFailed, match=re.escape(words)) as failed:
        value(source)
    assert failed.value.message.startswith("here: ")
    assert len(failed.value.message) < 350


# Ways out of a sandbox that were ways out of somebody's, or look like one.
ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ ''['__class__'] }}",
    "{{ input['__class__'] }}",
    "{{ input.__class__ }}",
    "{{ input.__init__.__globals__ }}",
    "{{ [].__class__.__base__.__subclasses__() }}",
    "{{ ().__class__ }}",
    "{{ ''|attr('__class__') }}",
    "{{ ['']|map('attr', '__class__')|list }}",
    "{{ ['']|map(attribute='__class__')|list }}",
    "{{ ['']|map(attribute='upper')|list }}",
    "{{ ['']|selectattr('__class__')|list }}",
    "{{ ['']|groupby('__class__') }}",
    "{{ ['', 'a']|sort(attribute='__class__') }}",
    "{{ ['']|unique(attribute='__class__')|list }}",
    "{{ ['']|sum(attribute='__class__') }}",
    "{{ ['']|join(attribute='__class__') }}",
    "{{ ['', 'a']|max(attribute='__class__') }}",
    "{{ self }}",
    "{{ self._TemplateReference__context }}",
    "{{ self.__init__.__globals__ }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ joiner }}",
    "{{ namespace() }}",
    "{{ lipsum.__globals__['os'] }}",
    "{{ lipsum(5) }}",
    "{{ dict(a=1) }}",
    "{{ range.__class__ }}",
    "{{ range.__self__ }}",
    "{{ range(1).__class__ }}",
    "{{ '{0.__class__}'.format('') }}",
    "{{ '{0.__class__}'.format_map({}) }}",
    "{{ '{0.__class__}'|format('') }}",
    "{{ ['{0.__class__}']|map('format', '') }}",
    "{{ ''.join }}",
    "{{ input.get('handle') }}",
    "{{ input.urls.append(1) }}",
    "{{ input.update({'handle': 1}) }}",
    "{{ caller() }}",
    "{{ varargs }}",
    "{{ environ }}",
    "{{ config.__class__ }}",
    "{{ __builtins__ }}",
    "{{ __import__('os') }}",
    "{{ open('/etc/hostname') }}",
    "{{ context }}",
    "{{ environment }}",
    "{{ url_for.__globals__ }}",
    "{% for x in [1] %}{{ loop.__class__ }}{% endfor %}",
    "{% for x in [1] %}{{ loop._iterable }}{% endfor %}",
    "{% for x in [1] %}{{ loop.__init__.__globals__ }}{% endfor %}",
    "{% for x in [1] %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in [1] recursive %}{{ loop([2]) }}{% endfor %}",
    "{% import 'os' as os %}{{ os }}",
    "{% from 'os' import path %}",
    "{% include '/etc/hostname' %}",
    "{% extends '/etc/hostname' %}",
    "{% macro m() %}{{ m.__globals__ }}{% endmacro %}{{ m() }}",
    "{% call input() %}{% endcall %}",
    "{% filter attr('__class__') %}{% endfilter %}",
    "{% set x.y = 1 %}",
    "{% set ns = namespace() %}{% set ns.x = 1 %}",
    "{% block b %}{{ self.b() }}{% endblock %}",
    "{% autoescape false %}{% endautoescape %}",
    "{% with a = 1 %}{% endwith %}",
    "{{ ''|safe }}",
    "{{ input|pprint }}",
    "{{ input|xmlattr }}",
    "{{ [1, 2]|random }}",
    "{{ _ }}",
    "{{ input.handle|string|attr('__class__') }}",
    "{% trans %}{% endtrans %}",
    "{% debug %}",
    "{% do input %}",
]


@pytest.mark.parametrize("source", ESCAPES)
def test_nothing_gets_out(source: str) -> None:
    """Each is refused when the recipe is read, or gives nothing when it is run; names are all that it could have."""
    try:
        template = templates.compiled(source, "here")
    except BadTemplate:
        return
    with pytest.raises(TemplateFailed), spending(Budget()):
        template.value({"input": ACCOUNT, "config": {}})


def deep(inside: Any, levels: int = 500) -> Any:
    for _ in range(levels):
        inside = [inside]
    return inside


GREEDY = [
    "{{ 'a' * 10**9 }}",
    "{{ 'a' * 1000 * 1000 * 1000 }}",
    "{{ [1] * 10**9 }}",
    "{{ 9999999999 ** 9999999999 }}",
    "{{ 2 ** 128 ** 128 }}",
    "{{ range(10**9) }}",
    "{{ range(10**30) }}",
    "{{ range(0, -(10**30), -1) }}",
    "{{ range(100000) | map('replace', '1', 'x' * 100000) }}",
    "{{ range(100000) | map('string') | map('replace', '', 'x' * 1000) | join }}",
    "{{ 'abc' | replace('', 'y' * 10000000) }}",
    "{{ range(100000) | join('x' * 1000) }}",
    "{{ '%1000000000d' | format(1) }}",
    "{{ '%.1000000000f' | format(1) }}",
    "{{ '%*d' | format(1000000000, 1) }}",
    "{{ [[1], [2]] | sum(start=[]) }}",
    "{{ 1.5 | round(10000000, 'ceil') }}",
    "{{ range(9) | batch(10**9, 'x') }}",
    "{{ [1] | tojson(indent=10**9) }}",
    "{{ deep | tojson(indent=8) }}",
    "{{ big | list }}",
    "{{ big | sort }}",
    "{{ big ~ big ~ big ~ big ~ big }}",
    "{{ [big[:], big[:], big[:], big[:], big[:]] }}",
    "{% for x in big %}{% endfor %}",
    "{% for x in range(100000) %}{{ big }}{% endfor %}",
    "{% set a = 'x' * 1000000 %}" + "{% set a = a ~ a %}" * 50 + "{{ a }}",
    "{% set a = 'x' * 1000000 %}" + "{% set a = a + a %}" * 50 + "{{ a }}",
    "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
    "{% for i in range(100000) %}{% if 1 in numbers %}{% endif %}{% endfor %}" * 50,
    "{{ range(100000) | select('in', numbers) | list | length }}",
]


@pytest.mark.parametrize("source", GREEDY, ids=[source[:60] for source in GREEDY])
def test_nothing_makes_too_much(source: str) -> None:
    """A rendering pays for what it makes, before it makes it, and ends in time."""
    names = {"big": "x" * 8 * 2**20, "numbers": list(range(-100_000, 0)), "deep": deep(list(range(10_000)))}
    began = time.monotonic()

    with pytest.raises((TemplateFailed, BadTemplate)):
        value(source, Budget(seconds=1.0), **names)

    assert time.monotonic() - began < 3.0


@pytest.mark.parametrize(
    "source",
    [
        "{{ " + "(" * 300 + "1" + ")" * 300 + " }}",
        "{{ " + "[" * 5000,
        "{{ " + "-" * 50_000 + "1 }}",
        "{% for x in [1] %}" * 30 + "{% endfor %}" * 30,
    ],
    ids=["brackets", "lists", "signs", "loops"],
)
def test_what_is_nested_too_deeply_is_no_template(source: str) -> None:
    with pytest.raises(BadTemplate):
        templates.compiled(source, "here")


def test_a_deep_value_is_refused() -> None:
    with pytest.raises(TemplateFailed, match="nested too deeply"):
        value("{{ it }}", it=deep([], 5000))


def test_the_limits_are_wide_enough_for_work() -> None:
    """A list as long as a list may be is read, changed and written in a part of the time."""
    rows = [{"name": f"name {at}", "n": at} for at in range(MAX_ITEMS)]
    began = time.monotonic()

    assert MAX_ITEMS == len(value("{{ rows | map(attribute='name') | map('upper') }}", rows=rows))
    assert time.monotonic() - began < MAX_SECONDS


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("{{ account.handle }}", {"account"}),
        ("{% for x in input.xs %}{{ x }}{{ loop.index }}{{ y }}{% endfor %}", {"input", "y"}),
        ("{% set a = 1 %}{{ a }}{{ range(3) }}", set()),
        ("{{ x | default(y) }}", {"x", "y"}),
    ],
)
def test_what_a_template_takes_from_outside_is_known(source: str, names: set[str]) -> None:
    """So that a name that is not there is a fault of the file, not of a run."""
    assert names == templates.compiled(source, "here").names


@pytest.mark.parametrize("source", ["input.items > 4", "{{ input.items > 4 }}", "  input.items > 4\n"])
def test_an_expression_may_have_its_braces(source: str) -> None:
    with spending(Budget()):
        assert True is templates.compiled_expression(source, "when").value({"input": ACCOUNT})


@pytest.mark.parametrize(
    "source", ["", "a b", "{{ a }} b", "{% if a %}b{% endif %}", "{{ a }}{{ b }}", "a }} {{ b"]
)
def test_what_is_not_one_expression_is_refused(source: str) -> None:
    with pytest.raises(BadTemplate):
        templates.compiled_expression(source, "when")


def test_a_bad_template_has_its_line() -> None:
    with pytest.raises(BadTemplate) as bad:
        templates.compiled("one\ntwo {{ 1 +* 2 }}\n", "here")

    assert 2 == bad.value.line
