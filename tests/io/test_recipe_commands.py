"""`penelope recipes`: the real command, on real folders.

Source: contract, section 10 (`penelope recipes list|check|new`).
"""

from pathlib import Path

import pytest

from tests.io.commands import run_alone


def test_a_new_recipe_is_checked_and_listed(tmp_path: Path) -> None:
    """`new` writes a recipe that works; the folders may stand in a `.env` file, as variables for `runtime` may."""
    (tmp_path / ".env").write_text("PENELOPE_RECIPES=recipes\nHOOK=https://hooks.example/1\n")
    made = run_alone("recipes", "new", "my-links", cwd=tmp_path, executed=True)
    file = tmp_path / "recipes" / "my-links" / "TEMPLATE.yaml"
    file.write_text(file.read_text() + '    webhook_url: "${HOOK}"\n')

    checked = run_alone("recipes", "check", cwd=tmp_path)
    listed = run_alone("recipes", "list", cwd=tmp_path)

    assert 0 == made.returncode, made.stderr
    assert "recipes/my-links/TEMPLATE.yaml" in made.stdout
    assert 0 == checked.returncode, checked.stderr
    assert ["my-links", "recipes/my-links/TEMPLATE.yaml", "2", "url, limit?"] == [
        cell.strip() for cell in checked.stdout.splitlines()[1].split("  ") if cell.strip()
    ]
    assert "1 recipe, all well\n" == checked.stderr
    assert "my-links  Read a page, and hand over its links as a CSV.\n" == listed.stdout


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "a..b", "ä"])
def test_a_bad_name_is_named(tmp_path: Path, name: str) -> None:
    """And nothing is written."""
    done = run_alone("recipes", "new", name, cwd=tmp_path)

    assert 1 == done.returncode
    assert f"penelope: {name!r} is no name of letters, digits, dots, hyphens and underscores\n" == done.stderr
    assert [] == list(tmp_path.iterdir())


def test_nothing_is_written_over(tmp_path: Path) -> None:
    file = tmp_path / "mine" / "a" / "TEMPLATE.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("mine")

    done = run_alone("recipes", "new", "a", "--dir", "mine", cwd=tmp_path)

    assert (1, "penelope: mine/a/TEMPLATE.yaml exists already, nothing was written\n") == (
        done.returncode,
        done.stderr,
    )
    assert "mine" == file.read_text()


def test_all_faults_are_printed_a_line_each(tmp_path: Path) -> None:
    for name, text in (("a", "name: a\nsteps: [{primitive: go}]\nmore: 1\n"), ("b", "name: [\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "TEMPLATE.yaml").write_text(text)

    done = run_alone("recipes", "check", cwd=tmp_path, PENELOPE_RECIPES=".")

    assert (1, "") == (done.returncode, done.stdout)
    lines = done.stderr.splitlines()
    assert "penelope: a/TEMPLATE.yaml:3: more: there is no such key" == lines[0]
    assert lines[1].startswith("penelope: b/TEMPLATE.yaml:2: is no YAML: ")
    assert 2 == len(lines)


def test_a_bad_recipe_stops_the_start(tmp_path: Path) -> None:
    """In one line with file and line, before anything is opened."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "TEMPLATE.yaml").write_text(
        'name: a\nsteps:\n  - {plugin: web/read, with: {url: "{{ inputs }}"}}\n'
    )

    done = run_alone("serve", cwd=tmp_path, PENELOPE_RECIPES=".", PENELOPE_KEY="k" * 32, PENELOPE_LOG="json")

    assert 1 == done.returncode
    assert (
        "penelope: a/TEMPLATE.yaml:3: steps.0.with.url: nothing is called inputs here; there are config, input"
        == done.stderr.splitlines()[-1]
    )
    assert not (tmp_path / "store").exists()
