"""What the connections of the load client say, each a generator that is sent every answer; see `bench.wire`."""

import itertools
import json
import math
import random
import time
from dataclasses import dataclass, field
from typing import Any

from bench.dialects import DIALECTS, Refused
from bench.wire import Request, Script, request

POLL_S = 0.1


def repeated(raw: Request, count: int | None) -> Script:
    """The same request again and again; each has to be answered with a 2xx."""
    done = 0
    while count is None or done < count:
        status, body = yield raw
        if not 200 <= status < 300:
            raise RuntimeError(f"answered {status}: {body[:300]!r}")
        done += 1


def starts(port: int, key: str, at: int, order: dict[str, Any], tally: "Tally") -> Script:
    """Start a job on a page, wait for its end, rest, start the next; the milliseconds are those of the starts.

    `order` has `pages`, of which it works the one `at`, `rest` in seconds, and maybe `ttl` and the `count` of all
    clients' jobs. They rest so long on average, each at random for itself, as clients that know nothing of each other
    do: with the same rest for all, those that met once would meet at each of their starts.
    """
    page, chance = order["pages"][at], random.Random(at)
    if order["rest"]:
        yield chance.expovariate(1 / order["rest"])
    path = f"/api/v1/{page}/plugin/bench/nothing"
    headers = {"X-Result-Ttl": order.get("ttl", "1")}
    start = request(port, key, {"method": "GET", "path": path, "headers": headers})
    while len(tally.ms) < order.get("count", math.inf):
        began = time.perf_counter()
        status, body = yield start
        if status == 409:  # its page is about to be free
            continue
        if status != 202:
            raise RuntimeError(f"a start was answered {status}: {body[:300]!r}")
        tally.ms.append((time.perf_counter() - began) * 1000)
        said = json.loads(body)
        tally.last = said["job_id"]
        wait = {"method": "GET", "path": said["status_url"], "headers": {"Prefer": "wait=30"}}
        yield request(port, key, wait)
        if order["rest"]:
            yield chance.expovariate(1 / order["rest"])


@dataclass(slots=True)
class Ends:
    """What runs came to: milliseconds from submit to end, each; the last one's id."""

    ms: list[float] = field(default_factory=list)
    run_id: str = ""


def runs(port: int, key: str, order: dict[str, Any], ends: Ends) -> Script:
    """Submit a run, learn of its end by waiting or by polling, `rests` seconds apart, and submit the next."""
    rest = float(order.get("rests", POLL_S))
    headers = {"Prefer": "wait=60"} if order["waits"] else {}
    body = {"prompt": "", "recipe_name": order["recipe"]}
    if not order["waits"]:  # the public server has no such recipe: what its jobs do is decided there
        body = {"prompt": "{}"} if not key else body
    asked = {"method": "POST", "path": "/api/v1/runs", "json": body, "headers": headers}
    submit = request(port, key, asked)
    while order.get("count") is None or len(ends.ms) < order["count"]:
        began = time.perf_counter()
        status, answer = yield submit
        if status == 503:  # as many are admitted as may be
            yield rest
            continue
        if status != 202:
            raise RuntimeError(f"a submit was answered {status}: {answer[:300]!r}")
        run = json.loads(answer)
        ends.run_id = run["job_id"]
        poll = request(
            port, key, {"method": "GET", "path": f"/api/v1/runs/{ends.run_id}", "headers": headers}
        )
        while run["status"] in ("queued", "running"):
            if not order["waits"]:
                yield rest
            status, answer = yield poll
            run = json.loads(answer)
        if run["status"] != "succeeded":
            raise RuntimeError(f"a run ended so: {answer[:300]!r}")
        ends.ms.append((time.perf_counter() - began) * 1000)


@dataclass(slots=True)
class Tally:
    """What callers came to: milliseconds of each ask, errors, answers that were another caller's or page's; the id of
    the last job.
    """

    ms: list[float] = field(default_factory=list)
    errors: int = 0
    mixed: int = 0
    first_error: str = ""
    last: str = ""


def asks(
    port: int, key: str, order: dict[str, Any], caller: dict[str, Any], until: float, tally: Tally
) -> Script:
    """One caller, again and again: opens its URLs in turns, or evaluates; compares each answer with its own.

    What it began in time it ends: nobody's work goes on under the next one's measurement.

    `order` has `dialect` and `what` (`open` or `evaluate`); `caller` has `at` and `titles`, the title of each URL.
    """
    dialect = DIALECTS[order["dialect"]](port, key, caller["at"])
    titles: list[tuple[str, str]] = list(caller["titles"].items())
    for number in itertools.count():
        if (began := time.perf_counter()) >= until:
            return
        if order["what"] == "open":
            url, wanted = titles[number % len(titles)]
            asked = dialect.open(url)
        else:
            wanted = f"{caller['at']} {number + 1}"
            asked = dialect.evaluate(f'"{caller["at"]} " + ({number} + 1)')
        try:
            found = yield from asked
        except Refused as refused:
            tally.errors += 1
            tally.first_error = tally.first_error or str(refused)
            continue
        tally.ms.append((time.perf_counter() - began) * 1000)
        if found != wanted:
            tally.mixed += 1
            tally.first_error = tally.first_error or f"{found!r} instead of {wanted!r}"
