"""Which addresses a page may be sent to.

Source: contract, section 3 ("`goto` and plugins' URLs").
"""

import re
from typing import Final

from penelope.errors import BadParameter

_SCHEMES: Final = frozenset({"http", "https"})
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.\-]*):", re.IGNORECASE)
ERROR_PAGE: Final = "chrome-error:"
_SHOWN = 200  # characters of a refused address that the message repeats

# What a browser drops before it parses: C0 controls and spaces around, tabs and line ends anywhere.
_AROUND: Final = "".join(map(chr, range(0x21)))
_ANYWHERE: Final = str.maketrans("", "", "\t\n\r")


def is_allowed(url: str) -> bool:
    """Whether a page may be at this address: http, https, data, or about:blank."""
    parsed = url.strip(_AROUND).translate(_ANYWHERE)
    match = _SCHEME.match(parsed)
    if match is None:
        return False
    scheme = match[1].lower()
    if scheme == "data":
        return "," in parsed  # to a browser it is no URL without one
    if scheme == "about":
        return re.split(r"[?#]", parsed[match.end() :], maxsplit=1)[0].lower() == "blank"
    return scheme in _SCHEMES


def may_stay_at(url: str) -> bool:
    """Whether a page may be where it went by itself: what a site makes in the page (`blob:`) is the site's, too.

    What has no address yet, and the browser's error page, are no place at all.
    """
    return not url or url == ":" or url.lower().startswith(("blob:", ERROR_PAGE)) or is_allowed(url)


def refusal(url: str) -> BadParameter:
    """Why a page is not sent to an address that `is_allowed` says no to."""
    shown = url if len(url) <= _SHOWN else url[:_SHOWN] + "…"
    if url.strip(_AROUND).lower().startswith("data:"):
        return BadParameter(
            f"url is {shown!r}: a data URL has its content after a comma, and this one has none"
        )
    return BadParameter(f"url is {shown!r}: only http, https, data and about:blank are allowed")


def allowed_url(url: str) -> None:
    """Refuse what a page must not be sent to, parsed as a browser parses it.

    Raises:
        BadParameter: anything but an http, https or data URL, or about:blank; one without a scheme too, and a data
            URL without a comma.
    """
    if not is_allowed(url):
        raise refusal(url)
