"""The worker's settings: read once, from the environment and a `.env` file, then a frozen value.

Each limit names its unit. Clients rely on the seeds' clock (0, 1, 5 and 10 minutes; 10 s; 30 s; 1000 jobs): those are
constants, not settings.

Source: contract, section 12.
"""

import ipaddress
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

from dotenv import dotenv_values
from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from penelope.errors import BadSettings

MIN_KEY_CHARS: Final = 16
_HOST: Final = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?", re.ASCII)


def _shared(name: str) -> AliasChoices:
    """A setting that is also read under its name without the prefix; the prefixed one wins."""
    return AliasChoices(f"PENELOPE_{name}", name)


class Settings(BaseSettings):
    """Everything that `penelope serve` can be told."""

    model_config = SettingsConfigDict(
        env_prefix="PENELOPE_",
        env_file=".env",
        env_file_encoding="utf-8",
        extra="ignore",
        frozen=True,
        case_sensitive=False,
        env_ignore_empty=False,
        populate_by_name=True,
    )

    key: SecretStr = Field(
        description="The key that clients send as a bearer token, and that signs webhooks."
    )
    key_previous: SecretStr | None = Field(
        None,
        description="The key before a change of keys: it still opens the API, and signs webhooks beside the new one.",
    )
    host: str = Field("127.0.0.1", description="The address to listen on.")
    port: int = Field(5000, ge=0, le=65535, description="The port to listen on; 0 takes a free one.")
    hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Comma-separated Host names that are answered; unset: loopback names while the worker binds to "
        "loopback, any name beyond it.",
    )
    store: Path = Field(Path("store"), description="The folder of the database, the media and the profile.")
    plugins: Annotated[tuple[Path, ...], NoDecode] = Field(
        (), description="Colon-separated folders whose *.py files are plugins."
    )
    recipes: Annotated[tuple[Path, ...], NoDecode] = Field(
        (), description="Colon-separated folders of recipes, NAME/TEMPLATE.yaml each."
    )
    agents: Annotated[tuple[Path, ...], NoDecode] = Field(
        (), description="Colon-separated folders of agents, NAME.yaml each, that runs name in agent_file."
    )
    agent_url: str | None = Field(
        None,
        description="The OpenAI-compatible endpoint whose model works prompts, up to its /chat/completions; unset: no "
        "agent.",
    )
    agent_model: str | None = Field(
        None, description="The model that is asked, unless an agent names another."
    )
    agent_key: SecretStr | None = Field(
        None, description="What the endpoint is sent as a bearer token; unset: nothing."
    )
    browser: Path | None = Field(None, description="The browser's executable; unset: the first one found.")
    headless: bool = Field(True, description="0 shows the browser's window.")
    proxy: SecretStr | None = Field(
        None, description="The pages' proxy, scheme://[user:password@]host:port; webhooks never use it."
    )
    locale: str | None = Field(None, description="The pages' locale, e.g. de-DE.")
    timezone: str | None = Field(None, description="The pages' time zone, e.g. Europe/Berlin.")
    viewport: Annotated[tuple[int, int] | None, NoDecode] = Field(
        None, description="The pages' size in CSS pixels, e.g. 1280x800."
    )
    user_agent: str | None = Field(
        None,
        description="The pages' and workers' user agent; it must not name another system than this machine's.",
    )
    geolocation: Annotated[tuple[float, float] | None, NoDecode] = Field(
        None, description="Where the pages are, latitude and longitude in degrees, e.g. 52.52,13.405."
    )
    page_network: Literal["any", "public"] = Field(
        "any",
        description="public keeps pages off loopback, private and other inner addresses, by resolved address.",
    )
    log: Literal["auto", "json", "text"] = Field(
        "auto", description="How log lines look; auto: text in a terminal, JSON elsewhere."
    )
    max_pages: int = Field(
        8,
        ge=1,
        le=1000,
        validation_alias=_shared("MAX_PAGES"),
        description="Pages open at once, main included.",
    )
    media_max_mb: int = Field(
        4096,
        ge=0,
        validation_alias=_shared("MEDIA_MAX_MB"),
        description="Files not yet downloaded, together, in MiB; past it a plugin's file is refused with 507.",
    )
    page_memory_mb: int = Field(
        300,
        ge=1,
        validation_alias=_shared("PAGE_MEMORY_MB"),
        description="Memory of an idle page, in MiB, above which it is purged.",
    )
    stop_grace_s: float = Field(
        10.0,
        ge=0,
        le=3600,
        validation_alias=_shared("STOP_GRACE_S"),
        description="Seconds that running calls get to end at a stop.",
    )

    webhook_policy: Literal["any", "lan", "public"] = Field(
        "any",
        validation_alias=_shared("WEBHOOK_POLICY"),
        description="Where webhooks may go, by resolved address: any; lan: not to link-local, metadata and multicast "
        "addresses, nor to the worker itself; public: to public addresses alone.",
    )
    webhook_allow: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        validation_alias=_shared("WEBHOOK_ALLOW"),
        description="Comma-separated hosts, addresses and networks that webhooks may go to whatever the policy.",
    )

    runs_auth: Literal["key", "loopback"] = Field(
        "key",
        description="loopback lets callers of this machine submit runs without a key, while the worker binds to "
        "loopback; a browser's requests never.",
    )
    runs_max_concurrent: int = Field(
        10,
        ge=1,
        le=1000,
        validation_alias=_shared("RUNS_MAX_CONCURRENT"),
        description="Runs at work at once.",
    )
    runs_max_queued: int | None = Field(
        None,
        ge=1,
        le=100_000,
        validation_alias=_shared("RUNS_MAX_QUEUED"),
        description="Runs that are queued or at work; past it a submit is refused with 503. Unset: ten times "
        "RUNS_MAX_CONCURRENT.",
    )
    runs_timeout_s: float = Field(
        3600.0,
        gt=0,
        le=604_800,
        validation_alias=_shared("RUNS_TIMEOUT_S"),
        description="Seconds that a run may work; a run may ask for less.",
    )
    runs_webhook_policy: Literal["public", "lan", "any"] = Field(
        "public",
        validation_alias=_shared("RUNS_WEBHOOK_POLICY"),
        description="Where the webhooks of runs may go, as WEBHOOK_POLICY says for jobs; WEBHOOK_ALLOW is for both.",
    )
    runs_resume_queued: bool = Field(
        True,
        validation_alias=_shared("RUNS_RESUME_QUEUED"),
        description="0: runs that a stop left in the queue fail at the next start instead of going on.",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, dotenv_settings

    @field_validator("hosts", "webhook_allow", mode="before")
    @classmethod
    def _split_hosts(cls, value: Any) -> Any:
        return _split(value, ",")

    @field_validator("plugins", "recipes", "agents", mode="before")
    @classmethod
    def _split_folders(cls, value: Any) -> Any:
        return _split(value, ":")

    @field_validator("webhook_allow")
    @classmethod
    def _hosts_or_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for entry in value:
            try:
                ipaddress.ip_network(entry.strip("[]"))
            except ValueError as exc:
                if re.fullmatch(r"[0-9.]*|.*[/:].*", entry):  # meant as an address or a network
                    raise ValueError(f"has {entry!r}: {exc}") from exc
                if not _HOST.fullmatch(entry):
                    raise ValueError(f"has {entry!r}, which is no host name, address or network") from exc
        return value

    @field_validator("viewport", mode="before")
    @classmethod
    def _split_viewport(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if not (match := re.fullmatch(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", value.strip())):
            raise ValueError("must be WIDTHxHEIGHT in pixels, e.g. 1280x800")
        return int(match[1]), int(match[2])

    @field_validator("geolocation", mode="before")
    @classmethod
    def _split_geolocation(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        number = r"(-?[0-9]{1,3}(?:\.[0-9]{1,12})?)"
        match = re.fullmatch(rf"{number}\s*,\s*{number}", value.strip(), re.ASCII)
        if not match or abs(float(match[1])) > 90 or abs(float(match[2])) > 180:
            raise ValueError("must be LATITUDE,LONGITUDE in degrees, e.g. 52.52,13.405")
        return float(match[1]), float(match[2])

    @field_validator("user_agent", "locale", "timezone")
    @classmethod
    def _fits_a_header(cls, value: str | None) -> str | None:
        if value is not None and not (value.isascii() and value.isprintable()):
            raise ValueError("must be printable ASCII")
        return value

    @field_validator(
        "key_previous",
        "agent_url",
        "agent_model",
        "agent_key",
        "browser",
        "proxy",
        "locale",
        "timezone",
        "user_agent",
        "viewport",
        "geolocation",
        "runs_max_queued",
        mode="before",
    )
    @classmethod
    def _empty_is_unset(cls, value: Any) -> Any:
        return None if isinstance(value, str) and not value.strip() else value

    @field_validator("proxy")
    @classmethod
    def _proxy_has_a_host(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        match = re.fullmatch(
            r"(https?|socks5)://([^@/\s]+@)?(?:[^@/\s:\[\]]+|\[[0-9a-fA-F:.]+\])(?::(\d{1,5}))?/?",
            value.get_secret_value(),
            re.ASCII,
        )
        if not match or int(match[3] or 1) > 65535:
            raise ValueError("must be http://, https:// or socks5://, then [user:password@]host:port")
        if match[1] == "socks5" and match[2]:
            raise ValueError(
                "is a socks5:// proxy with a password, which the browser cannot send: use an http:// one"
            )
        return value

    @field_validator("agent_url")
    @classmethod
    def _endpoint_can_be_asked(cls, value: str | None) -> str | None:
        if value is None:
            return None
        url = value.strip()
        match = re.fullmatch(
            r"https?://(?:[A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\])(?::(\d{1,5}))?(?:/[!-~]*)?", url, re.ASCII
        )
        if not match or int(match[1] or 1) > 65535 or "?" in url or "#" in url:
            raise ValueError(
                "must be http:// or https://, then host[:port] and a path, e.g. http://host:8080/v1"
            )
        return url

    @field_validator("key", "key_previous", "agent_key", mode="after")
    @classmethod
    def _key_is_usable(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        key = value.get_secret_value().strip()  # a trailing newline of a secrets file is nobody's intention
        if not key:
            raise ValueError("is empty")
        if not key.isascii() or not key.isprintable() or " " in key:
            raise ValueError("must be printable ASCII without spaces: it travels in an HTTP header")
        return SecretStr(key)

    @model_validator(mode="after")
    def _key_is_long_enough(self) -> "Settings":
        for name, key in zip(("PENELOPE_KEY", "PENELOPE_KEY_PREVIOUS"), self.keys, strict=False):
            if not is_loopback(self.host) and len(key) < MIN_KEY_CHARS:
                raise ValueError(
                    f"{name} has {len(key)} characters: at least {MIN_KEY_CHARS} are needed "
                    f"to listen on {self.host}, which is not loopback"
                )
        return self

    @property
    def keys(self) -> tuple[str, ...]:
        """PENELOPE_KEY, then the previous one, if there is one and it is another."""
        keys = (self.key, self.key_previous) if self.key_previous is not None else (self.key,)
        return tuple(dict.fromkeys(key.get_secret_value() for key in keys))

    @property
    def runs_admitted(self) -> int:
        """How many runs may be queued or at work."""
        return self.runs_max_queued if self.runs_max_queued is not None else 10 * self.runs_max_concurrent

    @property
    def on_loopback(self) -> bool:
        return is_loopback(self.host)

    @classmethod
    def from_environ(cls, overrides: Mapping[str, Any] | None = None) -> "Settings":
        """Read the environment and `.env`.

        Args:
            overrides: values by field name that win over both, e.g. from the command line.

        Raises:
            BadSettings: a value that does not parse, or no key; the message names the variable. Or `.env` is no text.
        """
        with _told():
            return cls(**(overrides or {}))

    def masked(self) -> dict[str, str]:
        """All settings by variable name, as printed at the start: secrets as asterisks."""
        return {variable(name): _shown(getattr(self, name)) for name in type(self).model_fields}


@contextmanager
def _told() -> Iterator[None]:
    """What is wrong with the settings, in a line."""
    try:
        yield
    except ValidationError as exc:
        raise BadSettings("; ".join(_explained(exc))) from exc
    except UnicodeDecodeError as exc:
        raise BadSettings(f".env is not text in UTF-8: {exc.reason} at byte {exc.start}") from exc
    except OSError as exc:  # e.g. no right to read it
        raise BadSettings(f".env cannot be read: {exc.strerror}") from exc


def plugin_folders() -> tuple[Path, ...]:
    """The folders of PENELOPE_PLUGINS, from the environment and `.env`; for commands that need no key.

    Raises:
        BadSettings: `.env` is no text.
    """
    with _told():
        return _Folders().plugins


def recipe_folders() -> tuple[Path, ...]:
    """The folders of PENELOPE_RECIPES, as `plugin_folders`."""
    with _told():
        return _Folders().recipes


def environment() -> dict[str, str]:
    """All variables, of the environment and of `.env`; the environment wins. For what recipes ask for by name."""
    kept = {name: value for name, value in dotenv_values(".env").items() if value is not None}
    return {**kept, **os.environ}


def worker_address() -> tuple[str, str]:
    """The base URL and the key of the worker that these settings are of, from the environment and `.env`: PENELOPE_URL,
    else what PENELOPE_HOST and PENELOPE_PORT say; the key is "" where none is set. For clients.

    Raises:
        BadSettings: a value that does not parse; the message names the variable.
    """
    address = _Address.from_environ()
    key = address.key.get_secret_value().strip()
    if address.url:
        return address.url, key
    # A worker that listens on all addresses is on this machine's own, too.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "[::]": "::1"}.get(address.host, address.host)  # noqa: S104
    bracketed = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"http://{bracketed}:{address.port}", key


def verifying_keys() -> tuple[str, ...]:
    """PENELOPE_KEY and PENELOPE_KEY_PREVIOUS, from the environment and `.env`, those that are set. For `verify`.

    Raises:
        BadSettings: a value that does not parse; the message names the variable.
    """
    address = _Address.from_environ()
    keys = (address.key.get_secret_value().strip(), address.key_previous.get_secret_value().strip())
    return tuple(key for key in keys if key)


class _Address(BaseSettings):
    model_config = Settings.model_config

    key: SecretStr = SecretStr("")
    key_previous: SecretStr = SecretStr("")
    url: str = ""
    host: str = Settings.model_fields["host"].default
    port: int = Settings.model_fields["port"].default

    @classmethod
    def from_environ(cls) -> "_Address":
        with _told():
            return cls()


class _Folders(BaseSettings):
    model_config = Settings.model_config

    plugins: Annotated[tuple[Path, ...], NoDecode] = ()
    recipes: Annotated[tuple[Path, ...], NoDecode] = ()

    @field_validator("plugins", "recipes", mode="before")
    @classmethod
    def _split_folders(cls, value: Any) -> Any:
        return _split(value, ":")


def variable(field: str) -> str:
    """The environment variable of a field, e.g. `MAX_PAGES` or `PENELOPE_PORT`."""
    alias = Settings.model_fields[field].validation_alias
    if isinstance(alias, AliasChoices):
        return str(alias.choices[-1])
    return f"PENELOPE_{field.upper()}"


def secret_variables() -> tuple[str, ...]:
    """The variables whose values are secrets: no child process needs to inherit them."""
    fields = Settings.model_fields.items()
    return tuple(
        variable(name)
        for name, field in fields
        if SecretStr in (field.annotation, *get_args(field.annotation))
    )


@lru_cache(maxsize=64)  # asked for each request's Host
def is_loopback(host: str) -> bool:
    """Does a bind to `host` reach this machine alone?"""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _split(value: Any, separator: str) -> Any:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(separator) if part.strip())
    return value


def _shown(value: object) -> str:
    """As it would stand in the environment."""
    match value:
        case None:
            return ""
        case bool():
            return str(int(value))
        case (int(), int()):
            return "x".join(map(str, value))
        case (float(), float()):
            return ",".join(f"{part:g}" for part in value)
        case (Path(), *_):
            return ":".join(map(str, value))
        case tuple():
            return ",".join(map(str, value))
    return str(value)


def _explained(error: ValidationError) -> Iterator[str]:
    for fault in error.errors(include_input=False, include_url=False):
        where = str(fault["loc"][0]) if fault["loc"] else ""
        field = where.lower().removeprefix("penelope_")
        name = variable(field) if field in Settings.model_fields else where
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "missing":
            yield f"{name} is not set: the worker needs a key that its clients send as a bearer token"
        else:
            yield f"{name} {message}".strip()
