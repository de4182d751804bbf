"""Chromium's own cold start, which nobody helps: until it takes commands, and until it has a page that answers."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from penelope.pages.browser.find import find_browser

END_S: Final = 30.0
FLAGS: Final = ("--headless", "--no-sandbox", "--disable-background-networking", "--no-first-run")


def until_it_takes_commands(folder: Path) -> float:
    """Seconds until it says where: before it has a page."""
    with _running(folder, "--remote-debugging-port=0", stderr=subprocess.PIPE) as (running, began):
        assert running.stderr is not None
        for line in running.stderr:
            if line.startswith(b"DevTools listening"):
                return time.perf_counter() - began
        raise SystemExit("Chromium did not start")


def until_its_page_answers(folder: Path) -> float:
    """Seconds until its first page has said what 1 + 1 is."""
    commands, ours = os.pipe()
    answers, theirs = os.pipe()
    # It reads commands from descriptor 3 and answers on 4, whatever their numbers are here.
    placed = ("/bin/sh", "-c", f'exec "$0" "$@" 3<&{commands} 4>&{theirs}')
    with _running(
        folder,
        "--remote-debugging-pipe",
        words=placed,
        pass_fds=(commands, theirs),
        stderr=subprocess.DEVNULL,
    ) as (_, began):
        for descriptor in (commands, theirs):
            os.close(descriptor)
        with os.fdopen(ours, "wb", 0) as said, os.fdopen(answers, "rb") as heard:
            devtools = _DevTools(said, heard)
            assert devtools.evaluate(devtools.first_page(), "1 + 1") == 2
            return time.perf_counter() - began


class _DevTools:
    """Chromium's protocol over a pipe: JSON, each message ended by a zero byte."""

    def __init__(self, said: Any, heard: Any) -> None:
        self._said, self._heard = said, heard
        self._asked = 0

    def ask(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self._asked += 1
        message = {"id": self._asked, "method": method, "params": params}
        self._said.write(json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        while (answer := self._next()).get("id") != self._asked:
            pass  # an event
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self) -> dict[str, Any]:
        read = bytearray()
        while (byte := self._heard.read(1)) != b"\0":
            if not byte:
                raise SystemExit("Chromium has ended")
            read += byte
        message: dict[str, Any] = json.loads(read)
        return message

    def first_page(self) -> str:
        """A session of it, as soon as there is one."""
        while True:
            for target in self.ask("Target.getTargets")["targetInfos"]:
                if target["type"] == "page":
                    attached = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
                    return str(attached["sessionId"])
            time.sleep(0.001)

    def evaluate(self, session: str, expression: str) -> object:
        return self.ask("Runtime.evaluate", session, expression=expression)["result"]["value"]


@contextmanager
def _running(
    folder: Path, *flags: str, words: tuple[str, ...] = (), **options: Any
) -> Iterator[tuple["subprocess.Popen[bytes]", float]]:
    """Chromium on a fresh profile, and when it was started."""
    program = find_browser(None, bundled=Path("/nowhere"))
    profile = f"--user-data-dir={folder / flags[0].strip('-')}"
    began = time.perf_counter()
    running = subprocess.Popen(
        [*words, str(program), *FLAGS, *flags, profile, "about:blank"],
        stdout=subprocess.DEVNULL,
        cwd=folder,
        **options,
    )
    late = threading.Timer(END_S, running.kill)
    late.start()
    try:
        yield running, began
    finally:
        late.cancel()
        running.terminate()
        running.communicate(timeout=END_S)
