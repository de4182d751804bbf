"""Playwright's complaints about what it was asked: the client's fault, `400`; any other is not."""

import pytest
from playwright.async_api import Error

from penelope.pages.primitives.model import asked_wrong


@pytest.mark.parametrize(
    "said",
    [
        "Page.screenshot: options.quality is unsupported for the png screenshots",
        "Page.screenshot: Clipped area is either empty or outside the resulting image",
        "Page.pdf: Failed to parse parameter value: 5parsecs",
        "Page.pdf: Protocol error (Page.printToPDF): Page range syntax error",
        "Page.pdf: Protocol error (Page.printToPDF): Page range is invalid (start > end)",
        "Page.pdf: Protocol error (Page.printToPDF): Page range exceeds page count",
        "Page.goto: Protocol error (Page.navigate): Cannot navigate to invalid URL\nCall log:\n  - navigating",
        'Locator.evaluate: Unexpected token "#" while parsing css selector "###". Did you mean to CSS.escape it?',
    ],
)
def test_a_complaint_about_what_was_asked(said: str) -> None:
    refused = asked_wrong(Error(said))
    assert refused is not None
    assert 400 == refused.status
    assert "\n" not in refused.message


@pytest.mark.parametrize(
    "other",
    [
        Error("Page.goto: net::ERR_CONNECTION_REFUSED at http://x/"),
        Error("Page.evaluate: Error: at work\nCall log:\n  - while parsing css"),
        Error("Page.pdf: Target page, context or browser has been closed"),
        ValueError("Page range syntax error"),
    ],
)
def test_any_other(other: Exception) -> None:
    assert asked_wrong(other) is None
