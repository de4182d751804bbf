"""The start: seconds from `serve` to ready beside a cold start of the browser; import time."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.chromium import until_it_takes_commands, until_its_page_answers
from bench.numbers import Row, Section, median, ratio_row
from bench.processes import environment, line_of, process, worker
from penelope.pages.browser.find import find_browser

GOAL = 1.5  # times a cold start of the browser
_RESIDENT = "import re; print(re.search(r'VmRSS:\\s+(\\d+)', open('/proc/self/status').read())[1])"
IMPORTS = {
    "Python alone": "pass",
    "the frameworks: Trio, Quart-Trio, Hypercorn, httpx, pydantic-settings": (
        "import trio, quart_trio, hypercorn.trio, httpx, pydantic_settings"
    ),
    "Playwright": "import playwright.async_api",
    "all of a worker: `penelope.worker` and the shipped families": (
        "import penelope.main, penelope.worker, penelope.families.web, penelope.families.instagram"
    ),
}


def starts(folder: Path, *, rounds: int) -> Section:
    """Starts in turns: Chromium alone, Playwright with Chromium, a worker on a fresh store and on its store again."""
    chromium: list[float] = []
    listening: list[float] = []
    driver: list[float] = []
    script: list[float] = []
    fresh: list[float] = []
    again: list[float] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=folder) as name:
            place = Path(name)
            listening.append(until_it_takes_commands(place))
            chromium.append(until_its_page_answers(place))
            with process(
                "-m", "bench.direct", str(place / "direct"), cwd=place, log=place / "log"
            ) as running:
                driver.append(float(line_of(running)))
                running.communicate("\n")
            script.append(plain_script(place))
            with worker(place) as one:
                fresh.append(one.ready_s)
            with worker(place) as one:
                again.append(one.ready_s)
    rows = (
        Row("Chromium alone, until its page answers", *_seconds(chromium)),
        Row("the same, until it says where it takes commands: no page is there yet", *_seconds(listening)),
        Row("Playwright's driver and Chromium, in a Python that has it imported", *_seconds(driver)),
        Row("a script on Playwright, from its first import until its page answers", *_seconds(script)),
        Row("`penelope serve` until ready, a fresh store", *_seconds(fresh)),
        Row("`penelope serve` until ready, its store again", *_seconds(again)),
        ratio_row("`penelope serve` ÷ Chromium alone, until its page answers", fresh, chromium, ("<", GOAL)),
        ratio_row("`penelope serve` ÷ Playwright's driver and Chromium", fresh, driver, ("<", GOAL)),
        ratio_row("`penelope serve` ÷ a script on Playwright", fresh, script),
        ratio_row("a script on Playwright ÷ Chromium alone, until its page answers", script, chromium),
    )
    return Section("start", "Start", rows)


def plain_script(folder: Path) -> float:
    """Seconds from the start of a script on Playwright until its page answers."""
    browser = str(find_browser(None, bundled=Path("/nowhere")))
    began = time.perf_counter()
    with process(
        "-m", "bench.plain", str(folder / "plain"), browser, cwd=folder, log=folder / "plain.log"
    ) as running:
        assert line_of(running) == "2"
        took = time.perf_counter() - began
        running.communicate("\n")
    return took


def imports(folder: Path, *, rounds: int) -> Section:
    """Import times and the memory after each, in turns; bytecode is there already."""
    taken: dict[str, list[float]] = {what: [] for what in IMPORTS}
    used: dict[str, list[float]] = {what: [] for what in IMPORTS}
    resident: dict[str, float] = {}
    for number in range(rounds + 1):  # the first one writes bytecode
        for what, code in IMPORTS.items():
            began, before = time.perf_counter(), _children_cpu_s()
            done = subprocess.run(
                [sys.executable, "-c", f"{code}\n{_RESIDENT}"],
                env=environment(),
                cwd=folder,
                check=True,
                capture_output=True,
                text=True,
            )
            if number:
                taken[what].append(time.perf_counter() - began)
                used[what].append(_children_cpu_s() - before)
            resident[what] = int(done.stdout) / 1024
    rows = [
        Row(
            what,
            f"{median(times) * 1000:.0f} ms ({median(used[what]) * 1000:.0f} ms of CPU), {resident[what]:.0f} MB",
            f"{min(times) * 1000:.0f} to {max(times) * 1000:.0f} ms in {rounds} rounds",
        )
        for what, times in taken.items()
    ]
    return Section(
        "imports",
        "Imports: the whole life of a process that does nothing else, and its resident memory",
        rows,
    )


def _children_cpu_s() -> float:
    used = os.times()
    return used.children_user + used.children_system


def _seconds(values: list[float]) -> tuple[str, str]:
    return f"{median(values):.2f} s", f"{min(values):.2f} to {max(values):.2f} in {len(values)} rounds"
