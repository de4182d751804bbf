"""The npm library browserless behind a small HTTP server of ours: a context a caller, a new page a request.

That is the library's own way: one browser, kept, and a page that lives as long as what is done with it. The hosted
product of that name comes as a container image, which opens a browser for each request; it is not measured here.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.peers import installing
from bench.peers.here import Caller, Way, http_way, wait_for
from bench.processes import Client, free_port, program

NAME = FOLDER = "browserless"
# The newest whose parts are all published; it is made for Puppeteer 24.
PACKAGES = ("browserless@10.12.13", "puppeteer@24")
SERVER = Path(__file__).with_name("browserless.mjs")


@contextmanager
def serve(folder: Path, client: Client, titles: Sequence[Mapping[str, str]]) -> Iterator[Way]:
    """
    Raises:
        NotHere: it cannot be had.
    """
    place, node, port = (
        installing.npm(FOLDER, *PACKAGES),
        installing.node(installing.NODE),
        free_port(),
    )
    words = (node, str(SERVER), str(place), str(installing.chromium()), str(port))
    with program(*words, cwd=folder, log=folder / "browserless.log"):
        wait_for(f"http://127.0.0.1:{port}/")
        callers = [Caller(f"c{number}", each) for number, each in enumerate(titles)]
        yield http_way(NAME, client, "browserless", port, "", callers)
