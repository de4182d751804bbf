"""`penelope plugins`: the real command, on real folders.

Source: contract, section 2 ("Plugins are found through …").
"""

import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from penelope.registry import load
from tests.io.commands import run_alone


def run(*arguments: str, cwd: Path, executed: bool = False, **environment: str) -> "CompletedProcess[str]":
    return run_alone("plugins", *arguments, cwd=cwd, executed=executed, **environment)


def fails(done: "CompletedProcess[str]") -> str:
    """The one line of a command that failed."""
    assert 1 == done.returncode, done
    assert "" == done.stdout
    (line,) = done.stderr.splitlines()
    return line


def test_a_new_plugin_loads_and_its_test_passes(tmp_path: Path) -> None:
    """`penelope plugins new FAMILY/NAME` writes a working skeleton with its test."""
    done = run("new", "shop/price-list", cwd=tmp_path, executed=True)

    assert 0 == done.returncode, done.stderr
    assert {"plugins/shop_price_list.py", "plugins/tests/test_shop_price_list.py"} == {
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.py")
    }
    assert "shop/price-list" in load([tmp_path / "plugins"])
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "plugins"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert 0 == tested.returncode, tested.stdout
    assert "3 passed" in tested.stdout


@pytest.mark.parametrize("name", ["a/class", "a/3d", "a/plugin", "a-b/c-d", "a/call"])
def test_any_name_of_a_plugin_makes_one_that_loads(tmp_path: Path, name: str) -> None:
    """Also one that is no Python name, or a word of the skeleton's own."""
    assert 0 == run("new", name, "--dir", "mine", cwd=tmp_path).returncode

    plugin = load([tmp_path / "mine"])[name]
    assert {"url", "limit"} == plugin.parameters_schema["properties"].keys()


@pytest.mark.parametrize("name", ["price", "Shop/price", "shop/price/2", "shop/", "../x", "shop/pri_ce", ""])
def test_a_bad_name_is_named(tmp_path: Path, name: str) -> None:
    """And nothing is written."""
    done = run("new", name, cwd=tmp_path)

    assert f"penelope: {name!r} is not FAMILY/NAME in lower case letters, digits and hyphens" == fails(done)
    assert [] == list(tmp_path.iterdir())


def test_a_taken_name_is_refused(tmp_path: Path) -> None:
    """Two plugins of one name would stop the start."""
    line = fails(run("new", "web/open", cwd=tmp_path))

    assert line.startswith("penelope: plugin web/open exists already, in ")
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("there", ["plugins/shop_price.py", "plugins/tests/test_shop_price.py"])
def test_nothing_is_written_over(tmp_path: Path, there: str) -> None:
    """If either file is there, neither is written."""
    (tmp_path / there).parent.mkdir(parents=True)
    (tmp_path / there).write_text("mine")

    assert f"penelope: {there} exists already, nothing was written" == fails(
        run("new", "shop/price", cwd=tmp_path)
    )
    assert ["mine"] == [path.read_text() for path in tmp_path.rglob("*.py")]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "plugins").write_text("a file")

    assert "penelope: cannot write plugins: File exists" == fails(run("new", "shop/price", cwd=tmp_path))


def test_check_prints_all_with_source_and_parameters(tmp_path: Path) -> None:
    """`penelope plugins check` loads all and prints them; it needs no key."""
    run("new", "shop/price", cwd=tmp_path)
    run("new", "other/one", "--dir", "more", cwd=tmp_path)

    done = run("check", cwd=tmp_path, PENELOPE_PLUGINS="plugins:more")

    assert 0 == done.returncode, done.stderr
    rows = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert rows["shop/price"].split(maxsplit=2)[1:] == [
        "plugins/shop_price.py",
        "url: string, limit: integer = 20",
    ]
    assert "more/other_one.py" in rows["other/one"]
    assert "web/open" in rows
    assert f"{len(rows) - 1} plugins, all well\n" == done.stderr


def test_list_is_a_line_each(tmp_path: Path) -> None:
    run("new", "shop/price", cwd=tmp_path)

    done = run("list", cwd=tmp_path, PENELOPE_PLUGINS="plugins")

    assert 0 == done.returncode, done.stderr
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert "Read the headings of a page. 404 when it has none." == lines["shop/price"]


def test_the_folders_may_stand_in_an_env_file(tmp_path: Path) -> None:
    """Settings are read from the environment and from `.env`, also without a key in either."""
    run("new", "shop/price", cwd=tmp_path)
    (tmp_path / ".env").write_text("PENELOPE_PLUGINS=plugins\nMAX_PAGES=many\n")

    assert "shop/price" in run("list", cwd=tmp_path).stdout


@pytest.mark.parametrize("command", ["check", "list"])
def test_a_file_that_does_not_import_is_named(tmp_path: Path, command: str) -> None:
    """In one line, with why."""
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "bad.py").write_text("import no_such_module_at_all\n")

    line = fails(run(command, cwd=tmp_path, PENELOPE_PLUGINS="plugins"))

    assert line == (
        "penelope: plugin file plugins/bad.py does not import: "
        "ModuleNotFoundError: No module named 'no_such_module_at_all'"
    )


def test_a_type_without_a_json_schema_is_named(tmp_path: Path) -> None:
    """It would break the list of plugins and the API's description for everybody."""
    (tmp_path / "odd.py").write_text(
        "from collections.abc import Callable\n"
        "from penelope import Call, plugin\n\n"
        '@plugin("odd/one")\n'
        "async def one(call: Call, function: Callable[[int], int]) -> None: ...\n"
    )

    line = fails(run("check", cwd=tmp_path, PENELOPE_PLUGINS="."))

    assert "plugin odd/one in " in line
    assert "odd.py" in line


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    assert "penelope: PENELOPE_PLUGINS names nowhere, which is no folder" == fails(
        run("check", cwd=tmp_path, PENELOPE_PLUGINS="nowhere")
    )


def test_two_of_one_name_are_named(tmp_path: Path) -> None:
    """With both files."""
    run("new", "shop/price", "--dir", "one", cwd=tmp_path)
    run("new", "shop/price", "--dir", "two", cwd=tmp_path)

    line = fails(run("check", cwd=tmp_path, PENELOPE_PLUGINS="one:two"))

    assert "one/shop_price.py" in line
    assert "two/shop_price.py" in line
