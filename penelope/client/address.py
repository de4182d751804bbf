"""Where the worker is and with which key: from arguments, else as `penelope call` finds it."""

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from penelope.client.asking import CONNECT_S, Answer, Ask
from penelope.client.errors import BadAddress

USER_AGENT: Final = "penelope-client"


@dataclass(frozen=True, slots=True)
class Address:
    """Attributes:
    url: the worker's base URL, without a slash at the end.
    """

    url: str
    key: str


def find(url: str | None, key: str | None) -> Address:
    """The address to use.

    Args:
        url: the base URL; None: `PENELOPE_URL`, else by `PENELOPE_HOST` and `PENELOPE_PORT`, from the environment or
            `.env`.
        key: None: `PENELOPE_KEY`, from there.

    Raises:
        BadAddress: there is none, or none that could be used.
    """
    if url is None or key is None:
        own_url, own_key = _of_the_environment()
        url = own_url if url is None else url
        key = own_key if key is None else key
    url = url.rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise BadAddress(f"{url!r} is no URL of a worker: it begins with http:// or https://")
    try:
        named = (
            httpx.URL(url).host and urlsplit(url).port != 0
        )  # the second raises where a port is out of range
    except (httpx.InvalidURL, ValueError) as exc:
        raise BadAddress(f"{url!r} is no URL of a worker: {exc}") from exc
    if not named:
        raise BadAddress(f"{url!r} is no URL of a worker: it names no host, or port 0")
    if not key:
        raise BadAddress("PENELOPE_KEY is not set: it is the key that the worker was started with")
    if not (key.isascii() and key.isprintable()):
        raise BadAddress("PENELOPE_KEY has characters that no header can carry")
    return Address(url, key)


def _of_the_environment() -> tuple[str, str]:
    # Here, since it costs an import of pydantic-settings: who gives both needs none of it.
    from penelope.errors import BadSettings
    from penelope.settings import worker_address

    try:
        return worker_address()
    except BadSettings as exc:
        raise BadAddress(exc.message) from exc


def options(address: Address) -> dict[str, Any]:
    """What both of httpx's clients are made with."""
    return {
        "base_url": address.url,
        "headers": {"User-Agent": USER_AGENT},
        "timeout": httpx.Timeout(None, connect=CONNECT_S),
        "limits": httpx.Limits(max_connections=None),
        "trust_env": False,  # the key is for the worker, not for a proxy of the environment's
    }


def headers(address: Address, ask: Ask) -> dict[str, str]:
    """Those of a request: its own, and the key."""
    key = {} if ask.keyless else {"Authorization": f"Bearer {address.key}"}
    return {**ask.headers, **key}


def timeout(ask: Ask) -> httpx.Timeout:
    return httpx.Timeout(ask.answer_s, connect=CONNECT_S, pool=None)


def answered(url: str, response: httpx.Response, now: float) -> Answer:
    """A response that was read, as a value."""
    lowered = {name.lower(): value for name, value in response.headers.items()}
    return Answer(url=url, status=response.status_code, headers=lowered, content=response.content, at=now)
