"""What `penelope recipes` does: writes a skeleton that works, reads all recipes with all their faults, and shows them.

Source: contract, section 10 (`penelope recipes list|check|new`).
"""

from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from penelope import tables
from penelope.errors import BadRecipe
from penelope.runs.recipes.inputs import properties
from penelope.runs.recipes.model import FILE_NAME, NAME, Recipe

SKELETON: Final = Template("""\
# The recipe `$name`; a worker with the folder above this one in PENELOPE_RECIPES has it.
name: $name
description: Read a page, and hand over its links as a CSV.

# A JSON Schema of what a client sends.
input:
  type: object
  properties:
    url: {type: string, pattern: "^(https?|data):", description: The page to read.}
    limit: {type: integer, minimum: 1, maximum: 1000, default: 100}
  required: [url]

# One after another, on one page.
steps:
  - as: page
    plugin: web/read
    with: {url: "{{ input.url }}"}
    retry: {count: 2, delay: 5}

  - as: links
    when: page.links
    file: links.csv
    with:
      csv: "{{ page.links[:input.limit] }}"
      columns: [text, href]

# What the run answers.
output:
  title: "{{ page.title }}"
  links: "{{ page.links | length }}"
  file: "{{ links }}"

runtime:
  job:
    timeout_sec: 300
""")


def write_skeleton(name: str, folder: Path) -> Path:
    """Write a recipe that works on any worker.

    Returns:
        Its file.

    Raises:
        BadRecipe: a name that is none, a file that is there already or cannot be written; nothing was written then.
    """
    if not NAME.fullmatch(name):
        raise BadRecipe(f"{name!r} is no name of letters, digits, dots, hyphens and underscores")
    file = folder / name / FILE_NAME
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as new:
            new.write(SKELETON.substitute(name=name))
    except FileExistsError as exc:
        if exc.filename == str(file):
            raise BadRecipe(f"{file} exists already, nothing was written") from exc
        raise BadRecipe(f"cannot write {exc.filename}: {exc.strerror}") from exc
    except OSError as exc:
        raise BadRecipe(f"cannot write {exc.filename or folder}: {exc.strerror}") from exc
    return file


def show_table(recipes: Mapping[str, Recipe]) -> None:
    """Print all recipes with where they come from and what they take."""
    table = Table("RECIPE", "SOURCE", "STEPS", "INPUT", box=None, pad_edge=False)
    for recipe in recipes.values():
        cells = (recipe.name, tables.from_here(recipe.file), str(len(recipe.steps)), _taken(recipe.input))
        table.add_row(*map(Text, cells))
    tables.show(table)


def show_list(recipes: Mapping[str, Recipe]) -> None:
    """Print all recipes, a line each: the name, and the first line of the description."""
    table = Table.grid(padding=(0, 2))
    for recipe in recipes.values():
        table.add_row(*map(Text, (recipe.name, recipe.description.strip().partition("\n")[0])))
    tables.show(table)


def _taken(schema: Mapping[str, Any]) -> str:
    """The fields of an input; with `?` those that may be left out."""
    required = schema.get("required", ())
    return ", ".join(name if name in required else f"{name}?" for name in properties(schema))
