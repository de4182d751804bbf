"""`personas.toml`: contract, section 9 ("validated, errors name the line")."""

import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from penelope.errors import BadPersonas
from penelope.settings import Settings
from penelope.waker import config, editing
from penelope.waker.config import Personas
from penelope.waker.lines import line_of, lines_of
from penelope.waker.model import Mode

KEY = "the-key-of-the-waker-0123456789"


def load(folder: Path, text: str, **settings: Any) -> Personas:
    file = folder / "personas.toml"
    file.write_text(text)
    return config.load(file, Settings.model_validate({"key": KEY, "port": 5050, **settings}))


def refusal(folder: Path, text: str, **settings: Any) -> str:
    with pytest.raises(BadPersonas) as raised:
        load(folder, text, **settings)
    assert KEY not in raised.value.message
    return raised.value.message


def test_defaults(tmp_path: Path) -> None:
    alice = load(tmp_path, "[personas.alice]\n").by_name["alice"]

    assert (Mode.SLEEPY, 60.0) == (alice.policy.mode, alice.policy.idle_timeout_s)
    assert (0, tmp_path / "stores/alice", KEY) == (alice.order.port, alice.order.store, alice.order.key)
    assert not alice.own_key
    assert {} == dict(alice.order.variables)
    assert 10 + config.KILL_MARGIN_S == alice.order.kill_after_s


WHOLE = """
state = "run"

[defaults]
idle_timeout_s = 120
env = { MAX_PAGES = 4, PENELOPE_INSTAGRAM_BASE_URL = "http://example.org" }

[personas.alice]
mode = "always"
port = 5101
recycle_after_h = 24
recycle_above_mb = 1500
proxy = "http://me:hush@proxy.example:8080"
locale = "de-DE"
timezone = "Europe/Berlin"
viewport = "1280x800"
user_agent = "alice/1.0"
geolocation = "52.52,13.405"
store = "/srv/alice"
key = "the-key-of-alice-0123456789"
env = { MAX_PAGES = 2, STOP_GRACE_S = 3.5 }

[personas.bob]
"""


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    found = load(tmp_path, WHOLE)
    alice, bob = found.by_name.values()

    assert tmp_path / "run" == found.state
    assert (24 * 3600, 1500) == (alice.policy.recycle_after_s, alice.policy.recycle_above_mb)
    assert {
        "PENELOPE_KEY_PREVIOUS": "",
        "PENELOPE_PROXY": "http://me:hush@proxy.example:8080",
        "PENELOPE_LOCALE": "de-DE",
        "PENELOPE_TIMEZONE": "Europe/Berlin",
        "PENELOPE_VIEWPORT": "1280x800",
        "PENELOPE_USER_AGENT": "alice/1.0",
        "PENELOPE_GEOLOCATION": "52.52,13.405",
        "PENELOPE_INSTAGRAM_BASE_URL": "http://example.org",
        "MAX_PAGES": "2",
        "STOP_GRACE_S": "3.5",
    } == dict(alice.order.variables)
    assert 33.5 == alice.order.kill_after_s
    assert alice.own_key
    assert "4" == bob.order.variables["MAX_PAGES"]
    assert 120 == alice.policy.idle_timeout_s == bob.policy.idle_timeout_s


def test_secrets_are_in_no_repr(tmp_path: Path) -> None:
    said = repr(load(tmp_path, WHOLE))

    assert "5101" in said
    assert "hush" not in said
    assert "the-key-of" not in said


FAULTS = {
    "[personas.alice": "personas.toml is no TOML: Expected ']'",
    "\n[people.alice]": "line 2: people is unknown: there are defaults, personas, state",
    "state = 3": "line 1: state must be the path of a folder",
    "[personas]\nalice = 1": "line 2: personas.alice must be a table",
    '[personas."no name"]': "line 1: personas.no name is no name of a persona",
    "[personas.reload]": "line 1: personas.reload is no name of a persona",
    "[defaults]\nport = 5101": "line 2: defaults.port is no default",
    "[defaults]\nmood = 1": "line 2: defaults.mood is unknown: there are mode, port",
    '[personas.a]\n\n# words\nport = "5101"': "line 4: personas.a.port input should be a valid integer",
    "[personas.a]\nport = 70000": "line 2: personas.a.port input should be less than or equal to 65535",
    "[personas.a]\nmode = 'lazy'": "line 2: personas.a.mode input should be 'sleepy' or 'always'",
    "[personas.a]\nidle_timeout_s = 0": "line 2: personas.a.idle_timeout_s input should be greater than 0",
    "[personas.a]\nidle_timeout_s = nan": "line 2: personas.a.idle_timeout_s",
    "[personas.a]\nrecycle_after_h = 1": 'line 2: personas.a.recycle_after_h is for mode = "always"',
    "[personas.a]\nport = 5050": "line 2: personas.a.port is 5050, which the waker has",
    "[personas.a]\nport = 1\n[personas.b]\nport = 1": "line 4: personas.b.port is 1, which a has",
    "[personas.a]\n[personas.b]\nstore = 'stores/a'": "line 3: personas.b.store is the store of a",
    "[personas.a]\n[personas.b]\nstore = 'stores/a/b'": "line 3: personas.b.store is the store of a, or one lies",
    "[personas.a]\nproxy = 'ftp://x'": "line 2: personas.a.proxy must be http://, https:// or socks5://",
    "[personas.a]\nviewport = 'wide'": "line 2: personas.a.viewport must be WIDTHxHEIGHT",
    "[personas.a]\nkey = 'with space'": "line 2: personas.a.key must be printable ASCII without spaces",
    "[personas.a]\n[personas.a.env]\nMAX_PAGES = 0": "line 3: personas.a.env.MAX_PAGES input should be",
    "[personas.a]\nenv = { MAX_PAGES = [1] }": "line 2: personas.a.env.MAX_PAGES input should be",
    "[personas.a]\nenv.PENELOPE_KEY = 'k'": "line 2: personas.a.env.PENELOPE_KEY is not said here: say `key`",
    "[personas.a]\nenv.PENELOPE_PROXY = 'k'": "line 2: personas.a.env.PENELOPE_PROXY is not said here: say `proxy`",
    "[personas.a]\nenv.PENELOPE_PORT = 1": "line 2: personas.a.env.PENELOPE_PORT is not said here: say `port`",
    "[personas.a]\nenv.PENELOPE_LOG = 'text'": "line 2: personas.a.env.PENELOPE_LOG is not said here: the waker",
    '[personas.a]\nstore = "a\\u0000b"': "line 2: personas.a.store has a NUL character",
    '[personas.a]\nproxy = "http://a\\u0000b:1"': "line 2: personas.a.proxy has a NUL character",
    'state = "a\\u0000b"': "line 1: state must be the path of a folder",
    '[personas.a]\nenv = { A = "\u2028\x85" }\nport = -1': "line 3: personas.a.port input should be",
    "a = " + "[" * 5000: "personas.toml is no TOML: ",
    "[personas.a]\nenv.'A=B' = 'x'": "line 2: personas.a.env.A=B cannot be a variable of the environment",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_is_named_with_its_line_and_key(tmp_path: Path, text: str) -> None:
    said = refusal(tmp_path, text)

    assert said.startswith("personas.toml")
    assert FAULTS[text] in said


def test_a_file_that_is_not_there_and_one_that_is_no_text(tmp_path: Path) -> None:
    settings = Settings(key=SecretStr(KEY))
    with pytest.raises(BadPersonas, match=r"nope\.toml cannot be read: No such file"):
        config.load(tmp_path / "nope.toml", settings)
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(BadPersonas, match=r"bytes\.toml is not UTF-8"):
        config.load(tmp_path / "bytes.toml", settings)


def test_a_key_reaches_as_far_as_the_waker_listens(tmp_path: Path) -> None:
    """A short one is for loopback alone."""
    text = "[personas.a]\nkey = 'short'"
    load(tmp_path, text)

    assert "line 2: personas.a.key has 5 characters" in refusal(tmp_path, text, host="0.0.0.0")


@settings(max_examples=50)
@given(
    key=st.sampled_from(
        ["store", "proxy", "locale", "user_agent", "key", "mode", "port", "env.A", "env.PENELOPE_KEY"]
    ),
    value=st.text(st.characters(codec="utf-8")),
)
def test_whatever_it_says_it_is_good_or_refused(key: str, value: str) -> None:
    """A file that is read again must not end the waker."""
    with TemporaryDirectory() as folder:
        text = f"[personas.a]\n{key} = {_quoted(value)}\n"
        refused, variables = "", {}
        try:
            variables = dict(load(Path(folder), text).by_name["a"].order.variables)
        except BadPersonas as exc:
            refused = str(exc)
    if refused:
        assert "personas.toml, line 2: personas.a" in refused
    else:
        assert "\0" not in "".join(variables.values())


def _quoted(value: str) -> str:
    """As TOML writes it; what it takes as it is, as it is."""
    escaped = [f"\\U{ord(sign):08X}" if sign < " " or sign in '"\\\x7f' else sign for sign in value]
    return f'"{"".join(escaped)}"'


def test_a_waker_that_runs_keeps_its_folder(tmp_path: Path) -> None:
    """What a reload cannot do is refused, not passed over."""
    file = tmp_path / "personas.toml"
    file.write_text("state = 'mine'\n[personas.a]\n")
    settings = Settings(key=SecretStr(KEY))
    held = config.load(file, settings).state
    assert "a" in config.load(file, settings, held).by_name
    file.write_text("[personas.a]\n\nport = 1")
    with pytest.raises(BadPersonas, match="state is another folder now, which takes a restart of the waker"):
        config.load(file, settings, held)


def test_a_persona_is_added_to_the_file_behind_a_link(tmp_path: Path) -> None:
    """It stays a link, and the file has its mode."""
    (tmp_path / "kept").mkdir()
    kept, link = tmp_path / "kept" / "mine.toml", tmp_path / "personas.toml"
    kept.write_text("# words\n[personas.a]\n")
    kept.chmod(0o640)
    link.symlink_to(kept)
    editing.add(link, "b", "always")

    assert link.is_symlink()
    assert kept.read_text().startswith("# words\n[personas.a]\n")
    assert 0o640 == kept.stat().st_mode & 0o777
    assert ["mine.toml"] == [path.name for path in kept.parent.iterdir()]
    assert ["a", "b"] == list(config.load(link, Settings(key=SecretStr(KEY))).by_name)


def test_a_link_to_a_store_is_that_store(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    text = "[personas.a]\nstore = 'real'\n[personas.b]\nstore = 'link'"

    assert "line 4: personas.b.store is the store of a" in refusal(tmp_path, text)


def test_a_restart_is_for_what_the_worker_sees_alone(tmp_path: Path) -> None:
    """The digest changes with key, port, store and settings, and with nothing else."""
    text = "[personas.a]\nport = 5101\nlocale = 'de-DE'\nidle_timeout_s = 5"
    one = load(tmp_path, text).by_name["a"].order.digest("salt")

    def changed(before: str, after: str) -> bool:
        return load(tmp_path, text.replace(before, after)).by_name["a"].order.digest("salt") != one

    assert [True] * 4 == [
        changed("5101", "5102"),
        changed("de-DE", "en-GB"),
        changed("port", "store = 'elsewhere'\nport"),
        changed("port", "key = 'another'\nport"),
    ]
    assert not changed("= 5\n", "= 6\n")
    assert not changed("idle_timeout_s = 5", "mode = 'always'")


keys = st.sampled_from(["a", "b", '"c d"', "'e.f'"])
values = st.sampled_from(["1", '"x"', '"""\n[t]\nk = 1\n"""', "[\n  1,\n  2,\n]", "{ in = 1 }", "1 # [t]"])


@given(st.lists(st.tuples(keys, st.dictionaries(keys, values)), unique_by=lambda table: table[0]))
def test_lines_are_those_of_an_editor(tables: list[tuple[str, dict[str, str]]]) -> None:
    """Of every table and key, whatever stands around it."""
    lines: list[str] = []
    expected: dict[tuple[str, ...], int] = {}

    def bare(key: str) -> str:
        return key.strip("\"'")

    for name, content in tables:
        lines += ["# words", f"[{name}]"]
        expected[(bare(name),)] = len(lines)
        for key, value in content.items():
            expected[bare(name), bare(key)] = len(lines) + 1
            lines += f"{key} = {value}".split("\n")
    text = "\n".join(lines)
    tomllib.loads(text)

    found = lines_of(text)
    assert expected == {path: line for path, line in found.items() if path in expected}


def test_the_line_of_what_is_not_written_is_that_of_its_table() -> None:
    found = lines_of("\n[personas.a]\nenv = { X = 1 }\n[personas.b]\n")

    assert 3 == line_of(found, ("personas", "a", "env", "X"))
    assert 4 == line_of(found, ("personas", "b", "store"))
    assert 1 == line_of(found, ("defaults",))
