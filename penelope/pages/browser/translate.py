"""Playwright's errors, translated at the border: one clear sentence, and whose fault it was.

Source: contract, section 2 ("Result"); design, section 7 (2, 3).
"""

import re
from typing import Final
from urllib.parse import urlsplit

from playwright.async_api import Error
from playwright.async_api import TimeoutError as PlaywrightTimeout

from penelope.errors import (
    BadParameter,
    BrowserLost,
    CallFailed,
    PageLost,
    ProxyFailed,
    SiteFailed,
    TimedOut,
)
from penelope.pages.browser.urls import is_allowed, refusal

_NET: Final = re.compile(r"net::(ERR_[A-Z0-9_]+)(?: at (\S+))?")
_DOWNLOAD: Final = re.compile(r"Download\.\w+: (?:Download failed: )?([^\n]+)")
_TIMEOUT: Final = re.compile(r"^(?:(?P<what>[\w.]+): )?Timeout (?P<ms>[\d.]+)ms exceeded")
_PROXY: Final = ("ERR_PROXY", "ERR_TUNNEL", "ERR_SOCKS", "ERR_MANDATORY_PROXY", "ERR_NO_SUPPORTED_PROXIES")
_GOING_TO: Final = re.compile(r"^  - navigating to \"(.*)\", waiting until ", re.MULTILINE | re.DOTALL)
_NAVIGATIONS: Final = ("Page.goto:", "Page.reload:", "Page.go_back:", "Page.go_forward:")
_LEFT: Final = (
    "Execution context was destroyed",
    "Cannot find context with specified id",
    "interrupted by another navigation",
)
_GONE: Final = (
    "has been closed",
    "Target closed",
    "Browser closed",
    "Connection closed",
    "browser has disconnected",
)

_REASONS: Final = {
    "ERR_NAME_NOT_RESOLVED": "no such host {host}",
    "ERR_NAME_RESOLUTION_FAILED": "no such host {host}",
    "ERR_CONNECTION_REFUSED": "{host} refused the connection",
    "ERR_CONNECTION_RESET": "{host} reset the connection",
    "ERR_CONNECTION_CLOSED": "{host} closed the connection",
    "ERR_CONNECTION_ABORTED": "{host} broke the connection off",
    "ERR_CONNECTION_TIMED_OUT": "{host} did not answer the connection",
    "ERR_TIMED_OUT": "{host} did not answer",
    "ERR_ADDRESS_UNREACHABLE": "no route to {host}",
    "ERR_ADDRESS_INVALID": "{host} is no valid address",
    "ERR_EMPTY_RESPONSE": "{host} answered nothing",
    "ERR_INVALID_HTTP_RESPONSE": "{host} did not answer in HTTP",
    "ERR_TOO_MANY_REDIRECTS": "{host} redirects in a loop",
    "ERR_INTERNET_DISCONNECTED": "this machine has no network",
    "ERR_NETWORK_CHANGED": "the network changed while {host} was loading",
    "ERR_UNSAFE_PORT": "the browser refuses the port of {host}",
    "ERR_BLOCKED_BY_CLIENT": "the address is not allowed",
    "ERR_ABORTED": "the load of {host} was broken off",
}


def is_playwright(error: BaseException) -> bool:
    """Whether Playwright raised it."""
    return isinstance(error, Error)


def is_timeout(error: BaseException) -> bool:
    """Whether one of Playwright's own timeouts passed."""
    return isinstance(error, PlaywrightTimeout)


def is_slow_navigation(error: BaseException) -> bool:
    """Whether the time for a navigation passed."""
    return is_timeout(error) and str(error).startswith(_NAVIGATIONS)


def is_gone(error: BaseException) -> bool:
    """Whether it says that the page, the browser or the driver is no more."""
    return isinstance(error, Error) and (
        type(error).__name__ == "TargetClosedError"
        or "Target crashed" in error.message
        or any(sign in error.message for sign in _GONE)
    )


def is_failed_navigation(error: BaseException) -> bool:
    """Whether an error page is on its way after it."""
    return isinstance(error, Error) and _NET.search(error.message) is not None


def translate(error: Exception, *, page_id: str, browser_alive: bool) -> Exception:
    """The error to raise instead; the same one when it is not for us to translate.

    Args:
        error: what a body raised.
        page_id: of the page that it worked.
        browser_alive: whether browser and driver still run.
    """
    if not isinstance(error, Error):
        return error
    if (wrong := asked_to_go_wrong(error)) is not None:
        return wrong
    if isinstance(error, PlaywrightTimeout):
        return TimedOut(_timeout(error.message))
    if is_gone(error):
        return gone(page_id, browser_alive=browser_alive, crashed="Target crashed" in error.message)
    if (match := _NET.search(error.message)) is not None:
        return _network(match[1], match[2])
    if any(sign in error.message for sign in _LEFT):
        return PageLost(f"page {page_id} went to another document while the call was running")
    if (match := _DOWNLOAD.search(error.message)) is not None:
        return SiteFailed(f"the download broke off: {match[1]}")
    return error


def asked_to_go_wrong(error: Error) -> BadParameter | None:
    """Whose fault it is that a navigation failed to an address at which no page may be, or that is none: the caller's.

    Chromium says of those that it was aborted, or that there is no such file, or ends the page (`chrome://crash`).
    """
    match = _GOING_TO.search(error.message)
    if match is None:
        return None
    if not is_allowed(match[1]):
        return refusal(match[1])
    if "Cannot navigate to invalid URL" in error.message:
        return BadParameter(f"url is {match[1][:200]!r}: that is no URL")
    return None


def gone(page_id: str, *, browser_alive: bool, crashed: bool) -> CallFailed:
    """What to say when the page went away under a call."""
    if not browser_alive:
        return BrowserLost("the browser ended while the call was running")
    return PageLost(f"page {page_id} {'crashed' if crashed else 'was closed'} while the call was running")


def clean(message: str) -> str:
    """A message of Playwright's as one line, without its call log."""
    return " ".join(message.split("Call log:", maxsplit=1)[0].split())


def _timeout(message: str) -> str:
    match = _TIMEOUT.match(message)
    if match is None:
        return clean(message)
    what = f"{match['what']}: " if match["what"] else ""
    return f"{what}timed out after {round(float(match['ms'])) / 1000:g} s"


def _network(code: str, url: str | None) -> CallFailed:
    host = _host(url)
    if code.startswith(_PROXY):
        return ProxyFailed(f"proxy cannot be used for {host}: {_words(code)}")
    if code.startswith(("ERR_CERT", "ERR_SSL", "ERR_TLS", "ERR_BAD_SSL")):
        return SiteFailed(f"site cannot be reached: TLS with {host} failed ({code})")
    reason = _REASONS.get(code, "{host}: " + _words(code))
    return SiteFailed(f"site cannot be reached: {reason.format(host=host)}")


def _host(url: str | None) -> str:
    """The host (and port) of a URL: the rest may hold what no log should."""
    if not url:
        return "the site"
    try:
        parts = urlsplit(url)
        name = parts.hostname or "the site"
        return name if parts.port is None else f"{name}:{parts.port}"
    except ValueError:
        return "the site"


def _words(code: str) -> str:
    return code.removeprefix("ERR_").replace("_", " ").lower() + f" ({code})"
