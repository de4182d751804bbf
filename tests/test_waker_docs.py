"""The waker's pages say what is so: routes, fields, the file's keys, log lines, metrics, what is shipped to run it."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import SecretStr

from penelope.settings import Settings
from penelope.waker import app, config, described, editing
from penelope.waker.app import create_app
from penelope.waker.config import Table, load
from penelope.waker.model import State, Why
from penelope.waker.process import ProcessDriver

ROOT = Path(__file__).parent.parent
API = ROOT / "docs/reference/WAKER_API.md"
GUIDE = ROOT / "docs/waker.md"
DEPLOY = ROOT / "deploy"
CODE = "".join(path.read_text("utf-8") for path in (ROOT / "penelope/waker").glob("*.py"))
NOTHING = cast(Any, None)
SETTINGS = Settings(key=SecretStr("k" * 32), port=5050)


def section(page: Path, heading: str) -> str:
    found = re.search(
        rf"^(#+) {re.escape(heading)}$.*?(?=^#{{1,3}} |\Z)", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert found is not None, heading
    return found[0]


def first_column(text: str) -> set[str]:
    """What stands between backticks in the first column of its tables."""
    return {
        word
        for line in text.splitlines()
        if line.startswith("|")
        for word in re.findall(r"`([^`]+)`", line.split("|")[1])
    }


def test_the_reference_and_the_document_have_every_route() -> None:
    rules = create_app(SETTINGS, NOTHING, NOTHING, NOTHING).url_map.iter_rules()
    routes = {
        f"{method} {rule.rule.replace('<', '{').replace('>', '}')}"
        for rule in rules
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    passed_on = {f"{method.upper()} {described.PASSED_ON}" for method in described.METHODS}
    document = described.document()
    in_document = {
        f"{method.upper()} {path}" for path, operations in document["paths"].items() for method in operations
    }
    in_reference = set(re.findall(r"^### `([A-Z]+ /[^`]*)`$", API.read_text("utf-8"), re.MULTILINE))

    assert routes | passed_on == in_document
    assert routes | {f"GET {described.PASSED_ON}"} == in_reference
    assert [] == [str(error) for error in OpenAPIV31SpecValidator(document).iter_errors()]


def test_the_fields_of_a_persona_are_explained() -> None:
    assert described.PERSONA.keys() == first_column(section(API, "Personas"))
    words = set(re.findall(r"`(\w+)`", section(API, "Personas")))
    assert {state.value for state in State} <= words


def test_the_limits_are_those_of_the_code() -> None:
    said = API.read_text("utf-8")

    assert f"1 to {app.MAX_HOURS}, {app.HOURS} unless given" in said
    assert f"1 to {app.MAX_LINES}, {app.LINES} unless given" in said


def test_the_file_is_explained_whole() -> None:
    said = section(GUIDE, "The file")

    assert Table.model_fields.keys() == first_column(said)
    for field in ("idle_timeout_s", "start_within_s"):
        assert re.search(rf"\| `{field}` \| `{Table.model_fields[field].default:g}` \|", said)
    assert f"`STOP_GRACE_S` + {config.KILL_MARGIN_S:.0f}" in said


def test_the_examples_are_good(tmp_path: Path) -> None:
    """The shipped one, which shows every mode and most keys; and what `personas new` writes."""
    shown = load(ROOT / "docs/examples/personas.toml", SETTINGS)
    assert ["alice", "bob", "carol"] == list(shown.by_name)

    made = tmp_path / "personas.toml"
    editing.add(made, "alice", "sleepy")
    editing.add(made, "bob", "always")
    assert {"alice": "sleepy", "bob": "always"} == {
        name: persona.policy.mode for name, persona in load(made, SETTINGS).by_name.items()
    }
    assert 0o600 == made.stat().st_mode & 0o777
    every = re.sub(
        r"^# (?=\w+ = )", "", editing.TABLE.substitute(name="carol", mode="sleepy"), flags=re.MULTILINE
    )
    keys = set(re.findall(r"^(\w+) =", every, re.MULTILINE))
    assert keys < Table.model_fields.keys()
    before = made.read_text()
    for name in ("alice", "reload", "no name"):
        with pytest.raises(Exception, match=r"nothing was written|is no name"):
            editing.add(made, name, "sleepy")
    assert before == made.read_text()


def test_log_lines_and_reasons_are_those_of_the_code() -> None:
    said = section(GUIDE, "The waker's log")

    for event in first_column(said) - {"event"}:
        assert f'"{event}"' in CODE, event
    stops = next(line for line in said.splitlines() if "`worker stops`" in line)
    assert {why.value for why in Why} - {"died"} == set(re.findall(r"`(\w+)`", stops)) - {"why"}


def test_metrics_are_those_of_the_code() -> None:
    made = set(re.findall(r'"(penelope_\w+)"', CODE))
    named = first_column(section(GUIDE, "The waker's metrics"))

    assert made == {name.removesuffix("_total") for name in named}


def test_curl_lines_ask_for_something_that_is_there() -> None:
    paths = described.document()["paths"]
    lines = [
        line
        for page in (API, GUIDE)
        for line in re.findall(r"^curl .*$", page.read_text("utf-8"), re.MULTILINE)
    ]
    assert len(lines) >= 4
    for line in lines:
        words = shlex.split(line.replace("$BASE", ""))
        path = words[2].partition("?")[0].replace("/alice", "/{name}")
        path = re.sub(r"(/p/\{name\}/api/v1)/.*", r"\1/{rest}", path)
        assert "get" in paths[path], line
        assert "$AUTH" in words


def test_the_driver_is_the_port() -> None:
    """What the guide says that a driver has, it has; and the first one is one."""
    from penelope.waker.driver import Driver

    methods = {name for name in vars(Driver) if not name.startswith("_")}
    named = set(re.findall(r"`(\w+)`", section(GUIDE, "Another driver").partition("first driver")[0]))
    assert {"start", "stop", "status", "address", "ended", "log"} == named
    assert named <= methods
    assert methods <= set(dir(ProcessDriver))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_the_units_are_good(tmp_path: Path) -> None:
    """As systemd itself reads them, with programs that are there."""
    for unit in DEPLOY.glob("*.service"):
        text = re.sub(r"/srv/penelope/\.venv/bin/penelope", "/bin/true", unit.read_text("utf-8"))
        (tmp_path / unit.name).write_text(text)
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", tmp_path / unit.name],
            capture_output=True,
            text=True,
            check=False,
        )
        said = [line for line in done.stderr.splitlines() if unit.stem.split("@")[0] in line]
        assert (0, []) == (done.returncode, said)


def test_the_units_run_commands_that_are_there() -> None:
    from penelope import cli

    for unit in DEPLOY.glob("*.service"):
        (line,) = re.findall(r"^ExecStart=\S+/penelope (.*)$", unit.read_text("utf-8"), re.MULTILINE)
        command, *words = line.split()
        options = {option for parameter in cli.main.commands[command].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options


def test_the_dockerfile_keeps_the_rules() -> None:
    """What a linter would say: pinned to a release, no recommended packages, lists removed, not root, an init, one
    command in the form of a list.
    """
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    steps = [
        line.split(maxsplit=1)
        for line in re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
        if line.strip()
    ]
    by_name: dict[str, list[str]] = {}
    for name, value in steps:
        by_name.setdefault(name, []).append(value)

    assert "FROM" == steps[0][0]
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", by_name["FROM"][0])
    assert ["penelope"] == by_name["USER"]
    names = [name for name, _ in steps]
    assert max(at for at, (name, value) in enumerate(steps) if "apt-get" in value) < names.index("USER")
    (apt,) = (value for value in by_name["RUN"] if "apt-get install" in value)
    assert "--no-install-recommends" in apt
    assert "rm -rf /var/lib/apt/lists" in apt
    assert {"chromium", "tini", "ca-certificates"} <= set(apt.split())
    assert ['["/usr/bin/tini", "--"]'] == by_name["ENTRYPOINT"]
    assert by_name["CMD"][0].startswith('["penelope", "waker"')
    assert "ADD" not in by_name
    assert not re.search(r"PENELOPE_KEY", "".join(by_name["ENV"]))
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {word for value in by_name["COPY"] for word in value.split()[:-1]}
    assert kept == copied
