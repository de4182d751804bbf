"""What a failure behind the gate means: Chromium says that SOCKS failed, and the gate why.

Source: contract, section 3 ("`PENELOPE_PAGE_NETWORK=public`").
"""

import re
from typing import Final
from urllib.parse import urlsplit

from playwright.async_api import Error

from penelope.errors import CallFailed
from penelope.pages.gate import Gate

_SOCKS: Final = re.compile(r"net::ERR_SOCKS_\w+(?: at (\S+))?")
# What `page.request` says, which Playwright's driver sends, not Chromium: the address is in its log.
_DRIVERS: Final = re.compile(r"Socks5? proxy rejected connection.*?→ [A-Z]+ (\S+)", re.DOTALL | re.IGNORECASE)
_PORTS: Final = {"http": 80, "ws": 80, "https": 443, "wss": 443}


def told(error: Exception, gate: Gate, failed_url: str | None) -> CallFailed | None:
    """The error to raise instead; None when the gate has nothing to do with it.

    Args:
        failed_url: of the page's last navigation that failed: after a redirect it is not the one that the error names.
    """
    if not isinstance(error, Error):
        return None
    if (match := _SOCKS.search(error.message)) is not None:
        return _failure(gate, failed_url or match[1])
    if (match := _DRIVERS.search(error.message)) is not None:
        return _failure(gate, match[1])
    return None


def _failure(gate: Gate, url: str | None) -> CallFailed | None:
    try:
        parts = urlsplit(url or "")
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return None
    return gate.failure(parts.hostname or "", port)
