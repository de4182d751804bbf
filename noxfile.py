"""What is checked, and how. `script/test` runs all of it on a bare machine; CI runs `script/test`.

    nox                      everything, in this order
    nox -s lint typing       what an editor would tell
    nox -s tests-3.13 -- tests/spec -k lease
    nox -s kill -- --kills 1000 --seed 1
    nox -s compat            the public client of runs, unmodified
    nox -s floors            the fast tests on the oldest versions that pyproject.toml allows

Environments are kept in `.nox` and installed anew only when pyproject.toml changes. uv makes them when it is there
(1 s each against pip's 15 s, measured), else virtualenv.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import nox
from nox.command import CommandFailed

ROOT = Path(__file__).parent
PYPROJECT = ROOT / "pyproject.toml"
LAST_FAILED = ROOT / ".cache" / "pytest" / "v" / "cache" / "lastfailed"  # where pytest notes them
CLEAN = ROOT / ".cache" / "flake8-clean"  # the digests of files
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
FAST = ("tests/core", "tests/spec")
ASYNC = re.compile(r"\b(async|await|trio|asyncio|anyio)\b")
# A floor: with this one its behaviour was looked at. Its CLI and its `submit_job` need httpx, which it does not name.
PUBLIC_CLIENT = ("praisonai>=4.7.19", "httpx>=0.28")
DOCS = ("tests/test_docs.py", "tests/test_receiving.py")

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.download_python = "never"  # of this machine's Pythons, not from somewhere
nox.options.error_on_missing_interpreters = False
nox.options.stop_on_first_error = False


def _runs(python: str) -> bool:
    """Whether this interpreter really starts, with what we need of it; a version manager's shim may not."""
    probe = "import ssl, sqlite3, venv; assert sqlite3.sqlite_version_info >= (3, 37)"
    try:
        done = subprocess.run([python, "-c", probe], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _interpreters(version: str) -> Iterator[str]:
    if found := shutil.which(f"python{version}"):
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from (str(path) for path in sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True))


def _pythons_present() -> list[str]:
    """The supported versions that this machine has, oldest first; nox can find them afterwards."""
    found = {version: next(filter(_runs, _interpreters(version)), None) for version in SUPPORTED}
    folders = [os.fspath(Path(python).parent) for python in found.values() if python]
    os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], *folders])
    return [version for version, python in found.items() if python] or [SUPPORTED[0]]


PYTHONS = _pythons_present()
OLDEST, NEWEST = PYTHONS[0], PYTHONS[-1]

# The tests last, the full suite on the oldest Python very last, so that its summary ends the output.
nox.options.sessions = [
    "lint",
    "typing",
    "contracts",
    "docs",
    "package",
    "demo",
    *dict.fromkeys((f"tests-{NEWEST}", f"tests-{OLDEST}")),
]


def _install(session: nox.Session, *groups: str, project: bool = True) -> None:
    """Install the project and dependency groups, unless this environment already has them."""
    session.env.update(_caches())
    wanted = hashlib.sha256(PYPROJECT.read_bytes() + f"{ROOT}{groups}{project}".encode()).hexdigest()
    stamp = Path(session.virtualenv.location, "installed")
    if stamp.is_file() and stamp.read_text() == wanted:
        session.debug("environment unchanged")
        return
    packages = nox.project.dependency_groups(nox.project.load_toml(PYPROJECT), *groups) if groups else ()
    session.install(*packages, *(("-e", ".") if project else ()))
    stamp.write_text(wanted)


def _caches() -> dict[str, str]:
    """Keep what tools remember out of the checkout's way.

    Bytecode is kept, too: uv compiles nothing when it installs, and of the hundreds of processes that the tests start
    each would compile all it imports, two seconds of CPU a worker. So is that of the Node that drives each browser:
    0.43 s of CPU for a start instead of 0.56.
    """
    return {
        "HYPOTHESIS_STORAGE_DIRECTORY": str(ROOT / ".cache" / "hypothesis"),
        "IMPORT_LINTER_CACHE_DIR": str(ROOT / ".cache" / "import-linter"),
        "NODE_COMPILE_CACHE": str(ROOT / ".cache" / "node"),
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(ROOT / ".cache" / "pycache"),
    }


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff, flake8-async, and the news fragments."""
    _install(session, "lint", project=False)
    commands = (
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        ("towncrier", "build", "--draft", "--version", "next"),
    )
    failed = [command[0] for command in commands if not _succeeds(session, *command)]
    if not _asynchronous_is_clean(session):
        failed.append("flake8")
    if failed:
        session.error(f"not clean: {', '.join(failed)}")


def _asynchronous_is_clean(session: nox.Session) -> bool:
    """flake8's plugin takes a second of CPU for five hundred lines, two minutes for all: so a file that was clean with
    these versions and settings is looked at again when it has changed. It judges each file by itself.
    """
    versions = sorted(
        path.name for path in Path(session.virtualenv.location).glob("lib/*/site-packages/*.dist-info")
    )
    same = f"{versions}{(ROOT / '.flake8').read_text('utf-8')}"
    digests = {
        name: hashlib.sha256(f"{same}{name}{(ROOT / name).read_text('utf-8')}".encode()).hexdigest()
        for name in _asynchronous()
    }
    known = set(CLEAN.read_text("utf-8").split()) if CLEAN.is_file() else set()
    if (news := [name for name, digest in digests.items() if digest not in known]) and not _succeeds(
        session, "flake8", *news
    ):
        return False
    CLEAN.parent.mkdir(exist_ok=True)
    CLEAN.write_text("\n".join(digests.values()), "utf-8")
    return True


def _asynchronous() -> list[str]:
    """The files that flake8's plugin can have anything to say of."""
    files = (path for name in ("penelope", "tests", "bench") for path in (ROOT / name).rglob("*.py"))
    return [str(path.relative_to(ROOT)) for path in sorted(files) if ASYNC.search(path.read_text("utf-8"))]


def _succeeds(session: nox.Session, *command: str) -> bool:
    """Run it; so that one linter's complaint does not hide the next one's."""
    try:
        session.run(*command)
    except nox.command.CommandFailed:
        return False
    return True


@nox.session
def typing(session: nox.Session) -> None:
    """mypy, strict, on the package, the tests and this file."""
    _install(session, "typing")
    session.run("mypy", *session.posargs)


@nox.session
def contracts(session: nox.Session) -> None:
    """Imports go down only, and the other contracts of pyproject.toml."""
    _install(session, "contracts")
    session.run("lint-imports", "--cache-dir", ".cache/import-linter", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The docs' examples run, name every route and setting, and their links lead somewhere."""
    _install(session, "docs")
    tests = [
        name
        for name in ("tests/test_links.py", "tests/test_docs.py", "tests/test_receiving.py")
        if (ROOT / name).is_file()
    ]
    session.run("pytest", *tests, *session.posargs)


@nox.session
def package(session: nox.Session) -> None:
    """The wheel holds its data, and works where the checkout is not."""
    _install(session, "release", project=False)
    with tempfile.TemporaryDirectory() as folder:
        session.run("python", "-m", "build", "--wheel", "--outdir", folder, silent=True)
        (wheel,) = Path(folder).glob("*.whl")
        if missing := _data_files() - set(zipfile.ZipFile(wheel).namelist()):
            session.error(f"not in the wheel: {', '.join(sorted(missing))}")
        session.install("--force-reinstall" if session.venv_backend == "uv" else "--upgrade", str(wheel))
        with session.chdir(folder):
            session.run("penelope", "plugins", "check")


def _data_files() -> set[str]:
    """Everything below penelope/ that is no bytecode."""
    files = (path for path in (ROOT / "penelope").rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts}


@nox.session
def demo(session: nox.Session) -> None:
    """The walk through both ways of a job, on real parts."""
    _install(session)
    session.run("penelope", "demo", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """How fast it is, as ratios measured in one run: docs/performance.md. Not part of the checks."""
    _install(session)
    session.run("python", "-m", "bench", *session.posargs)


@nox.session(python=OLDEST)
def kill(session: nox.Session) -> None:
    """A thousand workers, killed and stopped under load: docs/reliability.md. Not part of the checks, which have a
    short run of it: `nox -s kill -- --kills 1000 --seed 1`.
    """
    _install(session, "test")
    session.run("python", "-m", "tests.kill", *session.posargs)


@nox.session(python=PYTHONS[::-1])
def tests(session: nox.Session) -> None:
    """Everything on the oldest Python; on the others what needs no browser and no real clock."""
    _install(session, "test")
    everything = (
        "tests",
        "--ignore=tests/test_docs.py",
        "--ignore=tests/test_receiving.py",
    )  # the docs have a session of their own
    again = (*FAST, "--hypothesis-profile=again")  # with a fifth of the examples
    chosen = session.posargs or (everything if session.python == OLDEST else again)
    # Most of the time goes into waiting for browsers and clocks: three at once (four take longer on two cores); a file
    # in one place, so that what its tests share is started once; in the order of tests/conftest.py.
    LAST_FAILED.unlink(missing_ok=True)
    try:
        session.run("pytest", "--numprocesses=3", "--dist=loadfile", "--no-loadscope-reorder", *chosen)
    except CommandFailed:
        # A limit that a neighbour's load broke is told from a fault: what failed beside another file is tried again
        # alone, and has to pass there. Both runs are shown.
        if not LAST_FAILED.exists():
            raise
        session.warn("tests failed beside others; they have to pass alone:")
        session.run("pytest", "--last-failed", *chosen)


@nox.session(python=OLDEST)
def compat(session: nox.Session) -> None:
    """The public client, unmodified, against a real worker. Not part of the checks: it and what it brings are 460 MB.

    It has an environment of its own, made once; only its Python is told to the tests.
    """
    _install(session, "test")
    folder = Path(session.virtualenv.location).with_name("compat-client")
    python = folder / "bin" / "python"
    if not python.exists():
        session.run("python", "-m", "venv", str(folder))
    session.run(str(python), "-m", "pip", "install", "--quiet", *PUBLIC_CLIENT, external=True)
    session.run("pytest", "tests/compat", *session.posargs, env={"PENELOPE_COMPAT_PYTHON": str(python)})


@nox.session(python=OLDEST)
def floors(session: nox.Session) -> None:
    """The fast tests on the lowest versions that pyproject.toml names (needs uv)."""
    session.env.update(_caches())
    if session.venv_backend != "uv":
        session.skip("pip cannot resolve to the lowest versions")
    groups = nox.project.dependency_groups(nox.project.load_toml(PYPROJECT), "test")
    session.install("--resolution", "lowest-direct", "-e", ".", *groups)
    session.run("pytest", *(session.posargs or FAST))
