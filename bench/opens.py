"""Opening a page for its title, and evaluating an expression in it: each way to pages in turns, on the same site.

All of them run the same Chromium with the same flags, and all but the floor are asked over HTTP, by the same client,
each caller on a connection and a page of its own. A caller asks for URLs whose titles no other caller has.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.numbers import Aim, Row, Section, Sign, median, ms, rate, ratio_row, spread_ms, spread_rate
from bench.peers import browserless, mcp, script, webdriver
from bench.peers.here import Caller, Way, http_way, titles_of
from bench.peers.installing import NotHere
from bench.plot import bars
from bench.processes import Client, site, worker

CALLERS = (1, 4)
OURS, FLOOR = "Penelope", script.NAME
PEERS = {module.NAME: module for module in (webdriver, mcp, browserless)}
REST_S = 0.2  # after `load` a browser still paints: beside the next one's turn that would count as its own
SHARE, OVER_MS = 0.9, 3.0


class Played:
    """What the ways came to, by name and number of callers: a rate each round, and the milliseconds of all asks."""

    def __init__(self) -> None:
        self.rates: dict[tuple[str, int], list[float]] = {}
        self.ms: dict[tuple[str, int], list[float]] = {}
        self.wrong: dict[str, list[int]] = {}  # errors, mixed-up answers
        self.why: dict[str, str] = {}

    def note(self, name: str, callers: int, found: Mapping[str, Any]) -> None:
        counted, seconds, taken = found["count"], found["seconds"], found["asked_ms"]
        self.rates.setdefault((name, callers), []).append(counted / seconds)
        self.ms.setdefault((name, callers), []).extend(taken)
        self.refused(name, found)

    def refused(self, name: str, found: Mapping[str, Any]) -> None:
        for at, what in enumerate(("errors", "mixed")):
            self.wrong.setdefault(name, [0, 0])[at] += found[what]
        self.why[name] = self.why.get(name) or str(found["first_error"])


def measure(folder: Path, client: Client, *, rounds: int, seconds: float) -> Iterator[Section]:
    """Both sections, the ways' processes started once."""
    folder.mkdir()
    with ExitStack() as stack:
        url = stack.enter_context(site(folder))
        titles = titles_of(url, max(CALLERS))
        ways, missing = _ways(stack, folder, client, titles)
        opened = _played(ways, "open", rounds, seconds)
        asked = _played(ways, "evaluate", rounds, seconds / 2)
    yield Section(
        "opens",
        "Opening a page for its title",
        [*_rows(opened, "opened"), *_rates(opened), *_wrong(opened), *missing],
        {"opens.svg": _plot(opened)},
    )
    yield Section(
        "evaluate",
        "`evaluate` in a page",
        [*_rows(asked, "evaluated"), *_over(asked), *_wrong(asked), *missing],
        {"evaluate.svg": _plot(asked)},
    )


def _ways(
    stack: ExitStack, folder: Path, client: Client, titles: Sequence[Mapping[str, str]]
) -> tuple[list[Way], list[Row]]:
    """Penelope, the floor, and the peers that are here; a row for each that is not."""
    one = stack.enter_context(worker(folder))
    pages = ["main", *(f"caller-{number}" for number in range(1, len(titles)))]
    for page in pages[1:]:
        one.post("/pages", {"page_id": page})
    callers = [Caller(page, each) for page, each in zip(pages, titles, strict=True)]
    ways = [
        http_way(OURS, client, "penelope", one.port, one.key, callers),
        stack.enter_context(script.serve(folder, titles)),
    ]
    missing = []
    for name, peer in PEERS.items():
        try:
            ways.append(stack.enter_context(peer.serve(folder, client, titles)))
        except (NotHere, OSError, SystemExit) as why:
            missing.append(Row(name, "not measured", str(why)))
    return ways, missing


def _played(ways: Sequence[Way], what: str, rounds: int, seconds: float) -> Played:
    played = Played()
    for number in range(rounds + 1):  # the first warms up, and is short
        for callers in CALLERS:
            for at in range(len(ways)):
                way = ways[(at + number) % len(ways)]
                time.sleep(REST_S)
                found = way.play(what, callers, seconds if number else min(seconds, 0.8))
                if number:
                    played.note(way.name, callers, found)
                else:
                    played.refused(way.name, found)
    return played


def _rows(played: Played, done: str) -> Iterator[Row]:
    for callers in CALLERS:
        for name in _names(played):
            taken = played.ms[name, callers]
            told = f"{rate(played.rates[name, callers])}, {ms(taken)} each" if taken else "none in time"
            spread = f"{spread_rate(played.rates[name, callers])}; {spread_ms(taken)}" if taken else ""
            yield Row(f"{name}: {done} by {_callers(callers)}", told, spread)


def _rates(played: Played) -> Iterator[Row]:
    for callers in CALLERS:
        ours = played.rates[OURS, callers]
        for name in _names(played)[1:]:
            theirs = played.rates[name, callers]
            if min(theirs) == 0:
                continue
            wanted: tuple[Sign, float] = ("≥", SHARE) if name == FLOOR else (">", 1.0)
            yield ratio_row(f"Penelope ÷ {name}, {_callers(callers)}", ours, theirs, wanted)


def _over(played: Played) -> Iterator[Row]:
    """Of one caller: how much longer than the floor; and whether it is ahead of the others."""
    ours, floor = played.ms[OURS, 1], played.ms[FLOOR, 1]
    over = median(ours) - median(floor)
    yield Row(
        "what HTTP adds to Playwright: difference of the medians of one caller",
        f"{over:.2f} ms",
        f"{median(ours) / median(floor):.1f} times the floor",
        Aim(over, "≤", OVER_MS, "ms"),
    )
    for name in _names(played)[2:]:
        if played.ms[name, 1]:
            ratio = median(ours) / median(played.ms[name, 1])
            yield Row(
                f"Penelope ÷ {name}: medians of one caller", f"{ratio:.2f}×", "", Aim(ratio, "<", 1.0, "×")
            )


def _wrong(played: Played) -> Iterator[Row]:
    for name in _names(played):
        errors, mixed = played.wrong[name]
        aim = Aim(float(errors + mixed), "=", 0, "wrong", 0) if name == OURS else None
        yield Row(f"{name}: errors, mixed-up answers", f"{errors:,} and {mixed:,}", played.why[name], aim)


def _plot(played: Played) -> str:
    groups = {
        _callers(callers): {name: median(played.rates[name, callers]) for name in _names(played)}
        for callers in CALLERS
    }
    return bars(groups, "/s")


def _names(played: Played) -> list[str]:
    """Penelope, the floor, the others; whatever the turns were."""
    known = [OURS, FLOOR, *PEERS]
    return [name for name in known if (name, CALLERS[0]) in played.rates]


def _callers(number: int) -> str:
    return "1 caller" if number == 1 else f"{number} callers"
