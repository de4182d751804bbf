"""What a way to pages is, and the pages that all of them open."""

import html
import itertools
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.processes import START_S, Client

PAGES_EACH = 12


@dataclass(frozen=True, slots=True)
class Caller:
    """Someone with a page of its own.

    Attributes:
        at: the page, the session or the context, as its server names it.
        titles: of the URLs that it opens; no other caller has one of them.
    """

    at: str
    titles: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Way:
    """A way to pages.

    Attributes:
        play: does `open` or `evaluate` with the first so many callers for so many seconds; see `bench.scripts.asks`
            for what it tells.
    """

    name: str
    play: Callable[[str, int, float], dict[str, Any]]


def http_way(name: str, client: Client, dialect: str, port: int, key: str, callers: Sequence[Caller]) -> Way:
    """One that the load client asks."""
    turns = itertools.count()

    def play(what: str, count: int, seconds: float) -> dict[str, Any]:
        turn = next(turns)
        told = [{"at": caller.at, "titles": turned(caller.titles, turn)} for caller in callers[:count]]
        order = {"dialect": dialect, "what": what, "callers": told}
        return client.order(port, key, asks=order, connections=count, seconds=seconds)

    return Way(name, play)


def turned(titles: Mapping[str, str], turn: int) -> dict[str, str]:
    """Beginning with another URL each turn: not with the one that the page may show from the last."""
    ordered = list(titles.items())
    at = turn * 5 % len(ordered)
    return dict(ordered[at:] + ordered[:at])


def titles_of(site: str, callers: int) -> list[dict[str, str]]:
    """For each caller the titles of URLs of the demo site, as the site has them; no two are the same."""
    found = [
        {url: _title(url) for number in range(PAGES_EACH) for url in [f"{site}/caller{caller}-{number}/"]}
        for caller in range(callers)
    ]
    assert len({title for each in found for title in each.values()}) == callers * PAGES_EACH
    return found


def _title(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        text = answer.read().decode()
    said = re.search(r"<title>(.*?)</title>", text, re.DOTALL)
    assert said is not None
    return html.unescape(said[1]).strip()


def posted(
    url: str, body: object, headers: Mapping[str, str] | None = None
) -> tuple[Mapping[str, str], bytes]:
    """The answer's headers and body, of a POST of JSON."""
    asked = urllib.request.Request(
        url,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **(headers or {})},
    )
    with urllib.request.urlopen(asked, timeout=START_S) as answer:
        return answer.headers, answer.read()


def deleted(url: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, method="DELETE"), timeout=START_S) as answer:
        answer.read()


def wait_for(url: str) -> None:
    """Until something answers there, whatever it is."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
