"""What `penelope plugins` does: writes a skeleton that works, loads all plugins, and shows them.

Source: contract, section 2 ("Plugins are found through …").
"""

import keyword
from collections.abc import Iterable, Iterator
from pathlib import Path
from string import Template
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from penelope import jsontext, registry, tables
from penelope.errors import BadPlugin
from penelope.plugin import PLUGIN_NAME
from penelope.registry import Plugin, Registry

PLUGIN_FILE: Final = Template('''\
"""The plugin `$plugin`; a worker with this folder in PENELOPE_PLUGINS has it."""

from typing import Annotated

from pydantic import BaseModel, Field

from penelope import Call, PluginError, plugin


class Answer(BaseModel):
    """What a client gets, beside `success` and `page_id`."""

    url: str = Field(description="After redirects.")
    headings: list[str] = Field(description="In the page's order.")


@plugin("$plugin")
async def $function(
    call: Call,
    url: Annotated[str, Field(pattern=r"^(https?|data):", description="The page to read.")],
    limit: Annotated[int, Field(ge=1, le=1000, description="Stop after so many.")] = 20,
) -> Answer:
    """Read the headings of a page. 404 when it has none."""
    await call.page.goto(url)
    headings = await call.page.locator("h1, h2, h3").all_inner_texts()
    if not headings:
        raise PluginError("the page has no heading", status=404)
    await call.progress(1.0, f"{len(headings)} headings")
    return Answer(url=call.page.url, headings=headings[:limit])
''')

TEST_FILE: Final = Template('''\
"""The plugin `$plugin` on a real page."""

import asyncio
from pathlib import Path

import pytest

from penelope import PluginError
from penelope.testing import Tried, load_plugin, open_page, run_plugin

PLUGIN = load_plugin("$plugin", Path(__file__).parent.parent)


async def on_a_page(body: str, **parameters: object) -> Tried:
    async with open_page() as page:
        return await run_plugin(PLUGIN, page, url=f"data:text/html,{body}", **parameters)


def test_headings_are_read() -> None:
    tried = asyncio.run(on_a_page("<h1>One</h1><p>text</p><h2>Two</h2>"))

    assert tried.answer["headings"] == ["One", "Two"]
    assert tried.progress == [(1.0, "2 headings")]


def test_limit_cuts_the_list() -> None:
    tried = asyncio.run(on_a_page("<h1>One</h1><h2>Two</h2>", limit=1))

    assert tried.answer["headings"] == ["One"]


def test_a_page_without_headings_is_a_404() -> None:
    with pytest.raises(PluginError) as raised:
        asyncio.run(on_a_page("<p>text</p>"))

    assert raised.value.status == 404
''')


def write_skeleton(name: str, folder: Path) -> tuple[Path, Path]:
    """Write a plugin that works, and its test.

    The test lies in a folder below: every `*.py` of a plugins' folder itself is imported by the worker.

    Returns:
        The plugin's file and the test's.

    Raises:
        BadPlugin: a name that is none or is taken, a file that is there already or cannot be written; nothing was
            written then.
    """
    if not PLUGIN_NAME.fullmatch(name):
        raise BadPlugin(f"{name!r} is not FAMILY/NAME in lower case letters, digits and hyphens")
    if (taken := registry.load(()).get(name)) is not None:
        raise BadPlugin(f"plugin {name} exists already, in {taken.source}")
    stem = name.replace("/", "_").replace("-", "_")
    files = folder / f"{stem}.py", folder / "tests" / f"test_{stem}.py"
    for file in files:
        if file.exists():
            raise BadPlugin(f"{file} exists already, nothing was written")
    words = {"plugin": name, "function": _function(name)}
    try:
        for file, template in zip(files, (PLUGIN_FILE, TEST_FILE), strict=True):
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as new:
                new.write(template.substitute(words))
    except OSError as exc:
        raise BadPlugin(f"cannot write {exc.filename or folder}: {exc.strerror}") from exc
    return files


def _function(name: str) -> str:
    """The Python name of `family/name`'s function."""
    word = name.partition("/")[2].replace("-", "_")
    return word if word.isidentifier() and not keyword.iskeyword(word) else f"run_{word}"


def show_table(plugins: Registry) -> None:
    """Print all plugins with where they come from and what they take."""
    table = Table("PLUGIN", "SOURCE", "PARAMETERS", box=None, pad_edge=False)
    for plugin in plugins.values():
        table.add_row(
            *map(Text, (plugin.name, tables.from_here(plugin.source), ", ".join(_parameters(plugin))))
        )
    tables.show(table)


def show_list(plugins: Registry) -> None:
    """Print all plugins, a line each: the name, and the first line of the description."""
    table = Table.grid(padding=(0, 2))
    for plugin in plugins.values():
        table.add_row(*map(Text, (plugin.name, plugin.description.partition("\n")[0])))
    tables.show(table)


def _parameters(plugin: Plugin) -> Iterator[str]:
    """`name: type` of each parameter, with ` = default` when it may be left out."""
    schema = plugin.parameters_schema
    required = set(schema.get("required", ()))
    for name, field in schema.get("properties", {}).items():
        default = "" if name in required else f" = {jsontext.dumps(field.get('default'))}"
        yield f"{name}: {'|'.join(_types(field))}{default}"


def _types(schema: dict[str, Any]) -> Iterable[str]:
    if "enum" in schema or "const" in schema:
        return [str(value) for value in schema.get("enum", [schema.get("const")])]
    if "anyOf" in schema:
        return [word for part in schema["anyOf"] for word in _types(part)]
    return [str(schema.get("type") or str(schema.get("$ref", "any")).rpartition("/")[2])]
