"""What a user of Playwright waits for: a script of its own, from its first import to its first page's answer.

    python -m bench.plain PROFILE BROWSER

prints the answer, and ends when a line of stdin comes.
"""

import asyncio
import sys

from playwright.async_api import async_playwright


async def main(profile: str, browser: str) -> None:
    async with async_playwright() as playwright:
        context = await playwright.chromium.launch_persistent_context(
            profile, executable_path=browser, chromium_sandbox=False
        )
        print(await context.pages[0].evaluate("1 + 1"), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await context.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
