"""@playwright/mcp over its HTTP transport: an MCP session for each caller, which is a browser context of its own.

As quick as it can be told to be: no snapshots of the page in its answers, no generated code, no settling.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.peers import installing
from bench.peers.here import Caller, Way, http_way, posted, wait_for
from bench.processes import Client, free_port, program

NAME = "@playwright/mcp"
FOLDER = "playwright-mcp"
PACKAGE = "@playwright/mcp@0.0.83"
PROTOCOL = "2025-06-18"
QUICK = ("--snapshot-mode=none", "--codegen=none", "--timeout-settle=0")


@contextmanager
def serve(folder: Path, client: Client, titles: Sequence[Mapping[str, str]]) -> Iterator[Way]:
    """
    Raises:
        NotHere: it cannot be had.
    """
    program_file = installing.npm(FOLDER, PACKAGE) / "node_modules" / "@playwright" / "mcp" / "cli.js"
    port, browser = free_port(), installing.chromium()
    words = (
        *(installing.node(), str(program_file), "--headless", "--isolated", *QUICK),
        *("--host=127.0.0.1", f"--port={port}", "--allowed-hosts=*", f"--executable-path={browser}"),
    )
    url = f"http://127.0.0.1:{port}/mcp"
    with program(*words, cwd=folder, log=folder / "mcp.log"):
        wait_for(url)
        yield http_way(NAME, client, "mcp", port, "", [Caller(_session(url), each) for each in titles])


def _session(url: str) -> str:
    accepted = {"Accept": "application/json, text/event-stream"}
    params = {
        "protocolVersion": PROTOCOL,
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    }
    headers, _ = posted(url, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, accepted)
    session = headers["Mcp-Session-Id"]
    posted(
        url,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        accepted | {"Mcp-Session-Id": session},
    )
    return session
