"""What calls that end together keep of the browser's cookies."""

from collections.abc import Callable
from functools import partial

import pytest
import trio
import trio.testing

from penelope.pages.cookies import CookieKeeper


class Browser:
    """Its cookies change by hand; each read takes until it is let go, and gives what was there when it began."""

    def __init__(self) -> None:
        self.jar = "[]"
        self.reads = 0
        self.let_go = trio.Event()
        self.noted_cookies: str | None = None

    async def cookies(self) -> str:
        self.reads += 1
        seen = self.jar
        await self.let_go.wait()
        return seen


class Store:
    def __init__(self) -> None:
        self.kept: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.writing = trio.Event()

    async def keep(self, text: str) -> None:
        self.writing.set()
        with trio.CancelScope(shield=True):  # as a transaction is
            await trio.sleep(0.01)
        self.kept.append(text)
        self.meanwhile()
        await trio.lowlevel.checkpoint_if_cancelled()


def keeper(browser: Browser, store: Store) -> CookieKeeper:
    return CookieKeeper(browser, store.keep, None)  # type: ignore[arg-type]  # all that it asks of a driver


async def test_a_call_that_ends_during_a_read_has_its_login_kept() -> None:
    """Cookies … are kept in the store after each call: by a read that began after the call did its work."""
    browser, store = Browser(), Store()
    cookies = keeper(browser, store)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cookies.save)
        await trio.testing.wait_all_tasks_blocked()
        browser.jar = '["login"]'
        nursery.start_soon(cookies.save)
        await trio.testing.wait_all_tasks_blocked()
        browser.let_go.set()

    assert ['["login"]'] == store.kept  # an empty jar needs no row


async def test_cookies_that_the_call_noted_are_kept_without_asking() -> None:
    """Cookies … are kept in the store after each call: the newest that were noted, each but once."""
    browser, store = Browser(), Store()
    cookies = keeper(browser, store)
    for browser.noted_cookies in ('["a"]', '["a"]', '["b"]'):
        await cookies.save(noted=True)
    assert ['["a"]', '["b"]'] == store.kept
    assert 0 == browser.reads


@pytest.mark.parametrize("cut_off", [True, False])
async def test_cookies_that_are_again_as_before_a_write_that_is_under_way_are_written_again(
    cut_off: bool,
) -> None:
    """Whether that write's own call still waits for it or not: it lands."""
    browser, store = Browser(), Store()
    cookies = keeper(browser, store)
    browser.noted_cookies = '["login"]'
    await cookies.save(noted=True)
    browser.noted_cookies, store.writing = '["logout"]', trio.Event()
    async with trio.open_nursery() as nursery:
        if cut_off:
            with trio.CancelScope() as scope:
                store.meanwhile = scope.cancel
                await cookies.save(noted=True)
        else:
            nursery.start_soon(partial(cookies.save, noted=True))
            await store.writing.wait()
        browser.noted_cookies = '["login"]'
        await cookies.save(noted=True)
    assert ['["login"]', '["logout"]', '["login"]'] == store.kept


async def test_calls_that_end_during_one_read_share_the_next() -> None:
    """Cookies … are kept in the store after each call: one read sees what all of them did."""
    browser, store = Browser(), Store()
    cookies = keeper(browser, store)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cookies.save)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(7):
            nursery.start_soon(cookies.save)
        await trio.testing.wait_all_tasks_blocked()
        browser.jar = '["login"]'
        browser.let_go.set()

    assert (2, '["login"]') == (browser.reads, store.kept[-1])


async def test_a_read_that_was_cut_off_serves_nobody() -> None:
    """Cookies … are kept in the store after each call, also when the call whose read it was is cancelled."""
    browser, store = Browser(), Store()
    cookies = keeper(browser, store)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cookies.save)  # under way
        await trio.testing.wait_all_tasks_blocked()
        second = trio.CancelScope()

        async def cut_off() -> None:
            with second:
                await cookies.save()

        nursery.start_soon(cut_off)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(cookies.save)
        await trio.testing.wait_all_tasks_blocked()
        let_first_go, browser.let_go = browser.let_go, trio.Event()
        let_first_go.set()
        await trio.testing.wait_all_tasks_blocked()  # the second reads now
        browser.jar = '["login"]'
        second.cancel()
        await trio.testing.wait_all_tasks_blocked()  # the third reads now
        browser.let_go.set()

    assert '["login"]' == store.kept[-1]
