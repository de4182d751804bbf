"""What many tests share: a worker and a hostile site, a browser."""

from collections.abc import Iterator

import pytest

from tests.browser.hostile_worker import Desk, opened_desk
from tests.browser.shared import SharedBrowser


@pytest.fixture(scope="session")
def hostile_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with opened_desk(tmp_path_factory.mktemp("hostile")) as desk:
        yield desk


@pytest.fixture
def desk(hostile_desk: Desk) -> Iterator[Desk]:
    """The worker's page, blank; after the test it takes the next call and the next navigation."""
    assert hostile_desk.call("goto", url="about:blank").status == 200
    yield hostile_desk
    hostile_desk.works()


@pytest.fixture(scope="session")
def shared_browser() -> Iterator[SharedBrowser]:
    browser = SharedBrowser()
    yield browser
    browser.end()
