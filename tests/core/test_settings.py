"""Settings: read once from the environment, each refusal naming its variable."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from penelope.errors import BadSettings
from penelope.settings import (
    Settings,
    is_loopback,
    plugin_folders,
    recipe_folders,
    secret_variables,
    variable,
    worker_address,
)

KEY = "0123456789abcdef"
OLD_KEY = "fedcba9876543210"
PRINTABLE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=8, max_size=40)


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No variables of the machine's, no `.env`."""
    monkeypatch.chdir(tmp_path)
    with patch.dict(os.environ, {"PENELOPE_KEY": KEY}, clear=True):
        yield


def read(**variables: str) -> Settings:
    with patch.dict(os.environ, variables):
        return Settings.from_environ()


GOOD: list[tuple[str, str, str, Any]] = [
    ("PENELOPE_KEY_PREVIOUS", " ", "key_previous", None),
    ("PENELOPE_KEY_PREVIOUS", f" {OLD_KEY}\n", "key_previous", SecretStr(OLD_KEY)),
    ("PENELOPE_HOST", "0.0.0.0", "host", "0.0.0.0"),
    ("PENELOPE_PORT", "0", "port", 0),
    ("PENELOPE_PORT", "65535", "port", 65535),
    ("PENELOPE_HOSTS", "a.lan, b.lan,", "hosts", ("a.lan", "b.lan")),
    ("PENELOPE_STORE", "/srv/x", "store", Path("/srv/x")),
    ("PENELOPE_PLUGINS", "/a:/b:", "plugins", (Path("/a"), Path("/b"))),
    ("PENELOPE_PLUGINS", "", "plugins", ()),
    ("PENELOPE_RECIPES", "/a: /b:", "recipes", (Path("/a"), Path("/b"))),
    ("PENELOPE_RECIPES", "", "recipes", ()),
    ("PENELOPE_AGENTS", "/a: /b:", "agents", (Path("/a"), Path("/b"))),
    ("PENELOPE_AGENTS", "", "agents", ()),
    ("PENELOPE_AGENT_URL", " https://models.lan:8443/v1 ", "agent_url", "https://models.lan:8443/v1"),
    ("PENELOPE_AGENT_URL", "http://[::1]", "agent_url", "http://[::1]"),
    ("PENELOPE_AGENT_URL", "", "agent_url", None),
    ("PENELOPE_AGENT_MODEL", "org/small:7b", "agent_model", "org/small:7b"),
    ("PENELOPE_AGENT_MODEL", " ", "agent_model", None),
    ("PENELOPE_AGENT_KEY", f" {OLD_KEY}\n", "agent_key", SecretStr(OLD_KEY)),
    ("PENELOPE_AGENT_KEY", "", "agent_key", None),
    ("PENELOPE_BROWSER", "/usr/bin/chromium", "browser", Path("/usr/bin/chromium")),
    ("PENELOPE_BROWSER", " ", "browser", None),
    ("PENELOPE_HEADLESS", "0", "headless", False),
    ("PENELOPE_HEADLESS", "1", "headless", True),
    ("PENELOPE_LOCALE", "de-DE", "locale", "de-DE"),
    ("PENELOPE_TIMEZONE", "Europe/Berlin", "timezone", "Europe/Berlin"),
    ("PENELOPE_VIEWPORT", "1280x800", "viewport", (1280, 800)),
    ("PENELOPE_VIEWPORT", "", "viewport", None),
    ("PENELOPE_USER_AGENT", "me", "user_agent", "me"),
    ("PENELOPE_GEOLOCATION", "52.52, -13.405", "geolocation", (52.52, -13.405)),
    ("PENELOPE_GEOLOCATION", "", "geolocation", None),
    ("PENELOPE_PAGE_NETWORK", "public", "page_network", "public"),
    ("PENELOPE_LOG", "json", "log", "json"),
    ("MAX_PAGES", "1", "max_pages", 1),
    ("PENELOPE_MAX_PAGES", "3", "max_pages", 3),
    ("MEDIA_MAX_MB", "0", "media_max_mb", 0),
    ("PENELOPE_MEDIA_MAX_MB", "7", "media_max_mb", 7),
    ("PAGE_MEMORY_MB", "1", "page_memory_mb", 1),
    ("PENELOPE_PAGE_MEMORY_MB", "500", "page_memory_mb", 500),
    ("STOP_GRACE_S", "0.5", "stop_grace_s", 0.5),
    ("PENELOPE_STOP_GRACE_S", "2", "stop_grace_s", 2.0),
    ("WEBHOOK_POLICY", "lan", "webhook_policy", "lan"),
    ("PENELOPE_WEBHOOK_POLICY", "public", "webhook_policy", "public"),
    ("WEBHOOK_ALLOW", "", "webhook_allow", ()),
    ("PENELOPE_RUNS_AUTH", "loopback", "runs_auth", "loopback"),
    ("RUNS_MAX_CONCURRENT", "3", "runs_max_concurrent", 3),
    ("RUNS_MAX_QUEUED", "7", "runs_max_queued", 7),
    ("RUNS_MAX_QUEUED", "", "runs_max_queued", None),
    ("RUNS_TIMEOUT_S", "60", "runs_timeout_s", 60.0),
    ("RUNS_WEBHOOK_POLICY", "lan", "runs_webhook_policy", "lan"),
    ("PENELOPE_RUNS_RESUME_QUEUED", "0", "runs_resume_queued", False),
    ("WEBHOOK_ALLOW", "nas.lan, 10.0.0.0/8,", "webhook_allow", ("nas.lan", "10.0.0.0/8")),
    (
        "PENELOPE_WEBHOOK_ALLOW",
        "10.1.2.3,[fd00::1],localhost",
        "webhook_allow",
        ("10.1.2.3", "[fd00::1]", "localhost"),
    ),
]
BAD: list[tuple[str, str]] = [
    *(("PENELOPE_KEY_PREVIOUS", bad) for bad in ("with space", "schlüssel-schlüssel", "nul\x01l")),
    *(("PENELOPE_AGENT_KEY", bad) for bad in ("with space", "schlüssel")),
    *(
        ("PENELOPE_AGENT_URL", bad)
        for bad in (
            "models.lan/v1",
            "ftp://models.lan",
            "http://",
            "http://h:65536/v1",
            "http://user:pass@h/v1",
            "https://h/v1?api-key=x",
            "https://h/v1#x",
            "http://a b/v1",
        )
    ),
    *(("PENELOPE_PORT", bad) for bad in ("", "x", "-1", "65536", "1.5")),
    *(("PENELOPE_HEADLESS", bad) for bad in ("", "maybe", "2")),
    *(("PENELOPE_PROXY", bad) for bad in ("proxy", "ftp://h:1", "http://", "http://h:x", "http://a b:1")),
    *(
        ("PENELOPE_PROXY", bad)
        for bad in ("socks5://u:p@h:1", "socks5://u@h:1", "http://h:65536", "http://[h]")
    ),
    *(("PENELOPE_GEOLOCATION", bad) for bad in ("52.52", "91,0", "0,181", "nan,0", "a,b", "1e1,0", "1,2,3")),
    *((f"PENELOPE_{name}", "a\nb") for name in ("USER_AGENT", "LOCALE", "TIMEZONE")),
    *(("PENELOPE_VIEWPORT", bad) for bad in ("1280", "0x0", "1280 x 800", "-1x5", "axb")),
    *(("PENELOPE_PAGE_NETWORK", bad) for bad in ("", "none", "Public")),
    *(("PENELOPE_LOG", bad) for bad in ("", "xml", "JSON ")),
    *(("MAX_PAGES", bad) for bad in ("", "0", "-1", "many", "1001", "1e2")),
    *(("MEDIA_MAX_MB", bad) for bad in ("", "-1", "nan", "4G")),
    *(("PAGE_MEMORY_MB", bad) for bad in ("", "0", "-1", "nan", "1G")),
    *(("WEBHOOK_POLICY", bad) for bad in ("", "none", "LAN")),
    *(("PENELOPE_RUNS_AUTH", bad) for bad in ("", "none", "Loopback")),
    *(("RUNS_MAX_CONCURRENT", bad) for bad in ("", "0", "-1", "1001")),
    *(("RUNS_MAX_QUEUED", bad) for bad in ("0", "x", "1e2")),
    *(("RUNS_TIMEOUT_S", bad) for bad in ("", "0", "-1", "nan", "inf", "604801")),
    *(("RUNS_WEBHOOK_POLICY", bad) for bad in ("", "private")),
    *(("RUNS_RESUME_QUEUED", bad) for bad in ("", "perhaps")),
    *(
        ("WEBHOOK_ALLOW", bad)
        for bad in (
            "10.1.2.3/8",  # has bits of a host: which network is meant?
            "10.0.0.0/33",
            "10.0.0.300",
            "nas.lan:80",
            "https://nas.lan",
            "*.lan",
            "a b",
            "fd00::g",
            "grüße.lan",
        )
    ),
    *(("STOP_GRACE_S", bad) for bad in ("", "-1", "nan", "inf", "3601", "ten")),
]


@pytest.mark.parametrize(("name", "text", "field", "value"), GOOD)
def test_a_variable_is_read(name: str, text: str, field: str, value: Any) -> None:
    """Each setting has its variable; those the seeds name have theirs with and without the prefix."""
    assert value == getattr(read(**{name: text}), field)


@pytest.mark.parametrize(("name", "text"), BAD)
def test_a_bad_value_names_its_variable(name: str, text: str) -> None:
    """A value that does not parse stops the start and names the variable."""
    with pytest.raises(BadSettings, match=name):
        read(**{name: text})


@pytest.mark.parametrize("name", ["WEBHOOK_POLICY", "WEBHOOK_ALLOW"])
def test_the_prefix_wins_for_words_too(name: str) -> None:
    with pytest.raises(BadSettings, match=name):
        read(**{f"PENELOPE_{name}": "*", name: "any"})
    assert str(getattr(read(**{f"PENELOPE_{name}": "lan", name: "*"}), name.lower())) in ("lan", "('lan',)")


@pytest.mark.parametrize("name", ["MAX_PAGES", "MEDIA_MAX_MB", "PAGE_MEMORY_MB", "STOP_GRACE_S"])
def test_a_bad_prefixed_value_names_its_variable(name: str) -> None:
    """Also under the prefix; and the prefixed one wins."""
    with pytest.raises(BadSettings, match=name):
        read(**{f"PENELOPE_{name}": "x", name: "5"})
    assert 5 == getattr(read(**{f"PENELOPE_{name}": "5", name: "6"}), name.lower())


def test_every_setting_is_in_one_of_the_tables() -> None:
    """A new setting comes with its good and bad values here."""
    tried = {field for _, _, field, _ in GOOD} | {"key", "proxy"}
    assert set(Settings.model_fields) == tried


def test_the_defaults() -> None:
    """As `penelope serve --help` lists them."""
    settings = read()
    assert ("127.0.0.1", 5000, Path("store"), True) == (
        settings.host,
        settings.port,
        settings.store,
        settings.headless,
    )
    assert (8, 4096, 10.0) == (settings.max_pages, settings.media_max_mb, settings.stop_grace_s)


def test_a_dotenv_file_is_read_and_the_environment_wins(tmp_path: Path) -> None:
    """From the environment (and a `.env` file if there is one)."""
    (tmp_path / ".env").write_text("PENELOPE_PORT=6000\nMAX_PAGES=2\nSOMETHING_ELSE=1\n")
    assert (6000, 2) == (read().port, read().max_pages)
    assert 7000 == read(PENELOPE_PORT="7000").port


def test_values_of_the_command_line_win() -> None:
    """`serve --port`."""
    with patch.dict(os.environ, {"PENELOPE_PORT": "1"}):
        assert 2 == Settings.from_environ({"port": 2}).port


@pytest.mark.parametrize(
    "key", ["", " ", "\n", "with space", "tab\tin", "schlüssel-schlüssel", "nul\x01l", "a\nb"]
)
def test_an_unusable_key_stops_the_start(key: str) -> None:
    """Key empty, spaces, non-ASCII: refused at start, by name, without saying it."""
    with pytest.raises(BadSettings, match="PENELOPE_KEY") as refused:
        read(PENELOPE_KEY=key)
    if key.strip():
        assert key.strip() not in str(refused.value)


def test_no_key_stops_the_start() -> None:
    """`serve` refuses to start without a key."""
    with patch.dict(os.environ, clear=True), pytest.raises(BadSettings, match="PENELOPE_KEY is not set"):
        Settings.from_environ()


def test_a_trailing_newline_is_stripped() -> None:
    """A key with a trailing newline is stripped by rule."""
    assert KEY == read(PENELOPE_KEY=f" {KEY}\n").key.get_secret_value()


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True)]
    + [(host, False) for host in ("0.0.0.0", "::", "192.168.1.5", "worker.lan", "")],
)
def test_a_short_key_is_for_loopback_only(host: str, loopback: bool) -> None:
    """With one shorter than 16 characters it refuses to start when it binds to anything but loopback."""
    assert loopback == is_loopback(host)
    assert KEY == read(PENELOPE_HOST=host, PENELOPE_KEY=KEY).key.get_secret_value()
    if loopback:
        assert "x" == read(PENELOPE_HOST=host, PENELOPE_KEY="x").key.get_secret_value()
    else:
        with pytest.raises(BadSettings, match="PENELOPE_KEY has 15 characters"):
            read(PENELOPE_HOST=host, PENELOPE_KEY=KEY[:15])


def test_a_short_previous_key_is_for_loopback_only() -> None:
    """It opens the API as the current one does."""
    assert (KEY, "x") == read(PENELOPE_KEY_PREVIOUS="x").keys
    with pytest.raises(BadSettings, match="PENELOPE_KEY_PREVIOUS has 1 characters"):
        read(PENELOPE_HOST="192.168.1.5", PENELOPE_KEY_PREVIOUS="x")


def test_the_keys_are_the_current_one_and_then_the_previous() -> None:
    assert (KEY,) == read().keys == read(PENELOPE_KEY_PREVIOUS=KEY).keys
    assert (KEY, OLD_KEY) == read(PENELOPE_KEY_PREVIOUS=OLD_KEY).keys


def test_the_secrets_are_those_that_are_masked() -> None:
    given = dict.fromkeys(("key", "key_previous", "agent_key"), "k" * 20)
    given |= {"proxy": "http://me:hush@proxy.lan:1"}
    shown = Settings.from_environ(given).masked()
    assert {"PENELOPE_KEY", "PENELOPE_KEY_PREVIOUS", "PENELOPE_PROXY", "PENELOPE_AGENT_KEY"} == set(
        secret_variables()
    )
    assert {name for name, value in shown.items() if "*****" in value} == set(secret_variables())


@given(PRINTABLE, st.text("abcdefgh123", min_size=8, max_size=20))
def test_what_is_printed_never_shows_a_secret(key: str, password: str) -> None:
    """Printed at the start with secrets masked."""
    settings = Settings.from_environ(
        {
            "key": key,
            "key_previous": key[::-1],
            "agent_key": key,
            "proxy": f"http://user:{password}@proxy.lan:8080",
        }
    )
    shown = settings.masked()
    assert {variable(name) for name in Settings.model_fields} == shown.keys()
    assert "**********" == shown["PENELOPE_KEY"]
    assert password not in str(shown)
    # What a secret may share with the names of the settings is no secret: `port`, drawn as a key, is there anyway.
    other = {
        "key": "-" * 8,
        "key_previous": "=" * 8,
        "agent_key": "-" * 8,
        "proxy": "http://u:p@proxy.lan:8080",
    }
    named = repr(Settings.from_environ(other))
    for text in (repr(settings), str(settings)):
        for secret in (key, key[::-1], password):
            assert text.count(secret) <= named.count(secret)


READERS: dict[str, Callable[[], object]] = {
    "the worker": Settings.from_environ,
    "its plugins": plugin_folders,
    "its recipes": recipe_folders,
    "its clients": worker_address,
}


@pytest.mark.parametrize("read_all", READERS.values(), ids=READERS)
def test_a_file_that_is_no_text_is_told_in_a_line(read_all: Callable[[], object]) -> None:
    Path(".env").write_bytes(b"PENELOPE_PORT=5000 # caf\xe9\n")
    with pytest.raises(BadSettings, match=r"\.env is not text in UTF-8: .* at byte 24"):
        read_all()
