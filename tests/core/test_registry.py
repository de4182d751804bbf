"""A plugin's signature as models: what is taken, what is refused, what is answered."""

import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from penelope import Call, plugin
from penelope.errors import BadParameter, BadPlugin, PluginFailed
from penelope.registry import Plugin, load, read_plugin
from tests.core import values


class Following(BaseModel):
    handle: str
    following: list[str] = []
    score: float | None = None
    raw: Any = None


class Typed(TypedDict):
    title: str


@plugin("instagram/get-following")
async def get_following(
    call: Call,
    handle: str,
    limit: Annotated[int, Field(ge=1, le=5000)] = 200,
    tags: list[str] | None = None,
    *,
    order: Literal["new", "old"] = "new",
) -> Following:
    """List whom an account follows."""
    raise NotImplementedError


@plugin("a/reserved")
async def reserved(
    call: Call,
    schema: int,
    json: str = "j",
    copy: float = 0.5,
    model_config: bool = False,
    dict: tuple[int, ...] = (),  # noqa: A002  # a name is a name
    validate: Annotated[str, Field(alias="other")] = "v",
) -> None:
    """Names that pydantic's own models reserve."""


@plugin("a/free")
async def free(call: Call) -> dict[str, Any]:
    raise NotImplementedError


@plugin("a/typed")
async def typed(call: Call) -> Typed:
    raise NotImplementedError


FOLLOWING = read_plugin(get_following)
RESERVED = read_plugin(reserved)
FREE = read_plugin(free)
TYPED = read_plugin(typed)


def test_defaults_and_bounds() -> None:
    """Parameters with their annotations and defaults."""
    assert {"handle": "alice", "limit": 200, "tags": None, "order": "new"} == FOLLOWING.arguments(
        {"handle": "alice"}
    )
    assert 5000 == FOLLOWING.arguments({"handle": "a", "limit": 5000})["limit"]
    assert ("instagram", "List whom an account follows.") == (FOLLOWING.family, FOLLOWING.description)
    assert Path(FOLLOWING.source) == Path(__file__)


@pytest.mark.parametrize(
    ("given_parameters", "named"),
    [
        ({}, "handle"),
        ({"handle": 5}, "handle"),
        ({"handle": None}, "handle"),
        ({"handle": "a", "limit": 0}, "limit"),
        ({"handle": "a", "limit": 5001}, "limit"),
        ({"handle": "a", "limit": "many"}, "limit"),
        ({"handle": "a", "order": "up"}, "order"),
        ({"handle": "a", "tags": "one"}, "tags"),
        ({"handle": "a", "handel": "b"}, "handel"),
        ({"p_handle": "a"}, "p_handle"),
        ({"handle": "a", "call": "x"}, "call"),
        ({"handle": "a", "": "x"}, "parameter"),
    ],
)
def test_a_bad_parameter_is_named(given_parameters: dict[str, Any], named: str) -> None:
    """A bad, missing or unknown parameter is `400` and is named."""
    with pytest.raises(BadParameter, match=named):
        FOLLOWING.arguments(given_parameters)


@given(st.dictionaries(values.ANY_TEXT, values.JSON, max_size=3))
def test_whatever_is_given_is_taken_or_refused(given_parameters: dict[str, Any]) -> None:
    """Never anything but a `400`, in a message that can be sent and never repeats a value."""
    secret = "s3cret-value"
    with pytest.raises(BadParameter) as refused:
        FOLLOWING.arguments({**given_parameters, "limit": secret})
    assert secret not in refused.value.message
    assert refused.value.message.isascii()
    assert refused.value.message.isprintable()


def test_parameters_may_have_names_that_models_reserve() -> None:
    """The parameters of the route are the function's own, whatever pydantic keeps for itself."""
    taken = RESERVED.arguments({"schema": 1, "json": "x", "copy": 2, "model_config": True, "dict": [1, 2]})
    assert {
        "schema": 1,
        "json": "x",
        "copy": 2.0,
        "model_config": True,
        "dict": (1, 2),
        "validate": "v",
    } == taken
    schema = RESERVED.parameters_schema
    assert {"schema", "json", "copy", "model_config", "dict", "validate"} == set(schema["properties"])
    assert (["schema"], False) == (schema["required"], schema["additionalProperties"])


def test_a_query_repeats_lists_only() -> None:
    """Parameters come from the query string on GET."""
    query = FOLLOWING.from_query({"handle": ["a"], "tags": ["x"], "limit": ["7"]})
    assert {"handle": "a", "limit": 7, "tags": ["x"], "order": "new"} == FOLLOWING.arguments(query)
    assert ["x", "y"] == FOLLOWING.from_query({"tags": ["x", "y"]})["tags"]
    with pytest.raises(BadParameter, match="handle"):
        FOLLOWING.from_query({"handle": ["a", "b"]})


def envelope(plugin_: Plugin, result: object) -> Any:
    return json.loads(plugin_.answer("main", result).encode())


def test_the_result_is_the_envelope_and_the_models_fields() -> None:
    """`{"success": true, "page_id": "main", ...the result model's fields}`."""
    answer = envelope(FOLLOWING, Following(handle="alice", following=["b"]))
    assert ["success", "page_id", "handle", "following", "score", "raw"] == list(answer)
    assert (True, "main", ["b"]) == (answer["success"], answer["page_id"], answer["following"])
    assert answer == envelope(FOLLOWING, {"handle": "alice", "following": ["b"]})
    assert {"success": True, "page_id": "main"} == envelope(RESERVED, None)
    assert "t" == envelope(TYPED, {"title": "t"})["title"]


@given(
    st.dictionaries(values.TEXT.filter(lambda n: n not in {"success", "page_id"}), values.JSON, max_size=4)
)
def test_any_json_object_is_a_result(result: dict[str, Any]) -> None:
    """Emoji, `/`, `<`, `1.0`, `1e-7`, 64-bit integers come out as they went in."""
    answer = envelope(FREE, result)
    assert {"success": True, "page_id": "main", **result} == answer


NO_JSON = st.sampled_from([math.nan, math.inf, -math.inf])
INSIDE = st.sampled_from([lambda v: v, lambda v: [v], lambda v: {"a": [{"b": v}]}, lambda v: (1, v)])


@given(NO_JSON, INSIDE)
def test_a_number_that_is_no_json_is_a_failure(number: float, inside: Any) -> None:
    """A plugin returns `NaN`, `Infinity`: `500`."""
    results: list[tuple[Plugin, object]] = [
        (FREE, {"n": inside(number), "other": None}),
        (FOLLOWING, Following(handle="a", raw=inside(number))),
        (FOLLOWING, Following(handle="a", raw=Following(handle="b", score=number))),
        (FOLLOWING, Following(handle="a", score=number)),
    ]
    for plugin_, result in results:
        with pytest.raises(PluginFailed, match=plugin_.name):
            plugin_.answer("main", result)


@given(values.ANY_TEXT)
def test_lone_surrogates_give_valid_json(text: str) -> None:
    """A lone surrogate in a title: valid JSON."""
    readable = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert readable == envelope(FREE, {"title": text})["title"]
    assert readable == envelope(FOLLOWING, Following.model_construct(handle=text))["handle"]
    assert [readable] == envelope(FOLLOWING, Following(handle="a", raw=[text]))["raw"]


@pytest.mark.parametrize(
    ("plugin_", "result"),
    [
        (FOLLOWING, None),
        (FOLLOWING, {"following": []}),
        (FREE, [1]),
        (FREE, {"success": False}),
        (FREE, {"page_id": "other"}),
        (FREE, {"a": object()}),
        (FREE, {"a": b"\xff"}),
        (TYPED, {"title": 5}),
        (RESERVED, {"a": 1}),
    ],
)
def test_a_result_that_is_not_as_annotated_is_a_failure(plugin_: Plugin, result: object) -> None:
    """A result that is no JSON, or not what was promised, is a `500`."""
    with pytest.raises(PluginFailed, match=plugin_.name):
        plugin_.answer("main", result)


def bad_signatures() -> dict[str, Any]:  # noqa: C901  # a list, not a branch
    class Taken(BaseModel):
        page_id: str

    async def no_call() -> None: ...
    async def no_annotation(call: Call, x) -> None: ...  # type: ignore[no-untyped-def]
    async def no_return(call: Call): ...  # type: ignore[no-untyped-def]
    async def many(call: Call, *args: int) -> None: ...
    async def more(call: Call, **kwargs: int) -> None: ...
    async def text(call: Call) -> str: ...  # type: ignore[empty-body]
    async def taken(call: Call) -> Taken: ...  # type: ignore[empty-body]
    async def unknown(call: Call, x: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
    async def opaque(call: Call, x: type(iter([]))) -> None: ...  # type: ignore[valid-type]
    def not_async(call: Call) -> None: ...

    return {name: value for name, value in locals().items() if name != "Taken"}


@pytest.mark.parametrize("name", bad_signatures())
def test_a_signature_that_cannot_be_read_names_the_file(name: str) -> None:
    """It stops the start with a message that names the file."""
    with pytest.raises(BadPlugin, match=f"bad/signature.*{Path(__file__).name}"):
        read_plugin(plugin("bad/signature")(bad_signatures()[name]))


@pytest.mark.parametrize(
    "name", ["", "a", "a/", "/b", "A/b", "a/b/c", "a_b/c", "a/b\n", "a/ b", "é/b", "-a/b"]
)
def test_a_bad_name_is_refused_where_it_is_written(name: str) -> None:
    """`family/name` in lower case letters, digits and hyphens."""
    with pytest.raises(ValueError, match="family/name"):
        plugin(name)


GOOD_FILE = '''
from penelope import Call, plugin

@plugin("shop/{name}")
async def work(call: Call, n: int = 1) -> dict[str, int]:
    """Work."""
    return {{"n": n}}
'''


def test_files_of_folders_are_plugins(tmp_path: Path) -> None:
    """Plugins are found through the entry points and in every `*.py` of the folders."""
    for folder, name in (("one", "buy"), ("two", "sell")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "shop.py").write_text(GOOD_FILE.format(name=name))
    (tmp_path / "one" / "notes.txt").write_text("no plugin")
    registry = load([tmp_path / "one", tmp_path / "two"])
    assert {"shop/buy", "shop/sell", "web/read", "instagram/open-account"} <= set(registry)
    assert sorted(registry) == list(registry)


@pytest.mark.parametrize(
    "text",
    ["import nowhere_at_all", "def (", "raise SystemExit(3)", "1 / 0", "\x00", "raise Exception('a\\nb')"],
)
def test_a_file_that_fails_to_import_names_itself(tmp_path: Path, text: str) -> None:
    """A plugin file that fails to import stops the start with a message that names the file, in one line."""
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(BadPlugin, match=r"broken\.py") as refused:
        load([tmp_path])
    assert "\n" not in refused.value.message


def test_two_plugins_of_one_name_name_both_files(tmp_path: Path) -> None:
    """Two plugins of one name stop the start with a message that names the file."""
    for name in ("first.py", "second.py"):
        (tmp_path / name).write_text(GOOD_FILE.format(name="buy"))
    with pytest.raises(BadPlugin, match=r"first\.py.*second\.py"):
        load([tmp_path])


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    """`PENELOPE_PLUGINS` names folders."""
    with pytest.raises(BadPlugin, match="nowhere"):
        load([tmp_path / "nowhere"])
