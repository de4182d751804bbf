"""All that the bench installs for itself, by name; each is a function that returns where it is, or raises `NotHere`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from bench import runs
from bench.peers import browserless, installing, mcp

PEERS: Final[Mapping[str, Callable[[], Path | str]]] = {
    "chromedriver": installing.chromedriver,
    "@playwright/mcp": lambda: installing.npm(mcp.FOLDER, mcp.PACKAGE),
    "browserless": lambda: installing.npm(browserless.FOLDER, *browserless.PACKAGES),
    "Node for browserless": lambda: installing.node(installing.NODE),
    "PraisonAI jobs": lambda: installing.python(runs.FOLDER, *runs.PACKAGES),
}
