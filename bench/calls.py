"""The overhead of a plain call: `web/open` and `goto` over HTTP against the same script on Playwright, in turns."""

import time
from collections.abc import Callable
from pathlib import Path

from bench.numbers import Aim, Row, Section, median, middle_half, ms, spread_ms
from bench.processes import Client, Worker, cpu_s, line_of, process, site, tell, worker

GOAL_MS = 5.0
WARM_UP = 10
SETTLE_S = (
    0.04  # after `load` a browser still paints: beside the other's next call that would count as its own
)


def measure(folder: Path, client: Client, *, turns: int) -> Section:
    """One of each in turns, so that all meet the same machine, each turn beginning with another."""
    folder.mkdir()
    with (
        worker(folder) as one,
        site(folder) as base_url,
        process(
            "-m", "bench.direct", str(folder / "direct"), cwd=folder, log=folder / "direct.log"
        ) as script,
    ):
        line_of(script)  # it has started
        url = f"{base_url}/alice/"
        kinds: tuple[Callable[[], float], ...] = (
            lambda: float(tell(script, url)),
            lambda: _call(one, client, "/api/v1/main/plugin/web/open", {"url": url}),
            lambda: _call(one, client, "/api/v1/main/goto", {"url": url}),
            lambda: _call(one, client, "/api/v1/main/plugin/bench/nothing", {}),
        )
        samples: tuple[list[float], ...] = ([], [], [], [])
        for turn in range(-WARM_UP, turns):
            for place in range(len(kinds)):
                which = (turn + place) % len(kinds)
                time.sleep(SETTLE_S)
                took = kinds[which]()
                if turn >= 0:
                    samples[which].append(took)
        script.communicate("\n")  # it closes its browser
        cpu = _cpu_ms(one, client, calls=turns)
    direct, opened, went, nothing = samples
    over_open = [a - b for a, b in zip(opened, direct, strict=True)]
    over_goto = [a - b for a, b in zip(went, direct, strict=True)]
    rows = (
        Row("the script on Playwright, no worker", ms(direct), spread_ms(direct)),
        Row("`web/open` over HTTP", ms(opened), spread_ms(opened)),
        Row("`goto` over HTTP", ms(went), spread_ms(went)),
        Row(
            "overhead of `web/open`: difference of the medians",
            f"{median(opened) - median(direct):.2f} ms",
            f"{median(opened) / median(direct):.3f} times the script",
            Aim(median(opened) - median(direct), "<", GOAL_MS, "ms"),
        ),
        Row(
            "the same of the lower quartiles: what a busy machine blurs less",
            f"{middle_half(opened)[0] - middle_half(direct)[0]:.2f} ms",
        ),
        Row("overhead of `web/open`: median of the pairs' differences", ms(over_open), spread_ms(over_open)),
        Row("overhead of `goto`: median of the pairs' differences", ms(over_goto), spread_ms(over_goto)),
        Row("a plugin that does nothing, over HTTP", ms(nothing), spread_ms(nothing)),
        Row("CPU of the worker for it, all threads", f"{cpu:.2f} ms", f"n = {turns}"),
    )
    return Section("calls", "A plain call", rows)


def _cpu_ms(one: Worker, client: Client, calls: int) -> float:
    """Milliseconds of CPU per call of a plugin that does nothing: what a busy machine does not blur."""
    before = cpu_s(one.process.pid)
    path = "/api/v1/main/plugin/bench/nothing"
    client.order(one.port, one.key, method="GET", path=path, count=calls)
    return (cpu_s(one.process.pid) - before) * 1000 / calls


def _call(one: Worker, client: Client, path: str, body: dict[str, str]) -> float:
    """Milliseconds of one call on the kept connection, as its client sees them."""
    return client.once(one.port, one.key, method="POST", path=path, json=body)
