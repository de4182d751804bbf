"""chromedriver over W3C WebDriver: a session for each caller, which is a browser of its own."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.peers import installing
from bench.peers.here import Caller, Way, deleted, http_way, posted, wait_for
from bench.processes import Client, free_port, program

NAME = "chromedriver"


@contextmanager
def serve(folder: Path, client: Client, titles: Sequence[Mapping[str, str]]) -> Iterator[Way]:
    """
    Raises:
        NotHere: there is none, and none can be had.
    """
    driver, port = installing.chromedriver(), free_port()
    options = {"binary": str(installing.chromium()), "args": ["--headless"]}
    wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
    url = f"http://127.0.0.1:{port}"
    with program(driver, f"--port={port}", cwd=folder, log=folder / "webdriver.log"):
        wait_for(f"{url}/status")
        callers: list[Caller] = []
        try:
            for each in titles:
                _, said = posted(f"{url}/session", wanted)
                callers.append(Caller(json.loads(said)["value"]["sessionId"], each))
            yield http_way(NAME, client, "webdriver", port, "", callers)
        finally:
            for caller in callers:  # chromedriver ends, and leaves its browsers running
                deleted(f"{url}/session/{caller.at}")
