"""What makes a browser a persona's: languages, time zone, user agent, viewport, place and proxy.

Pages, workers and service workers of all sites have to say the same. Playwright's own overrides reach pages, and some
kinds of workers; so what the browser can be told as a whole is told so, by flags and by its environment.

Source: contract, section 3; design, section 7 (10, 11).
"""

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from penelope.errors import BadSettings

if TYPE_CHECKING:
    from penelope.pages.gate import Gate

PROXY_FLAGS: Final = ("--webrtc-ip-handling-policy=disable_non_proxied_udp",)
# Behind the gate the browser dials nothing by itself: what would try has no address to dial.
GATE_FLAGS: Final = ("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",)

# With a user agent of another browser, or of another version, the hints would tell who it really is: so they are empty.
NO_CLIENT_HINTS: Final = ("UACHOverrideBlank",)

# What a user agent calls a system, and what Python does. `navigator.platform` is the real one, in every worker.
_SYSTEMS: Final = (
    (re.compile(r"Windows|Win64|Win32"), "win32"),
    (re.compile(r"Macintosh|Mac OS X|iPhone|iPad"), "darwin"),
    (re.compile(r"Android"), "android"),
    (re.compile(r"CrOS"), "cros"),
    (re.compile(r"Linux|X11"), "linux"),
)


@dataclass(frozen=True)
class BrowserOptions:
    """What a persona's browser is like.

    Attributes:
        profile: folder of its user data; made when it is not there.
        executable: PENELOPE_BROWSER; None: look for one.
        headless: without a window.
        proxy: `scheme://[user:password@]host:port`; None: none.
        locale: e.g. `de-DE`; None: the browser's own.
        timezone: e.g. `Europe/Berlin`; None: the machine's.
        viewport: width and height in CSS pixels; None: Playwright's default.
        user_agent: None: the browser's own.
        geolocation: latitude and longitude in degrees, which every site may ask for; None: none may.
        gate: that its connections go through when there is no proxy; None: pages reach any network.
    """

    profile: Path
    executable: Path | None = None
    headless: bool = True
    proxy: str | None = field(default=None, repr=False)  # it may hold a password
    locale: str | None = None
    timezone: str | None = None
    viewport: tuple[int, int] | None = None
    user_agent: str | None = None
    geolocation: tuple[float, float] | None = None
    gate: "Gate | None" = field(default=None, repr=False)


def flags(options: BrowserOptions) -> list[str]:
    """What goes on the browser's command line; nothing secret does."""
    words: list[str] = []
    if options.proxy or options.gate:
        words += PROXY_FLAGS
    if options.gate:
        words += GATE_FLAGS
    if options.user_agent:
        words.append(f"--user-agent={options.user_agent}")
    if options.locale:
        words += [f"--lang={options.locale}", f"--accept-lang={options.locale}"]
    return words


def enabled_features(options: BrowserOptions) -> tuple[str, ...]:
    """Features of Chromium that keep the persona from contradicting itself."""
    return NO_CLIENT_HINTS if options.user_agent else ()


def variables(options: BrowserOptions) -> dict[str, str]:
    """What the browser's environment has besides."""
    return {"TZ": options.timezone} if options.timezone else {}


def context_arguments(options: BrowserOptions) -> dict[str, Any]:
    """Keyword arguments of Playwright's `launch_persistent_context`.

    Raises:
        BadSettings: the proxy is none.
    """
    arguments: dict[str, Any] = {}
    if options.proxy:
        arguments["proxy"] = _proxy(options.proxy)
    elif options.gate:
        arguments["proxy"] = {"server": f"socks5://127.0.0.1:{options.gate.port}"}
    if options.viewport:
        arguments["viewport"] = {"width": options.viewport[0], "height": options.viewport[1]}
    if options.locale:
        arguments["locale"] = options.locale
    if options.timezone:
        arguments["timezone_id"] = options.timezone  # for pages; TZ is for what Playwright does not reach
    if options.geolocation:
        latitude, longitude = options.geolocation
        arguments["geolocation"] = {"latitude": latitude, "longitude": longitude}
        arguments["permissions"] = ["geolocation"]
    return arguments


def check(options: BrowserOptions) -> None:
    """Refuse what this machine's browser cannot be.

    Raises:
        BadSettings: the message names the setting.
    """
    if not options.headless and sys.platform == "linux":
        if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            raise BadSettings(
                "PENELOPE_HEADLESS is 0, but there is no display to show a window on: "
                "set DISPLAY, start the worker with `xvfb-run`, or leave PENELOPE_HEADLESS at 1"
            )
    if options.user_agent:
        _check_user_agent(options.user_agent, sys.platform)
    if options.timezone:
        import zoneinfo

        zones = zoneinfo.available_timezones()  # none on a machine that has no list of them
        if zones and options.timezone not in zones:
            raise BadSettings(f"PENELOPE_TIMEZONE is {options.timezone}: the browser knows no such zone")


def _check_user_agent(user_agent: str, platform: str) -> None:
    """A user agent may name another browser, but no other system: pages and workers see which one this is."""
    named = next((system for pattern, system in _SYSTEMS if pattern.search(user_agent)), None)
    if named is not None and named != platform:
        raise BadSettings(
            f"PENELOPE_USER_AGENT names another system than the one that the browser runs on ({platform}): "
            "sites would see both"
        )


def _proxy(url: str) -> dict[str, str]:
    """Playwright's form of a proxy: the password never reaches a command line.

    Raises:
        BadSettings: not a URL with a host; the message does not repeat it.
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError:
        raise BadSettings("PENELOPE_PROXY is not a URL with a host and a port") from None
    if not parts.hostname:
        raise BadSettings("PENELOPE_PROXY is not a URL with a host and a port")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    proxy = {"server": f"{parts.scheme}://{host}" + ("" if port is None else f":{port}")}
    if parts.username is not None:
        proxy["username"] = unquote(parts.username)
        proxy["password"] = unquote(parts.password or "")
    return proxy
