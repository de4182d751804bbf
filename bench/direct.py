"""The script of `web/open`, run on Playwright without a worker: the same browser with the same flags, no HTTP.

    python -m bench.direct PROFILE

prints the seconds that driver and browser took to start; then opens each URL that a line of stdin names, and prints the
milliseconds it took.
"""

import asyncio
import sys
import time
from pathlib import Path

from penelope import logs
from penelope.families.navigation import ask, checked_url, go
from penelope.pages.browser.loop import BrowserLoop
from penelope.pages.browser.persona import BrowserOptions
from penelope.pages.browser.profile import hold_profile
from penelope.pages.browser.session import Session


async def serve(profile: Path) -> None:
    began = time.perf_counter()
    with hold_profile(profile) as place:
        session = Session(place)
        try:
            await session.start(BrowserOptions(profile=profile))
            page = session.context.pages[0]
            print(time.perf_counter() - began, flush=True)
            while url := (await asyncio.to_thread(sys.stdin.readline)).strip():
                began = time.perf_counter()
                await go(page, checked_url(url), "load")
                await ask(page, "() => document.title.toWellFormed()")
                print((time.perf_counter() - began) * 1000, flush=True)
        finally:
            await session.close()
            session.kill()


def main() -> None:
    logs.configure("json")  # on stderr
    with asyncio.Runner(loop_factory=BrowserLoop) as runner:
        runner.run(serve(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
