"""The shape of the house: which room may know which, and what must never be written down.

Source: docs/architecture.md, "The tree".
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import penelope
from penelope import client

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "penelope"
MADE_HERE = {".git", ".venv", ".nox", ".cache", ".hypothesis", ".idea", ".vscode", "dist", "build", "store"}
TEXT = {"", ".py", ".md", ".toml", ".sql", ".html", ".css", ".js", ".jinja", ".svg", ".txt", ".yaml", ".yml"}


def ours(*suffixes: str) -> Iterator[Path]:
    """Our own text files, with one of these suffixes if any are given."""
    for path in sorted(ROOT.rglob("*")):
        inside = path.relative_to(ROOT)
        if path.is_file() and inside.parts[0] not in MADE_HERE and path.suffix in (suffixes or TEXT):
            yield inside


def test_imports_go_down_only() -> None:
    """The contracts of pyproject.toml hold, each module has its floor."""
    ran = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == ran.returncode, ran.stdout + ran.stderr
    assert re.search(r"^Contracts: [1-9]\d* kept, 0 broken", ran.stdout, re.MULTILINE), ran.stdout


def test_the_door_has_three_names() -> None:
    """The names that an author imports, and no others."""
    assert ("Call", "PluginError", "plugin") == penelope.__all__

    public = {name for name, value in vars(penelope).items() if not name.startswith("_")}
    modules = {path.stem for path in PACKAGE.iterdir()}
    assert set(penelope.__all__) == public - (modules - {"plugin"})


@pytest.mark.parametrize(
    "init",
    sorted({*PACKAGE.rglob("*/__init__.py")} - {PACKAGE / "client" / "__init__.py"}),
    ids=lambda path: path.parent.relative_to(ROOT).as_posix(),
)
def test_inner_packages_hold_a_docstring_only(init: Path) -> None:
    """An inner `__init__` is the map of its package, and no import."""
    match ast.parse(init.read_text(encoding="utf-8")).body:
        case [ast.Expr(value=ast.Constant(value=str(text)))]:
            assert text.strip()
        case body:
            pytest.fail(f"{init.relative_to(ROOT)} holds {len(body)} statements, not one docstring")


def test_the_clients_door_has_its_names() -> None:
    """All that it names is there, and what it imports besides are its own modules."""
    public = {name for name, value in vars(client).items() if not name.startswith("_")}
    modules = {path.stem for path in (PACKAGE / "client").iterdir()}

    assert set(client.__all__) == public - modules
    assert sorted(client.__all__, key=str.lower) == sorted({*client.__all__}, key=str.lower)


def test_the_clients_door_is_light() -> None:
    """`import penelope.client` brings neither an event loop nor a browser, nor what else a worker is made of."""
    heavy = {
        "trio",
        "asyncio",
        "playwright",
        "quart",
        "hypercorn",
        "structlog",
        "sqlite3",
        "pydantic_settings",
        "httpcore",
    }
    probe = "import sys, penelope.client; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()

    assert [] == sorted(heavy & set(loaded))
    assert {"errors", "jsontext", "outcome", "plugin", "signing"} >= {
        name.split(".")[1] for name in loaded if name.startswith("penelope.")
    } - {"client"}


@pytest.mark.parametrize("module", ["penelope.plugin", "penelope.pages.driver"])
def test_the_door_and_the_port_start_no_event_loop(module: str) -> None:
    """`import penelope` costs an author neither Trio nor Playwright."""
    probe = f"import sys, {module}; print(*sorted({{'trio', 'playwright', 'asyncio'}} & set(sys.modules)))"

    loaded = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT
    )

    assert "" == loaded.stdout.strip()


def test_playwright_is_known_by_its_types_alone() -> None:
    """Outside of the browser, the families and what their tests use, its import stands under TYPE_CHECKING."""
    knows_it = ("penelope/pages/browser/", "penelope/families/", "penelope/testing.py")
    wrong = [
        str(path)
        for path in ours(".py")
        if path.parts[0] == "penelope" and not path.as_posix().startswith(knows_it)
        if "playwright" in imported_at_run_time(ast.parse((ROOT / path).read_text("utf-8")))
    ]

    assert [] == wrong


def imported_at_run_time(node: ast.AST) -> set[str]:
    """Top-level names of what this code imports, wherever in it, but under `if TYPE_CHECKING:`."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            inside: list[ast.stmt] = node.orelse
            return set().union(*map(imported_at_run_time, inside))
        case ast.Import():
            return {alias.name.partition(".")[0] for alias in node.names}
        case ast.ImportFrom(module=str(module)):
            return {module.partition(".")[0]}
    return set().union(*map(imported_at_run_time, ast.iter_child_nodes(node)))


def test_every_module_says_its_duty() -> None:
    """The first line of a module states what it is for."""
    silent = [
        str(path)
        for path in ours(".py")
        if path.parts[0] == "penelope" and not ast.get_docstring(ast.parse((ROOT / path).read_text("utf-8")))
    ]

    assert [] == silent


# Put together from halves, so that this file does not hold them.
FORBIDDEN = [
    (
        "a package registry's host",
        r"\b(test\.)?py" + r"pi\.org|pythonhosted" + r"\.org|registry\.npm" + r"js",
    ),
    ("a package archive's host", r"\bdeb\.deb" + r"ian\.org|ubuntu" + r"\.com/ubuntu"),
    ("a path of the place where this was written", r"(?<![\w.-])/wo" + r"rk/|\.\./sha" + r"red\b"),
    (
        "a path of somebody's machine",
        r"/(home|Users)/(?!\$|\{|user\b|you\b|author\b)\w+/|(?<![\w/])/ro" + r"ot/\w",
    ),
]


@pytest.mark.parametrize(("what", "pattern"), FORBIDDEN, ids=[what for what, _ in FORBIDDEN])
def test_nothing_names(what: str, pattern: str) -> None:
    """What is true on one machine only has no place here."""
    wrong = [
        f"{path}:{number}: {line.strip()[:100]}"
        for path in ours()
        for number, line in enumerate((ROOT / path).read_text("utf-8").splitlines(), 1)
        if re.search(pattern, line)
    ]

    assert [] == wrong


@pytest.mark.parametrize("script", ["script/demo", "script/test", "script/lib", ".ci/run"])
def test_scripts_are_sound_bash(script: str) -> None:
    """They parse, and can be run as they lie in the checkout."""
    subprocess.run(["bash", "-n", ROOT / script], check=True)

    assert script == "script/lib" or (ROOT / script).stat().st_mode & 0o111


def test_a_worker_without_recipes_and_agents_does_not_load_what_reads_them() -> None:
    """A tenth of its start, and 7 MB."""
    code = "import sys, penelope.main, penelope.worker, penelope.runs.planning; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"yaml", "jsonschema", "penelope.client", "penelope.waker"} & set(said.stdout.split())


def test_what_serves_is_loaded_beside_the_browser() -> None:
    """A third of all imports: `penelope.main` needs none of it to start the browser."""
    code = "import sys, penelope.main, penelope.registry, penelope.runs.planning; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"quart", "flask", "hypercorn", "httpx", "penelope.http.app"} & set(said.stdout.split())
